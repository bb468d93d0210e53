"""Options of `opencse.similarity`, `opencse.nearest` and `opencse.calibrate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import ColumnOptions, DeviceOptions, ModelOptions, SplitOptions

if TYPE_CHECKING:
    from opencse.evaluation import ScoredPairs


class NearestOptions(ColumnOptions, SplitOptions, ModelOptions, total=False):
    """How the nearest sentences are found."""

    k: Annotated[int, Option(3, "Sentences to show for each query.", ("-k",), least=1)]
    index: Annotated[
        str | Path | Sequence[str | Path] | None,
        Option(
            None,
            "Index to search instead of --corpus; one for each model, in their order.",
            repeated=True,
            in_python="an index for each model, all of the same texts (`build_index`), instead of a corpus.",
        ),
    ]
    cache: Annotated[
        bool,
        Option(
            True,
            "Keep the vectors of CORPUS in NAME.index next to it, for the next time.",
            ("--cache/--no-cache",),
            in_python="keep the vectors of a file in ``NAME.index`` next to it.",
        ),
    ]


class CalibrateOptions(ColumnOptions, SplitOptions, DeviceOptions, total=False):
    """How a model's cosines are calibrated."""

    pairs: Annotated[
        str | Path | ScoredPairs | None,
        Option(None, "Labelled pairs (0 or 1, sentence, sentence), to find a threshold.", file=True),
    ]
    cut: Annotated[float | None, Option(None, "For graded pairs: pairs with at least this score count as similar.")]
    precision: Annotated[
        float | None,
        Option(None, "Also find the threshold that reaches this precision (0 to 1).", least=0, most=1),
    ]
