"""Options of `opencse.label` and `opencse.label_scores`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from opencse.api.declaring import Option
from opencse.api.options.index import IndexModelOptions


class LabelScoreOptions(IndexModelOptions, total=False):
    """How labels are scored."""


class LabelOptions(LabelScoreOptions, total=False):
    """How labels are collected."""

    queries: Annotated[
        str | Path | Sequence[str] | None,
        Option(
            None,
            "File of queries to judge, one per line; more can be typed on the page.",
            file=True,
            in_python="queries to judge, or the file of them, one per line; more can be typed on the page.",
        ),
    ]
    depth: Annotated[
        int,
        Option(10, "Hits of each search (vectors, BM25, hybrid) to judge.", ("-k", "--depth"), least=1, most=50),
    ]
    split: Annotated[
        float | None,
        Option(
            None,
            "Share of the queries that `adapt --dev` reads, for instance 0.5; `evaluate` reads the others. 0: both "
            "read all. By default as before, at first 0.",
            least=0,
            most=0.9,
        ),
    ]
    port: Annotated[int, Option(8765, "Port of this machine for the page; 0 takes a free one.", least=0, most=65535)]
    open: Annotated[
        bool | None,
        Option(
            None,
            "Open the page in a browser; by default if this is a terminal of a machine with a display.",
            ("--open/--no-open",),
        ),
    ]
