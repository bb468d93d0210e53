"""Turns examples of the corpus into the inputs of a step: the view's texts, padded once, and masked copies."""

from __future__ import annotations

import numpy as np
import torch

from opencse.arrays import Flags, Integers
from opencse.objective.context import Context
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import HardNegatives
from opencse.objective.vectors.step import Request, StepInputs
from opencse.objective.views.base import ChangesTokens, DerivesPositives
from opencse.streams import Stream
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, Tokenizer

_AT_ONCE = 1_000_000
"""Examples whose lengths are added up at once."""


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
        left_out: Flags | None = None,
    ) -> None:
        """``left_out``: (M,) True for rows of the corpus that no example may use; None if all may be used."""
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.view = objective.view
        self.seed = seed
        self.reads = objective.reads
        self.prepared = [request for request in self.reads if type(request).prepare is not Request.prepare]
        self.cells = objective.view.examples(corpus, np.random.default_rng([seed, Stream.EXAMPLES]))
        if left_out is not None:
            if len(left_out) != len(corpus):
                raise ValueError(f"{len(left_out)} flags for {len(corpus)} rows")
            self.cells = self.cells[~left_out[self.cells[:, :, 0]].any(axis=1)]
        if not objective.encodes:
            self.cells = self.cells[:, :1]  # a term on masked copies reads the anchors alone
        elif HardNegatives() not in self.reads:
            self.cells = self.cells[:, :2]
        objective.check(Context(objective, hard=self.hard, source=corpus.facts.source))

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def hard(self) -> int:
        """Hard negatives per example (H)."""
        return max(0, int(self.cells.shape[1]) - 2)

    @property
    def lengths(self) -> Integers:
        """(M,) tokens of each example, in all of its texts that are encoded."""
        offsets, width = self.corpus.offsets, self.corpus.width
        total = np.zeros(len(self.cells), dtype=np.int64)
        for start in range(0, len(total), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            for role in self._roles:
                text = self.cells[some, role, 0] * width + self.cells[some, role, 1]
                total[some] += offsets[text + 1] - offsets[text]
        return total

    def build(self, examples: Integers, step: int) -> StepInputs:
        """Makes the inputs of ``step`` from ``examples``, given by their numbers."""
        cells = self.cells[examples]
        keys = self.corpus.keys[cells[:, :, 0], cells[:, :, 1]]
        rows: list[Ids] = []
        unpooled: list[int] = []
        for role in self._roles:
            if self.corpus.unpooled:
                unpooled += [self.corpus.unpooled[int(column)] for column in cells[:, role, 1]]
            texts = [self.corpus.text(int(r), int(c)) for r, c in cells[:, role]]
            if role == 1 and isinstance(self.view, ChangesTokens):
                rows += self.view.positives(texts, np.random.default_rng([self.seed, Stream.AUGMENT, step]))
            else:
                rows += [text.ids for text in texts]
        tokens = self.tokenizer.pad(rows)
        if unpooled:
            tokens = tokens.leaving_out(unpooled)
        views = tokens.rows(0, len(examples) * (2 if 1 in self._roles else 1))
        prepared = {
            request: request.prepare(
                views, self.tokenizer, np.random.default_rng([self.seed, Stream.MASK, step, *request.stream])
            )
            for request in self.prepared
        }
        return StepInputs(
            tokens,
            len(examples),
            torch.from_numpy(np.ascontiguousarray(keys)),
            prepared,
            anchor_length=max(len(ids) for ids in rows[: len(examples)]),
            noise_seed=int(np.random.default_rng([self.seed, Stream.NOISE, step]).integers(2**63)),
        )

    @property
    def _roles(self) -> list[int]:
        """The columns of ``cells`` whose texts are encoded: not the positives if the view derives them."""
        derived = isinstance(self.view, DerivesPositives)
        return [role for role in range(self.cells.shape[1]) if role != 1 or not derived]
