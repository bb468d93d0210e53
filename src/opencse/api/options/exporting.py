"""Options of `opencse.export_onnx` and `opencse.export_static`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import ColumnOptions, ModelOptions, PoolingOptions, SplitOptions

if TYPE_CHECKING:
    from opencse.export.distil import DistilSettings
    from opencse.text.given import Text


class OnnxOptions(ColumnOptions, SplitOptions, PoolingOptions, total=False):
    """How an encoder is exported as a graph."""

    int8: Annotated[bool, Option(False, "Write 8-bit weights too, and print what they lose.")]
    text: Annotated[
        Text | None,
        Option(
            None,
            "Your own texts, to check the graph on; by default the built-in sample.",
            in_python="your own texts, to check the graph on; 500 of them are drawn. By default the built-in sample.",
        ),
    ]
    pairs: Annotated[
        str | Path | None,
        Option(None, "Graded pairs (score, sentence, sentence) to measure the loss of --int8 on.", file=True),
    ]


class StaticTableOptions(ColumnOptions, SplitOptions, ModelOptions, total=False):
    """How an encoder is distilled into a table of word vectors."""

    corpus: Annotated[
        Text | None,
        Option(None, "Texts of your domain, to count words and fit the table on; by default none."),
    ]
    settings: Annotated[DistilSettings | None, Option(None, "sizes and constants.", hidden=True)]
