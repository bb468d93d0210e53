"""The kinds of vectors and losses that parts can read of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import Encoded
from opencse.objective.vectors.masking import MaskedCopy, Masking, mask_tokens
from opencse.objective.vectors.step import Forward, Request
from opencse.text.labels import LabelKind
from opencse.text.tokenizer import Tokenizer, Tokens


@dataclass(frozen=True)
class Sentences(Request[None]):
    """The vectors of the anchors and the positives: ``Representations.anchor`` and ``positive``."""


@dataclass(frozen=True)
class AnchorVectors(Request[None]):
    """The vectors of the anchors alone: ``Representations.anchor``.

    Where no other request needs the positives, they are not encoded, and ``Representations.positive`` is ``anchor``.
    """

    reads_positives: ClassVar[bool] = False


@dataclass(frozen=True)
class AnchorTexts(Request[Tokens]):
    """(N, length): the anchors' tokens as they were before the view changed them."""

    encodes: ClassVar[bool] = False
    undamaged: ClassVar[Literal["anchor", "positive"] | None] = "anchor"

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> Tokens:
        """The tokens themselves."""
        return tokens

    def ask(self, forward: Forward) -> Callable[[Encoded], Tokens]:
        """Adds nothing to the encoder's forward pass."""
        tokens: Tokens = forward.inputs.prepared[self]
        return lambda encoded: tokens


@dataclass(frozen=True)
class PositiveTexts(AnchorTexts):
    """(N, length): the positives' tokens as they were before the view changed them."""

    undamaged: ClassVar[Literal["anchor", "positive"] | None] = "positive"


@dataclass(frozen=True)
class HardNegatives(Sentences):
    """The vectors of the data's hard negatives: ``Representations.hard``."""


@dataclass(frozen=True)
class Clean(Request[Tensor]):
    """(N, d): the vectors of the anchors' texts without any dropout, with gradient.

    Dropout is a switch of the whole forward pass, so they need a further one; an encoder without dropout needs none.
    """

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Encodes the anchors in a pass after the one of all rows."""

        def clean(encoded: Encoded) -> Tensor:
            # Without dropout the pass of all rows has these vectors already.
            if forward.plain and not forward.encoder.has_dropout:
                return encoded.vectors[: forward.inputs.examples]
            with forward.encoder.without_dropout():
                return forward.encode(forward.inputs.anchors)

        return clean


@dataclass(frozen=True)
class Layer(Request[Tensor]):
    """(2N, d): the vectors of anchors, then positives, at layer ``number``, pooled and projected like the last layer's.

    0 is the output of the embeddings, -1 the last layer, -2 the layer before it. (N, d) where the view makes the
    positives of the anchors' vectors.
    """

    called = "vectors of intermediate layers"
    cannot = (("kept_projection", "would change the running means of the projection head"),)
    number: int

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Lets the forward pass pool this layer's states too."""
        forward.layers.add(self.number)
        return lambda encoded: encoded.layers[self.number][: forward.views]

    def mirrored(self, answer: Tensor) -> Tensor:
        """The positives first."""
        return torch.cat(answer.chunk(2)[::-1])


@dataclass(frozen=True)
class Pooled(Request[Tensor]):
    """(2N, hidden): the pooled vectors of anchors, then positives, before the dense layers and the training head.

    (N, hidden) where the view makes the positives of the anchors' vectors.
    """

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Keeps what the forward pass has before the head."""
        forward.pooled = True

        def pooled(encoded: Encoded) -> Tensor:
            assert encoded.pooled is not None
            return encoded.pooled[: forward.views]

        return pooled

    def mirrored(self, answer: Tensor) -> Tensor:
        """The positives first."""
        return torch.cat(answer.chunk(2)[::-1])


@dataclass(frozen=True)
class Means(Request[Tensor]):
    """(2, N, d): the means of ``samples`` (K) further dropout draws of each anchor and of each positive.

    Where the view makes the positives of the anchors' vectors, both are the anchors'.
    """

    called = "means over dropout draws"
    cannot = (("two_passes", "are of one forward pass"), ("changed_inputs", "are of the texts as they are"))
    samples: int

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Encodes the rows of the views K times more."""
        rows = forward.again(self.samples)

        def mean(encoded: Encoded) -> Tensor:
            draws = encoded.vectors[rows]  # (K * views * N, d): draw by draw, in each the anchors, then the positives
            n = forward.inputs.examples
            means = draws.reshape(self.samples, -1, n, draws.shape[1]).mean(dim=0)  # (views, N, d), views 2 or 1
            return means.expand(2, n, -1)

        return mean

    def mirrored(self, answer: Tensor) -> Tensor:
        """The positives first."""
        return answer.flip(0)


