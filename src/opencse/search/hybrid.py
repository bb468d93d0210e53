"""Ranks documents by vectors and keywords together (hybrid search): one rule for an index and for `evaluate`.

A model's vectors count in it as much as the model understands of general questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats, Integers
from opencse.encoder.text_encoder import TextEncoder
from opencse.modules.prompts import Role
from opencse.modules.similarity import HybridWeight, Similarity
from opencse.ranking import Measure, PreparedVectors, nearest_prepared, similarities
from opencse.search.keyword_index import KeywordIndex, best_rows
from opencse.text import sample
from opencse.text.readers import Source

DEPTH = 100
"""Ranks of each list that are candidates of a hybrid search, at least."""
_TRUST = 2.0
"""How much words count next to vectors, for a query of which one document has every word."""
SAMPLE = 4_096
"""Rows that the lowest similarity to a query is computed from, at most."""
_LANGUAGE = "english"
"""Of the general questions; they say nothing about a text in another language."""
_EVERY = 4
"""Each fourth of the built-in pairs asks: enough to know the weight to .02."""
_MEASURE = Measure()
Encode = Callable[[Sequence[str]], Any]
"""n texts -> (n, d) array."""


class SearchedRows(Protocol):
    """The rows that a hybrid search reads: documents, or the passages of long ones.

    Attributes:
        vectors: (slots, d) prepared.
        positions: (m,) rows of ``vectors`` that are searched, ascending.
        firsts: (n,) of each document, the place of its first row in ``positions``; its other rows follow there.
        sample: (at most `SAMPLE`, d) vectors of rows evenly spread over them.
        similarity: the function that compares them.
    """

    @property
    def vectors(self) -> PreparedVectors: ...  # noqa: D102 - see above

    @property
    def positions(self) -> Integers: ...  # noqa: D102

    @property
    def firsts(self) -> Integers: ...  # noqa: D102

    @property
    def sample(self) -> PreparedVectors: ...  # noqa: D102

    @property
    def similarity(self) -> Similarity: ...  # noqa: D102


@dataclass(frozen=True)
class RowsInMemory:
    """Rows whose vectors are all in memory, ``counts`` of each document (None: one); see `SearchedRows`."""

    vectors: PreparedVectors
    similarity: Similarity = Similarity.COSINE
    counts: Sequence[int] | None = None

    @cached_property
    def positions(self) -> Integers:
        """All rows."""
        return np.arange(len(self.vectors))

    @cached_property
    def firsts(self) -> Integers:
        """See `SearchedRows`."""
        return self.positions if self.counts is None else np.cumsum([0, *self.counts])[:-1]

    @cached_property
    def sample(self) -> PreparedVectors:
        """See `SearchedRows`."""
        return self.vectors[evenly_spread(self.positions)]


@dataclass(frozen=True)
class WordScores:
    """How well documents match the words of a query.

    Attributes:
        scores: (n,) BM25 scores; 0 for documents that may not be found.
        covered: c, the largest share of the query's words that one document has; see `KeywordIndex.covered`.
    """

    scores: Floats
    covered: float

    @classmethod
    def of(cls, words: KeywordIndex, query: str, allowed: NDArray[np.bool_] | None = None) -> WordScores:
        """The scores of a query, among the (n,) ``allowed`` documents where these are given."""
        among = 1.0 if allowed is None else allowed
        return cls(words.scores(query) * among, float((words.covered(query) * among).max(initial=0.0)))

    @property
    def trust(self) -> float:
        r"""How much the words count next to the vectors, :math:`t = 2 c^2`.

        That is little for a query of which no document has the rare words: it is put in other words than the
        documents, and BM25 ranks by chance. Measured in docs/results/search.md.
        """
        return _TRUST * self.covered**2


@dataclass(frozen=True)
class Candidates:
    """The documents that are candidates of one query, with both of their scores scaled to [0, 1].

    Attributes:
        rows: (c,) numbers of the documents, ascending.
        by_vectors: (c,) scaled similarities.
        by_words: (c,) scaled BM25 scores.
        trust: t, how much the words count; see `WordScores`.
    """

    rows: Integers
    by_vectors: Floats
    by_words: Floats
    trust: float = 1.0

    def ranking(self, weight: float) -> tuple[Integers, Floats]:
        """Ranks the candidates by their weighted mean score; equal ones by similarity, then in their order.

        Args:
            weight: w of the vectors, in [0, 1], where words are fully trusted.

        Returns:
            (c,) numbers of documents, best first, and their scores.

        Example:
            >>> candidates = Candidates(np.array([3, 8]), np.array([1.0, 0.4]), np.array([0.0, 1.0]))
            >>> [rows.tolist() for rows, _ in (candidates.ranking(0.9), candidates.ranking(0.5))]
            [[3, 8], [8, 3]]
        """
        of_words = (1 - weight) * self.trust
        share = weight / (weight + of_words) if weight else 0.0  # 0 / 0 for words that nothing has
        scores = share * self.by_vectors + (1 - share) * self.by_words
        order = np.lexsort((self.rows, -self.by_vectors, -scores))
        return self.rows[order], scores[order]


def candidates_of(
    query: PreparedVectors, near: Integers, words: WordScores, rows: SearchedRows, depth: int
) -> Candidates:
    r"""Finds the candidates of a hybrid search for one query, and scales their scores.

    .. math:: \text{score}(d) = v\,\frac{s(q, d) - l}{h - l} + (1 - v)\,\frac{\text{BM25}(q, d)}{b}, \qquad
              v = \frac{w}{w + (1 - w)\,t}

    with w the weight of the vectors, t the trust in the query's words (`WordScores.trust`), s the similarity (the
    cosine, unless the model names another), h the highest similarity and b the highest BM25 score to the query, and l
    the lowest similarity to at most 4096 rows evenly spread over all (lower ones count as l). The similarity of a
    document in passages is the mean of its best passage's and its first one's, because the beginning says what the
    document is about; words are counted in whole documents. Bruch, Gai and Ingber 2023 ("An Analysis of Fusion
    Functions for Hybrid Retrieval").

    Args:
        query: (d,) its prepared vector.
        near: (at most ``depth``,) the rows with the most similar vectors; -1 is not a row.
        words: the words of the n documents.
        rows: that are searched.
        depth: ranks of the keyword list that are candidates.

    Example:
        >>> rows = RowsInMemory(np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32))
        >>> words = WordScores(np.array([0.0, 2.0, 4.0]), covered=0.5)
        >>> candidates = candidates_of(rows.vectors[0], np.array([0, 1]), words, rows, depth=2)
        >>> candidates.rows.tolist(), candidates.by_vectors.round(2).tolist(), candidates.by_words.tolist()
        ([0, 1, 2], [1.0, 0.6, 0.0], [0.0, 0.5, 1.0])
    """
    positions, similarity = rows.positions, rows.similarity
    found = np.searchsorted(rows.firsts, np.searchsorted(positions, near[near >= 0]), side="right") - 1
    candidates = np.union1d(found, best_rows(words.scores, depth))
    if not len(candidates):
        return Candidates(candidates, np.empty(0), np.empty(0))
    places, begins = places_of(rows, candidates)
    of_rows = similarities(query[None], rows.vectors, positions[places][None], similarity)[0]
    of_each = (np.maximum.reduceat(of_rows, begins) + of_rows[begins]) / 2
    # Similarities of a query lie close together, at a level of its own; words' scores begin at 0.
    low, high = float(similarity.scores(query[None], rows.sample).min()), float(of_each.max())
    by_vectors = np.clip((of_each - low) / (high - low), 0, 1) if high > low else np.ones(len(candidates))
    by_words = words.scores[candidates] / max(float(words.scores.max()), 1e-12)  # all are 0 where no word is found
    return Candidates(candidates, by_vectors, by_words, words.trust)


def places_of(rows: SearchedRows, documents: Integers) -> tuple[Integers, Integers]:
    """Where the rows of some documents are in ``rows.positions``, and where each document's begin among these.

    Example:
        >>> places_of(RowsInMemory(np.zeros((6, 1), np.float32), counts=[2, 1, 3]), np.array([0, 2]))
        (array([0, 1, 3, 4, 5]), array([0, 2]))
    """
    ends = np.append(rows.firsts, len(rows.positions))
    counts = ends[documents + 1] - ends[documents]
    begins = np.cumsum(counts) - counts
    return np.repeat(ends[documents] - begins, counts) + np.arange(counts.sum()), begins


def evenly_spread(positions: Integers, most: int = SAMPLE) -> Integers:
    """At most ``most`` of the positions, evenly spread.

    Example:
        >>> evenly_spread(np.arange(7), most=3).tolist()
        [0, 3, 6]
    """
    return positions[:: max(1, -(-len(positions) // most))]


def weight_of_model(
    queries: Encode, documents: Encode, similarity: Similarity, language: str | None = _LANGUAGE
) -> HybridWeight:
    r"""The weight of a model's vectors where none was fitted: its nDCG@10 on general questions in other words.

    .. math:: w = \frac{1}{n} \sum_{i=1}^n \frac{[r_i \le 10]}{\log_2(r_i + 1)}

    with r_i the rank of the i-th answer among all. The n questions are every fourth of the built-in pairs: questions
    and paraphrases that share few words with their answers, so a model that knows synonyms answers most of them, and a
    model that compares words few. That needs no label of the user's, and a text cannot show it about itself.

    Args:
        queries: encodes queries.
        documents: encodes documents.
        similarity: compares them.
        language: the language of the indexed text; one that is not English, or not known, has the default weight.

    Example:
        >>> import opencse
        >>> encoder = opencse.load("opencse-mini")
        >>> print(weight_of_model(encoder.encode, encoder.encode, Similarity.COSINE))
        0.43 (general questions that the model answers)
    """
    if language != _LANGUAGE:
        return HybridWeight()
    rows = Source(str(sample.PAIRS)).read().rows[::_EVERY]
    answers = [answer for _, answer in rows]
    row_of = {answer: row for row, answer in enumerate(dict.fromkeys(answers))}
    asked, texts = (similarity.prepared(np.asarray(encode(list(some)))) for encode, some in (
        (queries, [query for query, _ in rows]), (documents, row_of)))  # fmt: skip
    near, _ = nearest_prepared(asked, texts, _MEASURE.k, similarity=similarity)
    found = near == np.array([row_of[answer] for answer in answers])[:, None]
    ranks = np.where(found.any(axis=1), found.argmax(axis=1) + 1, _MEASURE.k + 1)
    value = float(_MEASURE.of_ranks(ranks).mean()) / 100
    return HybridWeight(round(value, 2), "general questions that the model answers")


def weight_of_encoder(encoder: TextEncoder, language: str | None = _LANGUAGE) -> HybridWeight:
    """The weight that is saved with an encoder, or else the one of `weight_of_model`."""

    def by_role(role: Role) -> Encode:
        return lambda texts: encoder.encode(list(texts), prompt=encoder.prompts.of(role))

    if encoder.hybrid_weight is not None:
        return encoder.hybrid_weight
    similarity = Similarity(encoder.similarity_fn_name)
    return weight_of_model(by_role(Role.QUERY), by_role(Role.DOCUMENT), similarity, language)
