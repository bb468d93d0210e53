"""Hard negatives from an index: texts near to a query that do not answer it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, reason
from opencse.io import writing
from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity
from opencse.progress import Progress
from opencse.search.index import Index
from opencse.search.result import Hit
from opencse.settings import Settings
from opencse.text.scripts import folded

Floats = NDArray[np.float64]
_WINDOW = 1_024


class Mining(Settings):
    r"""Which of the texts near to a query are taken as its hard negatives.

    A candidate n at one of the ``ranks`` of query q with positive p is taken where

    .. math:: \text{floor} \le s(q, n) \quad\text{and}\quad s(q, n) < \text{ceiling} \cdot s(q, p)

    which is TopK-PercPos of NV-Retriever (Moreira et al. 2024, arXiv:2407.15831, section 4.1; 0.95 is best there):
    what is as near as the positive often answers too. So may what says the same as the positive: a candidate whose
    cosine to any positive of the query reaches ``same`` is left out, and any text equal to the query or to a positive
    of it in the file, but for case and white space.

    The similarity s is the one of the index; a share of a negative one (a distance) is farther away by as much, and
    ``same`` is a cosine for all.

    Attributes:
        count: negatives for a pair, one row of three texts each.
        ranks: (first, last) rank that is looked at, from 1.
        ceiling: part of the positive's similarity that a negative stays below.
        floor: least similarity to the query; None: however low.
        same: cosine to a positive from which on a candidate says the same; None: any may be taken.
        pick: the hardest, or any ``count`` of those that may be taken, by chance.
        seed: of that chance.
    """

    count: int = 1
    ranks: tuple[int, int] = (1, 50)
    ceiling: float = 0.95
    floor: float | None = None
    same: float | None = 0.95
    pick: Literal["hardest", "random"] = "hardest"
    seed: int = 42

    def check(self) -> None:
        """Refuses what cannot be.

        Raises:
            UserError: naming the setting.
        """
        first, last = self.ranks
        if self.count < 1:
            raise UserError(f"count is at least 1, not {self.count}")
        if not 1 <= first <= last:
            raise UserError(f"ranks are from 1 on, the first before the last, not {first} to {last}")
        if self.ceiling <= 0:
            raise UserError(f"ceiling is above 0, not {self.ceiling}")


@dataclass(frozen=True)
class Mined:
    """What was written.

    Attributes:
        out: the file of triples.
        pairs: pairs that were read.
        triples: rows that were written.
        without: pairs for which no candidate could be taken; they are not in the file.
        fewer: pairs with some, but fewer than asked for.
        refused: candidates that were left out, by reason: ``ceiling``, ``floor``, ``same text``, ``like a positive``.
    """

    out: str
    pairs: int
    triples: int
    without: int
    fewer: int
    refused: dict[str, int]


def mine(
    index: Index, pairs: Sequence[tuple[str, ...]], out: Path, how: Mining | None = None, *, progress: Progress
) -> Mined:
    """Writes a jsonl file of rows ``anchor``, ``positive``, ``negative`` that `opencse.train` takes as it is.

    Args:
        index: of the texts to look among, with its encoder.
        pairs: queries, each with a text that answers it; what a third column holds is not read.
        out: the file; replaced at the end, at once.
        how: which candidates are taken.
        progress: hears of it.

    Raises:
        UserError: for settings that cannot be, rows without a second text, a file that cannot be written, or where
            there is no negative for any pair.
    """
    how = how or Mining()
    how.check()
    if not pairs or any(len(pair) < 2 for pair in pairs):
        raise UserError("hard negatives are for pairs; give a text of two columns, query and positive")
    answers: dict[str, list[str]] = {}
    for query, positive, *_ in pairs:
        answers.setdefault(query, []).append(positive)
    queries = list(answers)
    random = np.random.default_rng(how.seed)
    refused: Counter[str] = Counter()
    made: Counter[int] = Counter()
    progress.start("mining", len(queries))
    try:
        with writing(out) as unfinished, unfinished.open("w", encoding="utf-8") as stream:
            for start in range(0, len(queries), _WINDOW):
                asked = queries[start : start + _WINDOW]
                for query, positive, negatives in _window(index, asked, answers, how, random, refused):
                    made[len(negatives)] += 1
                    for negative in negatives:
                        row = {"anchor": query, "positive": positive, "negative": negative}
                        stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                progress.advance(start + len(asked))
            triples = sum(count * times for count, times in made.items())
            if not triples:
                told = ", ".join(f"{why} {times:,}" for why, times in refused.items()) or "no other text near"
                raise UserError(
                    f"no negative could be taken for any of {len(pairs):,} pairs (candidates left out: {told}); "
                    "look at more ranks, or raise the ceiling"
                )
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({reason(error)})") from None
    finally:
        progress.finish()
    fewer = sum(times for count, times in made.items() if 0 < count < how.count)
    return Mined(str(out), len(pairs), triples, made[0], fewer, dict(refused))


def _window(
    index: Index,
    queries: Sequence[str],
    answers: dict[str, list[str]],
    how: Mining,
    random: np.random.Generator,
    refused: Counter[str],
) -> Iterator[tuple[str, str, list[str]]]:
    """Each pair of some queries, with its negatives."""
    first, last = how.ranks
    vectors = index.encode(queries, Role.QUERY)
    positives = list(dict.fromkeys(text for query in queries for text in answers[query]))
    place = {text: number for number, text in enumerate(positives)}
    positive_vectors = index.encode(positives, Role.DOCUMENT)
    found = index.search(vectors, last)
    function = Similarity(index.info().similarity)
    hit_vectors = _vectors_of(index, found, first) if how.same is not None else {}
    for query, vector, hits in zip(queries, vectors, found, strict=True):
        own = positive_vectors[[place[text] for text in answers[query]]].astype(np.float64)
        of_answers = function.of_pairs(own, np.broadcast_to(vector, own.shape))
        known = {folded(text) for text in (query, *answers[query])}
        near: list[Hit] = []
        for hit in hits[first - 1 :]:
            if folded(hit.text) in known:
                refused["same text"] += 1
            elif how.floor is not None and hit.score < how.floor:
                refused["floor"] += 1
            elif how.same is not None and float(_cosines(own, hit_vectors[hit.id, hit.text]).max()) >= how.same:
                refused["like a positive"] += 1
            else:
                near.append(hit)
        for positive, score in zip(answers[query], of_answers.tolist(), strict=True):
            allowed = [hit.text for hit in near if hit.score < function.share_of(score, how.ceiling)]
            refused["ceiling"] += len(near) - len(allowed)
            if how.pick == "random" and len(allowed) > how.count:
                chosen = np.sort(random.choice(len(allowed), how.count, replace=False))
                allowed = [allowed[number] for number in chosen]
            yield query, positive, list(dict.fromkeys(allowed))[: how.count]


def _cosines(rows: Floats, vector: Floats) -> Floats:
    """The cosine (n,) of each row of (n, d) with a vector (d,), whatever the index compares by."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    return np.asarray(rows @ vector / np.maximum(lengths, 1e-12))


def _vectors_of(index: Index, found: Sequence[Sequence[Hit]], first: int) -> dict[tuple[str, str], Floats]:
    """The vector of each hit, by id and text."""
    hits = {(hit.id, hit.text): None for hits in found for hit in hits[first - 1 :]}
    vectors = index.vectors_of_hits(list(hits))
    return dict(zip(hits, vectors.astype(np.float64), strict=True))
