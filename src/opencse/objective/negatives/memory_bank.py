"""The anchors' vectors of the last steps as a source of negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.columns import Scoring, VectorColumns
from opencse.objective.losses.similarity import at_least_float32
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.negatives.vector_queue import VectorQueue, empty_store
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import PartSettings


class MemoryBank(NegativeSource):
    """The encoder's outputs of previous steps (Park's thesis, section 4.3; Table 5).

    Columns of anchor i: ``sim(a_i, q_k) / tau`` for every vector q_k in the queue, weight ``weight`` each, times
    ``exp(hardness * sim)`` as for `InBatch`. After the backward pass of each step the anchors' vectors, after the
    training head and with the step's dropout, are added to the queue, which keeps the last ``steps`` times N: the
    vectors of the last ``steps`` steps while batches are full, and some older ones after a smaller batch, since the
    thesis keeps "the number of additional samples same as batch size". (Where a step accumulates several batches, N is
    one of them, and the last ``steps`` of them are kept.) The first step has no column of this source. Vectors are
    stored without normalisation, and take no gradient; there is no second encoder (`MomentumQueue` has one).

    A sentence of the queue that is the same text as anchor i or its positive is left out of row i (unless
    ``mask_duplicates`` is off).

    Example:
        >>> import torch
        >>> from opencse import SentenceEncoder
        >>> encoder, bank = SentenceEncoder("opencse-mini"), MemoryBank()
        >>> bank.begin(encoder, batch_size=2, seed=0)
        >>> reps = Representations.of(torch.ones(2, encoder.dimension), torch.ones(2, encoder.dimension))
        >>> bank.columns(reps, Scoring()).shape  # nothing is stored before the first step
        (2, 0)
        >>> bank.after_backward(encoder, [], [reps])
        >>> bank.columns(reps, Scoring()).shape
        (2, 2)
    """

    class Settings(PartSettings):
        """Settings of `MemoryBank`."""

        kind: Literal["memory_bank"] = "memory_bank"
        steps: int = Field(default=1, ge=1, le=1_000_000)
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        hardness: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.queue: VectorQueue | None = None

    @property
    def stored(self) -> int:
        """The size of its queue, after `begin`."""
        return 0 if self.queue is None else self.queue.size

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the empty queue."""
        del seed
        self.queue = empty_store(encoder, self.settings.steps * batch_size)

    def count(self, batch_size: int, hard: int) -> int:
        """``steps`` times N, once the queue is full."""
        del hard
        return self.settings.steps * batch_size

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, K) columns, K the number of vectors in the queue."""
        queue = self._require_begun()
        return VectorColumns(
            reps.anchor,
            queue.vectors.to(at_least_float32(reps.anchor).dtype),
            scoring,
            log_weight=math.log(self.settings.weight),
            hardness=self.settings.hardness,
            anchor_keys=reps.keys[:, :2],
            column_keys=queue.keys.unsqueeze(1),
        )

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Adds the anchors' vectors of this step to the queue."""
        del encoder, inputs
        for batch in reps:
            self._require_begun().push(batch.anchor, batch.keys[:, 0])

    def _require_begun(self) -> VectorQueue:
        assert self.queue is not None
        return self.queue
