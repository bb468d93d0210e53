"""Adding and deleting at random, against a plain dictionary; and exactness against brute force with many ties."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.search import exact
from opencse.search.exact import nearest_prepared
from opencse.search.index import Index
from opencse.search.keywords import Keywords, best_rows

pytestmark = pytest.mark.slow

WORDS = ("cat", "dog", "rain", "train", "night")
ENCODER = SentenceEncoder.load(device="cpu")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
IDS = st.sampled_from(["a", "b", "c", "d", "7"])
YEARS = st.none() | st.integers(0, 4)


class Dictionary(RuleBasedStateMachine):
    """The index does what an ordered dictionary would."""

    @initialize(texts=st.lists(TEXTS, min_size=1, max_size=4))
    def build(self, texts: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.index = Index.build(self.folder, texts, ENCODER)
        self.model: dict[str, tuple[str, Any]] = {str(number): (text, None) for number, text in enumerate(texts)}
        self.next = len(texts)

    @rule(text=TEXTS, year=YEARS)
    def add(self, text: str, year: int | None) -> None:
        self.index.add([{"text": text, "year": year}])
        self.model[str(self.next)] = (text, year)
        self.next += 1

    @rule(name=IDS, text=TEXTS, year=YEARS)
    def replace(self, name: str, text: str, year: int | None) -> None:
        self.index.add([{"text": text, "id": name, "year": year}], replace=True)
        self.model.pop(name, None)
        self.model[name] = (text, year)
        if name == "7":
            self.next = max(self.next, 8)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=1, unique=True))
        assert self.index.delete(ids) == len(ids)
        for name in ids:
            del self.model[name]

    @precondition(lambda self: any(year is not None for _, year in self.model.values()))
    @rule(year=st.integers(0, 4))
    def delete_where(self, year: int) -> None:
        gone = [name for name, (_, own) in self.model.items() if own is not None and own >= year]
        assert self.index.delete(where={"year": (">=", year)}) == len(gone)
        for name in gone:
            del self.model[name]

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = Index.open(self.folder, encoder=ENCODER)

    @invariant()
    def same(self) -> None:
        rows = self.index.rows()
        assert {hit.id: (hit.text, hit.metadata.get("year")) for hit in rows} == self.model
        assert [hit.id for hit in rows] == list(self.model)
        texts = [text for text, _ in self.model.values()]
        found = self.index.search(["cat night"], 3)[0]
        if not texts:
            assert found == []
            return
        unit = self.index.vectors().astype(np.float64)
        own = ENCODER.encode(["cat night"], normalize_embeddings=True).astype(np.float64)[0]
        scores = (unit * own).sum(axis=1)
        order = np.lexsort((np.arange(len(texts)), -scores))[:3]
        assert [(hit.id, hit.score) for hit in found] == [(list(self.model)[place], scores[place]) for place in order]
        expected = ENCODER.encode(texts, normalize_embeddings=True)
        assert np.abs(unit - expected).max() < 1e-5
        best = best_rows(Keywords.of(texts).scores("cat night"), 3)
        by_words = self.index.search(["cat night"], 3, hybrid=True, hybrid_weight=0)[0]
        assert [hit.id for hit in by_words[: len(best)]] == [list(self.model)[place] for place in best]


Dictionary.TestCase.settings = settings(examples(8), stateful_step_count=12)
TestDictionary = Dictionary.TestCase


@given(seed=st.integers(0, 2**20), rows=st.integers(1, 60), k=st.integers(1, 70), kinds=st.integers(1, 8))
@examples(60)
def test_exact_search_is_brute_force_with_ties_in_their_order(seed: int, rows: int, k: int, kinds: int) -> None:
    random = np.random.default_rng(seed)
    different = unit(random.normal(size=(kinds, 5)))
    vectors = different[random.integers(0, kinds, rows)]
    queries = unit(random.normal(size=(3, 5)))
    some = np.flatnonzero(random.random(rows) < 0.6)
    for places in (None, some):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exact, "_BLOCK", 7)
            patch.setattr(exact, "SPARE", 1)
            found, scores = nearest_prepared(queries, vectors, k, places)
        among = np.arange(rows) if places is None else some
        products = (queries[:, None].astype(np.float64) * vectors[among].astype(np.float64)).sum(axis=2)
        for row in range(3):
            order = np.lexsort((among, -products[row]))[:k]
            assert found[row].tolist() == among[order].tolist()
            assert scores[row].tolist() == products[row][order].tolist()


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
