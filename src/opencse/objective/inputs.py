"""Turns examples of the corpus into the inputs of a step: the view's texts, padded once, and masked copies."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from opencse.arrays import Flags, Integers
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import HardNegatives
from opencse.objective.vectors.step import Request, StepInputs
from opencse.objective.views.base import ChangesTokens, DerivesPositives
from opencse.objective.views.spans import DrawsTexts
from opencse.streams import Stream
from opencse.text.corpus import Corpus
from opencse.text.labels import LabelKind
from opencse.text.tokenizer import Ids, Tokenizer, Tokens

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
        self.encodes = objective.encodes
        self.cells = objective.view.examples(corpus, np.random.default_rng([seed, Stream.EXAMPLES]))
        if left_out is not None:
            self.cells = self.cells[~self._uses(left_out)]
        if isinstance(self.view, DrawsTexts):
            self.cells = self.cells[self.view.suitable(self.cells, corpus, tokenizer)]
        elif not objective.reads_positives:
            self.cells = self.cells[:, :1]  # a term on masked copies, or on the anchors' vectors, reads these alone
        elif HardNegatives() not in self.reads:
            self.cells = self.cells[:, :2]
        objective.check_data(corpus.facts.source, self.hard, self._label)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def anchor_rows(self) -> Integers:
        """(n,) rows of the text with an example's anchor, ascending."""
        return np.unique(self.cells[:, 0, 0])

    def keep_rows(self, rows: Integers) -> None:
        """Drops the examples whose anchor is in none of ``rows``."""
        self.cells = self.cells[np.isin(self.cells[:, 0, 0], rows)]

    @property
    def hard(self) -> int:
        """Hard negatives per example (H)."""
        return max(0, int(self.cells.shape[1]) - 2)

    @property
    def texts_per_example(self) -> int:
        """Texts of an example that are encoded, if positives have rows."""
        return self.view.texts_per_example if isinstance(self.view, DrawsTexts) else 2 + self.hard

    @property
    def lengths(self) -> Integers:
        """(M,) tokens of each example, in all of its texts that are encoded; their mean where the view draws them."""
        if isinstance(self.view, DrawsTexts):
            anchor, positive = self.view.mean_lengths(self.corpus)
            texts = anchor + self.view.positives_per_anchor * positive * self.encodes
            return np.full(len(self.cells), round(self.view.anchors * texts), dtype=np.int64)
        offsets, width = self.corpus.offsets, self.corpus.width
        total = np.zeros(len(self.cells), dtype=np.int64)
        for start in range(0, len(total), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            for role in self._roles:
                text = self.cells[some, role, 0] * width + self.cells[some, role, 1]
                total[some] += offsets[text + 1] - offsets[text]
        return total

    def longest(self, count: int) -> list[Ids]:
        """The longest texts of the corpus, ``count`` at most; of the greatest length where the view draws its texts."""
        corpus = self.corpus
        texts = np.argsort(np.diff(corpus.offsets), kind="stable")[-count:]
        ids = [corpus.text_ids(*divmod(int(text), corpus.width)) for text in texts]
        return [np.resize(one, corpus.facts.max_length) for one in ids] if isinstance(self.view, DrawsTexts) else ids

    def build(self, examples: Integers, step: int) -> StepInputs:
        """Makes the inputs of ``step`` from ``examples``, given by their numbers."""
        rows, keys, unpooled, positives = self._texts(self.cells[examples], step)
        n = len(keys)
        tokens = self.tokenizer.pad(rows)
        if unpooled:
            tokens = tokens.leaving_out(unpooled)
        views = tokens.rows(0, n * (1 + positives))
        prepared = {
            request: request.prepare(
                self._rows_for(request, examples, views, n),
                self.tokenizer,
                np.random.default_rng([self.seed, Stream.MASK, step, *request.stream]),
            )
            for request in self.prepared
        }
        for request, copy in prepared.items():
            tokens = request.replaced(tokens, copy)
        return StepInputs(
            tokens,
            n,
            torch.from_numpy(np.ascontiguousarray(keys)),
            prepared,
            anchor_length=max(len(ids) for ids in rows[:n]),
            noise_seed=int(np.random.default_rng([self.seed, Stream.NOISE, step]).integers(2**63)),
            positives=max(1, positives),
            labels=self._labels(examples),
        )

    def _rows_for(self, request: Request[Any], examples: Integers, views: Tokens, n: int) -> Tokens:
        """The rows that ``request`` prepares something of: the view's, or texts as they were before."""
        if request.undamaged is None:
            return views.rows(0, n) if request.anchors_only else views
        role = int(request.undamaged == "positive")
        if not isinstance(self.view, ChangesTokens):
            return views.rows(n, 2 * n) if role and len(views) > n else views.rows(0, n)
        cells = self.cells[examples, role]
        return self.tokenizer.pad([self.corpus.text_ids(int(row), int(column)) for row, column in cells])

    @property
    def _label(self) -> LabelKind | None:
        """What label the examples have; None where the view draws its texts."""
        if self.corpus.labels is None or isinstance(self.view, DrawsTexts):
            return None
        facts = self.corpus.facts
        return "class" if facts.classes else "margin" if facts.scale is None else "score"

    def _labels(self, examples: Integers) -> torch.Tensor | None:
        """(N,) the labels of the anchors' rows."""
        if self.corpus.labels is None or self._label is None:
            return None
        return torch.from_numpy(self.corpus.labels[self.cells[examples, 0, 0]].astype(np.float32))

    def _texts(self, cells: Integers, step: int) -> tuple[list[Ids], Integers, list[int], int]:
        """The rows of a step, the keys of each anchor's texts, tokens that pooling leaves out, and positives' rows."""
        augment = np.random.default_rng([self.seed, Stream.AUGMENT, step])
        rows: list[Ids] = []
        if isinstance(self.view, DrawsTexts):
            drawn = self.view.draw(cells, self.corpus, self.tokenizer, augment)
            positives = self.view.positives_per_anchor * self.encodes
            n = len(drawn.anchors)
            hashes = [_ids_key(drawn.anchors), _ids_key(drawn.positives[:n])][: 1 + self.encodes]
            rows = [*drawn.anchors, *drawn.positives[: positives * n]]
            return rows, np.stack(hashes, axis=1), [], positives
        keys = self.corpus.keys[cells[:, :, 0], cells[:, :, 1]]
        unpooled: list[int] = []
        for role in self._roles:
            if self.corpus.unpooled:
                unpooled += [self.corpus.unpooled[int(column)] for column in cells[:, role, 1]]
            texts = [self.corpus.text(int(r), int(c)) for r, c in cells[:, role]]
            if role == 0 and isinstance(self.view, ChangesTokens):
                rows += self.view.changed_anchors(
                    texts, np.random.default_rng([self.seed, Stream.AUGMENT_ANCHORS, step])
                )
            elif role == 1 and isinstance(self.view, ChangesTokens):
                rows += self.view.positives(texts, augment)
            else:
                rows += [text.ids for text in texts]
        return rows, keys, unpooled, 1 if 1 in self._roles else 0

    def _uses(self, left_out: Flags) -> Flags:
        """(M,) whether each example reads a row that is left out."""
        rows = self.cells[:, :, 0]
        if not isinstance(self.view, DrawsTexts):
            return np.asarray(left_out[rows].any(axis=1))
        before = np.concatenate([[0], np.cumsum(left_out)])  # rows left out before each row
        return np.asarray(before[rows[:, 1] + 1] > before[rows[:, 0]])

    @property
    def _roles(self) -> list[int]:
        """The columns of ``cells`` whose texts are encoded: not the positives if the view derives them."""
        derived = isinstance(self.view, DerivesPositives)
        return [role for role in range(self.cells.shape[1]) if role != 1 or not derived]


def _ids_key(texts: Sequence[Ids]) -> Integers:
    """(N,) a hash of the ids of each text."""
    digests = b"".join(hashlib.blake2b(ids.astype("<i4").tobytes(), digest_size=8).digest() for ids in texts)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64)
