"""How words and vectors are best made one list, without labels to tune by: what hybrid search rests on.

    python benchmarks/fusion.py --data DATA/retrieval --models opencse-mini FOLDER --out study

For each data set in BEIR's layout and each model, prints nDCG@10 x 100 of BM25 alone by its settings, and of fusions by
the share of the vectors (1 is the vectors alone):

    ranks     reciprocal rank fusion, 1 / (60 + rank) over the first 100 of each list; "ranks 10" with 10 for 60
    range     scores scaled by a query's lowest and highest (BM25's lowest is 0): what OpenCSE does, here with all rows
              as candidates and the true lowest cosine
    best      cosines scaled by a query's mean and highest, BM25 by the highest
    cosine    cosines scaled from -1, BM25 from 0, to the highest
    deviation standard deviations from the mean over the corpus

and, with --own-text, what questions from the corpus itself say of "range" (mean reciprocal rank x 100): the first
sentence of each of 300 documents, with the rest of it as the answer among the other documents whole. With --others, the
first --count sentences of a file are thrown in among the documents. Nothing is drawn by chance. Vectors stay in --out
and are used again.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.evaluation.retrieval.data import RetrievalTask, load_retrieval
from opencse.ranking import ndcg
from opencse.text.readers import Source

Matrix = NDArray[np.float64]
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
PATTERN = r"(?u)\b\w+\b"
QUESTIONS = 300


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=["opencse-mini"])
    parser.add_argument("--precision", default="float32", help="of the documents' encoding: float32 or bf16")
    parser.add_argument("--own-text", action="store_true", help="ask the corpus itself too")
    parser.add_argument("--others", help="a file of sentences that answer nothing")
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    print(json.dumps(Environment.here().model_dump(mode="json")))
    others = [] if given.others is None else [row[0] for _, row in islice(Source(given.others).examples(), given.count)]
    for name, own in load_retrieval(given.data).tasks.items():
        ids = [*own.document_ids, *(f"other {number}" for number in range(len(others)))]
        task = replace(own, documents=[*own.documents, *others], document_ids=ids)
        words = by_words(task.documents, task.queries)
        told = ", ".join(f"{what} {score(task, found):.2f}" for what, found in settings(task).items())
        print(f"\n{name}: BM25 {score(task, words):.2f}; {told}", flush=True)
        for model in given.models:
            vectors(name, task, model, words, given, with_others=bool(others))


def vectors(
    name: str, task: RetrievalTask, model: str, words: Matrix, given: argparse.Namespace, *, with_others: bool
) -> None:
    """The fusions of one data set and model."""
    encoder = SentenceEncoder.load(model)
    file = given.out / f"{name}-{Path(model).name}{f'-{len(task.documents)}' if with_others else ''}.npz"
    if not file.exists():
        np.savez(file, q=encode(encoder, task.queries), d=encode(encoder, task.documents, given.precision))
    with np.load(file) as kept:
        queries, documents = kept["q"], kept["d"]
    cosines = (queries @ documents.T).astype(np.float64)
    print(f"{name}, {Path(model).name}: vectors {score(task, cosines):.2f}")
    print(f"  {'':10} " + " ".join(f"{share:6}" for share in SHARES))
    for rule, fuse in FUSIONS.items():
        found = [score(task, fuse(cosines, words, share)) for share in SHARES]
        print(f"  {rule:10} " + " ".join(f"{value:6.2f}" for value in found), flush=True)
    if given.own_text:
        own = known_items(task, encoder, documents)
        print(f"  {'own text':10} " + " ".join(f"{value:6.2f}" for value in own), flush=True)


def encode(encoder: SentenceEncoder, texts: Sequence[str], precision: str = "float32") -> NDArray[np.float32]:
    """(n, d) L2-normalised."""
    found: Any = encoder.encode(list(texts), normalize_embeddings=True, precision=precision)  # type: ignore[arg-type]
    return np.asarray(found, dtype=np.float32)


def by_words(documents: Sequence[str], queries: Sequence[str], **given: Any) -> Matrix:  # noqa: ANN401 - bm25s's own
    """(n, m) BM25 scores."""
    import bm25s

    how = {"token_pattern": PATTERN, "show_progress": False, "return_ids": False}
    how |= {"stopwords": given.pop("stopwords", None), "stemmer": given.pop("stemmer", None)}
    inner = bm25s.BM25(method="lucene", **given)
    inner.index(bm25s.tokenize(list(documents), **how), show_progress=False)
    known = [[word for word in words if word in inner.vocab_dict] for words in bm25s.tokenize(list(queries), **how)]
    return np.array([inner.get_scores(words) if words else np.zeros(len(documents)) for words in known], dtype=float)


def settings(task: RetrievalTask) -> dict[str, Matrix]:
    """BM25 by other settings than its usual ones."""
    found = {
        f"k1 {k1} b {b}": by_words(task.documents, task.queries, k1=k1, b=b) for k1, b in ((0.9, 0.4), (1.2, 0.75))
    }
    found["English stop words left out"] = by_words(task.documents, task.queries, stopwords="en")
    return found | {"as they are": by_words(task.documents, task.queries)}


def known_items(task: RetrievalTask, encoder: SentenceEncoder, documents: NDArray[np.float32]) -> list[float]:
    """Mean reciprocal rank x 100 by share: first sentences as queries, the rest of their documents as answers."""
    cut = [re.split(r"(?<=[.?!])\s+", text, maxsplit=1) for text in task.documents]
    rows = [row for row, parts in enumerate(cut) if len(parts) == 2 and len(parts[1].split()) > 20]
    rows = rows[:: max(1, len(rows) // QUESTIONS)][:QUESTIONS]
    asked, rest = [cut[row][0] for row in rows], [cut[row][1] for row in rows]
    queries, answers = encode(encoder, asked), encode(encoder, rest)
    cosines = (queries @ documents.T).astype(np.float64)
    words = by_words([*task.documents, *rest], asked)
    for number, row in enumerate(rows):
        cosines[number, row] = queries[number] @ answers[number]
        words[number, row] = words[number, len(documents) + number]
    words = words[:, : len(documents)]
    return [
        100 * float(np.mean([1 / ranks(line[None])[0, row] for line, row in zip(by_range(cosines, words, s), rows,
                                                                                strict=True)]))
        for s in SHARES
    ]  # fmt: skip


def ranks(scores: Matrix) -> Matrix:
    """(n, m) ranks from 1, equal scores in their order."""
    found = np.empty_like(scores)
    np.put_along_axis(found, np.argsort(-scores, axis=1, kind="stable"), np.arange(1.0, scores.shape[1] + 1)[None], 1)
    return found


def by_ranks(cosines: Matrix, words: Matrix, share: float, constant: int = 60) -> Matrix:
    """Reciprocal rank fusion."""
    one, two = ranks(cosines), ranks(words)
    first = share * np.where(one <= 100, 1 / (constant + one), 0)
    return np.asarray(first + (1 - share) * np.where((two <= 100) & (words > 0), 1 / (constant + two), 0))


def scaled(scores: Matrix, low: Matrix | float) -> Matrix:
    """From ``low`` at 0 to a query's highest at 1."""
    return np.asarray((scores - low) / np.maximum(scores.max(axis=1, keepdims=True) - low, 1e-12))


