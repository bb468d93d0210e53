"""The ``[[datasets]]`` tables of a recipe: further data sets of a run, each with an objective of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.settings import Location, Settings
from opencse.training.mixture import FIRST, Mixing
from opencse.training.settings import TrainingSettings


class DataSetSettings(Settings):
    """A further data set of a run. A batch is from one data set at a time.

    Attributes:
        name: for the plan and the log.
        data: a file, a pattern, a folder or a Hub data set; a relative path is relative to the working folder. Unset:
            it is given with ``--also``.
        columns: of ``data``; see `opencse.text.readers.Source`.
        scale: of graded pairs: the largest possible score; see `DataSettings`.
        objective: the loss of its batches; unset takes the recipe's.
        weight: of mixing by proportion: how often its examples are seen in an epoch, where those of the first data set
            are seen once. Unset is 1.
        batch_size: examples in its batches; unset takes ``training.batch_size``.
    """

    name: str = Field(min_length=1)
    data: Location | None = None
    columns: tuple[str, ...] | None = None
    scale: float | None = Field(default=None, gt=0)
    objective: ObjectiveSettings | None = None
    weight: float | None = Field(default=None, gt=0, le=1_000)
    batch_size: int | None = Field(default=None, ge=2, le=1_048_576)


def check_data_sets(
    data_sets: Sequence[DataSetSettings],
    mixing: Mixing | None,
    objective: ObjectiveSettings,
    training: TrainingSettings,
) -> None:
    """Refuses data sets that cannot be mixed.

    Args:
        data_sets: the further ones.
        mixing: the rule of the recipe.
        objective: the recipe's own, which data sets without one have.
        training: settings of the run.

    Raises:
        UserError: in one line.
    """
    for name, count in Counter([FIRST, *(one.name for one in data_sets)]).items():
        if count > 1:
            clash = " (the first data set's)" if name == FIRST else ""
            raise UserError(f"datasets: the name {name!r}{clash} is used twice; give each data set a name of its own")
    weighted = [one.name for one in data_sets if one.weight is not None]
    if mixing == "round_robin" and weighted:
        raise UserError(
            f"datasets: {', '.join(weighted)} has a weight, and in turns (mixing = round_robin) all data sets have as "
            "many batches; leave weights out, or mix by proportion"
        )
    if data_sets and training.batch_tokens is not None:
        raise UserError("training.batch_tokens does not go with several data sets; set training.batch_size instead")
    changes_inputs = training.worst_case is not None and training.worst_case.inputs.kind != "none"
    for one in data_sets:
        other = Objective.from_settings(one.objective or objective)
        if changes_inputs and not (other.encodes and other.one_forward):
            raise UserError(
                "datasets: training.worst_case.inputs changes the inputs of one forward, and the objective of "
                f"{one.name} makes two or none; "
                'set inputs to { kind = "none" }'
            )
