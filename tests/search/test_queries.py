"""Hybrid search: its scores, conditions and languages."""

from __future__ import annotations

import math
import re
from pathlib import Path

import bm25s
import numpy as np
import pytest

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.stems import stems_of
from opencse.text import sample

MANY = filled(sample.TRAIN)[:300]


def naive(index: Index, query: str, weight: float, among: set[int] | None = None) -> list[tuple[int, float]]:
    """Every row's score by the formula, in plain loops."""
    texts = [hit.text for hit in index.rows()]
    stems = stems_of(index.info().language)
    words = [stems(re.findall(r"(?u)\b\w+\b", text.lower())) for text in texts]
    model = bm25s.BM25(method="lucene")
    model.index(words, show_progress=False)
    asked = [word for word in stems(query.lower().split()) if word in model.vocab_dict]
    by_words = model.get_scores(asked) if asked else np.zeros(len(texts))
    own = index.encode([query], Role.QUERY)[0].astype(np.float64)
    cosines = [float((vector.astype(np.float64) * own).sum()) for vector in index.vectors()]
    allowed = set(range(len(texts))) if among is None else among
    low, high = min(cosines), max(cosines[row] for row in allowed)
    most = max([float(by_words[row]) for row in allowed] or [0.0]) or 1.0
    rarity = {}
    for word in set(stems(query.lower().split())):
        count = sum(word in one for one in words)
        rarity[word] = math.log(1 + (len(texts) - count + 0.5) / (count + 0.5))
    covered = max((sum(rarity[word] for word in rarity if word in words[row]) for row in allowed), default=0.0)
    of_words = (1 - weight) * 2 * (covered / sum(rarity.values())) ** 2
    share = weight / (weight + of_words) if weight else 0.0
    scores = [
        (row, share * (cosines[row] - low) / (high - low) + (1 - share) * float(by_words[row]) / most)
        for row in sorted(allowed)
    ]
    return sorted(scores, key=lambda item: (-round(item[1], 9), -round(cosines[item[0]], 6), item[0]))


@pytest.mark.parametrize("language", ["auto", "none"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, None])
def test_scores_are_the_formula(tmp_path: Path, mini: SentenceEncoder, weight: float | None, language: str) -> None:
    index = Index.build(tmp_path / "index", [*MANY[:80], *MANY[:3]], mini, how=BuildSettings(language=language))
    assert index.info().language == (None if language == "none" else "english")
    index.delete([str(row) for row in range(10, 20)])
    ids = [hit.id for hit in index.rows()]
    for query in ("a man with a dog", MANY[1].lower().strip(" ."), "zzz"):
        found = index.search([query], 20, hybrid=True, hybrid_weight=weight)[0]
        expected = naive(index, query, index.hybrid_weight.value if weight is None else weight)
        expected = [(row, score) for row, score in expected if row < 70][:20]  # the last three are copies
        if weight == 0.0:  # rows that share no word with the query are all alike then
            expected = [item for item in expected if item[1] > 0]
            found = found[: len(expected)]
            assert bool(expected) == (query != "zzz")
        assert [hit.id for hit in found] == [ids[row] for row, _ in expected]
        assert [hit.score for hit in found] == pytest.approx([score for _, score in expected], abs=1e-5)
        vectors = index.search([query], len(ids))[0]
        cosines = {hit.id: hit.score for hit in vectors}
        assert [hit.similarity for hit in found] == pytest.approx([cosines[hit.id] for hit in found], abs=1e-6)
    own = index.hybrid_weight.value
    assert index.search(["a man"], 9, hybrid=True) == index.search(["a man"], 9, hybrid=True, hybrid_weight=own)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"hybrid": True, "hybrid_weight": 1.5}, "from 0 to 1, not 1.5"),
        ({"hybrid": True, "hybrid_weight": float("nan")}, "from 0 to 1"),
        ({"hybrid_weight": 0.5}, "needs a hybrid search"),
        ({"hybrid": True, "threshold": 0.5}, "no threshold"),
    ],
)
def test_invalid_weights_are_refused(index: Index, asked: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        index.search(["cat"], **asked)  # type: ignore[arg-type]


GERMAN = [
    "Die Häuser in der Stra\u00dfe sind nicht so alt wie die Kirche.",
    "Das Haus, das wir gesehen haben, ist sehr gro\u00df und auch sch\u00f6n.",
    "Ein Hund hat die ganze Nacht gebellt, und niemand konnte schlafen.",
]


@pytest.mark.parametrize(
    ("query", "language", "first"),
    [
        ("STRASSE", "none", "0"),
        ("Stra\u00dfen", "auto", "0"),
        ("Stra\u00dfen", "none", None),
        ("Hun\u00adde", "german", "2"),
        ("HA\u0308USER", "none", "0"),
    ],
)
def test_queries_match_other_spellings_and_word_forms(
    tmp_path: Path, mini: SentenceEncoder, query: str, language: str, first: str | None
) -> None:
    index = Index.build(tmp_path / "i", GERMAN, mini, how=BuildSettings(language=language))
    assert index.info().language == (None if language == "none" else "german")
    scores = index.search([query], 3, hybrid=True, hybrid_weight=0)[0]
    assert (scores[0].id if scores[0].score > 0 else None) == first
