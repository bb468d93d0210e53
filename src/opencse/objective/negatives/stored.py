"""Vectors of earlier steps as negatives: a queue of them, by the encoder itself or by a momentum encoder."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from opencse.encoder.average import MovingAverage
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import Scoring, VectorColumns
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.similarity import at_least_float32
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import AboveZero, FromZero, PartSettings, Rate
from opencse.streams import Stream


class VectorQueue(nn.Module):
    """Holds the last ``size`` vectors that were pushed, each with the key of its text; empty at first.

    A ring of buffers, so that a checkpoint contains it: the t-th vector (from 0) is in row ``t % size``.

    Example:
        >>> queue = VectorQueue(3, 2, device=torch.device("cpu"), dtype=torch.float32)
        >>> queue.push(torch.ones(2, 2), torch.tensor([1, 2]))
        >>> queue.push(torch.ones(2, 2), torch.tensor([3, 4]))
        >>> queue.keys.tolist()  # the fourth took the place of the first
        [4, 2, 3]

    Args:
        size: the most vectors it holds, at least 1.
        dimension: length of a vector (d).
        device: where the vectors are stored.
        dtype: their type.
    """

    stored: Tensor
    stored_keys: Tensor
    pushed: Tensor

    def __init__(self, size: int, dimension: int, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("stored", torch.zeros(size, dimension, device=device, dtype=dtype))
        self.register_buffer("stored_keys", torch.zeros(size, device=device, dtype=torch.int64))
        # On the CPU, where Python reads it every step: on a GPU each reading would wait for all work in flight.
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64, device="cpu"))

    def __len__(self) -> int:
        """The number of vectors it holds."""
        return min(self.size, int(self.pushed))

    @property
    def vectors(self) -> Tensor:
        """(K, d), K = ``len(self)``, in no particular order."""
        return self.stored[: len(self)]

    @property
    def keys(self) -> Tensor:
        """(K,) keys of the texts of ``vectors``."""
        return self.stored_keys[: len(self)]

    @torch.no_grad()
    def push(self, vectors: Tensor, keys: Tensor) -> None:
        """Adds ``vectors`` (N, d) and their ``keys`` (N,), the last row as the newest; drops the oldest."""
        count = min(len(vectors), self.size)  # on a GPU it is undefined which of two writes to a row is the last
        end = int(self.pushed) + len(vectors)
        # A ring: the newest overwrite the oldest, and nothing is moved.
        rows = torch.arange(end - count, end, device=self.stored.device) % self.size
        self.stored[rows] = vectors[len(vectors) - count :].to(self.stored)
        self.stored_keys[rows] = keys[len(keys) - count :].to(self.stored_keys)
        self.pushed.fill_(end)


def empty_store(encoder: SentenceEncoder, sentences: int) -> VectorQueue:
    """Makes an empty queue for the last ``sentences`` vectors of the encoder in training."""
    return VectorQueue(sentences, encoder.training_dimension, device=encoder.device, dtype=encoder.backbone.dtype)


class _Queue(NegativeSource):
    """A source whose columns are the vectors of a queue."""

    queue: VectorQueue

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, K) columns, K the number of vectors in the queue."""
        queue = self.queue
        return VectorColumns(
            reps.anchor,
            queue.vectors.to(at_least_float32(reps.anchor).dtype),
            scoring,
            log_weight=math.log(self.settings.weight),
            hardness=self.settings.hardness,
            anchor_keys=reps.keys[:, :2],
            column_keys=queue.keys.unsqueeze(1),
        )


class MemoryBank(_Queue):
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
        weight: AboveZero = 1.0
        hardness: FromZero = 0.0

    settings: Settings

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the empty queue."""
        self.queue = empty_store(encoder, self.settings.steps * batch_size)

    def count(self, batch_size: int, hard: int) -> int:
        """``steps`` times N, once the queue is full."""
        return self.settings.steps * batch_size

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Adds the anchors' vectors of this step to the queue."""
        for batch in reps:
            self.queue.push(batch.anchor, batch.keys[:, 0])


_MOST = 100_000_000
_MULTIPLE = re.compile(r"(\d+(?:\.\d+)?)x")


