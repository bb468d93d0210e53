"""Answers questions by hybrid search at every weight of the vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from opencse.adapting.holdout import fraction
from opencse.adapting.hybrid_fit import SHARES, FittedWeight, curves_of, fit_weight
from opencse.adapting.question_sets import QuestionSet
from opencse.adapting.selection_by_questions import Questions
from opencse.adapting.text_questions import TextQuestions, quick
from opencse.adapting.user_queries import UserQueries
from opencse.arrays import Floats, Integers, Vectors
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.evaluation.embedding import embed_for_search
from opencse.evaluation.retrieval.rankers import ByBoth, evenly
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.ranking import Measure, nearest_prepared
from opencse.search.hybrid import DEPTH, RowsInMemory, SearchedRows, candidates_of
from opencse.search.keyword_index import KeywordIndex
from opencse.search.passages import PassageSplitter
from opencse.search.same_texts import require_same_texts
from opencse.search.snapshots import Snapshot
from opencse.text.scripts import count_words
from opencse.text.sentences import split_sentences
from opencse.text.stems import language_of

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

FEWEST = 20
"""Fewest questions, or queries, that a weight is fitted on."""
QUESTIONS = 300
"""Most questions of each kind that are made of an index's own texts."""
_ROWS = 20_000
"""Most texts of an index that are searched for them; a sample evenly spread where there are more."""
_WORDS = 5
"""Words of a sentence that is a question, at least."""
_OF_PEOPLE = ("pairs", "new pairs")
"""Kinds of questions that are the user's pairs, where there are any."""
RowScore = Callable[[int, Integers], float]
"""The measure x 100 of a query, given by its number, from its ranked documents."""


def values_by_share(
    queries: Sequence[str], vectors: Vectors, rows: SearchedRows, words: KeywordIndex, score: RowScore
) -> Floats:
    """Scores each query's hybrid search at each weight of the vectors.

    Args:
        queries: n texts.
        vectors: (n, d) of the queries, prepared.
        rows: that are searched.
        words: the keyword index of their documents, in their order.
        score: of a query's ranked documents.

    Returns:
        (n, 21) scores at each of `SHARES`.
    """
    near, _ = nearest_prepared(vectors, rows.vectors, DEPTH, rows.positions, similarity=rows.similarity)
    values = np.zeros((len(queries), len(SHARES)))
    for number, (text, query, nearest) in enumerate(zip(queries, vectors, near, strict=True)):
        candidates = candidates_of(query, nearest, words.scores(text), rows, DEPTH)
        values[number] = [score(number, candidates.ranking(float(share))[0]) for share in SHARES]
    return values


def fit_to_questions(encoder: SentenceEncoder, questions: Questions) -> FittedWeight | None:
    """Fits the weight to the questions that an encoder was selected by; None where they are too few, or of no kind.

    Args:
        encoder: the selected one.
        questions: held-out questions of a text or pairs, or the user's queries.
    """
    if isinstance(questions, UserQueries):
        return None if len(questions.task.queries) < FEWEST else _fit_to_queries(encoder, questions)
    if not isinstance(questions, TextQuestions) or len(questions.units) < FEWEST:
        return None
    curves = [
        (_of_set(encoder, one, questions.metric), one.units, questions.from_pairs and one.kind in _OF_PEOPLE)
        for one in questions.sets
    ]
    return fit_weight(
        curves_of(curves, questions.weights), f"{number_of(len(questions.units), 'question')}: {questions.source}"
    )


