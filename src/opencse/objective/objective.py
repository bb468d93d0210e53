"""The objective of a run: composes a view, negatives and terms into losses and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, Pairs, Scoring
from opencse.objective.context import of_encoder, of_objective, require_without
from opencse.objective.contrast import (
    Contrast,
    ContrastLoss,
    Directions,
    LearnedTemperature,
    Matryoshka,
    Partition,
    contrast,
)
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.part import Part
from opencse.objective.registry import build
from opencse.objective.settings import ObjectiveSettings, SavedEncoder
from opencse.objective.sides.base import Sides
from opencse.objective.sides.kinds import Views
from opencse.objective.terms.base import Term
from opencse.objective.vectors.chunks import RowDisturb
from opencse.objective.vectors.represent import Passes
from opencse.objective.vectors.requests import Scores
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.base import SentenceView, View
from opencse.settings import validate
from opencse.streams import seed_of
from opencse.text.labels import LabelKind


@dataclass(frozen=True)
class StepLosses:
    """The weighted losses of a step, whose sum is minimised, and its figures for the log."""

    losses: dict[str, Tensor]
    report: dict[str, Tensor]

    @property
    def total(self) -> Tensor:
        """The scalar to differentiate."""
        return torch.stack(list(self.losses.values())).sum()

    def detached(self) -> StepLosses:
        """The same without gradients."""
        return StepLosses({name: loss.detach() for name, loss in self.losses.items()}, self.report)

    @classmethod
    def mean(cls, outcomes: Sequence[StepLosses]) -> StepLosses:
        """The mean of each loss and each figure over the batches of a step."""
        if len(outcomes) == 1:
            return outcomes[0]
        first = outcomes[0]
        return cls(
            {name: torch.stack([o.losses[name] for o in outcomes]).mean() for name in first.losses},
            {name: torch.stack([o.report[name] for o in outcomes]).mean() for name in first.report},
        )


@dataclass(frozen=True)
class Positive:
    """The vectors that the positive's similarity is taken between, and how much it counts.

    Example:
        >>> import torch
        >>> Positive(copies=2).pairs(Representations.of(torch.eye(2), torch.eye(2)), Scoring()).similarity()
        tensor([1., 1.])

    Attributes:
        of: gives the two vectors; by default the two views.
        scale: multiplies the positive's logit, in the numerator and the denominator.
        copies: how often the positive is in its denominator.
        least_score: a pair of a lower score has no loss of its own; None if every pair is a positive.
    """

    of: Sides = field(default_factory=Views)
    scale: float = 1.0
    copies: int = 1
    least_score: float | None = None

    @property
    def reads(self) -> Set[Request[Any]]:
        """What its sides read, and the scores of the pairs if they count."""
        return {*self.of.reads, *([] if self.least_score is None else [Scores()])}

    def pairs(self, reps: Representations, scoring: Scoring) -> Pairs:
        """The positives of a step."""
        first, second = self.of.of(reps, lambda: self.of.noise(reps))
        counted = None if self.least_score is None else reps[Scores()] >= self.least_score
        return Pairs(first, second, scoring, self.scale, self.copies, counted)


class Objective(nn.Module):
    """Composes parts into the loss of a run; the parts' state is in ``state_dict``.

    A step makes its vectors by `represent`, and its losses by calling the objective with them. `from_settings` makes
    an objective of a recipe's table. The ``name`` of each part is set as recipes write it: ``negatives.in_batch``.

    Example:
        >>> import torch
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.terms.dimensions import DCL
        >>> from opencse.objective.views.plain import Dropout
        >>> objective = Objective(Dropout(), negatives=[InBatch()], terms=[DCL()])
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> losses = objective(Representations.of(views, views))
        >>> {name: round(float(loss), 4) for name, loss in losses.losses.items()}
        {'contrast': 0.0, 'dcl': 0.0875}

    Args:
        view: makes the positive.
        positive: gives the vectors of its similarity.
        negatives: what an anchor is pushed away from; empty for an objective without contrast.
        terms: extra losses, each kind once.
        settings: the other settings of `ObjectiveSettings`, by name.

    Raises:
        UserError: for a wrong value, or if two of its parts cannot be combined.
    """

    def __init__(
        self,
        view: View,
        *,
        positive: Positive | None = None,
        negatives: Sequence[NegativeSource] = (),
        terms: Sequence[Term] = (),
        **settings: Any,  # noqa: ANN401 - pydantic knows each
    ) -> None:
        super().__init__()
        self.view = view
        self.positive = positive or Positive()
        self.sides = self.positive.of  # registers it as a submodule, for its state
        self.negatives = list(negatives)
        self.terms = list(terms)
        self.parts = nn.ModuleList([*self.negatives, *self.terms])
        of_parts = {name: tuple(one.settings for one in getattr(self, name)) for name in ("negatives", "terms")}
        positives = {name: getattr(self.positive, name) for name in ("scale", "copies", "least_score")}
        table = validate(ObjectiveSettings, {**settings, **of_parts, "positive": positives}, "objective")
        self.second: SentenceEncoder | None = None
        self.label_smoothing = table.label_smoothing
        self.dual_encoder = table.dual_encoder
        self.saved_encoder: SavedEncoder = table.saved_encoder
        self.tile_bytes = table.tile_bytes
        self.matryoshka = None if table.matryoshka is None else Matryoshka(table.matryoshka)
        self.directions: Directions = table.directions
        self.partition: Partition = table.partition
        self.contrast_loss: ContrastLoss = table.loss
        self.learned_temperature: LearnedTemperature | None = None
        self.scoring = Scoring(table.similarity, table.temperature, table.mask_duplicates)
        if table.learned_temperature:
            self.learned_temperature = LearnedTemperature(
                table.temperature, table.similarity, mask_duplicates=table.mask_duplicates
            )
            self.scoring = self.learned_temperature.scoring
        # The names seed the parts' random streams.
        self.view.name, self.positive.of.name = "view", "positive"
        _assign_names("negatives", self.negatives)
        _assign_names("terms", self.terms)
        contrasted = self.positive.reads if self.negatives else frozenset[Request[Any]]()
        self.reads = frozenset(contrasted).union(*(part.reads for part in self.all_parts))
        self.check()

    @classmethod
    def from_settings(cls, settings: ObjectiveSettings) -> Objective:
        """Makes the objective of a recipe's table.

        Raises:
            UserError: if two of its parts cannot be combined.
        """
        positive = settings.positive
        parts = {"view", "positive", "negatives", "terms"}
        return cls(
            build(settings.view),
            positive=Positive(build(positive.of), positive.scale, positive.copies, positive.least_score),
            negatives=[build(source) for source in settings.negatives],
            terms=[build(term) for term in settings.terms],
            **{name: getattr(settings, name) for name in type(settings).model_fields if name not in parts},
        )

    @property
    def compares_examples(self) -> bool:
        """Whether the examples of a batch are compared with each other: by contrast, or by a term."""
        return bool(self.negatives) or any(term.compares_examples for term in self.terms)

    @property
    def one_forward(self) -> bool:
        """Whether all rows of a step can go through one encoder together."""
        return not self.dual_encoder and not self.view.two_passes

    @property
    def encodes(self) -> bool:
        """Whether the sentences themselves go through the encoder (masked copies may go alone)."""
        return any(request.encodes for request in self.reads)

    @property
    def reads_positives(self) -> bool:
        """Whether any part needs the positives' vectors; else the anchors alone go through the encoder."""
        return any(request.encodes and request.reads_positives for request in self.reads)

    @property
    def label(self) -> LabelKind | None:
        """What label of each row it reads; None if none."""
        return next((request.label for request in self.reads if request.label is not None), None)

    @property
    def networks(self) -> list[nn.Module]:
        """The trained networks of the parts that run over the rows of a step; see `Part.networks`."""
        return [network for part in self.all_parts for network in part.networks]

    @property
    def setting_of_two_passes(self) -> str:
        """The setting by which anchors and positives are encoded in two passes, or by two encoders; empty if none."""
        if self.dual_encoder:
            return "objective.dual_encoder"
        return f"objective.view.{self.view.two_passes}" if self.view.two_passes else ""

    def check(self) -> None:
        """Refuses parts that cannot be combined.

        Raises:
            UserError: in one line.
        """
        view, of = self.view, self.positive.of
        if self.directions != "rows" and all(s.averaged_with_plain for s in self.negatives if s.of_both_sides):
            raise UserError(
                f"objective.directions = {self.directions} leaves no negatives for the positives: hard ones are of the "
                "anchors, and average_with_plain leaves its own out; set it to rows, or add the in_batch negatives"
            )
        if self.negatives and len(set(of.texts)) == 1 and not isinstance(view, SentenceView):
            raise UserError(
                f"objective.positive.of = {of.kind} compares a text with itself, so the second text of the view "
                f"{view.kind} would be no positive; choose other vectors, or a view of single sentences"
            )
        if self.encodes and self.setting_of_two_passes and not self.reads_positives:
            raise UserError(
                f"{self.setting_of_two_passes} is about the positives, and no part of the objective reads them; leave "
                "it out, or add a negative source"
            )
        kinds = Counter(term.kind for term in self.terms)
        for kind, count in kinds.items():
            if count > 1:
                raise UserError(f"the term {kind!r} is given {count} times; give it once")
        features = of_objective(self)
        for reader in self._readers:
            require_without(reader, features)
            reader.check(self)

    def check_encoder(self, encoder: SentenceEncoder, model: str = "", *, own_dropout: bool = True) -> None:
        """Refuses an encoder that a part cannot be used with.

        Args:
            encoder: to be trained.
            model: its name, for messages.
            own_dropout: whether it keeps its original dropout (the user set no rate).

        Raises:
            UserError: in one line.
        """
        features = of_encoder(encoder, model, own_dropout, contrasted=bool(self.negatives))
        for reader in self._readers:
            require_without(reader, features)
            if isinstance(reader, Part):
                reader.check_encoder(encoder, model)
            elif isinstance(reader, Request):
                reader.check_encoder(encoder)
        if self.matryoshka is not None:
            self.matryoshka.check_dimension(encoder.dimension)

    def check_data(self, source: str, hard: int, label: LabelKind | None) -> None:
        """Refuses data that a part cannot be used with.

        Args:
            source: its name, for messages.
            hard: hard negatives in each row.
            label: what label its rows have; None without labels.

        Raises:
            UserError: in one line.
        """
        if self.label is not None and label != self.label:
            raise UserError(
                f"{source}: its rows hold no {self.label}, which the objective reads; name the column of it last in "
                "--columns, or choose a recipe without labels"
            )
        only_hard = bool(self.negatives) and not any(one.of_both_sides for one in self.negatives)
        for part in self.all_parts:
            part.check_data(source, hard, only_hard)

    @property
    def _readers(self) -> list[Any]:
        """The requests, by name as a set has no order; the parts, with the sides of negatives; and nested contrast."""
        sides = [inside for source in self.negatives for inside in source.children() if isinstance(inside, Part)]
        nested = [] if self.matryoshka is None else [self.matryoshka]
        return [*sorted(self.reads, key=str), *self.all_parts, *sides, *nested]

    @property
    def all_parts(self) -> list[Part]:
        """View, sides, negative sources and terms."""
        return [self.view, *([self.positive.of] if self.negatives else []), *self.negatives, *self.terms]

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int, classes: int = 0) -> None:
        """Prepares every part for a run, once; see `Part.begin`."""
        if self.dual_encoder:
            self.second = encoder.twin()
            self.second.lm_head = None  # masked copies go through the first encoder
        batch_size *= self.view.anchors
        for part in self.all_parts:
            part.classes = classes
            repeated = "#" in part.name  # a second part of a kind has draws of its own
            part.begin(encoder, batch_size=batch_size, seed=seed_of(seed, part.name) if repeated else seed)

    def candidates(self, weights: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """The weights of the encoders that may be saved, as ``saved_encoder`` says, of ``weights`` of the first."""
        if self.saved_encoder == "first" or self.second is None:
            return [weights]
        second = {name: tensor.detach().cpu().clone() for name, tensor in self.second.state_dict().items()}
        return [weights | second] if self.saved_encoder == "second" else [weights, weights | second]

    def represent(
        self, encoder: SentenceEncoder, inputs: StepInputs, *, disturb: RowDisturb | None = None
    ) -> Representations:
        """Makes the vectors that this objective reads of ``inputs``, and what its parts' own networks make of them.

        Args:
            encoder: the encoder in training.
            inputs: the step's texts.
            disturb: changes the input embeddings of some rows, given with the number of the first row, before the view
                changes the positives'.
        """
        passes = Passes(
            encoder,
            inputs,
            self.reads,
            contrast=lambda reps: self._contrast(reps).loss,
            objective=self,
            second=self.second,
            disturb=disturb,
        )
        reps = self.view.represent(passes)
        computed = {part.name: part.compute(inputs, reps) for part in self.all_parts}
        return replace(reps, computed={name: value for name, value in computed.items() if value is not None})

    def forward(self, reps: Representations) -> StepLosses:
        """Computes the losses of a step, already weighted, and its report.

        With contrast the report has ``positive_similarity``, the mean of sim(a_i, b_i); ``negative_similarity``, the
        mean over all columns that count (0 if none does), weights aside; and ``duplicates_masked``, the number of
        columns left out, over all anchors, because of equal texts.
        """
        losses: dict[str, Tensor] = {}
        report: dict[str, Tensor] = {}
        if self.negatives:
            contrasted = self._contrast(reps)
            losses["contrast"] = contrasted.loss
            report["positive_similarity"] = contrasted.positive_similarity
            report["negative_similarity"] = contrasted.negative_similarity
            report["duplicates_masked"] = contrasted.duplicates
            if self.learned_temperature is not None:
                report["temperature"] = 1 / self.learned_temperature.scale.detach()
        for term in self.terms:
            losses[term.kind] = term.weight * term.loss(reps)
        return StepLosses(losses, report)

    def _contrast(self, reps: Representations) -> Contrast:
        """The contrastive loss over the columns of all sources, in the directions of the objective.

        If a source has ``averaged_with_plain``, it is the mean of the losses with and without its columns.
        """
        positive = self.positive.pairs(reps, self.scoring)
        columns: list[AnyColumns] = []
        softmaxes: list[list[int]] = []
        averaged = any(source.averaged_with_plain for source in self.negatives)
        for mirrored in (False, True):
            if self.directions == ("rows" if mirrored else "columns"):
                continue
            vectors = reps.mirrored() if mirrored else reps
            sources = [source for source in self.negatives if source.of_both_sides or not mirrored]
            numbers = range(len(columns), len(columns) + len(sources))
            columns += [source.columns(vectors, self.scoring) for source in sources]
            plain = [n for n, source in zip(numbers, sources, strict=True) if not source.averaged_with_plain]
            # SSCL's code: the mean of the loss with the layers' vectors and of the loss without them.
            softmaxes += [list(numbers), plain] if averaged else [list(numbers)]
        # One denominator for both directions (GTE, Li et al. 2023, eq. 2).
        if self.directions == "both" and self.partition == "joint":
            each = len(softmaxes) // 2
            softmaxes = [[*softmaxes[n], *softmaxes[each + n]] for n in range(each)]
        learned = self.learned_temperature
        if learned is not None:
            positive, columns = learned.scaled(positive, columns)
        function = contrast if self.matryoshka is None else self.matryoshka.contrast
        contrasted = function(
            positive,
            columns,
            softmaxes,
            loss=self.contrast_loss,
            label_smoothing=self.label_smoothing,
            tile_bytes=self.tile_bytes,
        )
        if learned is None:
            return contrasted
        # The scale is in the left vectors; without it the figures are similarities again.
        scale = learned.scale.detach()
        return replace(
            contrasted,
            positive_similarity=contrasted.positive_similarity / scale,
            negative_similarity=contrasted.negative_similarity / scale,
        )

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Lets parts update their state (queues, momentum encoders), once per step; see `Part.after_backward`."""
        for part in self.all_parts:
            part.after_backward(encoder, inputs, reps)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """Figures for the log that are too expensive for every step."""
        figures: dict[str, Tensor] = {}
        for part in self.all_parts:
            figures |= part.diagnose(reps)
        return figures

    def negatives_per_anchor(self, batch_size: int, hard: int) -> int:
        """Columns in an anchor's denominator without its positive, for a full batch without duplicates."""
        batch_size *= self.view.anchors
        return sum(source.count(batch_size, hard) for source in self.negatives)


def _assign_names(role: str, parts: Sequence[Part]) -> None:
    """Names parts as recipes do: ``negatives.in_batch``, and ``negatives.in_batch#2`` for the second of a kind."""
    seen: Counter[str] = Counter()
    for part in parts:
        seen[part.kind] += 1
        part.name = f"{role}.{part.kind}" + (f"#{seen[part.kind]}" if seen[part.kind] > 1 else "")
