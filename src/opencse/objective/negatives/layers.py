"""The sentences' vectors at intermediate layers as a source of negatives."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, LogitColumns, Own, Scoring, VectorColumns
from opencse.objective.context import Context
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.vectors.requests import Layer, Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.objective.views.base import DerivesPositives
from opencse.settings import PartSettings


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

    def check(self, context: Context) -> None:
        """Refuses positives without layers, a plain loss without negatives, and layers that cannot be taken."""
        objective = context.objective
        if self.averaged_with_plain and all(source.averaged_with_plain for source in objective.negatives):
            raise UserError(
                "average_with_plain leaves no negatives for the plain loss; add in_batch negatives, or set it to false"
            )
        if self.settings.views == "both" and isinstance(objective.view, DerivesPositives):
            raise UserError(
                f"the positives have no intermediate layers: the view {objective.view.kind} makes them of the "
                'anchors\' vectors; set views = "anchor" in the layers negatives'
            )
        if objective.directions != "rows" and isinstance(objective.view, DerivesPositives):
            raise UserError(
                f"objective.directions = {objective.directions}: the positives have no intermediate layers to contrast "
                f"them with, as the view {objective.view.kind} makes them of the anchors' vectors; set it to rows"
            )
        if context.encoder is not None:
            self._require_layers(context.encoder.depth)

    def _require_layers(self, depth: int) -> None:
        """Refuses layers that a backbone of ``depth`` does not have, the last one, and repeated ones."""
        if depth == 0:
            raise UserError("layers: this backbone has no intermediate layer; drop the layers negatives")
        seen: dict[int, int] = {}
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
        del hard
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
        if len(vectors) < self._views * n:
            raise RuntimeError("the positives have no intermediate vectors; they were made of the anchors'")
        if self.settings.detach:
            vectors = vectors.detach()
        return [vectors[view * n : (view + 1) * n] for view in range(self._views)]
