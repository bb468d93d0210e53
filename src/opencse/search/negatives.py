"""Mines hard negatives for training pairs from an index: texts that are similar to a query but do not answer it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from opencse.arrays import Floats
from opencse.errors import UserError, reason
from opencse.files import writing
from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity
from opencse.progress import Progress
from opencse.reranking.second_stage import MarginTeacher
from opencse.search.index import Index
from opencse.search.result import Hit
from opencse.settings import Settings
from opencse.text.scripts import folded

_WINDOW = 1_024
"""Queries that are searched together."""
Negative = tuple[str, float | None]
"""A hard negative, and its margin where a teacher gives one."""


class Mining(Settings):
    r"""Decides which of the texts similar to a query become its hard negatives.

    A candidate n at one of the ``ranks`` of query q with positive p is taken if

    .. math:: \text{floor} \le s(q, n) \quad\text{and}\quad s(q, n) < \text{ceiling} \cdot s(q, p)

    which is TopK-PercPos of NV-Retriever (Moreira et al. 2024, arXiv:2407.15831, section 4.1; 0.95 is best there): a
    text as similar as the positive often answers the query too. So does a text with the same content as the positive:
    a candidate whose cosine to any positive of the query is at least ``same`` is left out, and so is a text that equals
    the query or one of its positives except for case and white space.

    The similarity s is the index's; a share of a negative similarity (a distance) is farther away by that factor,
    and ``same`` is always a cosine.

    Example:
        >>> Mining(count=3, ranks=(10, 50)).ceiling
        0.95

    Attributes:
        count: negatives per pair; each makes one row of three texts.
        ranks: (first, last) rank of candidates, from 1.
        ceiling: share of the positive's similarity that a negative stays below.
        floor: lowest similarity to the query; None: any.
        same: cosine to a positive from which a candidate has the same content; None: no limit.
        pick: the hardest candidates, or a random choice among those that may be taken.
        seed: the seed of the random choice.
    """

    count: int = Field(default=1, ge=1)
    ranks: tuple[int, int] = (1, 50)
    ceiling: float = Field(default=0.95, gt=0)
    floor: float | None = None
    same: float | None = 0.95
    pick: Literal["hardest", "random"] = "hardest"
    seed: int = Field(default=42, ge=0)

    @field_validator("ranks")
    @classmethod
    def _in_order(cls, ranks: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= ranks[0] <= ranks[1]:
            raise ValueError("ranks start at 1, the first before the last")
        return ranks


@dataclass(frozen=True)
class Mined:
    """Counts of what `mine` wrote.

    Example:
        >>> Mined("triples.jsonl", 100, 97, 3, 0, {"ceiling": 412}).triples
        97

    Attributes:
        out: the file of triples.
        pairs: number of pairs that were read.
        triples: number of rows that were written.
        without: pairs without a negative; they are not in the file.
        fewer: pairs with at least one, but fewer negatives than requested.
        refused: candidates that were left out, by reason: ``ceiling``, ``floor``, ``same text``, ``like a positive``,
            ``margin``.
    """

    out: str
    pairs: int
    triples: int
    without: int
    fewer: int
    refused: dict[str, int]


def mine(
    index: Index,
    pairs: Sequence[tuple[str, ...]],
    out: Path,
    how: Mining | None = None,
    teacher: MarginTeacher | None = None,
    *,
    progress: Progress,
) -> Mined:
    """Writes a .jsonl file of rows ``anchor``, ``positive``, ``negative``, which `opencse.train` reads.

    With a teacher the rows also have a ``margin``, which the recipe ``margin-mse`` reads.

    Args:
        index: the index of the candidates, with its encoder.
        pairs: queries, each with a text that answers it; a third column is not read.
        out: the file; replaced at the end in one step.
        how: which candidates are taken.
        teacher: gives the margins, and leaves out candidates whose margin is too small.
        progress: shows the progress.

    Raises:
        UserError: for invalid settings, rows without a second text, a file that cannot be written, or if no pair has a
            negative.
    """
    how = how or Mining()
    if not pairs or any(len(pair) < 2 for pair in pairs):
        raise UserError("hard negatives need pairs; give a text with two columns, query and positive")
    answers: dict[str, list[str]] = {}
    for query, positive, *_ in pairs:
        answers.setdefault(query, []).append(positive)
    refused: Counter[str] = Counter()
    counts: Counter[int] = Counter()
    progress.start("mining", len(answers))
    try:
        with writing(out) as unfinished, unfinished.open("w", encoding="utf-8") as stream:
            for query, positive, negatives in _mined(index, answers, how, teacher, refused, progress):
                counts[len(negatives)] += 1
                for negative, margin in negatives:
                    row: dict[str, object] = {"anchor": query, "positive": positive, "negative": negative}
                    if margin is not None:
                        row["margin"] = round(margin, 6)
                    stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            triples = sum(count * times for count, times in counts.items())
            if not triples:
                reasons = ", ".join(f"{why} {times:,}" for why, times in refused.items()) or "no other text nearby"
                raise UserError(
                    f"no negative could be taken for any of {len(pairs):,} pairs (candidates left out: {reasons}); "
                    "look at more ranks, or raise the ceiling"
                    f"{'' if teacher is None or teacher.least is None else ', or lower the least margin'}"
                )
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({reason(error)})") from None
    finally:
        progress.finish()
    fewer = sum(times for count, times in counts.items() if 0 < count < how.count)
    return Mined(str(out), len(pairs), triples, counts[0], fewer, dict(refused))


def _mined(
    index: Index,
    answers: dict[str, list[str]],
    how: Mining,
    teacher: MarginTeacher | None,
    refused: Counter[str],
    progress: Progress,
) -> Iterator[tuple[str, str, Sequence[Negative]]]:
    """Each pair with its negatives, window by window; candidates that are left out are counted in ``refused``."""
    queries = list(answers)
    random = np.random.default_rng(how.seed)
    for start in range(0, len(queries), _WINDOW):
        window = queries[start : start + _WINDOW]
        rows = list(_mine_window(index, window, answers, how, refused))
        negatives: Sequence[Sequence[Negative]]
        if teacher is None:
            negatives = [[(text, None) for text in _picked(allowed, how, random)] for _, _, allowed in rows]
        else:
            ordered = [(query, positive, _ordered(allowed, how, random)) for query, positive, allowed in rows]
            negatives, refused_here = teacher.select(ordered, how.count)
            refused["margin"] += refused_here
        for (query, positive, _), of_pair in zip(rows, negatives, strict=True):
            yield query, positive, of_pair
        progress.advance(start + len(window))


def _mine_window(
    index: Index,
    queries: Sequence[str],
    answers: dict[str, list[str]],
    how: Mining,
    refused: Counter[str],
) -> Iterator[tuple[str, str, list[str]]]:
    """Each pair of some queries, with the candidates that may be its negatives, hardest first."""
    first, last = how.ranks
    vectors = index.encode(queries, Role.QUERY)
    positives = list(dict.fromkeys(text for query in queries for text in answers[query]))
    row_of = {text: row for row, text in enumerate(positives)}
    positive_vectors = index.encode(positives, Role.DOCUMENT)
    hits_of_queries = index.search(vectors, last)
    function = Similarity(index.info().similarity)
    hit_vectors = _vectors_of(index, hits_of_queries, first) if how.same is not None else {}
    for query, vector, hits in zip(queries, vectors, hits_of_queries, strict=True):
        answer_vectors = positive_vectors[[row_of[text] for text in answers[query]]].astype(np.float64)
        answer_scores = function.of_pairs(answer_vectors, np.broadcast_to(vector, answer_vectors.shape))
        known = {folded(text) for text in (query, *answers[query])}
        candidates: list[Hit] = []
        for hit in hits[first - 1 :]:
            if folded(hit.text) in known:
                refused["same text"] += 1
            elif how.floor is not None and hit.score < how.floor:
                refused["floor"] += 1
            elif how.same is not None and _highest_cosine(answer_vectors, hit_vectors[hit.id, hit.text]) >= how.same:
                refused["like a positive"] += 1
            else:
                candidates.append(hit)
        for positive, score in zip(answers[query], answer_scores.tolist(), strict=True):
            allowed = [hit.text for hit in candidates if hit.score < function.share_of(score, how.ceiling)]
            refused["ceiling"] += len(candidates) - len(allowed)
            yield query, positive, allowed


def _picked(allowed: list[str], how: Mining, random: np.random.Generator) -> list[str]:
    """The negatives of a pair."""
    if how.pick == "random" and len(allowed) > how.count:
        picks = np.sort(random.choice(len(allowed), how.count, replace=False))
        allowed = [allowed[pick] for pick in picks]
    return list(dict.fromkeys(allowed))[: how.count]


def _ordered(allowed: list[str], how: Mining, random: np.random.Generator) -> list[str]:
    """All candidates of a pair, in the order in which a teacher scores them."""
    texts = list(dict.fromkeys(allowed))
    return [texts[row] for row in random.permutation(len(texts))] if how.pick == "random" else texts


def _highest_cosine(rows: Floats, vector: Floats) -> float:
    """The highest cosine of a row of (n, d) with a vector (d,), whatever function the index compares by."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    return float(np.asarray(rows @ vector / np.maximum(lengths, 1e-12)).max())


def _vectors_of(index: Index, hits_of_queries: Sequence[Sequence[Hit]], first: int) -> dict[tuple[str, str], Floats]:
    """The vector of each hit from rank ``first`` on, by id and text."""
    hits = {(hit.id, hit.text): None for hits in hits_of_queries for hit in hits[first - 1 :]}
    vectors = index.vectors_of_hits(list(hits))
    return dict(zip(hits, vectors.astype(np.float64), strict=True))
