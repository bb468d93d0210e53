"""Finds settings that have less effect than their value says, because of the data or another setting."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from opencse.numerals import number_of
from opencse.training.settings import TrainingSettings


@dataclass(frozen=True)
class Sizes:
    """Sizes of the data and the run, which limit some settings.

    Attributes:
        examples: in the text.
        batches_per_epoch: in one pass over them.
        steps: of the run.
        batch_size: examples in the largest batch.
        texts_per_step: texts that are encoded in a step's largest batch.
        stores: vectors that each part stores at most, by the part's name.
        evaluates: whether there is dev data.
    """

    examples: int
    batches_per_epoch: int
    steps: int
    batch_size: int
    texts_per_step: int
    stores: dict[str, int]
    evaluates: bool


def bounded_settings(training: TrainingSettings, explicit: Collection[str], sizes: Sizes) -> list[str]:
    """Returns a line for each setting with less effect than its value says: why, and how to change that.

    Args:
        training: the ``[training]`` table.
        explicit: dotted keys of the settings that the user chose; bounds that a recipe sets itself are no news.
        sizes: of the data and the run.

    Example:
        >>> sizes = Sizes(1280, 20, 20, 64, 128, {}, evaluates=True)
        >>> training = TrainingSettings(max_steps=60, evaluate_every=10)
        >>> print(*bounded_settings(training, {"training.max_steps"}, sizes))
        training.max_steps = 60 is not reached: training.epochs = 1 allows 20 steps; set training.epochs = 3 for 60
    """
    return [
        *_budgets(training, explicit, sizes),
        *_batches(training, explicit, sizes),
        *_intervals(training, sizes),
        *_stores(training, sizes),
    ]


def _budgets(training: TrainingSettings, explicit: Collection[str], sizes: Sizes) -> list[str]:
    lines = []
    budget = "training.minutes" if training.minutes is not None else "training.tokens"
    other = training.minutes is not None or training.tokens is not None
    if other and "training.epochs" in explicit:
        lines.append(f"training.epochs = {training.epochs:g} is not used: {budget} decides how long the run is")
    most = training.max_steps
    if most is not None and most > sizes.steps and "training.max_steps" in explicit:
        if other:
            lines.append(
                f"training.max_steps = {most:,} is not reached: {budget} allows {number_of(sizes.steps, 'step')}; "
                "raise it"
            )
        else:
            epochs = math.ceil(most * training.accumulate / sizes.batches_per_epoch)
            lines.append(
                f"training.max_steps = {most:,} is not reached: training.epochs = {training.epochs:g} allows "
                f"{number_of(sizes.steps, 'step')}; set training.epochs = {epochs:,} for {most:,}"
            )
    if training.warmup > 0 and round(training.warmup * sizes.steps) == 0:
        lines.append(
            f"training.warmup = {training.warmup:g} of {sizes.steps:,} steps rounds to no step: there is no warm-up"
        )
    unreached = [step for step, _ in training.rate_changes if step > sizes.steps]
    if unreached:
        lines.append(
            f"training.rate_changes from step {unreached[0]:,} on are not reached: the run has "
            f"{number_of(sizes.steps, 'step')}"
        )
    return lines


def _batches(training: TrainingSettings, explicit: Collection[str], sizes: Sizes) -> list[str]:
    lines = []
    if training.batch_tokens is not None:
        if "training.batch_size" in explicit:
            lines.append(f"training.batch_size = {training.batch_size:,} is not used: training.batch_tokens decides")
    elif training.batch_size > sizes.batch_size:
        lines.append(
            f"training.batch_size = {training.batch_size:,} is more than the {sizes.examples:,} examples: all are in "
            "one batch"
        )
    if training.accumulate > sizes.batches_per_epoch:
        lines.append(
            f"training.accumulate = {training.accumulate:,} is more than the {sizes.batches_per_epoch:,} batches of an "
            "epoch: a step sees examples more than once"
        )
    if isinstance(training.chunk, int) and training.chunk >= sizes.texts_per_step:
        lines.append(
            f"training.chunk = {training.chunk:,} is not less than the {sizes.texts_per_step:,} texts of a batch: they "
            "are one chunk"
        )
    return lines


def _intervals(training: TrainingSettings, sizes: Sizes) -> list[str]:
    """Intervals that are longer than the run."""
    if sizes.steps < 2:
        return []
    lines = []
    if sizes.evaluates and training.evaluate_every >= sizes.steps:
        lines.append(
            f"training.evaluate_every = {training.evaluate_every:,} is not less than the {sizes.steps:,} steps: the "
            "last step alone is evaluated"
        )
    return lines


def _stores(training: TrainingSettings, sizes: Sizes) -> list[str]:
    """Parts that store more vectors of earlier steps than there are texts, or than the run makes."""
    lines = []
    vectors = sizes.steps * training.accumulate * sizes.batch_size
    for part, size in sizes.stores.items():
        if size > sizes.examples:
            lines.append(
                f"{part} stores {number_of(size, 'vector')}, more than the {sizes.examples:,} examples: it holds "
                "older vectors of the same texts"
            )
        elif size > vectors:
            lines.append(
                f"{part} stores {number_of(size, 'vector')}, and the run makes about {vectors:,}: it is never full"
            )
    return lines
