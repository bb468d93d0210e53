"""Options of `opencse.check` and `opencse.analyze`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import (
    ColumnOptions,
    DocumentOptions,
    ModelOptions,
    RowColumnOptions,
    SplitOptions,
    TrustOptions,
)

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation import ScoredPairs
    from opencse.text.given import Text


class CheckOptions(RowColumnOptions, DocumentOptions, SplitOptions, TrustOptions, total=False):
    """How a text is checked."""

    model: Annotated[
        str | Path | SentenceEncoder,
        Option(
            "opencse-mini",
            "Model whose tokenizer reads the text: a folder or a Hub id.",
            ("--model", "-m"),
            in_python="model whose tokenizer reads the text: the built-in encoder, a folder, a Hub id, or a "
            "`SentenceEncoder`.",
        ),
    ]
    max_length: Annotated[
        int | None,
        Option(
            None,
            "Tokens of each text that training would read; by default as many as the suggested command reads.",
            least=3,
            most=1_000_000,
        ),
    ]
    near_duplicates: Annotated[
        float | None,
        Option(
            None,
            "Count rows that overlap with an earlier row by at least this share (0 to 1), for instance 0.8; needs "
            "opencse[dedup].",
        ),
    ]


class AnalyzeOptions(ColumnOptions, ModelOptions, total=False):
    """The texts, pairs and queries that models are analyzed on."""

    text: Annotated[
        Text | None,
        Option(None, "File of your own sentences, for neighbours, calibration and layers."),
    ]
    data: Annotated[
        str | Path | None,
        Option(None, "Folder with the STS tasks (or with sts/ in it), or 'hub' to download them; by default none."),
    ]
    pairs: Annotated[str | Path | ScoredPairs, Option("sample", "Graded pairs: a file, or 'sample' (built in).")]
    queries: Annotated[
        Sequence[str] | None,
        Option(
            None,
            "Sentence whose nearest neighbours are shown; may be repeated.",
            ("--query", "-q"),
            repeated=True,
            in_python="sentences whose nearest neighbours in ``text`` are shown; by default a few of its sentences.",
        ),
    ]
