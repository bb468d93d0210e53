"""A paper's row: what was published for a recipe, and what is got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opencse.analysis.significance import Summary, summary
from opencse.errors import UserError
from opencse.recipes.recipe import resolve_recipe
from opencse.studies.record import RunRecord

BACKBONE_OF_ABLATIONS = "bert-base"


@dataclass(frozen=True)
class Published:
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
        """What is about to be reproduced, and in what it departs from the paper."""
        departures = []
        if self.start != self.paper_start:
            departures.append(f"the start is {self.start}, the paper's {self.paper_start}")
        if settings:
            departures.append(f"{settings} setting{'s' * (settings > 1)} changed by --set")
        if dev in ("sample", "none"):
            departures.append(f"selection on {'the built-in sample' if dev == 'sample' else 'nothing'}, not STS-B dev")
        return [
            f"row        {self.recipe}: {self.paper or 'our own'}{f' ({self.note})' if self.note else ''}",
            f"departs    {'; '.join(departures) or 'in nothing that the recipe knows of'}",
        ]


def published(recipe: str, model: str | None = None) -> Published:
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
    return Published(
        recipe=recipe,
        paper=own.paper,
        note=row.note,
        paper_start=start,
        start=model or start,
        seeds=own.seeds or (own.training.seed,),
        expected=row.expected,
    )


def reproduced(records: Sequence[RunRecord]) -> dict[str, Summary]:
    """Every score over the seeds, and ``dev.stsb``, the kept encoders' score on the pairs selected on."""
    runs = [record for record in records if record.recipe is not None]
    shared = [name for name in runs[0].results if all(name in run.results for run in runs)]
    found = {name: summary([run.results[name] for run in runs]) for name in shared}
    best = [_kept_score(run.outcome) for run in runs if run.outcome and run.outcome["scores"]]
    return {**found, "dev.stsb": summary(best)} if len(best) == len(runs) else found


def _kept_score(outcome: Mapping[str, Any]) -> float:
    """The dev score of what a run kept."""
    trained = [score for step, score in outcome["scores"].items() if int(step) or outcome["kept"] != "best"]
    return float(max(trained))
