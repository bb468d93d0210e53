"""Options of `opencse.analyze`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import ColumnOptions, ModelOptions

if TYPE_CHECKING:
    from opencse.evaluation import ScoredPairs
    from opencse.text.given import Text


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
            quoted=True,
            in_python="sentences whose nearest neighbours in ``text`` are shown; by default a few of its sentences.",
        ),
    ]
