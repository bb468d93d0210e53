"""Selects the encoder that answers questions best, compared with the start, and refuses one that lost what it knew.

The rule: the trained step with the highest mean value is kept if it is above the start's, however little. A gain that
may be noise is reported as such and kept all the same. A step that the guard refuses is never kept: where a text asks
about itself, less of other words may be lost (`Guard.refuses`); the verdict gives both scores.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.encoder.first_look import unknown_share
from opencse.evaluation.embedding import Embedded, EmbeddingModel, embed_for_search
from opencse.evaluation.models.opening import open_model
from opencse.files import hash_json
from opencse.kernels.precision import choose_precision
from opencse.numerals import number_of
from opencse.ranking import Measure, answer_ranks
from opencse.search.keyword_index import KeywordIndex
from opencse.search.stems import language_of_texts
from opencse.statistics.correlation import mean_ranks
from opencse.statistics.queries import MeanDifference, grouped_difference
from opencse.text import sample
from opencse.text.readers import Source
from opencse.text.scripts import search_words
from opencse.training.selection import Choice, DevScore, History, OwnPoolingScore, Selector, TrainedTexts, start_kept

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


def fraction(key: str) -> float:
    """A hash of ``key`` as a number in [0, 2^64)."""
    return float(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))


@dataclass(frozen=True)
class QuestionSet:
    """n questions of one kind, each with one answer among m candidates.

    Attributes:
        kind: ``neighbours``, ``halves``, ``pairs``, ``crops`` or another, for the log.
        label: what these questions are, for the user.
        queries: n texts.
        candidates: m distinct texts.
        answers: (n,) row of each query's answer among the candidates.
        units: (n,) where each question comes from (see `HeldOut`).
    """

    kind: str
    label: str
    queries: list[str]
    candidates: list[str]
    answers: Integers
    units: Integers

    def __len__(self) -> int:
        return len(self.queries)

    def texts(self) -> list[str]:
        """Queries and candidates."""
        return [*self.queries, *self.candidates]

    def ranks(self, embedded: Embedded) -> Integers:
        """(n,) rank of each answer; see `answer_ranks`."""
        queries, candidates = embedded.queries.of(self.queries), embedded.of(self.candidates)
        return answer_ranks(queries, candidates, self.answers, self._own_rows(), embedded.similarity)

    def ranks_by_words(self) -> Integers:
        """(n,) rank of each answer by BM25; of equal scores, the answer comes last."""
        index = KeywordIndex.of(self.candidates, language_of_texts(self.candidates))
        ranks = []
        for query, answer, own_row in zip(self.queries, self.answers, self._own_rows(), strict=True):
            scores = index.scores(query)
            ahead = scores >= scores[answer]
            ranks.append(int(ahead.sum()) - int(own_row >= 0 and ahead[own_row]))
        return np.array(ranks, dtype=np.int64)

    def _own_rows(self) -> Integers:
        """(n,) row of each query among the candidates; -1 where it is not one."""
        row_of = {text: row for row, text in enumerate(self.candidates)}
        return np.array([row_of.get(query, -1) for query in self.queries], dtype=np.int64)


FEWEST = 100
"""Fewest questions to select by; with fewer, noise would decide."""


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


TOLERANCE, OF_OWN_WORDS = 2.5, 1.0
"""Points of nDCG@10 x 100 of the built-in pairs that may be lost for a gain on what people ask, and for one on what a
text asks about itself, in its own words; see docs/results/adapt.md.

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


TEXTS = 400
"""Texts that are compared with each other."""
FEWEST_TEXTS = 50
LEAST = 70.0
"""Smallest agreement that is tolerated of a start that knows the language.

With texts that were not adapted to, an agreement of 86 went with no loss on the seven STS tasks, one of 76 with 1.5
points of Spearman x 100 (opencse-mini, English texts); texts that are adapted to may move a little more."""
_MOST_PIECES, _MOST_UNKNOWN = 1.75, 0.05
"""Tokens per word, and share of unknown tokens, above which a start counts as knowing little of a language.

German prose has 2.0 tokens of opencse-mini, which knows only English, per word, and 1.3 of multilingual-e5-small.
Technical words are split more (2.7 and 1.9): then in doubt nothing is refused."""


