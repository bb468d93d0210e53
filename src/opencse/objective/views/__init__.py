"""How the positive is made: one family, one file. To add one, name it in the union and in ``PARTS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from opencse.objective.views.base import View
from opencse.objective.views.deletion import Crop, DeleteOneWord, DeleteWords
from opencse.objective.views.dropout import Dropout
from opencse.objective.views.inputs import InputBernoulli, InputFgsm, InputGaussian, InputGaussianDropout
from opencse.objective.views.insertion import InsertMask, InsertStopwords
from opencse.objective.views.mlm_substitute import MlmSubstitute
from opencse.objective.views.next_sentence import NextSentence
from opencse.objective.views.output import OutputBernoulli, OutputFgsm, OutputGaussian, OutputMask
from opencse.objective.views.pair import Pair
from opencse.objective.views.repetition import RepeatSubwords, RepeatWords
from opencse.objective.views.synonym import Synonym
from opencse.settings import PartSettings

__all__ = ["View", "ViewSettings", "build_view"]

ViewSettings = Annotated[
    Dropout.Settings
    | NextSentence.Settings
    | Pair.Settings
    | RepeatSubwords.Settings
    | RepeatWords.Settings
    | InsertStopwords.Settings
    | InsertMask.Settings
    | Crop.Settings
    | DeleteWords.Settings
    | DeleteOneWord.Settings
    | Synonym.Settings
    | MlmSubstitute.Settings
    | InputGaussian.Settings
    | InputGaussianDropout.Settings
    | InputBernoulli.Settings
    | InputFgsm.Settings
    | OutputGaussian.Settings
    | OutputBernoulli.Settings
    | OutputMask.Settings
    | OutputFgsm.Settings,
    Field(discriminator="kind"),
]

PARTS: Mapping[type[PartSettings], Callable[[Any], View]] = {
    Dropout.Settings: Dropout,
    NextSentence.Settings: NextSentence,
    Pair.Settings: Pair,
    RepeatSubwords.Settings: RepeatSubwords,
    RepeatWords.Settings: RepeatWords,
    InsertStopwords.Settings: InsertStopwords,
    InsertMask.Settings: InsertMask,
    Crop.Settings: Crop,
    DeleteWords.Settings: DeleteWords,
    DeleteOneWord.Settings: DeleteOneWord,
    Synonym.Settings: Synonym,
    MlmSubstitute.Settings: MlmSubstitute,
    InputGaussian.Settings: InputGaussian,
    InputGaussianDropout.Settings: InputGaussianDropout,
    InputBernoulli.Settings: InputBernoulli,
    InputFgsm.Settings: InputFgsm,
    OutputGaussian.Settings: OutputGaussian,
    OutputBernoulli.Settings: OutputBernoulli,
    OutputMask.Settings: OutputMask,
    OutputFgsm.Settings: OutputFgsm,
}


def build_view(settings: PartSettings) -> View:
    """The view that ``settings`` describe."""
    return PARTS[type(settings)](settings)