def fit_to_index(snapshot: Snapshot, encoder: TextEncoder, measure: Measure | None = None) -> FittedWeight:
    """Fits the weight to questions that an index's own texts ask: a sentence asks for the rest of its document.

    Two kinds count equally: first sentences, and others. Texts of one sentence ask nothing.

    Raises:
        UserError: where there are too few texts of several sentences.
    """
    measure = measure or Measure()
    stored = evenly(snapshot.select("1", []), _ROWS)
    order = sorted(range(len(stored)), key=lambda row: fraction(stored[row].text))
    curves = []
    for kind in (0, 1):
        questions: list[tuple[int, str, str]] = []
        for row in order:
            parts = _sentence_and_rest(stored[row].text, first=kind == 0)
            if parts is not None:
                questions.append((row, *parts))
            if len(questions) == QUESTIONS:
                break
        if len(questions) >= FEWEST:
            curves.append(_of_own_texts(snapshot, encoder, measure, [row.text for row in stored], questions,
                                        [row.position for row in stored], [row.id for row in stored]))  # fmt: skip
    if not curves:
        raise UserError(
            f"{snapshot.folder}: fewer than {FEWEST} texts have several sentences, so they ask no questions; give "
            "queries with their relevant documents (--dev FOLDER)"
        )
    count = sum(len(values) for values, _, _ in curves)
    return fit_weight(curves_of(curves), f"{number_of(count, 'question')} made of the texts of the index")


def fit_index_to_queries(snapshot: Snapshot, encoder: TextEncoder, queries: UserQueries) -> FittedWeight:
    """Fits the weight to a user's queries, whose relevant documents are in an index by their ids.

    Raises:
        UserError: where none of the relevant documents is in the index, too few queries have one, or the ids are those
            of other texts there.
    """
    task = queries.task
    stored = snapshot.select("1", [])
    ids = list(dict.fromkeys(row.id for row in stored))
    positions, left_out = task.positions, task.left_out(queries.keep_identical_ids)
    known = {positions.get(name) for name in ids}
    answered = [n for n, levels in enumerate(task.judged) if any(v > 0 and row in known for row, v in levels.items())]
    if len(task.queries) < FEWEST:
        raise UserError(
            f"{task.name}: has {number_of(len(task.queries), 'query', 'queries')} with a relevant document; a weight "
            f"needs at least {FEWEST}: label more queries"
        )
    if len(answered) < FEWEST:
        raise UserError(
            f"{task.name}: {len(answered):,} of {len(task.queries):,} queries have a relevant document in "
            f"{snapshot.folder}, by its id; a weight needs at least {FEWEST}; "
            "the documents of the index need the ids that the queries name"
        )
    relevant_rows = {row for levels in task.judged for row, level in levels.items() if level > 0}
    relevant = {name: task.documents[row] for name, row in positions.items() if row in relevant_rows}
    require_same_texts(snapshot.folder, task.name, relevant, ((row.id, row.text) for row in stored))
    texts = [task.queries[n] for n in answered]

    def score(number: int, rows: Integers) -> float:
        query = answered[number]
        levels = task.judged[query]
        # A document that the task lacks counts by its id.
        found: dict[Any, None] = dict.fromkeys(positions.get(ids[row], ids[row]) for row in rows.tolist())
        found.pop(left_out[query], None)
        ranked = [levels.get(name, 0) for name in list(found)[: queries.metric.k]]
        return queries.metric.of_ranking(ranked, list(levels.values()))

    vectors = snapshot.manifest.prepared(encoder.encode(texts, prompt=encoder.prompts.of(Role.QUERY)))
    values = values_by_share(texts, vectors, snapshot, snapshot.keywords, score)
    curves = curves_of([(values, np.arange(len(texts)), True)])
    return fit_weight(curves, f"{number_of(len(texts), 'query')} of {task.name}")