@dataclass(frozen=True)
class SimilarityGuard:
    """Texts of the user that are not trained on; an encoder shall find much the same of them similar as its start.

    It needs no labels, so it guards every language. It shows how far similarities moved, not whether they got better or
    worse: to adapt an encoder is to move them. So only a large change is refused (`LEAST`), and none where the start
    knows little of the language (`known_by`): it has little to forget. The agreement is always reported.

    The agreement is the mean, over the texts, of Spearman's correlation x 100 between the text's similarities to all
    other texts with one encoder and with the other.

    Attributes:
        texts: n texts.
        language: of the texts; None if it is not clear.

    Example:
        >>> guard = SimilarityGuard(["Eins.", "Zwei.", "Drei.", "Vier."], "german")
        >>> before = np.array([[1.0, 0.9, 0.5, 0.1], [0.9, 1.0, 0.3, 0.2], [0.5, 0.3, 1.0, 0.4], [0.1, 0.2, 0.4, 1.0]])
        >>> guard.agreement(before, before**2), guard.agreement(before, -before)
        (100.0, -100.0)
    """

    texts: list[str]
    language: str | None = None

    @classmethod
    def of(cls, texts: Iterable[str], documents: Sequence[str] = ()) -> SimilarityGuard | None:
        """The guard for a user's texts; None where they are English, which general questions guard, or too few.

        Args:
            texts: texts that are not trained on. Those of lowest hash are compared.
            documents: tell the language where the texts do not, such as keywords without function words.
        """
        distinct = sorted(dict.fromkeys(texts), key=lambda text: (fraction(text), text))
        language = language_of_texts(distinct) or language_of_texts(documents[:TEXTS])
        if language == "english" or len(distinct) < FEWEST_TEXTS:
            return None
        return cls(distinct[:TEXTS], language)

    @property
    def name(self) -> str:
        """What is compared, for the user."""
        language = "" if self.language is None else f"{self.language.capitalize()} "
        return f"similarities of {len(self.texts):,} held-out {language}texts"

    def without(self, trained: TrainedTexts) -> SimilarityGuard | None:
        """Drops the texts that are trained on; None where too few remain."""
        remaining = [text for text in self.texts if text not in trained]
        return SimilarityGuard(remaining, self.language) if len(remaining) >= FEWEST_TEXTS else None

    def fingerprint(self) -> str:
        """A hash of the texts."""
        return hash_json(self.texts)

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n, n) similarities of the texts, read as documents."""
        embedded = embed_for_search(quick(encoder), [(self.texts[:1], self.texts)])
        vectors = embedded.of(self.texts)
        return np.asarray(embedded.similarity.matrix(vectors, vectors), dtype=np.float64)

    def known_by(self, start: SentenceEncoder) -> bool:
        """Whether a start knows the language, by its tokens: few per word, and few unknown ones."""
        tokens = start.tokenizer.encode(self.texts, None)
        words = sum(len(search_words(text, pairs=False)) for text in self.texts)
        pieces = sum(map(len, tokens)) - start.tokenizer.special_count * len(tokens)
        return pieces <= _MOST_PIECES * words and unknown_share(start.tokenizer, tokens) <= _MOST_UNKNOWN

    def agreement(self, before: Floats, after: Floats) -> float:
        """How well the similarities of two encoders agree, from -100 to 100; 100 where nothing moved."""
        count = len(before)
        others = ~np.eye(count, dtype=bool)
        rows = (one[others].reshape(count, count - 1) for one in (before, after))
        ranks = [np.array([mean_ranks(row) for row in one]) for one in rows]
        first, second = (one - one.mean(axis=1, keepdims=True) for one in ranks)
        norms = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
        correlations = (first * second).sum(axis=1) / np.where(norms > 0, norms, np.inf)
        return round(100 * float(correlations.mean()), 9)


_OTHER_WORDS = "in other words (general English questions that share few words with their answers)"


class _Values(NamedTuple):
    """What is computed of an encoder.

    Attributes:
        questions: (n,) the measure of each question.
        general: the measure of each general question.
        similarities: of the texts of the language guard, each with each.
    """

    questions: Floats
    general: Floats | None
    similarities: Floats | None


@dataclass(kw_only=True, eq=False)
class Questions(Selector):
    """Questions with known answers select the encoder that answers best, unless the guard finds it forgot too much.

    Attributes:
        metric: scores the rank of an answer.
        guard: general questions that guard against forgetting (`opencse.training.questions`), or None.
        language_guard: similarities of texts in another language than English, which guard that language, or None.
    """

    metric: Measure = field(default_factory=Measure)
    guard: Guard | None = None
    language_guard: SimilarityGuard | None = None
    _start_values: _Values | None = field(default=None, init=False, repr=False)
    _language_known: bool = field(default=True, init=False, repr=False)

    @property
    @abstractmethod
    def source(self) -> str:
        """Where the questions are from, within a sentence."""

    @property
    @abstractmethod
    def count(self) -> str:
        """How many questions and candidates there are, for the user."""

    @property
    @abstractmethod
    def units(self) -> Integers:
        """(n,) document that each question comes from; questions of one document are not independent."""

    @property
    def kinds(self) -> Integers:
        """(n,) number of the kind of each question, from 0."""
        return np.zeros(len(self.units), dtype=np.int64)

    @property
    @abstractmethod
    def own_words(self) -> bool:
        """Whether a text asks them about itself, so that they share its words."""

    @property
    @abstractmethod
    def unknown(self) -> str:
        """What these questions cannot show, in a clause."""

    @abstractmethod
    def held_out(self) -> list[str]:
        """Texts of the questions and answers, which are not trained on."""

    def documents(self) -> Sequence[str]:
        """The texts that are searched, where `held_out` has none of them."""
        return ()

    @abstractmethod
    def content(self) -> list[object]:
        """The questions and their answers as plain values, for `fingerprint`."""

    @abstractmethod
    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the measure of each question with this encoder, x 100."""

    def parts(self, values: Floats) -> dict[str, float]:
        """Means by kind of question; empty where there is one kind."""
        del values
        return {}

    def guarded(self) -> Self:
        """The same with guards against forgetting: general English questions, and one of the text's language."""
        language_guard = SimilarityGuard.of(self.held_out(), self.documents())
        return replace(self, guard=Guard.built_in(), language_guard=language_guard)

    @property
    def measure(self) -> str:
        """The name of the score."""
        return f"{self.metric} x 100"

    @property
    def size(self) -> str:
        """How many questions there are, and what guards against forgetting."""
        guards = [
            *([] if self.guard is None else [f"{len(self.guard):,} general English questions"]),
            *([] if self.language_guard is None else [self.language_guard.name]),
        ]
        return f"{self.count}; {' and '.join(guards)} guard against forgetting" if guards else self.count

    def forbidden_texts(self) -> list[str]:
        """Texts that must not be trained on, the guard's included."""
        return [] if self.guard is None else self.guard.questions.texts()

    def without(self, trained: TrainedTexts) -> tuple[Self, list[str]]:
        """Drops the questions that also occur in the training text; the guard may be dropped altogether."""
        guard, notes = (None, []) if self.guard is None else self.guard.without(trained)
        language_guard = None if self.language_guard is None else self.language_guard.without(trained)
        return replace(self, guard=guard, language_guard=language_guard), notes

    def fingerprint(self) -> str:
        """A hash of the questions and of what guards against forgetting."""
        guards = ["" if one is None else one.fingerprint() for one in (self.guard, self.language_guard)]
        return hash_json([hash_json(self.content()), *(guards if self.language_guard is not None else guards[:1])])

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Scores the start, which the others are compared with."""
        values = self._values(start)
        self._start_values = values
        self._language_known = self.language_guard is None or self.language_guard.known_by(start)
        return self._compared(values, values)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores an encoder, compared with the start."""
        assert self._start_values is not None, "call begin with the start first"
        return self._compared(self._start_values, self._values(encoder))

    def _values(self, encoder: SentenceEncoder) -> _Values:
        return _Values(
            self.values(encoder),
            None if self.guard is None else self.guard.values(encoder),
            None if self.language_guard is None else self.language_guard.values(encoder),
        )

    def _compared(self, before: _Values, after: _Values) -> DevScore:
        general = change = agreement = None
        refused = False
        if self.guard is not None and before.general is not None and after.general is not None:
            general, change = float(after.general.mean()), self.guard.compare(before.general, after.general)
            refused = self.guard.refuses(change, own_words=self.own_words)
        if self.language_guard is not None and before.similarities is not None and after.similarities is not None:
            agreement = self.language_guard.agreement(before.similarities, after.similarities)
        error = grouped_difference(before.questions, after.questions, self.units, self.kinds).error
        return DevScore(
            float(after.questions.mean()),
            error=error if math.isfinite(error) else None,
            guard=general,
            guard_error=None if change is None else change.error,
            agreement=agreement,
            forgets=refused or self._moved_too_far(agreement),
            parts=self.parts(after.questions),
        )

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` answers worse on average, or has forgotten too much."""
        return trained.value < start.value or trained.forgets

    def choose(
        self, history: History, steps: int, own_pooling: OwnPoolingScore | None, is_worse: Callable[[], bool]
    ) -> Choice:
        """Keeps the best trained step if it answers better than the start with either pooling; else the start.

        The verdict names the measure, the gain with its interval, and what the questions cannot show.
        """
        del steps, is_worse
        start, step = history.by_step[0], history.best_step
        before = start.value if own_pooling is None else max(start.value, own_pooling.value)
        words = ", in its words," if self.own_words else ""
        measured = f"{self.metric} of {len(self.units):,} questions from {self.source}{words}"
        with_own = ""
        if own_pooling is not None:
            with_own = f" (with its own pooling {own_pooling.pooling} {own_pooling.value:.2f})"
        if not step or history.by_step[step].value <= before:
            untrained: Literal["start", "given"] = "given" if before > start.value else "start"
            scores = f"{measured.removesuffix(',')}: start {start.value:.2f}{with_own}"
            return Choice(untrained, self._refusal(history, before, scores, start_kept(untrained, own_pooling)))
        best = history.by_step[step]
        gain = _with_interval(best.value - start.value, best.error)
        general = ""
        if best.guard is not None and start.guard is not None:
            change = _with_interval(best.guard - start.guard, best.guard_error)
            less = best.guard < start.guard and "noise" not in change
            change += ": queries in other words than your documents' may find less" if less else ""
            general = f"; {_OTHER_WORDS} {start.guard:.2f} before, {best.guard:.2f} now ({change})"
        if best.agreement is not None:
            general += f"; {self._similarities} agree to {best.agreement:.0f} % with the start's"
            general += "" if self._language_known else ", which knows little of their language"
        return Choice(
            "best",
            f"{best.named(step)} is kept: {measured} {start.value:.2f} before{with_own}, "
            f"{best.value:.2f} now ({gain}{_by_kind(start, best)}){general}; {self.unknown}",
        )

    def _moved_too_far(self, agreement: float | None) -> bool:
        return self._language_known and agreement is not None and agreement < LEAST

    @property
    def _similarities(self) -> str:
        return "" if self.language_guard is None else self.language_guard.name

    def _refusal(self, history: History, before: float, measured: str, kept: str) -> str:
        """The verdict where the start is kept."""
        start = history.by_step[0]
        step = max(filter(None, history.by_step), key=lambda step: history.by_step[step].value)
        best = history.by_step[step]
        scores = f"{measured}, best of training {best.value:.2f} at step {step:,}"
        if best.value <= before or not best.forgets:
            return f"{kept}: no trained encoder answers better ({scores})"
        if self._moved_too_far(best.agreement):
            why = f"moved too far: {self._similarities} agree to {best.agreement:.0f} % with the start's"
        else:
            why = f"lost {_OTHER_WORDS} ({start.guard:.2f} before, {best.guard:.2f} after)"
        return f"{kept}: training gained ({scores}) but {why}; try a lower training.learning_rate"


def _with_interval(change: float, error: float | None) -> str:
    """A change in words, with its interval."""
    if error is None:
        return f"{change:+.2f}, all from one document, so it may be noise"
    low, high = MeanDifference(change, error).interval
    noise = ", so it may be noise" if low <= 0 <= high else ""
    return f"{change:+.2f}, 95% interval {low:+.2f} to {high:+.2f}{noise}"


def _by_kind(before: DevScore, after: DevScore) -> str:
    """The scores of each kind of question in words, where there are several."""
    if len(after.parts) < 2:
        return ""
    kinds = ", ".join(
        f"{name.replace('_', ' ').replace('crops', 'sentence parts')} "
        f"{before.parts.get(name, math.nan):.2f} to {value:.2f}"
        for name, value in after.parts.items()
    )
    return f"; {kinds}"
