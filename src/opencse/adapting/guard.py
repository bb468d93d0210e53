"""The guard against forgetting: general questions that an encoder may not answer far worse than its start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opencse.adapting.question_sets import QuestionSet
from opencse.adapting.text_questions import FEWEST, answered
from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.io import hash_json
from opencse.ranking import Measure
from opencse.statistics.grouped import grouped_difference
from opencse.text import sample
from opencse.text.readers import Source

TOLERANCE = 2.5
"""Points of nDCG@10 x 100 of the built-in pairs that may be lost for a gain elsewhere.

It is about what goes with one point of Spearman on the seven STS tasks; see docs/results/adapt.md, "Forgetting"."""
_MEASURE = Measure()


@dataclass(frozen=True)
class Guarded:
    """What the guard found.

    Attributes:
        value: nDCG@10 x 100 of its questions.
        lost: the least that was lost, as far as the questions can tell: the lower end of the 95 % interval of the
            start's value minus this one; negative where the loss may be none.
    """

    value: float
    lost: float

    @property
    def forgets(self) -> bool:
        """Whether more was lost than is tolerated, beyond the noise of the questions."""
        return self.lost > TOLERANCE


@dataclass(frozen=True)
class Guard:
    """General questions with known answers that watch for forgetting.

    A run leaves out those that are trained on (`without`).

    Attributes:
        questions: a question or paraphrase each, and the sentence that it means among those of all.
    """

    questions: QuestionSet

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, ...]]) -> Guard:
        """Each first text asks for its second, among the second texts of all pairs."""
        rows = [*pairs]
        place = {answer: number for number, answer in enumerate(dict.fromkeys(answer for _, answer in rows))}
        answers = np.array([place[answer] for _, answer in rows], dtype=np.int64)
        asks = "which sentence a question or paraphrase means"
        return cls(QuestionSet("general", asks, [query for query, _ in rows], [*place], answers, answers))

    @classmethod
    def built_in(cls) -> Guard:
        """Of the built-in sample's pairs."""
        return cls.of_pairs(Source(str(sample.PAIRS)).read().rows)

    def asked(self) -> list[str]:
        """The texts that must not be trained on: questions and answers."""
        return self.questions.texts()

    def without(self, trained: TrainedTexts) -> tuple[Guard | None, list[str]]:
        """The same without the questions that are trained on; None where fewer than `FEWEST`, or than half, are left.

        Of a text that holds most of these questions they can tell nothing general.
        """
        asked = self.questions
        rows = [(query, asked.candidates[row]) for query, row in zip(asked.queries, asked.answers, strict=True)]
        kept = [row for row in rows if not any(text in trained for text in row)]
        dropped = len(rows) - len(kept)
        if not dropped:
            return self, []
        if len(kept) < max(FEWEST, len(rows) / 2):
            told = f"{dropped:,} of the {len(rows):,} general questions are in the training text"
            return None, [f"guard      none: {told}, so they cannot show what is forgotten"]
        told = f"{dropped:,} general questions are in the training text and are not asked"
        return Guard.of_pairs(kept), [f"guard      {told}"]

    def __len__(self) -> int:
        return len(self.questions)

    def fingerprint(self) -> str:
        """A hash of the questions, candidates and answers."""
        asked = self.questions
        return hash_json([asked.queries, asked.candidates, asked.answers.tolist()])

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) what the rank of each answer is worth, x 100."""
        return answered(encoder, [self.questions], _MEASURE)[0]

    def compare(self, before: Floats, after: Floats) -> Guarded:
        """An encoder's values beside the start's; questions about one sentence are not independent."""
        low, _ = grouped_difference(after, before, self.questions.units).interval
        return Guarded(float(after.mean()), low)
