"""From the corpus to the rows of a step: the view's texts, padded once, with a masked copy if a term reads one."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.encoder.encoder import MaskedTokens
from opencse.errors import UserError
from opencse.objective.negatives.hard import Hard
from opencse.objective.objective import Objective
from opencse.objective.representations import StepInputs
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, Tokenizer, Tokens

_AUGMENT_STREAM = 2
_MASK_STREAM = 3
_EXAMPLES_STREAM = 4
_NOISE_STREAM = 7


class InputBuilder:
    """Makes the `StepInputs` of any step from its number alone.

    Augmentation and masking draw from generators seeded by (seed, stream, step), so a resumed run repeats them
    exactly and neither touches data order or dropout.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        objective: Objective,
        seed: int,
        left_out: NDArray[np.bool_] | None = None,
    ) -> None:
        """``left_out``: (M,) rows of the corpus that no example may touch; None where all may be."""
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.view = objective.view
        self.needs = objective.needs
        self.seed = seed
        if self.needs.masked_rate is not None:
            _mask_id(tokenizer)
        self.places = objective.view.examples(corpus, np.random.default_rng([seed, _EXAMPLES_STREAM]))
        if left_out is not None:
            if len(left_out) != len(corpus):
                raise ValueError(f"{len(left_out)} flags for {len(corpus)} rows")
            self.places = self.places[~left_out[self.places[:, :, 0]].any(axis=1)]
        if not self.needs.reads_sentences:
            self.places = self.places[:, :1]  # a term on masked copies reads the anchors alone
        elif not self.needs.hard:
            self.places = self.places[:, :2]
        if objective.negatives and not self.hard and all(isinstance(s, Hard) for s in objective.negatives):
            raise UserError(
                f"{corpus.facts.source}: the objective has no negatives but the data's hard ones, and rows of "
                f"{corpus.width} hold none; name a third column, or add the in_batch negatives"
            )

    def __len__(self) -> int:
        return len(self.places)

    @property
    def hard(self) -> int:
        """Hard negatives an example (H)."""
        return max(0, int(self.places.shape[1]) - 2)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(M,) tokens of each example, all its texts together that are encoded."""
        lengths = np.diff(self.corpus.offsets).reshape(-1, self.corpus.width)
        read = self.places[:, self._roles]
        total: NDArray[np.int64] = lengths[read[:, :, 0], read[:, :, 1]].sum(axis=1)
        return total

    def build(self, examples: NDArray[np.int64], step: int) -> StepInputs:
        """The inputs of ``step``, made of ``examples``."""
        chosen = self.places[examples]
        keys = self.corpus.keys[chosen[:, :, 0], chosen[:, :, 1]]
        rows: list[Ids] = []
        for role in self._roles:
            texts = [self.corpus.text(int(r), int(c)) for r, c in chosen[:, role]]
            if role == 1:
                rows += self.view.positives(texts, np.random.default_rng([self.seed, _AUGMENT_STREAM, step]))
            else:
                rows += [text.ids for text in texts]
        tokens = self.tokenizer.pad(rows)
        masked, labels = None, None
        if self.needs.masked_rate is not None:
            views = len(examples) * (2 if 1 in self._roles else 1)
            pair = Tokens(tokens.input_ids[:views], tokens.attention_mask[:views])
            random = np.random.default_rng([self.seed, _MASK_STREAM, step])
            masked, labels = mask_tokens(pair, self.tokenizer, self.needs.masked_rate, random)
        return StepInputs(
            tokens,
            len(examples),
            torch.from_numpy(np.ascontiguousarray(keys)),
            masked,
            labels,
            anchor_length=max(len(ids) for ids in rows[: len(examples)]),
            noise_seed=int(np.random.default_rng([self.seed, _NOISE_STREAM, step]).integers(2**63)),
        )

    @property
    def _roles(self) -> list[int]:
        """The columns of ``places`` whose texts are encoded: not the positives where the view derives them."""
        return [role for role in range(self.places.shape[1]) if role != 1 or not self.view.derived]


def mask_tokens(
    tokens: Tokens, tokenizer: Tokenizer, rate: float, random: np.random.Generator
) -> tuple[MaskedTokens, torch.Tensor]:
    """A masked copy and the (M,) ids behind its chosen positions (BERT's rule: 80% [MASK], 10% random, 10% kept).

    Every real token that is not special is chosen with probability ``rate``; M varies, and may be 0.

    Raises:
        UserError: if the tokenizer has no mask token.
    """
    mask_id = _mask_id(tokenizer)
    special = np.asarray(tokenizer.hf.all_special_ids)
    ids = tokens.input_ids.numpy().copy()
    usable = tokens.attention_mask.numpy().astype(bool) & ~np.isin(ids, special)
    chosen = usable & (random.random(ids.shape) < rate)
    labels = ids[chosen]
    ordinary = np.setdiff1d(np.arange(tokenizer.vocabulary_size), special)
    fate = random.random(len(labels))
    replaced = np.where(fate < 0.8, mask_id, labels)
    ids[chosen] = np.where(fate >= 0.9, random.choice(ordinary, len(labels)), replaced)
    masked = MaskedTokens(Tokens(torch.from_numpy(ids), tokens.attention_mask), torch.from_numpy(chosen))
    return masked, torch.from_numpy(labels)


def _mask_id(tokenizer: Tokenizer) -> int:
    mask_id = tokenizer.hf.mask_token_id
    if mask_id is None:
        raise UserError(f"{tokenizer.hf.name_or_path}: the tokenizer has no mask token; drop the mlm term")
    return int(mask_id)
