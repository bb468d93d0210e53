"""Questions to select by from a held-out share of the training text itself; no labels needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opencse.adapting.holdout import HeldOut, hold_out
from opencse.adapting.question_sets import QuestionSet, halves, neighbours, overlapping_crops, pairs
from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Flags, Floats, Integers
from opencse.evaluation.embedding import EmbeddingModel, embed_for_search
from opencse.evaluation.models.opening import open_model
from opencse.io import hash_json
from opencse.kernels.precision import choose_precision
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.text.readers import Texts

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

FEWEST = 100
"""Fewest questions to select by; with fewer, noise would decide."""
QuestionMaker = Callable[[Texts, HeldOut], QuestionSet]


@dataclass(frozen=True)
class TextQuestions:
    """Questions from a held-out share of a text; an encoder answers with the nearest candidate.

    The score is the mean of the kinds' means, weighted by ``weights``, however many questions each kind has.

    Attributes:
        sets: the questions, one set per kind.
        held: the rows that are held out.
        metric: scores the rank of an answer.
        left_out: (M,) rows of the training text that must not be trained on; None where no held-out row is in it.
        from_pairs: whether held-out pairs of the user are asked about, alone or with the order of the text.
        weights: of the kinds, with a sum of 1; empty where they count equally.
    """

    sets: tuple[QuestionSet, ...]
    held: HeldOut
    metric: Measure = field(default_factory=Measure)
    left_out: Flags | None = None
    from_pairs: bool = False
    weights: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """Their name, for the user."""
        return "questions from the text itself"

    @property
    def source(self) -> str:
        """Where they are from, within a sentence."""
        if self.from_pairs:
            return "held-out pairs and text" if len(self.sets) > 1 else "held-out pairs"
        return "held-out text"

    @property
    def measure(self) -> str:
        """The measure that scores the rank of an answer."""
        return str(self.metric)

    @property
    def size(self) -> str:
        """How many questions and candidates there are, and how many rows are held out for them."""
        counts = " and ".join(
            f"{len(one):,} {one.label} over {number_of(len(one.candidates), 'candidate')}" for one in self.sets
        )
        return f"{counts}; {number_of(int(self.held.held.sum()), 'row')} held out"

    @property
    def units(self) -> Integers:
        """(n,) document, passage or group of pairs of each question, kind after kind."""
        return np.concatenate([one.units for one in self.sets])

    @property
    def kinds(self) -> Integers:
        """(n,) number of each question's set."""
        return np.repeat(np.arange(len(self.sets), dtype=np.int64), [len(one) for one in self.sets])

    @property
    def own_words(self) -> bool:
        """Whether the text asks all of them about itself."""
        return not self.from_pairs

    @property
    def unknown(self) -> str:
        """What these questions cannot show."""
        if self.from_pairs:
            return (
                "other questions like these should gain about as much; for other kinds, measure with your own queries "
                "(--dev FOLDER)"
            )
        return "which of the two people ask like, no text can tell: measure with your own queries (--dev FOLDER)"

    def held_out(self) -> list[str]:
        """Questions and answers, each text once; none of them is trained on in this form."""
        texts = ([*one.queries, *(one.candidates[row] for row in one.answers)] for one in self.sets)
        return list(dict.fromkeys(text for texts_of_set in texts for text in texts_of_set))

    def forbidden_texts(self) -> list[str]:
        """None: the rows of these questions are held out of the training text already."""
        return []

    def without(self, trained: TrainedTexts) -> tuple[TextQuestions, list[str]]:
        """The same questions; see `forbidden_texts`."""
        del trained
        return self, []

    def fingerprint(self) -> str:
        """A hash of the questions, their candidates and answers, and the measure."""
        contents = [[one.kind, list(one.queries), list(one.candidates), one.answers.tolist()] for one in self.sets]
        return hash_json([str(self.metric), *contents, *([list(self.weights)] if self.weights else [])])

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the measure of each question, kind after kind, scaled so that their mean is that of the kinds."""
        return self._scaled(answered(encoder, self.sets, self.metric))

    def by_words(self) -> float:
        """The score of BM25."""
        return float(self._scaled([self.metric.of_ranks(one.ranks_by_words()) for one in self.sets]).mean())

    def parts(self, values: Floats) -> dict[str, float]:
        """The mean of each kind."""
        ends = np.cumsum([len(one) for one in self.sets])[:-1]
        return {
            one.kind.replace(",", "").replace(" ", "_"): float(part.mean() / scale)
            for one, part, scale in zip(self.sets, np.split(values, ends), self._scales(), strict=True)
        }

    def _scaled(self, by_kind: Sequence[Floats]) -> Floats:
        return np.concatenate([values * scale for values, scale in zip(by_kind, self._scales(), strict=True)])

    def _scales(self) -> list[float]:
        total = sum(len(one) for one in self.sets)
        weights = self.weights or (1 / len(self.sets),) * len(self.sets)
        return [total * weight / len(one) for one, weight in zip(self.sets, weights, strict=True)]


def quick(encoder: SentenceEncoder) -> EmbeddingModel:
    """Opens an encoder for repeated evaluation: in bf16 where it has layers and the processor supports it.

    Its vectors have a cosine of about 0.9999 to the float32 ones, and every encoder of a run is evaluated this way.
    """
    name = choose_precision("auto", encoder.device).name if encoder.depth else "float32"
    return open_model(encoder, precision="bf16" if name == "bf16" else "float32")


def answered(encoder: SentenceEncoder, sets: Sequence[QuestionSet], metric: Measure) -> list[Floats]:
    """Answers each set of questions: (n,) the measure of each question; all texts are encoded together."""
    embedded = embed_for_search(quick(encoder), ((one.queries, one.candidates) for one in sets))
    return [metric.of_ranks(one.ranks(embedded)) for one in sets]


def text_questions(texts: Texts, metric: Measure | None = None, documents: Iterable[str] = ()) -> TextQuestions | None:
    """Holds out a share of ``texts`` and makes questions from it; None where the text is too small for any.

    Args:
        texts: the training text.
        metric: scores the rank of an answer; nDCG@10 by default.
        documents: more candidates, for the answers of pairs.

    Example:
        >>> rows = [(f"question {n} about thing {n}", f"an answer that explains thing {n}") for n in range(600)]
        >>> questions = text_questions(Texts(rows, None, "pairs"))
        >>> questions.size
        '130 retrieval questions over 439 candidates; 130 rows held out'
    """
    held = hold_out(texts)
    sets = question_sets(texts, held, documents)
    return TextQuestions(sets, held, metric or Measure(), held.left_out, from_pairs=texts.width > 1) if sets else None


def question_sets(texts: Texts, held: HeldOut, documents: Iterable[str] = ()) -> tuple[QuestionSet, ...]:
    """Makes the kinds of questions that a text allows; kinds of fewer than ``FEWEST`` are left out.

    Pairs: the held-out pairs, with ``documents`` as more candidates. Running text: neighbouring sentences and halves of
    documents. Loose sentences: two overlapping parts of each.
    """
    makers: tuple[QuestionMaker, ...]
    if texts.width > 1:
        makers = (partial(pairs, documents=documents),)
    elif texts.documents is not None:
        makers = (neighbours, halves)
    else:
        makers = (overlapping_crops,)
    every_kind = (make(texts, held) for make in makers)
    return tuple(questions for questions in every_kind if len(questions) >= FEWEST)
