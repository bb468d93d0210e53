"""An objective: view + negatives + terms -> losses and a report."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.objective.losses import Columns, Similarity, info_nce, rowwise_similarity
from opencse.objective.negatives import NegativeSettings, NegativeSource, Scoring, build_negatives
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.part import Part
from opencse.objective.representations import Needs, Representations
from opencse.objective.terms import Term, TermSettings, build_term
from opencse.objective.views import ViewSettings, build_view
from opencse.objective.views.dropout import Dropout
from opencse.settings import Settings


class ObjectiveSettings(Settings):
    """The ``[objective]`` table of a recipe.

    Attributes:
        view: how the positive is made.
        negatives: what an anchor is pushed from; empty means no contrast (a term alone).
        terms: extra losses, each kind once.
        similarity: cosine or dot.
        temperature: tau of SimCSE's eq. 1.
        label_smoothing: epsilon.
        mask_duplicates: keep equal texts of a batch from being each other's negatives.
    """

    view: ViewSettings = Dropout.Settings()
    negatives: tuple[NegativeSettings, ...] = (InBatch.Settings(),)
    terms: tuple[TermSettings, ...] = ()
    similarity: Similarity = "cosine"
    temperature: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    mask_duplicates: bool = True

    @model_validator(mode="after")
    def _something_to_learn(self) -> ObjectiveSettings:
        if not self.negatives and not self.terms:
            raise ValueError("an objective needs at least one negative source or one term")
        return self

    @model_validator(mode="after")
    def _terms_once(self) -> ObjectiveSettings:
        kinds = [term.kind for term in self.terms]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise ValueError(f"the term {kind!r} is given {kinds.count(kind)} times; give it once")
        return self


@dataclass(frozen=True)
class Outcome:
    """What a step's objective gives: losses to add up and minimise, and numbers only to look at."""

    losses: dict[str, Tensor]
    report: dict[str, Tensor]

    @property
    def total(self) -> Tensor:
        """The scalar to differentiate."""
        return torch.stack(list(self.losses.values())).sum()


class Objective(nn.Module):
    """The composition of house and recipe: pure losses over representations, state in ``state_dict``."""

    def __init__(self, settings: ObjectiveSettings) -> None:
        super().__init__()
        self.settings = settings
        self.view = build_view(settings.view)
        self.negatives: list[NegativeSource] = [build_negatives(s) for s in settings.negatives]
        self.terms: list[Term] = [build_term(s) for s in settings.terms]
        self.parts = nn.ModuleList(self._all_parts)
        self.scoring = Scoring(settings.similarity, settings.temperature, settings.mask_duplicates)

    @property
    def _all_parts(self) -> list[Part]:
        return [*self.negatives, *self.terms]

    @property
    def needs(self) -> Needs:
        """What all parts together read."""
        needs = Needs()
        for part in self._all_parts:
            needs = needs | part.needs
        return needs

    def forward(self, reps: Representations) -> Outcome:
        """Losses (already weighted) and the report of one step.

        The report, where there is contrast: ``positive_similarity``, mean of sim(a_i, b_i);
        ``negative_similarity``, mean over all columns that count (0 if none does), weights aside;
        ``duplicates_masked``, the number of columns left out, over all anchors, because of equal texts.
        """
        losses: dict[str, Tensor] = {}
        report: dict[str, Tensor] = {}
        if self.negatives:
            positive = rowwise_similarity(reps.anchor, reps.positive, self.scoring.similarity)
            columns = [source.columns(reps, self.scoring) for source in self.negatives]
            per_anchor = info_nce(
                positive / self.scoring.temperature, columns, label_smoothing=self.settings.label_smoothing
            )
            losses["contrast"] = per_anchor.mean()
            report["positive_similarity"] = positive.detach().mean()
            report["negative_similarity"] = _mean_similarity(columns, self.scoring.temperature)
            report["duplicates_masked"] = _count_duplicates(columns, reps.keys.device)
        for settings, term in zip(self.settings.terms, self.terms, strict=True):
            losses[settings.kind] = term.weight * term.loss(reps)
        return Outcome(losses, report)

    def after_step(self, reps: Representations) -> None:
        """Lets every part with state see the step that was made."""
        for part in self._all_parts:
            part.after_step(reps)

    def negatives_per_anchor(self, batch_size: int, hard: int) -> int:
        """Columns in an anchor's denominator besides its positive, for a full batch without duplicates."""
        return sum(source.count(batch_size, hard) for source in self.negatives)


def _mean_similarity(columns: list[Columns], temperature: float) -> Tensor:
    logits = torch.cat([c.logits.detach().float() for c in columns], dim=1)
    kept = ~torch.cat([c.left_out for c in columns], dim=1)
    return logits.masked_fill(~kept, 0.0).sum() * temperature / kept.sum().clamp(min=1)


def _count_duplicates(columns: list[Columns], device: torch.device) -> Tensor:
    counts = [c.duplicates.sum() for c in columns if c.duplicates is not None]
    return torch.stack(counts).sum().float() if counts else torch.zeros((), device=device)
