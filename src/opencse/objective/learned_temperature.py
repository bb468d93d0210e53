"""A temperature that is trained with the encoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from opencse.objective.columns import AnyColumns, Pairs, Scoring, VectorColumns
from opencse.objective.losses.similarity import SimilarityKind, at_least_float32


class LearnedTemperature(nn.Module):
    """Multiplies every logit of a contrast by ``exp(s)``, where s is trained (CLIP; CT-improved).

    With the similarity sim of the objective::

        logit = sim(a, b) * exp(s),     s = log(1 / temperature) at the start

    The factor goes into the left vectors, so that batches that are contrasted tile by tile have its gradient too. The
    log of a run has ``temperature``, which is exp(-s). Weight decay leaves s alone.

    Example:
        >>> learned = LearnedTemperature(0.05, "cosine")
        >>> round(learned.scale.item(), 4)
        20.0

    Args:
        temperature: at the start.
        similarity: of the objective.
        mask_duplicates: of the objective.
    """

    def __init__(self, temperature: float, similarity: SimilarityKind, *, mask_duplicates: bool = True) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))
        self.similarity = similarity
        self.scoring = Scoring(similarity, 1.0, mask_duplicates)

    @property
    def scale(self) -> Tensor:
        """exp(s), a scalar with gradient."""
        return self.log_scale.exp()

    def scaled(self, positive: Pairs, columns: Sequence[AnyColumns]) -> tuple[Pairs, list[AnyColumns]]:
        """The positives and the columns, made with temperature 1, with their logits multiplied by ``exp(s)``."""
        scale = self.scale
        left_of: dict[int, Tensor] = {}
        right_of: dict[int, Tensor] = {}
        scoring: Scoring = replace(self.scoring, similarity="dot")

        def plain(vectors: Tensor) -> Tensor:
            raised = at_least_float32(vectors)
            return functional.normalize(raised, dim=-1) if self.similarity == "cosine" else raised

        def left(vectors: Tensor) -> Tensor:
            if id(vectors) not in left_of:  # a tensor that several sources read stays one
                left_of[id(vectors)] = plain(vectors) * scale
            return left_of[id(vectors)]

        def right(vectors: Tensor) -> Tensor:
            if id(vectors) not in right_of:
                right_of[id(vectors)] = plain(vectors)
            return right_of[id(vectors)]

        scaled: list[AnyColumns] = []
        for source in columns:
            if isinstance(source, VectorColumns):
                scaled.append(
                    replace(
                        source,
                        left=left(source.left),
                        right=right(source.right),
                        scoring=scoring,
                        stretch=scale.detach(),  # near columns have the same weights at any scale
                    )
                )
            else:
                scaled.append(replace(source, logits=at_least_float32(source.logits) * scale))
        return replace(positive, left=left(positive.left), right=right(positive.right), scoring=scoring), scaled
