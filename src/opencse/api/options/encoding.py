"""Options of `opencse.encode`."""

from __future__ import annotations

from typing import Annotated, Literal

from opencse.api.declaring import Option
from opencse.api.options.shared import DimensionOptions, DocumentOptions, EngineOptions, ModelOptions, PrecisionOptions


class InMemoryOptions(DocumentOptions, DimensionOptions, PrecisionOptions, ModelOptions, total=False):
    """How texts are encoded into memory."""

    column: Annotated[
        str | None,
        Option(
            None,
            "Column to read, by name or position; each of its texts is one vector.",
            ("--column", "--columns"),  # the name in other commands, and in messages about columns
        ),
    ]
    prompt_name: Annotated[
        str | None,
        Option(
            None,
            "Prompt of the model to put before each text: query, document, ...; by default the model's default prompt.",
            rank=4,
        ),
    ]
    prompt: Annotated[
        str | None,
        Option(None, "Text to put before each text instead of a prompt of the model.", quoted=True, rank=4),
    ]
    normalize: Annotated[bool, Option(False, "L2-normalise the vectors.", rank=4)]
    overwrite: Annotated[
        bool,
        Option(
            False,
            "Replace FILE.npy if it exists; the old file stays until the new one is complete.",
            rank=8,
        ),
    ]


class EncodeOptions(InMemoryOptions, EngineOptions, total=False):
    """How vectors are written to a file or folder."""

    numbers: Annotated[
        Literal["float32", "float16", "int8", "binary"],
        Option("float32", "Type of the numbers; int8 and binary keep directions (cosines), not lengths.", rank=4),
    ]
    file_format: Annotated[Literal["npy", "parquet"], Option("npy", "Files in a folder.", ("--format",), rank=4)]
    shard_rows: Annotated[int, Option(32_768, "Vectors in each file of a folder.", least=1, rank=4)]
    processes: Annotated[
        int | None,
        Option(
            1,
            "Processes that fill a folder; by default one for each GPU or core.",
            typed=None,
            least=1,
            rank=4,
            in_python="processes that fill a folder; None: one for each GPU, or on the CPU as many as cores and memory "
            'allow. A script that starts several needs ``if __name__ == "__main__"``.',
        ),
    ]
