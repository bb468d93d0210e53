"""The base classes of views: how the positive of an anchor is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opencse.arrays import Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Cannot
from opencse.objective.part import Part
from opencse.objective.vectors.represent import Passes, RowNoise
from opencse.objective.vectors.step import Representations, Request
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, TokenisedText, WordNumbers


class View(Part, ABC):
    """How the positive of an anchor is made.

    A view says where an example's texts are in the corpus (`examples`). It leaves the positive's text as it is, unless
    it derives from one of these too: `ChangesTokens`, `ChangesInputs`, `ClimbsInputs`, `DerivesPositives`,
    `ClimbsOutputs`.
    """

    derives_positives = False
    """Whether it makes the positives' vectors of the anchors'."""
    changes_inputs = False
    """Whether it changes the positives' input embeddings."""
    draws_texts = False
    """Whether it draws its texts from the corpus in each step."""

    @property
    def called(self) -> str:
        """The view, by its kind."""
        return f"the view {self.kind}"

    @property
    def two_passes(self) -> str:
        """The setting for which anchors and positives go through the encoder apart; empty if they go together."""
        return ""

    @property
    def anchors(self) -> int:
        """Anchors of an example; N of a step is the number of all of them."""
        return 1

    @property
    def reads(self) -> Set[Request[Any]]:
        """Nothing of the step's vectors."""
        return frozenset()

    def require_width(self, width: int, source: str) -> None:
        """Refuses a text whose rows have another number of texts than this view reads; by default none.

        Args:
            width: texts per row.
            source: the text, for the message.

        Raises:
            UserError: naming the fix.
        """

    @abstractmethod
    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """Chooses the examples of a corpus.

        Args:
            corpus: the text.
            random: for views that draw which texts make an example; used once, when a run starts.

        Returns:
            (M, 2 + H, 2): for anchor, positive and each hard negative the (row, column) of its text.

        Raises:
            UserError: if the corpus is not of the kind this view needs.
        """

    def doubts(self, corpus: Corpus) -> tuple[str, ...]:
        """What in a corpus speaks against this view, a line each for the plan; by default nothing."""
        return ()

    def represent(self, passes: Passes) -> Representations:
        """Makes the vectors of a step: by default in one forward pass, the positives' texts as they are."""
        return passes.forward()


_OF_CHANGED_INPUTS: Cannot = (("second_encoder", "changes the input embeddings of one encoder"),)
_OF_A_GRADIENT: Cannot = (
    ("no_contrast", "follows the gradient of a contrast"),
    ("other_positives", "follows the gradient of the positives' vectors"),
)


