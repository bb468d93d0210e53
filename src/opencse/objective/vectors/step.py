"""The texts of a step, the vectors that parts read of it, and the requests that say which."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.states import Encoded
from opencse.objective.context import Cannot
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.masking import MaskedCopy
from opencse.streams import seed_of
from opencse.text.labels import LabelKind
from opencse.text.tokenizer import Tokenizer, Tokens, moved

T = TypeVar("T", covariant=True)
A = TypeVar("A")


@dataclass(frozen=True)
class StepInputs:
    """One step's texts, ready for the encoder.

    Attributes:
        tokens: rows in the order N anchors, N first positives, N second ones, ..., then N first hard negatives, ...;
            only the anchors if no part reads the positives; no positives if the view derives them from the anchors.
        examples: N.
        keys: (N, 2 + H) hash of the text behind each row ((N, 1) for anchors alone); equal texts have equal keys.
        prepared: what requests made of the texts beforehand.
        noise_seed: the seed of the noise that the parts draw.
        anchor_length: ids of the longest anchor; None if unknown.
        chunks: how many rows are encoded together, and in which process.
        positives: rows of each anchor's positives (P); one unless the view merges the vectors of several.
        labels: (N,) float32, the labels of the anchors' rows; None without labels.
    """

    tokens: Tokens
    examples: int
    keys: Tensor
    prepared: Mapping[Request[Any], Any] = field(default_factory=dict)
    noise_seed: int = 0
    anchor_length: int | None = None
    chunks: Chunks = WHOLE
    positives: int = 1
    labels: Tensor | None = None

    @property
    def anchors(self) -> Tokens:
        """The anchors' rows, padded no further than the longest of them if that is known."""
        rows = self.tokens.rows(0, self.examples)
        return rows if self.anchor_length is None else rows.columns(self.anchor_length)

    def noise(self, name: str) -> torch.Generator:
        """A new generator for the draws called ``name`` in this step, on the texts' device."""
        return _generator(self.noise_seed, name, self.keys.device)

    def padded(self, multiple: int, pad_id: int) -> StepInputs:
        """The same texts, padded to a multiple of ``multiple`` ids: batches then have few lengths."""
        length, tokens = self.anchor_length, self.tokens.padded(multiple, pad_id)
        if length is not None:
            length = min(length + -length % multiple, tokens.input_ids.shape[1])
        return replace(self, tokens=tokens, anchor_length=length)

    def to(self, device: torch.device) -> StepInputs:
        """The same inputs on ``device``."""
        prepared = {request: value.to(device) for request, value in self.prepared.items()}
        return replace(
            self,
            tokens=self.tokens.to(device),
            keys=moved(self.keys, device),
            prepared=prepared,
            labels=None if self.labels is None else moved(self.labels, device),
        )


@dataclass
class Forward:
    """The one forward pass of a step, to which requests add what they need before it is made.

    Attributes:
        encoder: the encoder that makes it.
        inputs: the step's texts.
        views: rows of the views at the beginning of ``inputs.tokens``: N, or (1 + P) N where positives have rows.
        more: rows to encode after the rows of ``inputs.tokens``.
        layers: intermediate layers to pool.
        masked: the copy of which masked positions are predicted.
        pooled: whether the pooled vectors before the dense layers and the head are requested.
        plain: whether the anchors' inputs are as they are, under the encoder's own dropout.
    """

    encoder: SentenceEncoder
    inputs: StepInputs
    views: int
    plain: bool = True
    pooled: bool = False
    more: list[Tokens] = field(default_factory=list)
    layers: set[int] = field(default_factory=set)
    masked: MaskedCopy | None = None

    def again(self, times: int, rows: int | None = None) -> slice:
        """Encodes the views, or their first ``rows``, ``times`` more under other dropout masks.

        Returns:
            The rows where their vectors will be.
        """
        rows = self.views if rows is None else rows
        start = len(self.inputs.tokens) + sum(map(len, self.more))
        self.more += [self.inputs.tokens.rows(0, rows)] * times
        return slice(start, start + rows * times)

    def add(self, tokens: Tokens) -> slice:
        """Encodes other rows too; returns the rows where their vectors will be."""
        start = len(self.inputs.tokens) + sum(map(len, self.more))
        self.more.append(tokens)
        return slice(start, start + len(tokens))

    def encode(self, tokens: Tokens) -> Tensor:
        """(rows, d): the vectors of a further pass, for what cannot share the one; the encoder stays in its mode.

        Unlike a call of ``encoder`` itself, it goes in chunks, and in several processes, where the step's rows do.
        """
        return self.inputs.chunks.encode(self.encoder, tokens).vectors


