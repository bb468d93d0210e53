"""Options of `opencse.check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import DocumentOptions, RowColumnOptions, SplitOptions, TrustOptions

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder


class CheckOptions(RowColumnOptions, DocumentOptions, SplitOptions, TrustOptions, total=False):
    """How a text is checked."""

    model: Annotated[
        str | Path | TextEncoder,
        Option(
            "opencse-mini",
            "Model whose tokenizer reads the text: a folder or a Hub id.",
            ("--model", "-m"),
            in_python="model whose tokenizer reads the text: the built-in encoder, a folder, a Hub id, or an encoder.",
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