class ChangesTokens(View):
    """A view that changes the positives' tokens, and the anchors' too if it defines `changed_anchors`."""

    @abstractmethod
    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Draws the positives' ids, again at each step; the texts have the numbers of their words."""

    def changed_anchors(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Draws the anchors' ids, again at each step, by draws apart from the positives'; by default unchanged."""
        return [text.ids for text in texts]


class ChangesInputs(View):
    """A view that changes the positives' input embeddings, and the anchors' too if it defines `disturb_anchors`."""

    cannot = _OF_CHANGED_INPUTS
    changes_inputs = True

    @abstractmethod
    def disturb(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """Changes the positives' input embeddings: (N, length, hidden) -> the same shape."""

    def disturb_anchors(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """Changes the anchors' input embeddings: (N, length, hidden) -> the same shape; by default unchanged."""
        return embeddings

    def represent(self, passes: Passes) -> Representations:
        """Makes one forward pass in which the views' input embeddings are changed."""
        changes_anchors = type(self).disturb_anchors is not ChangesInputs.disturb_anchors
        return passes.forward(
            # A stream apart: where the anchors change too, the positives' draws stay.
            change_anchors=RowNoise(self.noise(passes.inputs, "anchors"), self.disturb_anchors)
            if changes_anchors
            else None,
            change_positives=RowNoise(self.noise(passes.inputs), self.disturb),
        )


class ClimbsInputs(View):
    """A view that moves the positives' input embeddings along the contrastive loss's gradient."""

    cannot = (*_OF_CHANGED_INPUTS, *_OF_A_GRADIENT)
    changes_inputs = True

    @abstractmethod
    def climb_inputs(self, embeddings: Tensor, gradient: Tensor) -> Tensor:
        """Moves the positives' input embeddings: (N, length, hidden), and their gradient -> the same shape."""

    def represent(self, passes: Passes) -> Representations:
        """Makes a first pass for the gradient, and the step's under the same dropout masks."""
        gradients, n = passes.input_gradients(), passes.inputs.examples
        return passes.forward(
            change_positives=lambda words, start: self.climb_inputs(words, gradients.of(n + start, len(words)))
        )


class DerivesPositives(View):
    """A view that makes the positives' vectors of the anchors' vectors; only the anchors are encoded."""

    cannot: Cannot = (("second_encoder", "makes the positives' vectors of the anchors'"),)
    derives_positives = True

    @abstractmethod
    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """Makes the positives' vectors of the anchors': (N, d) -> (N, d)."""

    def represent(self, passes: Passes) -> Representations:
        """Makes one forward pass of the anchors."""
        return passes.forward(derive=lambda anchors: self.derive(anchors, self.noise(passes.inputs)))


class ClimbsOutputs(View):
    """A view that moves the positives' vectors along the contrastive loss's gradient."""

    cannot = _OF_A_GRADIENT

    @abstractmethod
    def climb_outputs(self, positives: Tensor, gradient: Tensor) -> Tensor:
        """Moves the positives' vectors: (N, d), and their gradient -> (N, d)."""

    def represent(self, passes: Passes) -> Representations:
        """Takes the gradient at the positives' vectors, and moves them along it."""
        reps = super().represent(passes)
        return replace(reps, positive=self.climb_outputs(reps.positive, passes.positive_gradient(reps)))


class SentenceView(View):
    """A view of single sentences: the positive of a sentence is the sentence itself."""

    def require_width(self, width: int, source: str) -> None:
        """Refuses rows of several texts."""
        if width != 1:
            raise UserError(
                f"{source}: the {self.kind} view reads one text per row, not {width}; "
                "name one column with --columns, or use a recipe for pairs (simcse-supervised)"
            )

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """(M, 2, 2): each row twice.

        Raises:
            UserError: if the rows hold more than one text.
        """
        self.require_width(corpus.width, corpus.facts.source)
        return cells(np.arange(len(corpus), dtype=np.int64), [0, 0])


class TokenView(ChangesTokens, SentenceView):
    """A view of single sentences that changes the positive's tokens at each step; the anchor is unchanged.

    The special tokens that the tokenizer put around the text are never changed, and no positive is longer than the
    encoder reads. Both views go through dropout too; without dropout they still differ.
    """

    recordable = True

    longest: int

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Stores how long a text may become."""
        self.longest = encoder.max_length

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Changes the ids of each text."""
        return [self.changed(text.ids, word_numbers(text), random) for text in texts]

    @abstractmethod
    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """Changes the ids of one text.

        Args:
            ids: (length,) with special tokens.
            numbers: (length,) the number of each id's word, -1 for the special tokens.
            random: the generator of all draws.
        """

    def room(self, ids: Ids) -> int:
        """How many ids a text may gain before it is longer than the encoder reads."""
        return max(0, self.longest - len(ids))


def word_numbers(text: TokenisedText) -> WordNumbers:
    """The word numbers of a text that must have them."""
    assert text.words is not None
    return text.words


def cells(rows: Integers, columns: Sequence[int]) -> Integers:
    """(M, len(columns), 2): the (row, column) of the given columns of each of the M rows."""
    grid = np.empty((len(rows), len(columns), 2), dtype=np.int64)
    grid[:, :, 0] = rows[:, None]
    grid[:, :, 1] = np.asarray(columns)
    return grid