class MomentumQueue(_Queue):
    """The last M sentences of earlier batches, encoded by a momentum encoder (ESimCSE, eq. 6 and 7).

    `after_backward` updates the momentum encoder and the queue, once per step.

    Columns of anchor i: ``sim(a_i, q_k) / tau`` for every vector q_k in the queue, weight ``weight`` each, times
    ``exp(hardness * sim)`` as for `InBatch`. After the backward pass of each step, with theta the weights that made its
    vectors::

        theta_m <- momentum * theta_m + (1 - momentum) * theta                              (eq. 6)
        queue   <- the last ``size`` of (queue, f(x_1; theta_m), ..., f(x_N; theta_m))

    where x_i are the anchors' own texts and f is without any dropout. So a step sees only the vectors of earlier
    steps: the first one has no column of this source, and the queue never holds anything else. Vectors are stored
    without normalisation, and take no gradient. ``size`` is a number of sentences, or a multiple of the
    batch: ``"2.5x"`` (Table 11; 160 at a batch of 64). A sentence of the queue that is the same text as anchor i or
    its positive is left out of row i (unless ``mask_duplicates`` is off).

    Where the authors' code differs from the paper, a setting: it begins theta_m with random weights, not the
    pretrained ones (``init = "random"``; their part is 0.995^t after t steps, 8% after 500), and puts the vectors of
    the queue through the trained head, not one that moves slowly (``head = "online"``).

    Example:
        >>> from opencse import SentenceEncoder
        >>> encoder, source = SentenceEncoder("opencse-mini"), MomentumQueue(MomentumQueue.Settings(size=3))
        >>> source.begin(encoder, batch_size=2, seed=0)
        >>> tokens = encoder.tokenizer.pad(encoder.tokenize(["a cat", "a dog"]))
        >>> inputs = StepInputs(tokens, examples=2, keys=torch.tensor([[1], [2]]))
        >>> for step in range(2):
        ...     source.after_backward(encoder, [inputs], [])
        >>> source.queue.keys.tolist()  # of four sentences the last three, in a ring
        [2, 2, 1]
    """

    class Settings(PartSettings):
        """Settings of `MomentumQueue`."""

        kind: Literal["momentum_queue"] = "momentum_queue"
        size: int | str = "2.5x"
        momentum: Rate = 0.995
        init: Literal["pretrained", "random"] = "pretrained"
        head: Literal["momentum", "online"] = "momentum"
        weight: AboveZero = 1.0
        hardness: FromZero = 0.0

        @field_validator("size", mode="before")
        @classmethod
        def _size(cls, size: Any) -> Any:  # noqa: ANN401 - anything a recipe may hold
            number = isinstance(size, int) and not isinstance(size, bool) and 0 < size <= _MOST
            multiple = _MULTIPLE.fullmatch(size) if isinstance(size, str) else None
            if not number and (multiple is None or not 0 < float(multiple[1]) <= _MOST):
                raise ValueError(
                    f'size is a number of sentences (160) or a multiple of the batch ("2.5x"), either at most {_MOST:,}'
                )
            return size

        def sentences(self, batch_size: int) -> int:
            """The size in sentences (M), rounded."""
            if isinstance(self.size, int):
                return self.size
            return round(float(self.size.removesuffix("x")) * batch_size)

    settings: Settings
    average: MovingAverage

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the momentum encoder and the empty queue."""
        settings = self.settings
        size = settings.sentences(batch_size)
        if size == 0:
            raise UserError(f"momentum_queue: size {settings.size} is no sentence at a batch of {batch_size}; raise it")
        if encoder.adapted and settings.init == "random":
            raise UserError(
                'momentum_queue: init = "random" draws all weights again, and LoRA trains none of them; '
                'set init = "pretrained", or train without encoder.lora'
            )
        weights = int(np.random.default_rng([seed, Stream.MOMENTUM_WEIGHTS]).integers(2**63))
        self.average = MovingAverage(
            encoder,
            settings.momentum,
            head=settings.head == "momentum",
            random_seed=weights if settings.init == "random" else None,
        )
        self.queue = empty_store(encoder, size)

    def count(self, batch_size: int, hard: int) -> int:
        """M, once the queue is full."""
        return self.queue.size if hasattr(self, "queue") else self.settings.sentences(batch_size)

    @torch.no_grad()
    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Moves the momentum encoder once (eq. 6), then adds its vectors of this step's anchors to the queue."""
        self.average.update(encoder)
        for batch in inputs:
            vectors = batch.chunks.each(self.average, batch.anchors)
            if self.settings.head == "online":
                # ESimCSE's code: the head in training follows the momentum encoder.
                vectors = encoder.project(vectors)
            self.queue.push(vectors, batch.keys[:, 0])
