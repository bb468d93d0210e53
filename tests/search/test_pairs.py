"""Pairs and duplicates against every pair in a plain loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.similarity import unit_rows
from opencse.search import pairs
from opencse.search.building import BuildSettings
from opencse.search.index import Index


@pytest.mark.parametrize(("block", "most"), [(3, 9), (1000, 1), (3, 5000)])
def test_the_best_of_all_pairs(block: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_BLOCK", block)
    random = np.random.default_rng(most)
    vectors = unit_rows(random.normal(size=(30, 4)))[random.integers(0, 30, 40)]  # some are equal
    wide = vectors.astype(np.float64)
    every = [(-float((wide[a] * wide[b]).sum()), a, b) for a in range(40) for b in range(a + 1, 40)]
    found, scores = pairs.nearest_pairs(vectors, most)
    expected = sorted(every)[:most]
    assert [tuple(pair) for pair in found.tolist()] == [(a, b) for _, a, b in expected]
    assert scores.tolist() == [-score for score, _, _ in expected]
    groups = np.arange(40) % 2
    found, _ = pairs.nearest_pairs(vectors, most, groups=groups)
    assert [tuple(pair) for pair in found.tolist()] == [(a, b) for _, a, b in sorted(every) if (a - b) % 2][:most]


def test_duplicates_are_what_a_chain_of_pairs_joins(index: Index) -> None:
    index.add(["a  CAT sleeps.", "A cat is sleeping.", "Something of its own."])
    (exact,) = index.duplicates()
    assert exact.ids == ("n0", "n2", "0")
    assert exact.score == 1
    vectors = index.vectors().astype(np.float64)
    names = [hit.id for hit in index.rows()]
    cosines = vectors @ vectors.T
    near = float(cosines[0, names.index("1")])
    assert 0.3 < near < 0.999
    groups = index.duplicates(near - 1e-6)
    assert groups[0].ids == ("n0", "n2", "0", "1")
    assert groups[0].score == pytest.approx(near, abs=1e-6)
    assert [group.ids for group in index.duplicates(min(1.0, near + 1e-3))] == [("n0", "n2", "0")]
    for threshold in (0, 1.1, -1):
        with pytest.raises(UserError, match="cosine above 0"):
            index.duplicates(threshold)


def test_documents_that_only_share_a_passage_are_no_duplicates(tmp_path: Path, mini: SentenceEncoder) -> None:
    licence = "This library is free software, and everybody may copy it and change it."
    texts = {
        "copier": f"The copier jams in wet weather. {licence}",
        "kettle": f"The kettle of the office kitchen leaks. {licence}",
        "kettle again": f"the kettle of the office  kitchen LEAKS. {licence}",
        "nearly": f"The kettle of the office kitchen leaks. {licence.replace('change', 'modify')}",
        "beginning": "The kettle of the office kitchen leaks.",
    }
    rows = [{"text": text, "id": name} for name, text in texts.items()]
    index = Index.build(tmp_path / "index", rows, mini, how=BuildSettings(max_length=20))
    assert [hit.text for hit in index.rows()].count(licence) == 3  # a passage that three documents have
    (equal,) = index.duplicates()
    assert (equal.ids, equal.score) == (("kettle", "kettle again"), 1)
    assert equal.texts == ("The kettle of the office kitchen leaks.", "the kettle of the office kitchen LEAKS.")
    (similar,) = index.duplicates(0.9)
    assert similar.ids == ("kettle", "kettle again", "nearly")
    assert 0.9 <= similar.score < 0.999


@pytest.mark.parametrize("block", [3, 1000])
def test_similar_documents_of_several_passages_in_a_plain_loop(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_BLOCK", block)
    random = np.random.default_rng(1)
    vectors = unit_rows(random.normal(size=(6, 2)))[random.integers(0, 6, 60)].astype(np.float32)
    ends = sorted(random.choice(np.arange(1, 60), 29, replace=False).tolist())
    documents = [list(range(a, b)) for a, b in zip([0, *ends], [*ends, 60], strict=True)]
    assert {len(rows) for rows in documents} >= {1, 2, 3}
    groups = pairs.duplicate_documents(vectors, [f"text {row}" for row in range(60)], documents, 0.95)
    cosines = vectors @ vectors.T
    parents = list(range(30))
    for a, one in enumerate(documents):
        for b, other in enumerate(documents[:a]):
            near = cosines[one[0], other[0]] >= 0.95
            near &= all(max(cosines[row, column] for column in other) >= 0.95 for row in one)
            near &= all(max(cosines[row, column] for row in one) >= 0.95 for column in other)
            if near:
                parents = [parents[b] if parent == parents[a] else parent for parent in parents]
    expected = [[n for n in range(30) if parents[n] == parent] for parent in dict.fromkeys(parents)]
    assert [members for members, _ in groups] == [members for members in expected if len(members) > 1]
    assert any(len(documents[member]) > 1 for members, _ in groups for member in members)
