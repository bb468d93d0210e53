"""An objective: view + negatives + terms -> losses and a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.encoder.encoder import Disturb, SentenceEncoder
from opencse.errors import UserError
from opencse.objective.losses import Columns, Similarity, info_nce, rowwise_similarity
from opencse.objective.negatives import NegativeSettings, NegativeSource, Scoring, build_negatives
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.negatives.layers import Layers
from opencse.objective.part import Part
from opencse.objective.representations import Needs, Representations, StepInputs, random_state, represent, restore
from opencse.objective.sides import SidesSettings, Views, needs_of, sides
from opencse.objective.terms import Term, TermSettings, build_term
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.views import ViewSettings, build_view
from opencse.objective.views.dropout import Dropout
from opencse.settings import Settings


class PositiveSettings(Settings):
    """What the positive's similarity is taken between, and how much it counts.

    Attributes:
        of: the two vectors; by default the two views.
        scale: multiplies the positive's logit, in the numerator and the denominator: the ``m`` of SimCSE++'s code
            (its paper puts m on the negatives instead: ``weight`` of ``in_batch``).
    """

    of: SidesSettings = Views()
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)


class ObjectiveSettings(Settings):
    """The ``[objective]`` table of a recipe.

    Attributes:
        view: how the positive is made.
        positive: what its similarity is taken between.
        negatives: what an anchor is pushed from; empty means no contrast (a term alone).
        terms: extra losses, each kind once.
        similarity: cosine or dot.
        temperature: tau of SimCSE's eq. 1.
        label_smoothing: epsilon.
        mask_duplicates: keep equal texts of a batch from being each other's negatives.
        dual_encoder: a second encoder, trained too, reads the positives (SimCSE, Table 2); the first one is kept.
    """

    view: ViewSettings = Dropout.Settings()
    positive: PositiveSettings = PositiveSettings()
    negatives: tuple[NegativeSettings, ...] = (InBatch.Settings(),)
    terms: tuple[TermSettings, ...] = ()
    similarity: Similarity = "cosine"
    temperature: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    mask_duplicates: bool = True
    dual_encoder: bool = False

    @property
    def compares_examples(self) -> bool:
        """Whether a batch's examples are set against each other: by contrast, or by a term over their vectors."""
        return bool(self.negatives) or any(not isinstance(term, MaskedLM.Settings) for term in self.terms)

    @model_validator(mode="after")
    def _something_to_learn(self) -> ObjectiveSettings:
        if not self.negatives and not self.terms:
            raise ValueError("an objective needs at least one negative source or one term")
        return self

    @model_validator(mode="after")
    def _something_plain(self) -> ObjectiveSettings:
        averaged = [isinstance(source, Layers.Settings) and source.average_with_plain for source in self.negatives]
        if averaged and all(averaged):
            raise ValueError(
                "average_with_plain leaves no negatives for the plain loss; add in_batch negatives, or set it to false"
            )
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

    def detached(self) -> Outcome:
        """The same without gradients."""
        return Outcome({name: loss.detach() for name, loss in self.losses.items()}, self.report)

    @classmethod
    def mean(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """Loss by loss and number by number, over the batches of a step."""
        if len(outcomes) == 1:
            return outcomes[0]
        first = outcomes[0]
        return cls(
            {name: torch.stack([o.losses[name] for o in outcomes]).mean() for name in first.losses},
            {name: torch.stack([o.report[name] for o in outcomes]).mean() for name in first.report},
        )


class Objective(nn.Module):
    """The composition of house and recipe: pure losses over representations, state in ``state_dict``.

    Raises:
        UserError: if two of its parts cannot go together.
    """

    def __init__(self, settings: ObjectiveSettings) -> None:
        super().__init__()
        self.settings = settings
        self.view = build_view(settings.view)
        self.negatives: list[NegativeSource] = [build_negatives(s) for s in settings.negatives]
        self.terms: list[Term] = [build_term(s) for s in settings.terms]
        self.parts = nn.ModuleList([*self.negatives, *self.terms])
        self.second: SentenceEncoder | None = None
        self.needs = self._needs()
        self.scoring = Scoring(settings.similarity, settings.temperature, settings.mask_duplicates)

    def _needs(self) -> Needs:
        needs = needs_of(self.settings.positive.of) if self.negatives else Needs()
        for part in self._parts:
            needs = needs | part.needs
        for there, name in ((self.settings.dual_encoder, "dual_encoder"), (needs.shared_mask, "view.shared_mask")):
            if there and needs.samples is not None:
                raise UserError(
                    f"means over dropout draws do not go with objective.{name}; set it to false, or choose another "
                    "kind than mean for the vectors of the similarity"
                )
        if self.settings.dual_encoder and self.view.derived:
            raise UserError(
                f"a second encoder would have nothing to read: the view {self.settings.view.kind} makes the positives "
                "of the anchors' vectors; set objective.dual_encoder to false, or choose another view"
            )
        if self.settings.dual_encoder and (self.view.disturbs or self.view.attacks == "inputs"):
            raise UserError(
                f"the view {self.settings.view.kind} changes the input embeddings of one encoder; set "
                "objective.dual_encoder to false, or choose another view"
            )
        both = any(isinstance(source, Layers.Settings) and source.views == "both" for source in self.settings.negatives)
        if both and self.view.derived:
            raise UserError(
                f"the positives have no intermediate layers: the view {self.settings.view.kind} makes them of the "
                'anchors\' vectors; set views = "anchor" in the layers negatives'
            )
        return needs

    @property
    def _parts(self) -> list[Part]:
        return [self.view, *self.negatives, *self.terms]

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Called once before a run: every part makes what it keeps; see `Part.begin`."""
        if self.settings.dual_encoder:
            self.second = encoder.twin()
            self.second.lm_head = None  # masked copies go through the first
        for part in self._parts:
            part.begin(encoder, batch_size=batch_size, seed=seed)

    def represent(
        self, encoder: SentenceEncoder, inputs: StepInputs, *, disturb: Disturb | None = None
    ) -> Representations:
        """The vectors that this objective reads of ``inputs``.

        Where the view attacks the inputs, the loss's gradient is found first, in a pass of its own under the very
        dropout masks of the one that counts.

        Args:
            encoder: what is trained.
            inputs: the step's texts.
            disturb: changes all rows' input embeddings, before the view changes the positives'.
        """
        view, n = self.view, inputs.examples
        if view.attacks == "inputs":
            gradient = self._gradient_of_inputs(encoder, inputs, disturb)
            disturb = _then_positives(disturb, n, lambda words: view.attacked(words, gradient[n : 2 * n]))
        elif view.disturbs:
            noise = inputs.noise(1)
            disturb = _then_positives(disturb, n, lambda words: view.disturb(words, noise))
        reps = self._represent(encoder, inputs, disturb)
        if view.attacks == "outputs":
            positive = reps.positive.detach().requires_grad_()
            alone = replace(reps.detached(), positive=positive, noise=inputs.noise(0))
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(self._contrast_of(alone), positive)
            reps = replace(reps, positive=view.attacked(reps.positive, gradient))
        return reps

    def _represent(self, encoder: SentenceEncoder, inputs: StepInputs, disturb: Disturb | None) -> Representations:
        derive = self.view.derive if self.view.derived else None
        return represent(encoder, inputs, self.needs, derive=derive, second=self.second, disturb=disturb)

    def _gradient_of_inputs(self, encoder: SentenceEncoder, inputs: StepInputs, disturb: Disturb | None) -> Tensor:
        """The contrastive loss's gradient with respect to the input embeddings; no generator is moved."""
        seen: list[Tensor] = []

        def watch(words: Tensor) -> Tensor:
            seen.append((words if disturb is None else disturb(words)).detach().requires_grad_())
            return seen[0]

        before = random_state(inputs.keys.device)
        with torch.enable_grad():
            loss = self._contrast_of(self._represent(encoder, inputs, watch))
            (gradient,) = torch.autograd.grad(loss, seen[0])
        restore(before, inputs.keys.device)
        return gradient

    def forward(self, reps: Representations) -> Outcome:
        """Losses (already weighted) and the report of one step.

        The report, where there is contrast: ``positive_similarity``, mean of sim(a_i, b_i);
        ``negative_similarity``, mean over all columns that count (0 if none does), weights aside;
        ``duplicates_masked``, the number of columns left out, over all anchors, because of equal texts.
        """
        losses: dict[str, Tensor] = {}
        report: dict[str, Tensor] = {}
        if self.negatives:
            positive, columns = self._similarities(reps)
            losses["contrast"] = self._contrast(positive, columns).mean()
            report["positive_similarity"] = positive.detach().mean()
            report["negative_similarity"] = _mean_similarity(columns, self.scoring.temperature)
            report["duplicates_masked"] = _count_duplicates(columns, reps.keys.device)
        for settings, term in zip(self.settings.terms, self.terms, strict=True):
            losses[settings.kind] = term.weight * term.loss(reps)
        return Outcome(losses, report)

    def _similarities(self, reps: Representations) -> tuple[Tensor, list[Columns]]:
        positive = rowwise_similarity(*sides(self.settings.positive.of, reps), self.scoring.similarity)
        return positive, [source.columns(reps, self.scoring) for source in self.negatives]

    def _contrast_of(self, reps: Representations) -> Tensor:
        """The contrastive loss alone, as a scalar."""
        return self._contrast(*self._similarities(reps)).mean()

    def _contrast(self, positive: Tensor, columns: list[Columns]) -> Tensor:
        """(N,) losses; the mean of those with and without the sources that ask for it."""
        logits = self.settings.positive.scale * positive / self.scoring.temperature
        smoothing = self.settings.label_smoothing
        whole = info_nce(logits, columns, label_smoothing=smoothing)
        plain = [c for source, c in zip(self.negatives, columns, strict=True) if not source.averaged_with_plain]
        if len(plain) == len(columns):
            return whole
        return (whole + info_nce(logits, plain, label_smoothing=smoothing)) / 2

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Lets every part with state see the step before the weights move; see `Part.after_backward`."""
        for part in self._parts:
            part.after_backward(encoder, inputs, reps)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """Numbers for the log that are too dear for every step."""
        found: dict[str, Tensor] = {}
        for part in self._parts:
            found |= part.diagnose(reps)
        return found

    def negatives_per_anchor(self, batch_size: int, hard: int) -> int:
        """Columns in an anchor's denominator besides its positive, for a full batch without duplicates."""
        return sum(source.count(batch_size, hard) for source in self.negatives)


def _then_positives(disturb: Disturb | None, n: int, change: Disturb) -> Disturb:
    """``disturb`` on all rows, then ``change`` on those of the N positives."""

    def both(words: Tensor) -> Tensor:
        words = words if disturb is None else disturb(words)
        return torch.cat([words[:n], change(words[n : 2 * n]), words[2 * n :]])

    return both


def _mean_similarity(columns: list[Columns], temperature: float) -> Tensor:
    logits = torch.cat([c.logits.detach().float() for c in columns], dim=1)
    kept = ~torch.cat([c.left_out for c in columns], dim=1)
    return logits.masked_fill(~kept, 0.0).sum() * temperature / kept.sum().clamp(min=1)


def _count_duplicates(columns: list[Columns], device: torch.device) -> Tensor:
    counts = [c.duplicates.sum() for c in columns if c.duplicates is not None]
    return torch.stack(counts).sum().float() if counts else torch.zeros((), device=device)
