"""Approximate search compared with the exact one: recall, deletions, additions, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import write_tiny_bert
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.similarity import Similarity
from opencse.ranking import nearest_prepared
from opencse.search import approximate
from opencse.search.approximate import IndexKind
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.recall import measure_recall
from opencse.text import sample

pytestmark = pytest.mark.slow
faiss = pytest.importorskip("faiss")
TEXTS = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line][:400]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    """Of few dimensions, so that codes are learnt in a moment; its texts lie apart."""
    folder = write_tiny_bert(tmp_path_factory.mktemp("tiny"), sd=0.2)
    return SentenceEncoder.load(folder, pooling="mean", device="cpu")


@pytest.mark.parametrize("kind", ["hnsw", "ivfpq"])
def test_hits_are_nearly_those_of_the_exact_search(
    tmp_path: Path, tiny: SentenceEncoder, kind: IndexKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approximate, "FEWEST", 256)
    flat = Index.build(tmp_path / "flat", TEXTS, tiny)
    index = Index.build(tmp_path / "index", TEXTS, tiny, how=BuildSettings(kind=kind))
    queries = TEXTS[:100:2]

    def overlap() -> float:
        pairs = zip(flat.search(queries, 10), index.search(queries, 10), strict=True)
        return float(np.mean([len({h.id for h in a} & {h.id for h in b}) / 10 for a, b in pairs]))

    assert overlap() > 0.8
    with index.snapshot() as snapshot:
        assert snapshot.approximate is not None
    recall = measure_recall(index, ks=(1, 10))
    assert recall.held
    assert recall.queries == 200
    assert 0.5 < recall.at[10] <= 1
    assert "recall@10" in recall.line()
    assert measure_recall(flat).at == {1: 1.0, 10: 1.0, 100: 1.0}
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
    for one in (flat, index):
        one.delete([str(number) for number in range(40, 200)])
    assert overlap() > 0.8
    assert len(list(index.folder.glob("engine-*"))) == (1 if kind == "hnsw" else 0)  # too few rows for codes by now
    index.add(["A last one."])
    index.delete(["401"])
    assert index.search(["A last one."], 1)[0][0].text == "A last one."


@pytest.mark.parametrize("similarity", [Similarity.COSINE, Similarity.EUCLIDEAN])
def test_an_hnsw_index_scores_by_the_vectors_that_it_stores(similarity: Similarity) -> None:
    random = np.random.default_rng(0)
    vectors = similarity.prepared(random.standard_normal((300, 8), dtype=np.float32))
    inner = approximate.empty_index(faiss, "hnsw", vectors, similarity)
    inner.add(vectors)
    index = approximate.ApproximateIndex(inner, similarity)
    unread = np.full_like(vectors, np.nan)
    rows, scores = index.search(vectors[:20] + np.float32(0.01), unread, 5, np.arange(40, 300))
    exact_rows, exact = nearest_prepared(
        vectors[:20] + np.float32(0.01), vectors, 5, np.arange(40, 300), similarity=similarity
    )
    assert np.array_equal(rows, exact_rows)
    assert np.array_equal(scores, exact)


def test_too_few_rows_and_damage(tmp_path: Path, tiny: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="at least 9,984 texts to train its codes, not 3; use --kind flat"):
        Index.build(tmp_path / "few", TEXTS[:3], tiny, how=BuildSettings(kind="ivfpq"))
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


def test_a_disk_that_is_full_loses_nothing(
    tmp_path: Path, mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    faiss = pytest.importorskip("faiss")
    real = faiss.write_index

    def full(inner: object, path: str) -> None:
        Path(path).write_bytes(b"half")
        raise RuntimeError("Error in write_index: could not write to file")

    texts = [f"Text number {number}." for number in range(20)]
    for act in (
        lambda: Index.build(tmp_path / "i", texts, mini, how=BuildSettings(kind="hnsw")),
        lambda: Index.open(tmp_path / "i", encoder=mini).add(["More."]),
    ):
        monkeypatch.setattr(faiss, "write_index", full)
        with pytest.raises(UserError, match=r"the hnsw index cannot be written .*is the disk full\?"):
            act()
        assert all(path.read_bytes() != b"half" for path in (tmp_path / "i").glob("engine-*"))
        monkeypatch.setattr(faiss, "write_index", real)
        act()
    with Index.open(tmp_path / "i", encoder=mini) as index:
        assert len(index) == 21
        assert len(index.search(["number"], 30)[0]) == 21