class Request(ABC, Generic[T]):
    """One kind of vectors or losses that parts read of a step; a frozen dataclass, so that equal requests are one.

    To add a kind, derive a class: what it needs of the texts (`prepare`), what it adds to the one forward pass, and how
    it makes its answer of the pass's outcome (`ask`). `opencse.objective.vectors.requests` has the package's own.
    """

    encodes: ClassVar[bool] = True
    """Whether the sentences themselves go through the encoder for it (not only a copy of them)."""
    reads_positives: ClassVar[bool] = True
    """Whether it needs the positives too, where ``encodes``; texts that no request needs are not encoded."""
    undamaged: ClassVar[Literal["anchor", "positive"] | None] = None
    """Whose texts `prepare` gets as they were before the view changed their tokens; None for the view's rows."""
    label: ClassVar[LabelKind | None] = None
    """What label of each row it reads, if any."""

    @property
    def anchors_only(self) -> bool:
        """Whether `prepare` gets the anchors' rows alone."""
        return False

    called: ClassVar[str] = ""
    """Its name within a message."""
    cannot: ClassVar[Cannot] = ()
    """The features that it cannot be combined with; see `opencse.objective.part.Part`."""

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`, which imports this
        """Refuses other requests that it cannot be combined with.

        Raises:
            UserError: in one line.
        """

    def check_encoder(self, encoder: SentenceEncoder) -> None:
        """Refuses an encoder that it cannot be used with.

        Raises:
            UserError: in one line.
        """

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> Any:  # noqa: ANN401
        """Makes something of the step's texts beforehand, on the CPU; called only where a request defines it.

        Args:
            tokens: the rows of the views.
            tokenizer: the tokenizer that made them.
            random: a generator of this step and request.

        Returns:
            Anything with ``to(device)``; `Forward.inputs` has it in ``prepared``.
        """

    def replaced(self, tokens: Tokens, prepared: Any) -> Tokens:  # noqa: ANN401 - what `prepare` made
        """The rows that the encoder reads, of those that the view made; the same by default."""
        return tokens

    def ask(self, forward: Forward) -> Callable[[Encoded], T | None]:
        """Adds what it needs to ``forward``; returns a function from the outcome of the pass to the answer."""
        return lambda encoded: None

    def mirrored(self, answer: Any) -> Any:  # noqa: ANN401 - what `ask` gave
        """The answer with anchors and positives exchanged; by default it does not depend on which is which."""
        return answer

    def detached(self, answer: Any) -> Any:  # noqa: ANN401 - what `ask` gave
        """The answer without gradient, as parts see it after the backward pass; None if it is dropped."""
        return answer.detach() if isinstance(answer, Tensor) else None

    @property
    def stream(self) -> tuple[int, ...]:
        """Seeds that set the draws of `prepare` apart from other requests' draws."""
        return (seed_of(0, repr(self)),)


@dataclass(frozen=True)
class Representations:
    """The vectors of a step, as the parts of an objective see them.

    Attributes:
        anchor: (N, d).
        positive: (N, d).
        hard: (N, H, d), H >= 0 hard negatives per example.
        keys: (N, 2 + H) text hashes of anchor, positive, hard negatives.
        answers: the answer to each request.
        noise_seed: the seed of the noise that parts draw.
        computed: the results of the parts' own networks, by the part's name; see `Part.compute`.

    Example:
        >>> reps = Representations.of(torch.eye(3), torch.eye(3))  # to try a part on plain tensors
        >>> reps.hard.shape, reps.keys.tolist()
        (torch.Size([3, 0, 3]), [[0, 1], [2, 3], [4, 5]])
    """

    anchor: Tensor
    positive: Tensor
    hard: Tensor
    keys: Tensor
    answers: Mapping[Request[Any], Any] = field(default_factory=dict)
    noise_seed: int = 0
    computed: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, anchor: Tensor, positive: Tensor, hard: Tensor | None = None) -> Representations:
        """The vectors of a step made of plain tensors, with different texts, for trying a part out.

        Args:
            anchor: (N, d).
            positive: (N, d).
            hard: (N, H, d), if there are hard negatives.
        """
        hard = anchor.new_zeros(len(anchor), 0, anchor.shape[-1]) if hard is None else hard
        keys = torch.arange(len(anchor) * (2 + hard.shape[1])).reshape(len(anchor), -1)
        return cls(anchor, positive, hard, keys)

    def __getitem__(self, request: Request[A]) -> A:
        """The answer to ``request``, which must be in the ``reads`` of the part that asks."""
        answer: A = self.answers[request]
        return answer

    def noise(self, name: str) -> torch.Generator:
        """A new generator for the draws called ``name`` in this step: the same draws at every call."""
        return _generator(self.noise_seed, name, self.keys.device)

    def mirrored(self) -> Representations:
        """The same vectors with anchors and positives exchanged, without hard negatives, which are the anchors'."""
        return replace(
            self,
            anchor=self.positive,
            positive=self.anchor,
            hard=self.hard[:, :0],
            keys=self.keys[:, :2].flip(1),  # an index that is a list would be copied to the device
            answers={request: request.mirrored(answer) for request, answer in self.answers.items()},
        )

    def detached(self) -> Representations:
        """The same vectors without gradient; answers that cannot be detached are dropped."""
        answers = {request: request.detached(answer) for request, answer in self.answers.items()}
        return Representations(
            anchor=self.anchor.detach(),
            positive=self.positive.detach(),
            hard=self.hard.detach(),
            keys=self.keys,
            answers={request: answer for request, answer in answers.items() if answer is not None},
            noise_seed=self.noise_seed,
            computed={name: one.detach() for name, one in self.computed.items() if isinstance(one, Tensor)},
        )


def _generator(seed: int, name: str, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed_of(seed, name))
