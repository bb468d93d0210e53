"""A view of running text: a sentence, and one that follows it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from opencse.arrays import Integers
from opencse.errors import UserError
from opencse.objective.views.base import View, cells
from opencse.settings import PartSettings
from opencse.text.corpus import Corpus
from opencse.text.order import follow_each_other


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
