"""Compares a recipe's scores with the ones that its paper published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from opencse.adapting.dev_choice import AUTO, NONE, SAMPLE, TEXT
from opencse.adapting.selection_by_transfer import is_transfer
from opencse.errors import UserError
from opencse.evaluation.sts.result import Grouping
from opencse.numerals import number_of
from opencse.recipes.judged import Judged
from opencse.recipes.recipe import resolve_recipe
from opencse.statistics import Summary, summary
from opencse.studies.comparison import shared_scores
from opencse.studies.record import StudyRecord

BACKBONE_OF_ABLATIONS = "bert-base"
NOT_STSB = {
    NONE: "nothing",
    SAMPLE: "the built-in sample",
    TEXT: "questions from the text",
    AUTO: "questions from the text, or the built-in sample",
}
"""Values of ``dev`` that are not the user's graded pairs (papers select on STS-B dev), as messages name them."""


@dataclass(frozen=True)
class PaperRow:
    """The published scores of one system, a row of a paper's table.

    Attributes:
        recipe: name with presets.
        paper: authors, year, title.
        note: which table.
        paper_start: the backbone of the row.
        start: the model that training begins with here.
        seeds: the paper's where it names them, else the recipe's single seed.
        expected: the published scores by name, in percent.
        judged: how the encoder is evaluated.
    """

    recipe: str
    paper: str
    note: str
    paper_start: str
    start: str
    seeds: Sequence[int]
    expected: dict[str, float]
    judged: Judged = field(default_factory=Judged)

    @property
    def groupings(self) -> list[Grouping]:
        """The groupings of STS's pairs, other than all at once, that scores were published of."""
        names = {name.partition(".")[0] for name in self.expected}
        return [grouping for grouping in get_args(Grouping) if f"sts_{grouping}" in names]

    def lines(self, dev: str, settings: int) -> list[str]:
        """Says which row is reproduced, and how this run differs from the paper's."""
        differences = []
        if self.start != self.paper_start:
            differences.append(f"the start is {self.start}, the paper's {self.paper_start}")
        if settings:
            differences.append(f"{number_of(settings, 'setting')} changed by --set")
        if (selected_on := _not_stsb(dev)) is not None and self.judged.trained:
            differences.append(f"selection on {selected_on}, not STS-B dev")
        return [
            f"row        {self.recipe}: {self.paper or 'our own'}{f' ({self.note})' if self.note else ''}",
            *([f"evaluated  {self.judged}"] if str(self.judged) else []),
            f"differs    {'; '.join(differences) or 'in nothing known'}",
        ]


def paper_row(recipe: str, model: str | None = None) -> PaperRow:
    """Finds the published row of ``recipe`` (with presets).

    The scores are read from the last named preset that has some; those of ablations were measured with BERT-base.

    Args:
        recipe: name with presets.
        model: another start than the paper's.

    Raises:
        UserError: if no scores are known for it, naming presets that have some.
    """
    resolved = resolve_recipe(recipe)
    base = resolved.recipe
    applied = [base.presets[name] for name in resolved.presets if name in base.presets]
    row = next((preset for preset in reversed(applied) if preset.expected), None)
    if row is None:
        known = ", ".join(name for name, preset in base.presets.items() if preset.expected)
        instead = f"name a preset that has some: {known}" if known else "opencse compare compares it with other recipes"
        raise UserError(f"{recipe}: no published scores are known for it; {instead}")
    backbone = resolved.backbone or base.presets.get(BACKBONE_OF_ABLATIONS)
    start = None if backbone is None else backbone.model
    if start is None:
        raise UserError(f"{recipe}: its row names no backbone; give one with --model")
    return PaperRow(
        recipe=recipe,
        paper=base.paper,
        note=row.note,
        paper_start=start,
        start=model or start,
        seeds=base.seeds or (base.training.seed,),
        expected=row.expected,
        judged=row.judged,
    )


def reproduced(records: Sequence[StudyRecord]) -> dict[str, Summary]:
    """Summarises every score over the seeds.

    Of an untrained row the only record is that of the start. Where no suite gave ``dev.stsb``, the kept encoders' score
    on the user's dev pairs is reported as that.
    """
    runs = [record for record in records if record.recipe is not None] or list(records)
    scores = {name: summary([run.results[name] for run in runs]) for name in shared_scores(runs)}
    by_pairs = [run for run in runs if run.asked.get("dev") is not None and _not_stsb(run.asked["dev"]) is None]
    selected = [run.outcome.score for run in by_pairs if run.outcome]
    known = [score for score in selected if score is not None]
    return {"dev.stsb": summary(known), **scores} if len(known) == len(runs) else scores


def _not_stsb(dev: str) -> str | None:
    """What ``dev`` selects on, for messages; None where that is the user's graded pairs."""
    return "the transfer tasks" if is_transfer(dev) else NOT_STSB.get(dev)
