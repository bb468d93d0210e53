"""The base class of views that draw an example's texts from the corpus at each step, several positives per anchor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from opencse.arrays import Flags, Integers
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.vectors.represent import Passes
from opencse.objective.vectors.requests import Clean, Draws, LmHead, Masked, Sentences
from opencse.objective.vectors.step import Representations
from opencse.objective.views.base import View
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, Tokenizer

_KNOWN = (Sentences, Clean, Draws, Masked, LmHead)
"""Requests that need no vector per row of the positives."""


@dataclass(frozen=True)
class DrawnTexts:
    """The texts of a step's N anchors and their positives, with special tokens.

    Attributes:
        anchors: N.
        positives: P * N: the first positive of every anchor, then the second of every anchor, and so on.

    Example:
        >>> anchor, positive = np.array([2, 7, 3]), np.array([2, 8, 3])  # ids with the special tokens 2 and 3
        >>> len(DrawnTexts([anchor], [positive]).positives)
        1
    """

    anchors: Sequence[Ids]
    positives: Sequence[Ids]


class DrawsTexts(View):
    """A view that draws the texts of an example at each step: several anchors, with several positives each.

    An example is all rows of the corpus from its first cell's to its second's. The vector of the positives of an anchor
    is made of theirs by `merge`; by default it is their mean.

    Example:
        >>> import torch
        >>> from opencse.objective.views.spans import Spans
        >>> Spans().merge(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))  # two positives of one anchor
        tensor([[0.5000, 0.5000]])
    """

    @property
    @abstractmethod
    def anchors(self) -> int:
        """Anchors of an example (A)."""

    @property
    @abstractmethod
    def positives_per_anchor(self) -> int:
        """Positives of an anchor (P)."""

    @property
    def texts_per_example(self) -> int:
        """Anchors and positives of an example, A (1 + P)."""
        return self.anchors * (1 + self.positives_per_anchor)

    @abstractmethod
    def suitable(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer) -> Flags:
        """(M,) whether texts can be drawn from each example.

        Raises:
            UserError: if no example is suitable.
        """

    @abstractmethod
    def draw(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer, random: np.random.Generator) -> DrawnTexts:
        """Draws the texts of some examples, again at each step: A anchors of the first, then of the second, ..."""

    @abstractmethod
    def mean_lengths(self, corpus: Corpus) -> tuple[float, float]:
        """The mean lengths of an anchor and of a positive, in tokens, for the plan of a run."""

    def merge(self, positives: Tensor) -> Tensor:
        """(P, N, d) vectors of the positives -> (N, d)."""
        return positives.mean(dim=0)

    def represent(self, passes: Passes) -> Representations:
        """Makes one forward pass, then one vector of each anchor's positives."""
        return passes.forward(merge=self.merge)

    def check(self, context: Context) -> None:
        """Refuses prompts, and with several positives parts that need a vector of each positive's text."""
        super().check(context)
        if context.encoder is not None and any(context.encoder.prompts.columns.of(1)):
            raise UserError(
                f"the view {self.kind} draws texts from several rows, each of which would begin with the prompt of "
                f"{context.model}; choose a model without one, or another recipe"
            )
        if self.positives_per_anchor == 1:
            return
        for request in sorted(context.objective.reads, key=str):
            if not isinstance(request, _KNOWN):
                raise UserError(
                    f"an anchor has {self.positives_per_anchor} positives in the view {self.kind}, and a part reads "
                    f"{type(request).__name__} of each text of the views, which go with one; set "
                    "objective.view.positives=1, or drop the part"
                )