def by_range(cosines: Matrix, words: Matrix, share: float) -> Matrix:
    """Scaled by the lowest and the highest."""
    return share * scaled(cosines, cosines.min(axis=1, keepdims=True)) + (1 - share) * scaled(words, 0.0)


def by_best(cosines: Matrix, words: Matrix, share: float) -> Matrix:
    """Scaled by the mean and the highest."""
    return share * scaled(cosines, cosines.mean(axis=1, keepdims=True)) + (1 - share) * scaled(words, 0.0)


def by_cosine(cosines: Matrix, words: Matrix, share: float) -> Matrix:
    """Scaled by what a cosine can be."""
    return share * scaled(cosines, -1.0) + (1 - share) * scaled(words, 0.0)


def by_deviation(cosines: Matrix, words: Matrix, share: float) -> Matrix:
    """Standard deviations from the mean."""
    one, two = (
        (scores - scores.mean(axis=1, keepdims=True)) / np.maximum(scores.std(axis=1, keepdims=True), 1e-12)
        for scores in (cosines, words)
    )
    return np.asarray(share * one + (1 - share) * two)


FUSIONS: dict[str, Callable[[Matrix, Matrix, float], Matrix]] = {
    "ranks": by_ranks,
    "ranks 10": lambda cosines, words, share: by_ranks(cosines, words, share, 10),
    "range": by_range,
    "best": by_best,
    "cosine": by_cosine,
    "deviation": by_deviation,
}


def score(task: RetrievalTask, scores: Matrix) -> float:
    """Mean nDCG@10 x 100; a document with the query's own id is left out, as BEIR does."""
    place = {key: row for row, key in enumerate(task.document_ids)}
    values = []
    for own, judged, line in zip(task.query_ids, task.judged, scores, strict=True):
        best = [row for row in np.argsort(-line, kind="stable")[:11].tolist() if row != place.get(own)][:10]
        values.append(ndcg([judged.get(row, 0) for row in best], list(judged.values()), 10))
    return 100 * float(np.mean(values))


if __name__ == "__main__":
    main()
