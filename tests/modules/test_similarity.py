"""The four functions that vectors are compared by, wherever the project compares vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import opencse
from helpers import write_collection
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.description import Stated
from opencse.modules.similarity import Similarity
from opencse.ranking import nearest_prepared, nearest_rows
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.pairs import duplicate_documents, nearest_pairs

FUNCTIONS = list(Similarity)
Vectors = NDArray[np.float32]


def naive(function: Similarity, a: Vectors, b: Vectors) -> NDArray[np.float64]:
    """Similarities (n, m) by the definition."""
    one, two = a[:, None].astype(np.float64), b[None].astype(np.float64)
    dots = (one * two).sum(-1)
    values = {
        Similarity.COSINE: dots / np.linalg.norm(one, axis=-1) / np.linalg.norm(two, axis=-1),
        Similarity.DOT: dots,
        Similarity.EUCLIDEAN: -np.sqrt(((one - two) ** 2).sum(-1)),
        Similarity.MANHATTAN: -np.abs(one - two).sum(-1),
    }
    return np.asarray(values[function], dtype=np.float64)


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    """300 vectors of very different lengths, some of them twice."""
    random = np.random.default_rng(1)
    rows = random.normal(size=(300, 12)) * random.uniform(0.2, 4, size=(300, 1))
    rows[200:230] = rows[:30]
    return rows.astype(np.float32)


@pytest.fixture(scope="module", params=FUNCTIONS)
def model(request: pytest.FixtureRequest, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that names the function, whose vectors have different lengths."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    encoder = SentenceEncoder.load(tiny_folder, device="cpu", layers=1)
    with torch.no_grad():
        for weight in encoder.backbone.parameters():
            if weight.ndim == 2:
                weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(len(weight)))
        for name in ("embeddings.LayerNorm", "encoder.layer.0.output.LayerNorm"):
            norm = encoder.backbone.get_submodule(name)
            assert isinstance(norm, torch.nn.LayerNorm)
            norm.weight.copy_(torch.linspace(0.2, 3, len(norm.weight)))
    encoder.similarity_fn_name = Similarity(request.param)
    encoder.save(folder)
    return folder


TEXTS = ["The kettle boils.", "Snow fell on the roof.", "A dog barks at night.", "The train is late again.", "Bread."]
TEXTS += [f"{first} {second}" for first in TEXTS for second in TEXTS[:3]]


def expected_order(model: Path, query: str) -> list[str]:
    encoder = SentenceEncoder.load(model, device="cpu")
    scores = naive(encoder.similarity_fn_name, encoder.encode([query]), encoder.encode(TEXTS))[0]
    return [TEXTS[row] for row in np.argsort(-scores, kind="stable")]


def test_the_functions_are_those_of_sentence_transformers(model: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder, theirs = SentenceEncoder.load(model, device="cpu"), SentenceTransformer(str(model), device="cpu")
    assert encoder.similarity_fn_name == theirs.similarity_fn_name
    a, b = encoder.encode(TEXTS[:4]), encoder.encode(TEXTS[:7])
    expected = np.asarray(theirs.similarity(a, b))
    largest = 1e-6 * max(10.0, float(np.abs(expected).max()))
    assert np.abs(encoder.similarity(TEXTS[:4], TEXTS[:7]) - expected).max() < largest
    assert np.abs(expected - naive(encoder.similarity_fn_name, a, b)).max() < largest
    pairwise = np.asarray(theirs.similarity_pairwise(a, b[:4]))
    assert np.abs(encoder.similarity_pairwise(TEXTS[:4], TEXTS[:4]) - pairwise).max() < largest
    with pytest.raises(UserError, match="row by row"):
        encoder.similarity_pairwise(a, b)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_exact_searches_rank_by_the_definition(vectors: Vectors, function: Similarity) -> None:
    queries = vectors[:25]
    scores = naive(function, queries, vectors)
    prepared = function.prepared(vectors)
    places, found = nearest_prepared(prepared[:25], prepared, 9, similarity=function)
    assert np.abs(np.take_along_axis(scores, places, axis=1) - found).max() < 1e-5
    assert np.abs(-np.sort(-scores, axis=1)[:, :9] - found).max() < 1e-5
    rows, values = nearest_rows(queries, vectors, 9, function)
    assert np.array_equal(rows, places)
    assert np.abs(values - found).max() < 1e-5
    among = np.arange(0, 300, 7)
    some, _ = nearest_prepared(prepared[:25], prepared, 3, among, similarity=function)
    assert set(some.ravel().tolist()) <= set(among.tolist())
    best, pair_scores = nearest_pairs(prepared, 40, similarity=function)
    upper = np.sort(naive(function, vectors, vectors)[np.triu_indices(300, 1)])[::-1][:40]
    assert np.abs(pair_scores - upper).max() < 1e-5
    assert np.abs(naive(function, vectors, vectors)[best[:, 0], best[:, 1]] - upper).max() < 1e-5


@pytest.mark.parametrize("function", FUNCTIONS)
def test_duplicates_reach_the_threshold(vectors: Vectors, function: Similarity) -> None:
    texts = [f"text {number}" for number in range(300)]
    scores = naive(function, vectors, vectors)
    threshold = {"cosine": 0.999999, "dot": 150.0, "euclidean": -1e-3, "manhattan": -1e-3}[function]
    single = [[row] for row in range(300)]
    groups = duplicate_documents(function.prepared(vectors), texts, single, threshold, similarity=function)
    joined = np.triu(scores >= threshold, 1)
    assert {row for rows, _ in groups for row in rows} == set(np.nonzero(joined | joined.T)[0].tolist())
    assert groups
    equal = duplicate_documents(function.prepared(vectors[:2]), ["One.", "one."], single[:2], None, similarity=function)
    assert equal[0][0] == [0, 1]
    assert equal[0][1] == pytest.approx(scores[0, 0], abs=1e-5)


def test_an_index_ranks_by_the_model(model: Path, tmp_path: Path) -> None:
    function = Stated(model).similarity
    query = "Snow fell on the kettle."
    order = expected_order(model, query)
    encoder = SentenceEncoder.load(model, device="cpu")
    for kind in ("flat", "hnsw"):
        folder = tmp_path / kind
        if kind == "hnsw" and function is Similarity.MANHATTAN:
            with pytest.raises(
                UserError, match=r"hnsw searches by cosine, dot or euclidean, and this .* use --kind flat"
            ):
                Index.build(folder, TEXTS, encoder, how=BuildSettings(kind="hnsw"))
            continue
        with Index.build(folder, TEXTS, encoder, how=BuildSettings(kind=kind)) as index:
            assert index.info().similarity == function
            hits = index.search([query], 6)[0]
            assert [hit.text for hit in hits] == order[:6]
            scores = naive(function, encoder.encode([query]), encoder.encode([hit.text for hit in hits]))[0]
            assert np.abs([hit.score for hit in hits] - scores).max() < 1e-5
            assert [h.text for h in index.search([query], 6, threshold=hits[2].score)[0]] == order[:3]
            assert index.measure_recall(ks=(1, 5)).at == {1: 1.0, 5: 1.0}
            best = index.pairs(1)[0]
            again = float(encoder.similarity(best.first_text, best.second_text)[0, 0])
            assert best.score == pytest.approx(again, abs=1e-4)
            assert len(index.search([query], 3, hybrid=True)[0]) == 3
    other = SentenceEncoder.load(model, device="cpu")
    other.similarity_fn_name = Similarity.COSINE if function is not Similarity.COSINE else Similarity.DOT
    with pytest.raises(
        UserError, match=rf"compares vectors by {function}, and the model by .*rebuild it with: opencse index build"
    ):
        Index.open(tmp_path / "flat", encoder=other)


def test_it_is_kept_by_every_save(model: Path, tmp_path: Path) -> None:
    function = Stated(model).similarity
    SentenceEncoder.load(model, device="cpu").save(tmp_path / "saved")
    opencse.whiten(str(model), [f"{text} {n}" for n in range(9) for text in TEXTS], tmp_path / "white", dimension=4)
    for folder in ("saved", "white"):
        assert Stated(tmp_path / folder).similarity is function


def test_retrieval_ranks_by_it(model: Path, tmp_path: Path) -> None:
    query = "Snow fell on the kettle."
    answer = TEXTS.index(expected_order(model, query)[0])
    write_collection(tmp_path / "retrieval" / "set", dict(enumerate(TEXTS)), {"q": query}, [("q", answer, 1)])
    result = opencse.evaluate(str(model), tmp_path, "retrieval")
    assert result["set", "ndcg_at_10"].extras["similarity"] is Stated(model).similarity
    assert result.values()["retrieval.set.mrr_at_10"] == 100
