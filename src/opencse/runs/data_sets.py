"""The further data sets of a run: which texts they are, and their objectives, ready for steps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.views.spans import DrawsTexts
from opencse.recipes.data_sets import DataSetSettings, check_data_sets
from opencse.recipes.recipe import Recipe, load_recipe
from opencse.streams import seed_of
from opencse.text.corpus import CorpusFacts
from opencse.text.given import TextSource, as_documents, open_texts, with_labels
from opencse.training.mixture import FIRST, DataSet, MixingPlan
from opencse.training.settings import TrainingSettings

GivenSet = tuple[TextSource, str | None]
"""A further text of a run, and the recipe whose objective it has; None takes the next data set of the run's recipe."""


@dataclass(frozen=True)
class FurtherSet:
    """A further data set of a run: its settings and its text.

    Attributes:
        settings: with its objective.
        objective: the loss of its batches.
        text: what its batches are made of, with labels where the objective reads them.
    """

    settings: DataSetSettings
    objective: ObjectiveSettings
    text: TextSource


@dataclass(frozen=True)
class PreparedSet:
    """A further data set, ready for its first step.

    Attributes:
        data_set: what its steps are made of.
        settings: how often it is seen.
        facts: counts of its text.
        near_duplicates: rows left out; None where they were not looked for.
    """

    data_set: DataSet
    settings: DataSetSettings
    facts: CorpusFacts
    near_duplicates: int | None

    def line(self, steps: int, rows: int) -> str:
        """What is trained on, for the user.

        Args:
            steps: of the data set in an epoch of the mixture.
            rows: texts of an example.
        """
        objective, batches = self.data_set.objective, self.data_set.batches
        parts = [objective.view.kind, *(part.kind for part in (*objective.negatives, *objective.terms))]
        near = (
            f", {number_of(self.near_duplicates, 'near duplicate')} left out"
            if self.near_duplicates is not None
            else ""
        )
        return (
            f"{self.data_set.name}: {self.facts.source}, {number_of(self.facts.rows, 'row')} of "
            f"{number_of(rows, 'text')}{near}; {number_of(steps, 'step')} of batch {batches.batch_size} per epoch; "
            f"objective {' + '.join(parts)}"
        )


def with_given_sets(recipe: Recipe, added: Sequence[GivenSet]) -> tuple[Recipe, tuple[TextSource | None, ...]]:
    """The recipe with a data set for each text that was given, and the text of each of its data sets.

    A text without a recipe is that of the recipe's next data set without ``data``; where there is none, it has the
    recipe's own objective. A text with a recipe is a data set with the objective of that one.

    Raises:
        UserError: if a data set has no text.
    """
    sets: list[DataSetSettings] = [*(recipe.datasets or ())]
    texts: list[TextSource | None] = [None] * len(sets)
    open_places = [number for number, one in enumerate(sets) if one.data is None]
    for text, recipe_name in added:
        if recipe_name is None and open_places:
            texts[open_places.pop(0)] = text
            continue
        objective = None if recipe_name is None else load_recipe(recipe_name).objective
        name = _name_of(text, {FIRST, *(one.name for one in sets)})
        sets.append(DataSetSettings(name=name, objective=objective))
        texts.append(text)
    if open_places:
        names = ", ".join(sets[number].name for number in open_places)
        raise UserError(
            f"{recipe.name}: trains on further data ({names}), and no text is given for it; add --also FILE for each"
        )
    check_data_sets(sets, recipe.mixing, recipe.objective, recipe.training)
    return recipe.model_copy(update={"datasets": tuple(sets) or None}), tuple(texts)


def _name_of(text: TextSource, used: set[str]) -> str:
    stem = PurePath(text.location).name.partition(".")[0] or "data"
    names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, len(used) + 2))
    return next(name for name in names if name not in used)


def further_sets(recipe: Recipe, texts: Sequence[TextSource | None]) -> list[FurtherSet]:
    """Opens the texts of the recipe's data sets, with labels where their objectives read them.

    Raises:
        UserError: naming the data set.
    """
    opened = []
    for settings, added in zip(recipe.datasets or (), texts, strict=True):
        objective = settings.objective or recipe.objective
        text: TextSource | None = added
        if text is None:
            text = open_texts(settings.data, columns=settings.columns)
        try:
            labelled = text_for(Objective.from_settings(objective), text, settings.scale)
        except UserError as error:
            raise UserError(f"data set {settings.name}: {error}") from None
        opened.append(FurtherSet(settings, objective, labelled))
    return opened


def text_for(objective: Objective, text: TextSource, scale: float | None) -> TextSource:
    """The text as an objective reads it: with the last column of each row as its label, or as documents.

    Raises:
        UserError: for a text without the labels that it needs.
    """
    if isinstance(objective.view, DrawsTexts):  # its example is a document
        text = as_documents(text)
    return with_labels(text, objective.label, scale=scale)


def fingerprint_of_texts(fingerprints: Sequence[str]) -> str:
    """A hash of all texts of a run, of the hash of each: that of the only text, if there are no further ones."""
    return fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256(" ".join(fingerprints).encode()).hexdigest()


def training_of_set(training: TrainingSettings, settings: DataSetSettings, seed: int) -> TrainingSettings:
    """The run's settings of training with the data set's batch size and a seed of its own."""
    update = {"batch_size": settings.batch_size or training.batch_size, "seed": seed}
    if training.data_seed is not None:
        update["data_seed"] = seed_of(training.data_seed, f"data set {settings.name}")
    return training.model_copy(update=update)


def mixture_of(recipe: Recipe, first: DataSet, others: Sequence[PreparedSet]) -> MixingPlan | None:
    """Plans which data set each step works on; None with one data set alone."""
    if not others:
        return None
    accumulate = recipe.training.accumulate
    counts = [first.batches.steps_per_epoch / accumulate]
    counts += [one.data_set.batches.steps_per_epoch / accumulate * (one.settings.weight or 1.0) for one in others]
    seed = recipe.training.seed_of_order
    return MixingPlan([max(1, round(count)) for count in counts], recipe.mixing or "proportional", seed)
