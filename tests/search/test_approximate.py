"""Approximate search compared with the exact one: recall, deletions, additions, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import filled, write_tiny_bert
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.text import sample

pytestmark = pytest.mark.slow
pytest.importorskip("faiss")
TEXTS = filled(sample.TRAIN)[:400]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    """Of few dimensions, so that codes are learnt in a moment; its texts lie apart."""
    folder = write_tiny_bert(tmp_path_factory.mktemp("tiny"), sd=0.2)
    return SentenceEncoder.load(folder, pooling="mean", device="cpu")


def test_hits_are_nearly_those_of_the_exact_search(tmp_path: Path, tiny: SentenceEncoder) -> None:
    flat = Index.build(tmp_path / "flat", TEXTS, tiny)
    index = Index.build(tmp_path / "index", TEXTS, tiny, how=BuildSettings(kind="hnsw"))
    queries = TEXTS[:100:2]

    def overlap() -> float:
        pairs = zip(flat.search(queries, 10), index.search(queries, 10), strict=True)
        return float(np.mean([len({h.id for h in a} & {h.id for h in b}) / 10 for a, b in pairs]))

    assert overlap() > 0.8
    with index.snapshot() as snapshot:
        assert snapshot.approximate is not None
    recall = index.measure_recall(ks=(1, 10))
    assert recall.queries == 200
    assert 0.5 < recall.at[10] <= 1
    assert "recall@10" in recall.line()
    assert flat.measure_recall().at == {1: 1.0, 10: 1.0, 100: 1.0}
    found = {hit.id: hit.score for hit in flat.search(queries[:1], 400)[0]}
    for hit in index.search(queries[:1], 10)[0]:
        assert hit.score == pytest.approx(found[hit.id], abs=1e-6)  # scores are those of the true vectors
    assert index.search(queries[:2], 5, where={"id": ["7", "9"]}) == flat.search(
        queries[:2], 5, where={"id": ["7", "9"]}
    )
    for one in (flat, index):
        one.delete([str(number) for number in range(40)])
        one.add(["A sentence about nothing else.", "And one more."])
    assert overlap() > 0.8
    assert index.search(["A sentence about nothing else."], 1)[0][0].id == "400"
    assert not {hit.id for hits in index.search(queries, 50) for hit in hits} & {str(n) for n in range(40)}


def test_damage(tmp_path: Path, tiny: SentenceEncoder) -> None:
    index = Index.build(tmp_path / "i", TEXTS[:50], tiny, how=BuildSettings(kind="hnsw"))
    index.close()
    file = next(index.folder.glob("engine-*"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged"):
        Index.open(index.folder)
    other = Index.build(tmp_path / "j", TEXTS[:20], tiny, how=BuildSettings(kind="hnsw"))
    file.write_bytes(next(other.folder.glob("engine-*")).read_bytes())
    with pytest.raises(UserError, match=r"of \d+ rows, not \d+"):
        Index.open(index.folder)
    file.unlink()
    with pytest.raises(
        UserError, match=r"is missing\); copy the whole folder again, or rebuild it with: opencse index build"
    ):
        Index.open(index.folder)
