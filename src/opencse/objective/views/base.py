"""What every view is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opencse.objective.part import Part
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, TokenisedText

Places = NDArray[np.int64]


class View(Part, ABC):
    """How the positive of an anchor is made.

    A view first says where an example's texts are in the corpus; then it may change the positives' tokens, or their
    input embeddings, or make the positives' vectors of the anchors' own without a forward of theirs.
    """

    needs_dropout = False
    """Whether the two views of a sentence differ by dropout alone (they would be equal without it)."""

    needs_words = False
    """Whether `positives` reads which word each id is of, and which ids are special tokens."""

    derived = False
    """Whether the positives are made by `derive`; only the anchors go through the encoder then."""

    disturbs = False
    """Whether `disturb` changes the positives' input embeddings."""

    attacks: Literal["inputs", "outputs"] | None = None
    """Whether `attacked` moves the positives' input embeddings, or their vectors, along the loss's gradient."""

    @abstractmethod
    def examples(self, corpus: Corpus, random: np.random.Generator) -> Places:
        """The examples a corpus yields.

        Args:
            corpus: the text.
            random: for views that draw which texts make an example; used once, when a run starts.

        Returns:
            (M, 2 + H, 2): for anchor, positive and each hard negative the (row, column) of its text.

        Raises:
            UserError: if the corpus is not of the kind this view needs.
        """

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """The positives' ids, drawn anew each step; unchanged by default."""
        del random
        return [text.ids for text in texts]

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d): the positives' vectors, where the view is ``derived``."""
        raise NotImplementedError(f"{type(self).__name__} does not derive positives from the anchors' vectors")

    def disturb(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """(N, length, hidden) -> the same: the positives' input embeddings, where the view ``disturbs`` them."""
        raise NotImplementedError(f"{type(self).__name__} does not disturb input embeddings")

    def attacked(self, values: Tensor, gradient: Tensor) -> Tensor:
        """The positives' input embeddings or vectors, moved by the contrastive loss's gradient of the same shape."""
        raise NotImplementedError(f"{type(self).__name__} does not follow the gradient")


def places(rows: NDArray[np.int64], columns: Sequence[int]) -> Places:
    """(M, len(columns), 2): the given columns of the given rows."""
    grid = np.empty((len(rows), len(columns), 2), dtype=np.int64)
    grid[:, :, 0] = rows[:, None]
    grid[:, :, 1] = np.asarray(columns)
    return grid