@dataclass(frozen=True)
class Draws(Request[Tensor]):
    """(K, N, d): ``samples`` (K) further dropout draws of each anchor."""

    called = "further dropout draws"
    cannot = (("two_passes", "are of one forward pass"),)
    samples: int

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Encodes the anchors K times more."""
        n = forward.inputs.examples
        rows = forward.again(self.samples, n)
        return lambda encoded: encoded.vectors[rows].reshape(self.samples, n, -1)


@dataclass(frozen=True)
class LmHead(Request[None]):
    """The backbone's masked-LM head, ``encoder.lm_head``.

    Attributes:
        tied: its decoder shares the token embeddings, where the model's configuration says so; false makes a copy.
        instead: what to do if a model has no such head, for the message.
    """

    encodes: ClassVar[bool] = False
    tied: bool = True
    instead: str = "drop the mlm term"


@dataclass(frozen=True)
class Masked(Request[Tensor]):
    """(M,): the cross-entropy of the masked-LM head at each hidden position (float32 at least).

    The positions are in a copy of the texts of which ``rate`` of the tokens are chosen; M may be 0.

    Attributes:
        rate: share of the tokens that are chosen.
        texts: the texts of both views, or the anchors'.
        read: whether the encoder reads the masked copy too, in place of the texts that it is a copy of.
    """

    encodes: ClassVar[bool] = False
    called = "the mlm term"
    cannot = (("no_mask_token", "hides tokens"),)
    rate: float
    texts: Literal["views", "anchors"] = "views"
    read: bool = False

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`
        """Refuses a second rate: one copy goes through the forward pass."""
        rates = sorted(request.rate for request in objective.reads if isinstance(request, Masked))
        if len(rates) > 1:
            raise UserError(
                f"two parts of the objective ask for different masking rates, {rates[0]} and {rates[1]}; "
                "give both the same"
            )

    def check_encoder(self, encoder: SentenceEncoder) -> None:
        """Refuses to read masked texts that are in a template."""
        if self.read and encoder.tokenizer.template is not None:
            raise UserError(
                "the mlm term's masked_contrast would mask words of the encoder's template too; set it to false, "
                "or leave encoder.template out"
            )

    @property
    def stream(self) -> tuple[int, ...]:
        """No stream of its own: there is one masked copy."""
        return ()

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> MaskedCopy:
        """Makes the masked copy."""
        return mask_tokens(tokens, tokenizer, self.rate, random)

    @property
    def anchors_only(self) -> bool:
        """As ``texts`` says."""
        return self.texts == "anchors"

    def replaced(self, tokens: Tokens, prepared: MaskedCopy) -> Tokens:
        """The masked copy in place of its texts, if ``read``."""
        if not self.read:
            return tokens
        ids = prepared.masked.tokens.input_ids
        return Tokens(torch.cat([ids, tokens.input_ids[len(ids) :]]), tokens.attention_mask, tokens.unpooled)

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Sends the masked copy through the backbone next to the sentences."""
        forward.masked = forward.inputs.prepared[self]

        def losses(encoded: Encoded) -> Tensor:
            assert encoded.masked_losses is not None
            return encoded.masked_losses

        return losses


@dataclass(frozen=True)
class MaskedViews(Request[MaskedCopy]):
    """A masked copy of the views' texts, for a part that predicts the hidden tokens with a network of its own.

    Attributes:
        rate: share of the tokens that are chosen.
        masking: what chosen tokens become.
        reader: the part, whose draws are its own.
    """

    encodes: ClassVar[bool] = False
    called = "a masked copy"
    cannot = (("no_mask_token", "hides tokens"),)
    rate: float
    masking: Masking = "bert"
    reader: str = "part"

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> MaskedCopy:
        """Makes the masked copy."""
        return mask_tokens(tokens, tokenizer, self.rate, random, self.masking)

    def ask(self, forward: Forward) -> Callable[[Encoded], MaskedCopy]:
        """Adds nothing to the encoder's forward pass."""
        copy: MaskedCopy = forward.inputs.prepared[self]
        return lambda encoded: copy


@dataclass(frozen=True)
class Scores(Request[Tensor]):
    """(N,) float32: the scores of the step's rows, from 0 to 1; the labels of the anchors' rows in the data."""

    encodes: ClassVar[bool] = False
    label: ClassVar[LabelKind | None] = "score"

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`
        """Refuses an objective that reads labels of two kinds."""
        kinds = sorted({str(request.label) for request in objective.reads if request.label})
        if len(kinds) > 1:
            raise UserError(
                f"some terms read the {kinds[0]} of a row and others its {kinds[1]}, and a row has one label; use two "
                "data sets, each with terms of one kind"
            )

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Takes the labels of the step; adds nothing to the forward pass."""
        labels = forward.inputs.labels
        assert labels is not None
        return lambda encoded: labels


@dataclass(frozen=True)
class Classes(Scores):
    """(N,) int64: the numbers of the classes of the step's rows, from 0."""

    label: ClassVar[LabelKind | None] = "class"

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        """Takes the labels of the step as whole numbers."""
        scores = super().ask(forward)
        return lambda encoded: scores(encoded).long()


@dataclass(frozen=True)
class Margins(Scores):
    """(N,) float32: by how much a teacher scores the positive of a row above its hard negative."""

    label: ClassVar[LabelKind | None] = "margin"
