"""A masked copy of the texts, and the backbone's head that predicts what is hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from opencse.errors import UserError
from opencse.kernels.outputs import MaskedTokens
from opencse.objective.part import Context
from opencse.objective.vectors.request import Forward, Made, Request
from opencse.text.moving import moved
from opencse.text.tokenizer import Tokenizer, Tokens


@dataclass(frozen=True)
class LmHead(Request[None]):
    """The backbone's masked-LM head, ``encoder.lm_head``.

    Attributes:
        tied: its decoder shares the token embeddings, where the model's configuration says so; false makes a copy.
        instead: what to do where a model has no such head, for the message.
    """

    encodes: ClassVar[bool] = False
    tied: bool = True
    instead: str = "drop the mlm term"

    def ask(self, forward: Forward) -> Callable[[Made], None]:
        """Nothing of a step: whoever reads the head has it from the encoder."""
        del forward
        return lambda made: None


@dataclass(frozen=True)
class MaskedCopy:
    """A masked copy and the (M,) ids behind its chosen positions."""

    masked: MaskedTokens
    labels: Tensor

    def to(self, device: torch.device) -> MaskedCopy:
        """The same on ``device``; the positions stay where they can be counted without waiting for a GPU."""
        return MaskedCopy(replace(self.masked, tokens=self.masked.tokens.to(device)), moved(self.labels, device))

    def rows(self, start: int, end: int) -> MaskedCopy:
        """The copy of some of the texts, padded no further than the longest of them."""
        tokens, positions = self.masked.tokens.rows(start, end), self.masked.positions
        longest = int(tokens.attention_mask.sum(dim=1).max())
        before, there = int(positions[:start].sum()), int(positions[start:end].sum())
        cut = Tokens(tokens.input_ids[:, :longest], tokens.attention_mask[:, :longest])
        return MaskedCopy(MaskedTokens(cut, positions[start:end, :longest]), self.labels[before : before + there])


@dataclass(frozen=True)
class Masked(Request[Tensor]):
    """(M,): how far the masked-LM head is off at each hidden position, as cross-entropy (float32 at least).

    The positions are those of a copy of the views of which ``rate`` of the tokens are chosen; M may be 0.
    """

    encodes: ClassVar[bool] = False
    rate: float

    def check(self, context: Context) -> None:
        """One copy goes through the forward, and the tokenizer must have a mask token."""
        rates = sorted(r.rate for r in context.objective.reads if isinstance(r, Masked))
        if len(rates) > 1:
            raise UserError(
                f"two parts of the objective ask for different masking rates, {rates[0]} and {rates[1]}; "
                "give both the same"
            )
        if context.encoder is not None:
            mask_id(context.encoder.tokenizer)

    @property
    def stream(self) -> tuple[int, ...]:
        """None of its own: there is one masked copy."""
        return ()

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> MaskedCopy:
        """The masked copy."""
        return mask_tokens(tokens, tokenizer, self.rate, random)

    def ask(self, forward: Forward) -> Callable[[Made], Tensor]:
        """The copy goes beside the sentences."""
        forward.masked = forward.inputs.prepared[self]

        def losses(made: Made) -> Tensor:
            found = made.encoded.masked_losses
            if found is None:
                raise RuntimeError("the encoder was asked for masked positions and gave none")
            return found

        return losses


Masking = Literal["bert", "all"]
"""What becomes of chosen tokens: 80% [MASK], 10% random and 10% kept (BERT's rule), or all [MASK]."""


@dataclass(frozen=True)
class MaskedViews(Request[MaskedCopy]):
    """A masked copy of the views' texts, for a part that predicts what is hidden with a network of its own.

    Attributes:
        rate: share of the tokens that are chosen.
        masking: what becomes of them.
        reader: the part, for messages.
    """

    encodes: ClassVar[bool] = False
    rate: float
    masking: Masking = "bert"
    reader: str = "part"

    def check(self, context: Context) -> None:
        """The tokenizer must have a mask token."""
        if context.encoder is not None:
            mask_id(context.encoder.tokenizer, self.reader)

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> MaskedCopy:
        """The masked copy."""
        return mask_tokens(tokens, tokenizer, self.rate, random, self.masking)

    def ask(self, forward: Forward) -> Callable[[Made], MaskedCopy]:
        """Nothing of the encoder's forward."""
        copy: MaskedCopy = forward.inputs.prepared[self]
        return lambda made: copy


def mask_tokens(
    tokens: Tokens, tokenizer: Tokenizer, rate: float, random: np.random.Generator, masking: Masking = "bert"
) -> MaskedCopy:
    """A masked copy and the (M,) ids behind its chosen positions.

    Every real token that is not special is chosen with probability ``rate``; M varies, and may be 0. By BERT's rule
    80% of them become [MASK], 10% a random ordinary token, 10% stay.

    Raises:
        UserError: if the tokenizer has no mask token.
    """
    mask = mask_id(tokenizer)
    special = np.asarray(tokenizer.hf.all_special_ids)
    ids = tokens.input_ids.numpy().copy()
    usable = tokens.attention_mask.numpy().astype(bool) & ~np.isin(ids, special)
    chosen = usable & (random.random(ids.shape) < rate)
    labels = ids[chosen]
    if masking == "all":
        ids[chosen] = mask
    else:
        ordinary = np.setdiff1d(np.arange(tokenizer.vocabulary_size), special)
        fate = random.random(len(labels))
        replaced = np.where(fate < 0.8, mask, labels)
        ids[chosen] = np.where(fate >= 0.9, random.choice(ordinary, len(labels)), replaced)
    masked = MaskedTokens(Tokens(torch.from_numpy(ids), tokens.attention_mask), torch.from_numpy(chosen))
    return MaskedCopy(masked, torch.from_numpy(labels))


def mask_id(tokenizer: Tokenizer, reader: str = "mlm term") -> int:
    """The id of the mask token, which ``reader`` needs.

    Raises:
        UserError: if the tokenizer has none.
    """
    found = tokenizer.hf.mask_token_id
    if found is None:
        raise UserError(
            f"{tokenizer.hf.name_or_path}: the tokenizer has no mask token, which the {reader} needs; choose another "
            "recipe, or a model with one"
        )
    return int(found)
