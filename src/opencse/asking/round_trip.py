"""Checks that each question leads back to its document, by word search (BM25) and by the vectors of an encoder."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.asking.sources import SourcePassage
from opencse.encoder.text_encoder import TextEncoder
from opencse.modules.similarity import Similarity
from opencse.progress import Progress
from opencse.search.keyword_index import KeywordIndex
from opencse.search.stems import language_of

SEARCHED = 100_000
"""Most passages that are searched; a random sample of the others where there are more."""
_BLOCK = 64
_LANGUAGE_SAMPLE = 2_000


@dataclass(frozen=True)
class DocumentRanks:
    """The rank, from 1, of a question's document among all documents; a document has the score of its best passage.

    Attributes:
        words: by BM25; None if the document has no word of the question.
        vectors: by the encoder.
    """

    words: int | None
    vectors: int

    def within(self, k: int) -> bool:
        """Whether either search finds the document among its first k."""
        return min(self.vectors, self.words or self.vectors) <= k


def round_trip(
    questions: Sequence[str],
    rows: Sequence[int],
    passages: Sequence[Sequence[SourcePassage]],
    encoder: TextEncoder,
    progress: Progress,
) -> list[DocumentRanks]:
    """Ranks the document of each question by both searches.

    Args:
        questions: n texts.
        rows: (n,) number of each question's document.
        passages: of every document of the collection.
        encoder: encodes questions and passages.
        progress: shows the progress.
    """
    if not questions:
        return []
    searched = _searched(set(rows), passages)
    texts = [one.text for row in searched for one in passages[row]]
    starts = np.cumsum([0, *(len(passages[row]) for row in searched)])[:-1]
    position = {row: number for number, row in enumerate(searched)}
    targets = np.array([position[row] for row in rows], dtype=np.int64)
    words = KeywordIndex.of(texts, language_of(texts[:: max(1, len(texts) // _LANGUAGE_SAMPLE)]))
    progress.start("encoding passages", len(texts))
    try:
        documents = encoder.encode_document(texts, progress=lambda done, _: progress.advance(done))
    finally:
        progress.finish()
    similarity = Similarity(encoder.similarity_fn_name)
    prepared, prepared_queries = similarity.prepared(documents), similarity.prepared(encoder.encode_query(questions))
    ranks: list[DocumentRanks] = []
    progress.start("round trip", len(questions))
    try:
        for start in range(0, len(questions), _BLOCK):
            block = slice(start, start + _BLOCK)
            by_words = np.stack([words.scores(question) for question in questions[block]])
            by_vectors = similarity.rough(prepared_queries[block], prepared).astype(np.float64)
            ranks += _ranks(by_words, by_vectors, starts, targets[block])
            progress.advance(len(ranks))
    finally:
        progress.finish()
    return ranks


def _ranks(by_words: Floats, by_vectors: Floats, starts: Integers, targets: Integers) -> Iterator[DocumentRanks]:
    """Ranks from scores (n, passages), whose documents begin at ``starts``; ``targets``: (n,) document of each row."""
    word_scores = np.maximum.reduceat(by_words, starts, axis=1)
    vector_scores = np.maximum.reduceat(by_vectors, starts, axis=1)
    for of_words, of_vectors, target in zip(word_scores, vector_scores, targets.tolist(), strict=True):
        rank = int((of_words > of_words[target]).sum()) + 1 if of_words[target] > 0 else None
        yield DocumentRanks(rank, int((of_vectors > of_vectors[target]).sum()) + 1)


def _searched(needed: set[int], passages: Sequence[Sequence[SourcePassage]]) -> list[int]:
    """The documents that are searched, ascending: all, or those needed and a random sample of the others."""
    if sum(len(parts) for parts in passages) <= SEARCHED:
        return list(range(len(passages)))
    room = SEARCHED - sum(len(passages[row]) for row in needed)
    others = [row for row in range(len(passages)) if row not in needed]
    random.Random(0).shuffle(others)
    searched = set(needed)
    for row in others:
        room -= len(passages[row])
        if room < 0:
            break
        searched.add(row)
    return sorted(searched)
