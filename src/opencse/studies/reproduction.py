"""A paper's row: what was published for a recipe, and what is got."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opencse.adapting.dev_choice import AUTO, NONE, SAMPLE, TEXT
from opencse.errors import UserError
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
"""Values of ``dev`` that are not graded pairs of the user's, as the papers' STS-B dev is."""


@dataclass(frozen=True)
class PaperRow:
    """A row of a paper's table.

    Attributes:
        recipe: name with presets.
        paper: authors, year, title.
        note: which table.
        paper_start: the backbone of the row.
        start: what training begins with here.
        seeds: of the paper where it names them, else the recipe's one.
        expected: the published scores by name, in percent.
    """

    recipe: str
    paper: str
    note: str
    paper_start: str
    start: str
    seeds: Sequence[int]
    expected: dict[str, float]

    def lines(self, dev: str, settings: int) -> list[str]:
        """What is about to be reproduced, and how it differs from the paper."""
        differences = []
        if self.start != self.paper_start:
            differences.append(f"the start is {self.start}, the paper's {self.paper_start}")
        if settings:
            differences.append(f"{settings} setting{'s' * (settings > 1)} changed by --set")
        if dev in NOT_STSB:
            differences.append(f"selection on {NOT_STSB[dev]}, not STS-B dev")
        return [
            f"row        {self.recipe}: {self.paper or 'our own'}{f' ({self.note})' if self.note else ''}",
            f"differs    {'; '.join(differences) or 'in nothing known'}",
        ]


def paper_row(recipe: str, model: str | None = None) -> PaperRow:
    """The row that ``recipe`` (with presets) stands for.

    The numbers are those of the last preset named that has some; an ablation's are with BERT-base.

    Args:
        recipe: name with presets.
        model: another start than the paper's.

    Raises:
        UserError: if no scores are known for it, naming presets that have some.
    """
    resolved = resolve_recipe(recipe)
    own = resolved.recipe
    named = [own.presets[name] for name in resolved.presets if name in own.presets]
    row = next((preset for preset in reversed(named) if preset.expected), None)
    if row is None:
        known = [name for name, preset in own.presets.items() if preset.expected]
        raise UserError(
            f"{recipe}: no published scores are known for it; name a preset that has some: {', '.join(known) or 'none'}"
        )
    backbone = resolved.backbone or own.presets.get(BACKBONE_OF_ABLATIONS)
    start = None if backbone is None else backbone.model
    if start is None:
        raise UserError(f"{recipe}: its row names no backbone; give one with --model")
    return PaperRow(
        recipe=recipe,
        paper=own.paper,
        note=row.note,
        paper_start=start,
        start=model or start,
        seeds=own.seeds or (own.training.seed,),
        expected=row.expected,
    )


def reproduced(records: Sequence[StudyRecord]) -> dict[str, Summary]:
    """Every score over the seeds.

    Where no suite gave ``dev.stsb``, the kept encoders' score on the pairs of the user's that selected stands for it.
    """
    runs = [record for record in records if record.recipe is not None]
    found = {name: summary([run.results[name] for run in runs]) for name in shared_scores(runs)}
    selected = [run.outcome.score for run in runs if run.outcome and run.asked.get("dev") not in (None, *NOT_STSB)]
    known = [score for score in selected if score is not None]
    return {"dev.stsb": summary(known), **found} if len(known) == len(runs) else found
