"""Guards what an encoder knew: refuses one that answers general questions, in other words, worse than its start.

General questions share few words with their answers: in 57 of 100 none that says something. So they ask what a text's
questions about itself, which share its words, cannot: whether an encoder finds what is meant by other words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opencse.adapting.question_sets import QuestionSet
from opencse.adapting.text_questions import FEWEST, answered
from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Floats
from opencse.io import hash_json
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.statistics.grouped import MeanDifference, grouped_difference
from opencse.text import sample
from opencse.text.readers import Source

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

TOLERANCE, OF_OWN_WORDS = 2.5, 1.0
"""Points of nDCG@10 x 100 of the built-in pairs that may be lost for a gain on what people ask, and for one on what a
text asks about itself, in its own words; see docs/results/choosing.md.

The first goes with about one point of Spearman on the seven STS tasks. The second parts the runs after which people's
queries found less from those after which they found more."""
_MEASURE = Measure()


@dataclass(frozen=True)
class Guard:
    """General questions with known answers; a run drops those that it trains on (`without`).

    Attributes:
        questions: a question or paraphrase each, and the sentence it means among the sentences of all.

    Example:
        >>> guard = Guard.of_pairs([("What barks?", "Dogs bark."), ("What purrs?", "Cats purr.")])
        >>> len(guard), guard.questions.candidates
        (2, ['Dogs bark.', 'Cats purr.'])
    """

    questions: QuestionSet

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, ...]]) -> Guard:
        """Each first text is the question, its second text the answer among the second texts of all pairs."""
        rows = [*pairs]
        number_of = {answer: number for number, answer in enumerate(dict.fromkeys(answer for _, answer in rows))}
        answers = np.array([number_of[answer] for _, answer in rows], dtype=np.int64)
        queries = [query for query, _ in rows]
        return cls(QuestionSet("general", "general questions", queries, [*number_of], answers, answers))

    @classmethod
    def built_in(cls) -> Guard:
        """The pairs of the built-in sample."""
        return cls.of_pairs(Source(str(sample.PAIRS)).read().rows)

    def forbidden_texts(self) -> list[str]:
        """Texts that must not be trained on: questions and answers."""
        return self.questions.texts()

    def without(self, trained: TrainedTexts) -> tuple[Guard | None, list[str]]:
        """Drops the questions that also occur in the training text.

        Returns:
            The guard, None where fewer than `FEWEST` or than half of the questions remain (for a training text that
            holds most of them, the others say nothing general), and lines for the user.
        """
        questions = self.questions
        rows = [
            (query, questions.candidates[row]) for query, row in zip(questions.queries, questions.answers, strict=True)
        ]
        remaining = [row for row in rows if not any(text in trained for text in row)]
        dropped = len(rows) - len(remaining)
        if not dropped:
            return self, []
        if len(remaining) < max(FEWEST, len(rows) / 2):
            note = f"{dropped:,} of {len(rows):,} general questions are also in the training text"
            return None, [f"guard      none: {note}, so they cannot show what is forgotten"]
        counted, verb = number_of(dropped, "general question"), "is" if dropped == 1 else "are"
        note = f"{counted} {verb} also in the training text and {verb} ignored"
        return Guard.of_pairs(remaining), [f"guard      {note}"]

    def __len__(self) -> int:
        return len(self.questions)

    def fingerprint(self) -> str:
        """A hash of the questions, candidates and answers."""
        questions = self.questions
        return hash_json([questions.queries, questions.candidates, questions.answers.tolist()])

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) nDCG@10 x 100 of each question."""
        return answered(encoder, [self.questions], _MEASURE)[0]

    def compare(self, before: Floats, after: Floats) -> MeanDifference:
        """The change from the start's values; questions with the same answer are not independent."""
        return grouped_difference(before, after, self.questions.units)

    @staticmethod
    def refuses(change: MeanDifference, *, own_words: bool) -> bool:
        """Whether more was lost than is tolerated, by more than the noise of the questions.

        Args:
            change: of the general questions.
            own_words: whether the gain is on questions that a text asks about itself.
        """
        return change.interval[1] < -(OF_OWN_WORDS if own_words else TOLERANCE)
