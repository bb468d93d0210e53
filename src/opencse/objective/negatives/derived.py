"""Negatives made of the batch's own texts: vectors of intermediate layers, mixtures, texts in another template."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor
from torch.nn import functional

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, LogitColumns, Own, Scoring, VectorColumns
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.part import ReadsRewritten
from opencse.objective.similarity import at_least_float32
from opencse.objective.vectors.requests import Layer, Sentences
from opencse.objective.vectors.rewritten import OtherTemplate, Rewriting
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import AboveZero, PartSettings, Share


def mixed_vectors(vectors: Tensor, shift: Tensor | int, share: float, *, normalised: bool = True) -> Tensor:
    """Mixes each vector with another one, without gradient (MixCSE, Zhang et al. 2022, eq. 6).

    With sg for a value without gradient::

        m_i = sg(share * v_i + (1 - share) * v_j)        j = (i + shift) mod N

    Args:
        vectors: (N, d).
        shift: how far the other vector is; a number, or a tensor of one.
        share: the share of the vector itself.
        normalised: whether both have length 1 first: the paper. The authors' code mixes them as they are.

    Returns:
        (N, d), not normalised again, in float32 at least.

    Example:
        >>> mixed_vectors(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), 1, 0.2)
        tensor([[0.2000, 0.8000],
                [0.8000, 0.2000]])
    """
    vectors = at_least_float32(vectors.detach())
    if normalised:
        vectors = functional.normalize(vectors, dim=-1)
    others = (torch.arange(len(vectors), device=vectors.device) + shift) % len(vectors)
    return share * vectors + (1.0 - share) * vectors[others]


class Layers(NegativeSource):
    """Sentence vectors of intermediate layers, so that the last layer moves away from them (SSCL, eq. 4).

    With h_jl and h'_jl the vectors of example j's anchor and positive at layer l, pooled and projected like the last
    layer's, columns of anchor i, weight ``weight`` each, for every l of ``layers``:

    - ``columns = "all"``: ``sim(a_i, h_jl) / tau`` for every j, its own (j = i) among them, and with
      ``views = "both"`` ``sim(a_i, h'_jl) / tau`` too: 2N columns per layer (the authors' code).
    - ``columns = "own"``: the same for j = i alone: 2 columns per layer (eq. 4 as it is written, with
      ``views = "anchor"`` 1).

    ``layers`` counts from the top if negative: -2 is the layer before the last; 0 is the output of the embedding
    layer. ``[-2, -3]`` is progressive SSCL of two layers (Figure 3), the default of the authors' code. ``detach`` keeps
    the gradient out of the intermediate vectors; in the authors' code it flows. ``average_with_plain`` makes the loss
    the mean of those with and without these columns, as the authors' code does and the paper does not.

    Eq. 4 sums the own column over the batch, which makes it count N times: ``weight = "batch"`` is the N of each step.
    (As printed, eq. 3 and 4 have the other examples' h_j in the denominator, not their second views; in the
    code it is the views, as in SimCSE, and so it is in the recipes.)

    The anchor's own text is a negative here on purpose. Another example whose anchor or positive is the same text as
    anchor i or its positive is left out of row i (unless ``mask_duplicates`` is off).

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> reps = replace(reps, answers={Layer(-2): torch.ones(4, 2)})  # anchors, then positives
        >>> Layers(Layers.Settings(columns="own")).columns(reps, Scoring(temperature=1.0)).dense().weighted()
        tensor([[0.7071, 0.7071],
                [0.7071, 0.7071]])
    """

    recordable = True

    class Settings(PartSettings):
        """Settings of `Layers`."""

        kind: Literal["layers"] = "layers"
        layers: tuple[int, ...] = Field(default=(-2,), min_length=1)
        columns: Literal["all", "own"] = "all"
        views: Literal["both", "anchor"] = "both"
        detach: bool = False
        average_with_plain: bool = False
        weight: float | Literal["batch"] = 1.0

        @field_validator("weight", mode="before")
        @classmethod
        def _weight(cls, weight: Any) -> Any:  # noqa: ANN401 - anything a recipe may hold
            number = isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight < math.inf
            if not number and weight != "batch":
                raise ValueError('weight is a number greater than 0, or "batch" for the examples of the step')
            return weight

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.cannot = (("no_layers", "are of intermediate layers"),)
        if self.settings.views == "both":
            self.cannot = (*self.cannot, ("derived_positives", 'are of both views (set views = "anchor")'))

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors at its layers, in addition to the views."""
        return {Sentences(), *(Layer(layer) for layer in self.settings.layers)}

    @property
    def averaged_with_plain(self) -> bool:
        """Whether its settings say so."""
        return self.settings.average_with_plain

    @property
    def gives_logits(self) -> bool:
        """Of the own columns."""
        return self.settings.columns == "own"

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`
        """Refuses positives without layers, and a plain loss without negatives."""
        if self.averaged_with_plain and all(source.averaged_with_plain for source in objective.negatives):
            raise UserError(
                "average_with_plain leaves no negatives for the plain loss; add in_batch negatives, or set it to false"
            )
        if objective.directions != "rows" and objective.view.derives_positives:
            raise UserError(
                f"objective.directions = {objective.directions}: the positives have no intermediate layers to contrast "
                f"them with, as the view {objective.view.kind} makes them of the anchors' vectors; set it to rows"
            )

    def check_encoder(self, encoder: SentenceEncoder, model: str) -> None:
        """Refuses layers that the backbone does not have, the last one, and repeated ones."""
        depth, seen = encoder.depth, dict[int, int]()
        for layer in self.settings.layers:
            index = layer if layer >= 0 else depth + 1 + layer
            if index == depth:
                raise UserError(
                    f"layers: {layer} is the last layer, the anchor itself; take -2, or one from 0 to {depth - 1}"
                )
            if not 0 <= index < depth:
                raise UserError(
                    f"layers: this backbone has no layer {layer}; take one from 0 to {depth - 1}, or -2 to {-depth - 1}"
                )
            if index in seen:
                raise UserError(f"layers: {seen[index]} and {layer} are the same layer; give it once")
            seen[index] = layer

    def count(self, batch_size: int, hard: int) -> int:
        """Layers times views times N, or 1 for ``own``."""
        return len(self.settings.layers) * self._views * (batch_size if self.settings.columns == "all" else 1)

    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        """(N, L * V * N) or (N, L * V) columns: layer by layer, the anchors', then the positives'."""
        n = len(reps.anchor)
        groups = [vectors for layer in self.settings.layers for vectors in self._vectors(reps, layer)]
        weight = math.log(n if self.settings.weight == "batch" else self.settings.weight)
        if self.settings.columns == "own":
            logits = [scoring.own_logits(reps.anchor, vectors) for vectors in groups]
            return LogitColumns(torch.stack(logits, dim=1), weight)
        keys = reps.keys[:, :2]
        return VectorColumns(
            reps.anchor,
            torch.cat(groups),
            scoring,
            log_weight=weight,
            own=Own(),
            anchor_keys=keys,
            column_keys=keys.repeat(len(groups), 1),
        )

    @property
    def _views(self) -> int:
        return 2 if self.settings.views == "both" else 1

    def _vectors(self, reps: Representations, layer: int) -> list[Tensor]:
        """The (N, d) vectors of each view at ``layer``."""
        n = len(reps.anchor)
        vectors = reps[Layer(layer)]
        if self.settings.detach:
            vectors = vectors.detach()
        return [vectors[view * n : (view + 1) * n] for view in range(self._views)]


class Mixed(NegativeSource):
    """Mixtures of the anchor's own positive and another example's (MixCSE, Zhang et al. 2022, eq. 6).

    The column of anchor i: ``sim(a_i, m_i) / tau``, with m_i a mixture of the positives, without gradient::

        m_i = share * b_i + (1 - share) * b_j        each of length 1 (``normalised``), j = (i + s) mod N

    s is drawn at every step from 1 ... N - 1 (``other = "drawn"``), or 1 (``"next"``). ``share`` is the paper's lambda.

    The authors' code: ``columns = "all"`` gives every mixture m_k to every anchor, N columns; ``mirrored`` adds the
    same of the anchors, ``sim(w_i, b_k) / tau`` with w_i mixed of a_i and a_j, whose gradient reaches b_k. There m_k
    with k + s = i has 1 - share of anchor i's own positive. The code sets that logit to 0, so that the column still
    counts as ``exp(0)`` (``collisions = "zero"``); ``"leave_out"`` leaves it out, which the paper needs nowhere.

    An own mixture whose other sentence is the same text is left out, and so is, with ``columns = "all"``, each other
    mixture that holds the anchor's text (unless ``mask_duplicates`` is off). All logits are made at once.

    Example:
        >>> reps = Representations.of(torch.eye(3), torch.eye(3))
        >>> Mixed(Mixed.Settings(other="next")).columns(reps, Scoring(temperature=1.0)).logits
        tensor([[0.2425],
                [0.2425],
                [0.2425]])
    """

    class Settings(PartSettings):
        """Settings of `Mixed`."""

        kind: Literal["mixed"] = "mixed"
        share: Share = 0.2
        other: Literal["drawn", "next"] = "drawn"
        normalised: bool = True
        columns: Literal["own", "all"] = "own"
        mirrored: bool = False
        collisions: Literal["leave_out", "zero"] = "leave_out"

    settings: Settings

    @property
    def gives_logits(self) -> bool:
        """It does."""
        return True

    def count(self, batch_size: int, hard: int) -> int:
        """1 or N, and as many again if mirrored."""
        return (1 if self.settings.columns == "own" else batch_size) * (2 if self.settings.mirrored else 1)

    def columns(self, reps: Representations, scoring: Scoring) -> LogitColumns:
        """(N, 1) or (N, N) columns; twice as many if mirrored."""
        settings = self.settings
        n, device = len(reps.anchor), reps.anchor.device
        shift: Tensor | int = 1
        if settings.other == "drawn":
            shift = torch.randint(1, max(2, n), (), generator=self.noise(reps), device=device)  # a number would wait
        logits = [self._logits(reps.anchor, self._mixed(reps.positive, shift), scoring)]
        if settings.mirrored:
            logits.append(self._logits(self._mixed(reps.anchor, shift), reps.positive, scoring))
        collide, same = self._collisions(reps.keys[:, :2], shift)
        blocks = [(collide, same), (collide.T, same.T)] if settings.columns == "all" else [(collide, same)] * 2
        mixtures = torch.cat(logits, dim=1)
        collisions, duplicates = (torch.cat(masks, dim=1) for masks in zip(*blocks[: len(logits)], strict=True))
        # MixCSE's code: such a logit of 0 still counts in the denominator.
        if settings.collisions == "zero":
            mixtures = mixtures.masked_fill(collisions, 0.0)
        return LogitColumns(
            mixtures,
            excluded=collisions if settings.collisions == "leave_out" else None,
            duplicates=duplicates if scoring.mask_duplicates else None,
        )

    def _collisions(self, keys: Tensor, shift: Tensor | int) -> tuple[Tensor, Tensor]:
        """Masks of the columns: where the other sentence of mixture k is anchor i, and where one is i's text twice."""
        n = len(keys)
        i = torch.arange(n, device=keys.device).unsqueeze(1)
        k = i.T if self.settings.columns == "all" else i
        other = (k + shift) % n
        same = [(number != i) & same_pairs(keys[i], keys[number]) for number in (k, other)]
        return other == i, same[0] | same[1]

    def _mixed(self, vectors: Tensor, shift: Tensor | int) -> Tensor:
        return mixed_vectors(vectors, shift, self.settings.share, normalised=self.settings.normalised)

    def _logits(self, anchors: Tensor, right: Tensor, scoring: Scoring) -> Tensor:
        if self.settings.columns == "own":
            return scoring.own_logits(anchors, right).unsqueeze(1)
        return scoring.logits(anchors, right)


def same_pairs(a: Tensor, b: Tensor) -> Tensor:
    """(..., A), (..., B) keys -> (...) bool: whether one of a's texts is one of b's."""
    return (a.unsqueeze(-1) == b.unsqueeze(-2)).any(dim=-1).any(dim=-1)


class RewrittenTexts(ReadsRewritten, NegativeSource):
    """The texts of the batch after a change, the anchor's own among them (CoT-BERT's negative template).

    Columns of anchor i: ``sim(a_i, c_j) / tau`` for every j, with c_j the vector of text j in ``template`` and, with
    ``change = "negated"``, negated; with ``side = "positive"`` it is ``sim(b_i, c_j) / tau``. CoT-BERT
    (arXiv:2309.11143) has both, 2N columns: list the source twice. The rows are encoded once.

    Example:
        >>> import torch
        >>> source = RewrittenTexts(RewrittenTexts.Settings(template="No {text}"))
        >>> views, changed = torch.eye(2), torch.ones(2, 2)
        >>> reps = Representations(views, views, views[:, None][:, :0], torch.eye(2), {source.request: changed})
        >>> source.columns(reps, Scoring(temperature=1.0)).dense().weighted()
        tensor([[0.7071, 0.7071],
                [0.7071, 0.7071]])
    """

    class Settings(PartSettings):
        """Settings of `RewrittenTexts`.

        Attributes:
            template: that the texts are put into; unset keeps the encoder's.
            change: ``negated`` negates the text by rule.
            side: which view's vector the columns are compared with.
            weight: the weight of each column.
        """

        kind: Literal["rewritten"] = "rewritten"
        template: OtherTemplate = None
        change: Rewriting = "none"
        side: Literal["anchor", "positive"] = "anchor"
        weight: AboveZero = 1.0

    settings: Settings

    @property
    def change(self) -> Rewriting:
        """That of the settings."""
        return self.settings.change

    def count(self, batch_size: int, hard: int) -> int:
        """N."""
        return batch_size

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, N) columns; the own text is one of them, and no text is a duplicate."""
        anchors = reps.anchor if self.settings.side == "anchor" else reps.positive
        return VectorColumns(
            anchors, reps[self.request], scoring, log_weight=math.log(self.settings.weight), own=Own(texts=False)
        )
