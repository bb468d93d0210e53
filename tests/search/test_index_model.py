"""Adding and deleting at random, against a plain dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from opencse.search.keyword_index import KeywordIndex, best_rows

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
        ids, groups = list(self.model), dict[str, list[int]]()
        for place in np.lexsort((np.arange(len(texts)), -scores)).tolist():
            groups.setdefault(texts[place], []).append(place)
        order = [*groups.values()][:3]
        assert [(hit.id, hit.score) for hit in found] == [(ids[places[0]], scores[places[0]]) for places in order]
        assert [hit.copies for hit in found] == [tuple(ids[place] for place in places[1:]) for places in order]
        expected = ENCODER.encode(texts, normalize_embeddings=True)
        assert np.abs(unit - expected).max() < 1e-5
        scores = KeywordIndex.of(texts).scores("cat night")
        best = best_rows(np.where([text in texts[:place] for place, text in enumerate(texts)], 0, scores), 3)
        by_words = self.index.search(["cat night"], 3, hybrid=True, hybrid_weight=0)[0]
        names = list(self.model)  # equal scores are in the order of the vectors
        assert [scores[names.index(hit.id)] for hit in by_words[: len(best)]] == scores[best].tolist()


Dictionary.TestCase.settings = settings(examples(8), stateful_step_count=12)
TestDictionary = Dictionary.TestCase
