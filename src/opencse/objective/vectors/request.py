"""What parts ask of a step, and how a request gets its share of the one forward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from torch import Tensor

from opencse.streams import seed_of
from opencse.text.tokenizer import Tokenizer, Tokens

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.objective.part import Context
    from opencse.objective.vectors.chunks import Passed
    from opencse.objective.vectors.masked import MaskedCopy
    from opencse.objective.vectors.step import StepInputs

T = TypeVar("T", covariant=True)


@dataclass
class Forward:
    """The one forward of a step, while requests put into it what they need.

    Attributes:
        inputs: the step's texts.
        views: rows of the views at the beginning of ``inputs.tokens``: N, or 2N where positives have rows.
        more: rows to encode after those of ``inputs.tokens``.
        layers: intermediate layers to pool.
        masked: the copy of which masked positions are predicted.
    """

    inputs: StepInputs
    views: int
    more: list[Tokens] = field(default_factory=list)
    layers: set[int] = field(default_factory=set)
    masked: MaskedCopy | None = None

    def again(self, times: int) -> slice:
        """Encodes the views' rows ``times`` more, under other dropout masks; the rows where their vectors will be."""
        start = len(self.inputs.tokens) + sum(map(len, self.more))
        self.more += [self.inputs.tokens.rows(0, self.views)] * times
        return slice(start, start + self.views * times)


@dataclass(frozen=True)
class Made:
    """What the one forward gave.

    Attributes:
        encoder: what made it.
        inputs: the step's texts.
        sentences: (rows, d) vectors of ``inputs.tokens``, then of the rows that requests added; (0, 0) if none were.
        encoded: the rest of what the encoder gave.
        views: rows of the views.
    """

    encoder: SentenceEncoder
    inputs: StepInputs
    sentences: Tensor
    encoded: Passed
    views: int

    def encode(self, tokens: Tokens) -> Tensor:
        """(rows, d): a further forward, in the mode that the encoder is in, for what cannot share the one.

        Unlike a call of ``encoder`` itself, it goes in chunks, and in several processes, where the step's rows do.
        """
        vectors = self.inputs.chunks.encode(self.encoder, tokens).sentence
        if vectors is None:
            raise RuntimeError("the encoder was asked for sentences and gave none")
        return vectors


class Request(ABC, Generic[T]):
    """One kind of thing that parts read of a step; a frozen dataclass, so that equal requests are one.

    To add a kind, write one: what it needs of the texts (`prepare`), what it puts into the one forward, and what it
    makes of the outcome (`ask`).
    """

    encodes: ClassVar[bool] = True
    """Whether the sentences themselves go through the encoder for it (not only a copy of them)."""

    def check(self, context: Context) -> None:
        """Refuses what this request cannot go with.

        Raises:
            UserError: in one line.
        """

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> Any:  # noqa: ANN401
        """Something to be made of the step's texts beforehand, on the CPU; only asked of requests that define it.

        Args:
            tokens: the rows of the views.
            tokenizer: that made them.
            random: a generator of this step and request.

        Returns:
            Anything with ``to(device)``; `Forward.inputs` has it in ``prepared``.
        """
        del tokens, tokenizer, random

    @abstractmethod
    def ask(self, forward: Forward) -> Callable[[Made], T]:
        """Puts into ``forward`` what it needs; gives what makes the answer of the outcome."""

    def detached(self, answer: Any) -> Any:  # noqa: ANN401 - what `ask` gave
        """The answer without gradient, as parts see it after the backward pass; None where it is not kept."""
        return answer.detach() if isinstance(answer, Tensor) else None

    @property
    def stream(self) -> tuple[int, ...]:
        """What tells the draws of `prepare` from those of other requests."""
        return (seed_of(0, repr(self)),)
