"""Views that leave the texts as they are: the same sentence, a pair's other text, a sentence that follows."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from opencse.arrays import Integers
from opencse.errors import UserError
from opencse.objective.vectors.represent import Passes
from opencse.objective.vectors.step import Representations
from opencse.objective.views.base import DerivesPositives, SentenceView, View, cells
from opencse.objective.views.order import follow_each_other
from opencse.settings import PartSettings, Rate
from opencse.text.corpus import Corpus


class Dropout(SentenceView):
    """The same tokens twice, with different dropout masks (SimCSE, eq. 4).

    Both copies go through one forward pass of 2N rows; dropout draws every element separately, so
    the masks of the two copies are independent. ``shared_mask = true`` runs the two copies one after the other under
    the same masks ("fixed 0.1" of Table 3, published as harmful: 43.6 on STS-B dev). ``rates`` gives each view a rate
    of its own, in two forward passes (SCD: .05 and .155).

    Example:
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.objective import Objective
        >>> objective = Objective(Dropout(), negatives=[InBatch()])  # the objective of SimCSE
        >>> objective.negatives_per_anchor(batch_size=64, hard=0)
        63
    """

    class Settings(PartSettings):
        """Settings of `Dropout`.

        Attributes:
            shared_mask: whether both views have the same dropout masks.
            rates: the dropout rates of anchors and positives, hidden states and attention; unset uses the encoder's
                (``encoder.dropout``) for both.
        """

        kind: Literal["dropout"] = "dropout"
        shared_mask: bool = False
        rates: tuple[Rate, Rate] | None = None

        @model_validator(mode="after")
        def _masks_of_one_rate(self) -> Self:
            if self.shared_mask and self.rates is not None:
                raise ValueError("shared_mask needs one rate for both views; leave rates out")
            return self

    settings: Settings
    recordable = True

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.cannot = (("no_dropout", "makes two views by dropout"),)
        if self.settings.rates is not None:
            self.cannot = (
                ("no_dropout_rates", "has dropout rates of its own"),
                ("second_encoder", "has dropout rates of one encoder"),
            )

    @property
    def two_passes(self) -> str:
        """``shared_mask`` or ``rates``, if set."""
        return "shared_mask" if self.settings.shared_mask else "rates" if self.settings.rates else ""

    def represent(self, passes: Passes) -> Representations:
        """Makes one forward pass, or one of each view under the masks or the rates of the settings."""
        return passes.forward(shared_mask=self.settings.shared_mask, dropout=self.settings.rates)


class Itself(DerivesPositives, SentenceView):
    """``b = a``: the positive is the anchor's own vector, and each sentence is encoded once.

    It is for objectives whose terms or negatives read the anchors alone, in half the time of two views.

    Example:
        >>> Itself().derive(torch.tensor([[1.0, 2.0]]), torch.Generator())
        tensor([[1., 2.]])
    """

    class Settings(PartSettings):
        """Settings of `Itself`."""

        kind: Literal["itself"] = "itself"

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """The anchors as they are."""
        return anchors


class Pair(View):
    """The positive given by the data: column 2 (SimCSE, eq. 5); a third column is the hard negative.

    Example:
        >>> from opencse.objective.negatives.hard import Hard
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.objective import Objective
        >>> objective = Objective(Pair(), negatives=[InBatch(), Hard()])  # the objective of supervised SimCSE
        >>> objective.negatives_per_anchor(batch_size=64, hard=1)
        127
    """

    recordable = True

    class Settings(PartSettings):
        """Settings of `Pair`."""

        kind: Literal["pair"] = "pair"

    def require_width(self, width: int, source: str) -> None:
        """Refuses rows of one text."""
        if width < 2:
            raise UserError(
                f"{source}: the pair view needs two or three texts per row, not {width}: anchor, positive and perhaps "
                "a hard negative; name them with --columns, or use a recipe for plain sentences (simcse, next-sentence)"
            )

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """Every row with its own columns."""
        self.require_width(corpus.width, corpus.facts.source)
        return cells(np.arange(len(corpus), dtype=np.int64), range(corpus.width))


class NextSentence(View):
    """A sentence and one that follows it in the same document (SimCSE, Table 2).

    ``window = 1`` takes the next sentence; with ``window = 3`` one of the next three is drawn for every
    sentence ("next 3 sentences" of the paper; near the end of a document, of those that are left).
    The text must be in reading order, one sentence per line; a blank line ends a document, and no example
    crosses it.

    Example:
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.objective import Objective
        >>> Objective(NextSentence(NextSentence.Settings(window=3)), negatives=[InBatch()]).view.kind
        'next_sentence'
    """

    class Settings(PartSettings):
        """Settings of `NextSentence`."""

        kind: Literal["next_sentence"] = "next_sentence"
        window: Literal[1, 3] = 1

    settings: Settings

    def require_width(self, width: int, source: str) -> None:
        """Refuses rows of several texts."""
        if width != 1:
            raise UserError(
                f"{source}: the next_sentence view reads one text per row, not {width}; "
                "give running text, one sentence per line"
            )

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """(sentence, following sentence) for every pair inside a document."""
        self.require_width(corpus.width, corpus.facts.source)
        documents = np.asarray(corpus.documents)
        following = np.zeros(len(documents), dtype=np.int64)  # later sentences of its document, at most window
        for gap in range(1, self.settings.window + 1):
            following[:-gap] += documents[:-gap] == documents[gap:]
        rows = np.flatnonzero(following)
        examples = cells(rows, [0, 0])
        examples[:, 1, 0] += random.integers(1, following[rows] + 1)
        if len(examples) == 0:
            raise UserError(
                f"{corpus.facts.source}: no two sentences follow one another in a document; give running text, "
                "one sentence per line, with blank lines between documents only"
            )
        return examples

    def doubts(self, corpus: Corpus) -> tuple[str, ...]:
        """Lines that seem to be shuffled; see `follow_each_other`."""
        rows = np.flatnonzero(np.diff(np.asarray(corpus.documents)) == 0)
        pairs = np.stack([rows, rows + 1], axis=1)
        if follow_each_other(pairs, lambda row: corpus.text_ids(row, 0).tolist()) is not False:
            return ()
        return (
            f"{corpus.facts.source}: the lines seem to be shuffled, as a line and the next share no more words than "
            "any two; give text in reading order, or take a recipe for single sentences such as simcse",
        )
