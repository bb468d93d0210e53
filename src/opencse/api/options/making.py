"""Options of `opencse.static` and `opencse.whiten`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import (
    ColumnOptions,
    DocumentOptions,
    LineOptions,
    ModelOptions,
    SplitOptions,
    TrustOptions,
)

if TYPE_CHECKING:
    from opencse.making.static import StaticSettings


class StaticOptions(ColumnOptions, DocumentOptions, LineOptions, SplitOptions, TrustOptions, total=False):
    """How an encoder is made by counting words."""

    model: Annotated[
        str | Path | None,
        Option(
            None,
            "Model whose tokenizer is used: a folder or Hub id; by default a new one is made from TEXT.",
            ("--model", "-m"),
        ),
    ]
    vocabulary: Annotated[int, Option(24_576, "Size of the new tokenizer's vocabulary, at most.")]
    settings: Annotated[StaticSettings | None, Option(None, "sizes and constants.", hidden=True)]


class WhitenOptions(ColumnOptions, SplitOptions, ModelOptions, total=False):
    """How an encoder is whitened."""

    dimension: Annotated[int | None, Option(None, "Keep the first N dimensions; by default all that vary.", least=1)]
    remove: Annotated[
        int | None,
        Option(
            None,
            "Instead of whitening: remove the mean and the first N principal components (all-but-the-top).",
            least=0,
        ),
    ]
    sentences: Annotated[
        int,
        Option(50_000, "Number of different texts of TEXT that it is fitted on, drawn at random.", least=1),
    ]