def _fit_to_queries(encoder: SentenceEncoder, queries: UserQueries) -> FittedWeight:
    task, model = queries.task, quick(encoder)
    both = ByBoth(0, split=PassageSplitter(encoder, encoder.max_length).split)
    embedded = embed_for_search(model, [(task.queries, both.texts(task))])
    similarity, metric = embedded.similarity, queries.metric
    rows = both.rows(task, embedded)
    left_out = task.left_out(queries.keep_identical_ids)

    def score(number: int, ranked: Integers) -> float:
        levels = task.judged[number]
        others = [row for row in ranked.tolist() if row != left_out[number]][: metric.k]
        return metric.of_ranking([levels.get(row, 0) for row in others], list(levels.values()))

    words = KeywordIndex.of(task.documents, language_of(evenly(task.documents)))
    values = values_by_share(task.queries, similarity.prepared(embedded.queries.of(task.queries)), rows, words, score)
    return fit_weight(
        curves_of([(values, queries.units, True)]), f"{number_of(len(task.queries), 'query')} of {task.name}"
    )


def _of_set(encoder: SentenceEncoder, questions: QuestionSet, metric: Measure) -> Floats:
    """(n, 21) scores of the questions of one kind."""
    embedded = embed_for_search(quick(encoder), [(questions.queries, questions.candidates)])
    similarity = embedded.similarity
    rows = RowsInMemory(similarity.prepared(embedded.of(questions.candidates)), similarity)
    words = KeywordIndex.of(questions.candidates, language_of(evenly(questions.candidates)))
    row_of = {text: row for row, text in enumerate(questions.candidates)}
    own_rows = [row_of.get(query, -1) for query in questions.queries]

    def score(number: int, ranked: Integers) -> float:
        others = ranked[ranked != own_rows[number]]
        return _of_answer(metric, np.flatnonzero(others == questions.answers[number]))

    vectors = similarity.prepared(embedded.queries.of(questions.queries))
    return values_by_share(questions.queries, vectors, rows, words, score)


def _of_own_texts(
    snapshot: Snapshot,
    encoder: TextEncoder,
    metric: Measure,
    texts: Sequence[str],
    questions: Sequence[tuple[int, str, str]],
    positions: Sequence[int],
    ids: Sequence[str],
) -> tuple[Floats, Integers, bool]:
    """Scores of questions (row, sentence, rest of its text), in an index where that text lacks the sentence."""
    query_rows = [row for row, _, _ in questions]
    changed, vectors = list(texts), np.array(snapshot.vectors[list(positions)])
    for row, _, rest in questions:
        changed[row] = rest
    rests = encoder.encode([rest for _, _, rest in questions], prompt=encoder.prompts.of(Role.DOCUMENT))
    vectors[query_rows] = snapshot.manifest.prepared(rests)
    sentences = [sentence for _, sentence, _ in questions]
    queries = snapshot.manifest.prepared(encoder.encode(sentences, prompt=encoder.prompts.of(Role.QUERY)))
    passages = [[text for _, text in rows] for _, rows in groupby(zip(ids, changed, strict=True), key=itemgetter(0))]
    counts = [len(one) for one in passages]
    documents = np.repeat(np.arange(len(counts)), counts)[query_rows]

    def score(number: int, ranked: Integers) -> float:
        return _of_answer(metric, np.flatnonzero(ranked == documents[number]))

    words = KeywordIndex.of([" ".join(one) for one in passages], snapshot.manifest.language)
    values = values_by_share(sentences, queries, RowsInMemory(vectors, snapshot.similarity, counts), words, score)
    return values, documents, False


def _of_answer(metric: Measure, where: Integers) -> float:
    """The measure of an answer's first position in a ranking, from 0; 0 where it is not ranked."""
    return float(metric.of_ranks(where[:1] + 1)[0]) if len(where) else 0.0


def _sentence_and_rest(text: str, *, first: bool) -> tuple[str, str] | None:
    """A sentence of a text, chosen by the text's hash unless it is the first, and the rest; None where none will do."""
    sentences = split_sentences(text)
    if len(sentences) < 2:
        return None
    number = 0 if first else 1 + int(fraction(text)) % (len(sentences) - 1)
    rest = " ".join([*sentences[:number], *sentences[number + 1 :]])
    if min(count_words(sentences[number]), count_words(rest)) < _WORDS:
        return None
    return sentences[number], rest
