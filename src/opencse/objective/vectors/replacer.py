"""Replaces tokens of texts by the guesses of a frozen masked language model."""

from __future__ import annotations

from typing import Literal, Self, cast

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.outputs import MaskedTokens
from opencse.kernels.packed import why_not_packed
from opencse.model_folder.locate import locate
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.network import through
from opencse.text.moving import moved
from opencse.text.tokenizer import Tokens

START = "start"
"""The name of the model that training begins with, as a generator."""
_AT_ONCE = 512
"""Positions whose logits (vocabulary each) are in memory at once."""

Pick = Literal["sample", "best"]
GuessedPositions = Literal["masked", "all"]


class Replacer(nn.Module):
    """Reads a masked copy of some texts and returns the texts with guesses in place of tokens; it is never trained.

    The first token of a text and padding are never replaced. Guesses are in the vocabulary of the tokenizer.
    Its weights are in the state, so a resumed run continues with the same weights.

    Attributes:
        model: the masked language model, frozen.

    Args:
        model: with its masked-LM head; it is changed.
        pick: draw each guess from the softmax without special tokens, or take the most probable token.
        positions: guess at the masked positions only, or at every position.
        dropout: whether the model's dropout is on in training.
    """

    def __init__(self, model: SentenceEncoder, *, pick: Pick, positions: GuessedPositions, dropout: bool) -> None:
        super().__init__()
        model.projection = None  # sentence vectors are not made
        model.dense = nn.Sequential()
        self.model = model.requires_grad_(False).eval()
        self.pick = pick
        self.positions = positions
        self.dropout = dropout

    @classmethod
    def open(
        cls,
        generator: str,
        encoder: SentenceEncoder,
        *,
        pick: Pick,
        positions: GuessedPositions,
        dropout: bool,
        reader: str,
    ) -> Self:
        """Opens a replacer for the texts of ``encoder``.

        Args:
            generator: ``start`` for a copy of ``encoder`` as it is now, with its masked-LM head; else a folder or Hub
                id of a model with such a head and the same vocabulary.
            encoder: the encoder to be trained.
            pick: see the class.
            positions: see the class.
            dropout: see the class.
            reader: the part that needs it, for messages.

        Raises:
            UserError: if there is no such model, it has no masked-LM head, or it has another vocabulary.
        """
        if generator == START:
            assert encoder.lm_head is not None
            return cls(encoder.twin(), pick=pick, positions=positions, dropout=dropout)
        model = SentenceEncoder(generator, device=str(encoder.device))
        if model.tokenizer.hf.get_vocab() != encoder.tokenizer.hf.get_vocab():
            raise UserError(
                f"{generator}: has another vocabulary than the model that is trained, and the {reader} needs the same; "
                'choose another generator, or generator = "start"'
            )
        words = cast(nn.Embedding, model.backbone.get_input_embeddings())
        model.lm_head = load_masked_lm_head(locate(generator), words, instead="choose another generator").to(
            encoder.device
        )
        if why_not_packed(model.backbone) is None:
            model.computation = encoder.computation
        return cls(model, pick=pick, positions=positions, dropout=dropout)

    def train(self, mode: bool = True) -> Self:
        """Sets training mode; the model's dropout is on only if ``dropout`` is."""
        super().train(mode)
        self.model.train(mode and self.dropout)
        return self

    @torch.no_grad()
    def forward(self, texts: Tokens, copy: MaskedCopy, noise: torch.Generator, chunks: Chunks) -> Tensor:
        """Guesses tokens of the texts.

        Args:
            texts: (rows, length) the original texts.
            copy: their masked copy.
            noise: the generator of the draws: one number per position, in any number of chunks and processes.
            chunks: the chunks of the step.

        Returns:
            (rows, length) ids.

        Raises:
            UserError: for texts longer than the model reads.
        """
        rows, length = texts.input_ids.shape
        if length > self.model.max_length:
            raise UserError(
                f"the generator reads {self.model.max_length} tokens, and a text has {length}; "
                f"set data.max_length={self.model.max_length}"
            )
        uniform = torch.rand((rows, length), generator=noise, device=texts.input_ids.device)

        def guess(start: int, stop: int, uniform: Tensor) -> Tensor:
            step = max(1, _AT_ONCE // length)
            parts = [
                self._guess(texts, copy, a, min(a + step, stop), uniform[a - start : min(a + step, stop) - start])
                for a in range(start, stop, step)
            ]
            return torch.cat(parts)

        return through(self.model, guess, uniform, chunks)

    def _guess(self, texts: Tokens, copy: MaskedCopy, start: int, stop: int, uniform: Tensor) -> Tensor:
        """(stop - start, length) ids of some rows."""
        before, seen = texts.rows(start, stop), copy.masked.tokens.rows(start, stop)
        positions = copy.masked.positions[start:stop]  # on the CPU, where they are counted without waiting for a GPU
        if self.positions == "all":
            positions = torch.ones_like(positions)
        indices = moved(positions.flatten().nonzero().squeeze(1), before.input_ids.device)
        if not len(indices):
            return before.input_ids
        logits = self.model(None, masked=MaskedTokens(seen, positions)).masked_logits
        guesses = self._sample(logits.float(), uniform.flatten().index_select(0, indices))
        ids = before.input_ids.flatten().index_copy(0, indices, guesses).view_as(before.input_ids)
        ids = torch.where(before.attention_mask.bool(), ids, before.input_ids)
        return torch.cat([before.input_ids[:, :1], ids[:, 1:]], dim=1)

    def _sample(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """(M, vocabulary) logits, and (M,) uniform draws from 0 to 1 -> (M,) ids."""
        tokenizer = self.model.tokenizer
        logits[:, tokenizer.vocabulary_size :] = -torch.inf  # rows that only round the embedding table up
        if self.pick == "best":
            return logits.argmax(dim=1)
        logits[:, tokenizer.hf.all_special_ids] = -torch.inf
        heights = logits.double().softmax(dim=1).cumsum(dim=1)
        levels = uniform.double().unsqueeze(1) * heights[:, -1:]
        return torch.searchsorted(heights, levels, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)
