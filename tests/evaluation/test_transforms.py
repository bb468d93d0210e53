"""Maps of a model's vectors (whitening, flow, all-but-the-top, ranks of a corpus): formulas, and scores with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm, spearmanr
from sentence_transformers import SentenceTransformer

import opencse
from helpers import Heard, write_collection, write_lines
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models import whitening as module
from opencse.evaluation.models.flow import Flow, FlowSettings
from opencse.evaluation.models.whitening import AllButTheTop, CorpusRanks, Whitening
from opencse.evaluation.transforms import postprocessed, sample_texts
from opencse.text.readers import Source

Kind = Literal["whitening", "flow"]


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """How often each of 12 letters occurs, far from the origin."""
    return np.array([[text.lower().count(letter) + 3 for letter in "etaoinshrdlu"] for text in texts], np.float32)


JUDGED = EmbeddingModel("letters", letters, pooling="none", device="cpu")


@pytest.fixture
def corpus(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "corpus.txt"
    write_lines(path, sentences[:200])
    return path


def direct(kind: Kind, fitted: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return Whitening.fit(fitted).apply(vectors) if kind == "whitening" else Flow.fit(fitted).apply(vectors)


@pytest.mark.parametrize("kind", ["whitening", "flow"])
def test_fitted_on_a_corpus(kind: Kind, corpus: Path, sentences: list[str]) -> None:
    said: list[str] = []
    made = postprocessed(JUDGED, kind, corpus, say=said.append)
    assert (made.name, made.pooling, made.device) == (f"letters + {kind} ({corpus})", "none", "cpu")
    texts = sentences[200:230]
    np.testing.assert_array_equal(made.encode(texts), direct(kind, letters(sentences[:200]), letters(texts)))
    assert said[0].startswith(f"{kind} fitted on 200 texts of {corpus} in ")


@pytest.mark.parametrize("kind", ["whitening", "flow"])
def test_fitted_on_the_target_which_is_the_first_call(kind: Kind, sentences: list[str]) -> None:
    said: list[str] = []
    made = postprocessed(JUDGED, kind, "target", say=said.append)
    first = made.encode(sentences[:150])
    np.testing.assert_array_equal(first, direct(kind, letters(sentences[:150]), letters(sentences[:150])))
    later = made.encode(sentences[5:30])
    np.testing.assert_allclose(later, first[5:30], rtol=1e-6, atol=1e-6, err_msg="later calls are of one space")
    assert len(said) == 1


def test_sentences_are_drawn_from_the_file(corpus: Path, sentences: list[str]) -> None:
    source = Source(str(corpus))
    assert sample_texts(source, 200) == sample_texts(source, 10**6) == sentences[:200]
    some = sample_texts(source, 30)
    places = [sentences.index(text) for text in some]
    assert places == sorted(set(places))
    assert (len(places), max(places) > 150) == (30, True)
    assert sample_texts(source, 30) == some != sample_texts(source, 30, seed=1)


def test_refusals(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.txt: no such file"):
        postprocessed(JUDGED, "whitening", tmp_path / "none.txt")
    broken = EmbeddingModel("broken", lambda texts: np.full((len(texts), 3), np.nan))
    for fit in ("target", corpus):
        with pytest.raises(UserError, match="NaN or infinite"):
            postprocessed(broken, "flow", fit).encode(["a", "b"])


def test_every_suite_fits_each_task_by_itself(sentences: list[str], tmp_path: Path) -> None:
    """Two collections give what each gives alone, and a file's map is fitted once for several suites."""
    names = ("one", "two")
    for number, name in enumerate(names):
        own = sentences[100 * number : 100 * number + 100]
        texts, asked, judged = dict(enumerate(own[:80])), dict(enumerate(own[80:])), [(i, i, 1) for i in range(20)]
        write_collection(tmp_path / "retrieval" / name, texts, asked, judged)
    both, *alone = (
        opencse.evaluate(letters, tmp_path, "retrieval", transform="whitening", tasks=list(tasks)).values()
        for tasks in (names, *((name,) for name in names))
    )
    for name, one in zip(names, alone, strict=True):
        expected = {key: value for key, value in one.items() if name in key.split(".")}
        assert {key: both[key] for key in expected} == pytest.approx(expected, abs=1e-9)
    heard = Heard()
    corpus = tmp_path / "corpus.txt"
    write_lines(corpus, sentences[:200])
    (tmp_path / "sts" / "stsb").mkdir(parents=True)
    rows = (f"{i % 5}\t{a}\t{b}\n" for i, (a, b) in enumerate(zip(sentences[:40], sentences[9:49], strict=True)))
    (tmp_path / "sts" / "stsb" / "dev.tsv").write_text("".join(rows))
    suites = ("dev", "retrieval")
    scored = dict(opencse.evaluate_all([letters], tmp_path, suites, transform="whitening", fit=corpus, progress=heard))
    assert list(scored) == list(suites)
    assert sum("whitening fitted on" in line for line in heard.said) == 1


def drawn(n: int, d: int, seed: int = 0) -> NDArray[np.float64]:
    """Vectors far from the origin with correlated coordinates of very different variance."""
    rng = np.random.default_rng(seed)
    scales = np.diag(np.logspace(0.5, -1, d))
    return rng.normal(size=(n, d)) @ scales @ rng.normal(size=(d, d)) + rng.normal(size=d) * 5


def naive_covariance(x: NDArray[np.floating]) -> NDArray[np.float64]:
    n, d = x.shape
    mean = [sum(float(x[i, a]) for i in range(n)) / n for a in range(d)]
    return np.array(
        [
            [sum((x[i, a] - mean[a]) * (x[i, b] - mean[b]) for i in range(n)) / (n - 1) for b in range(d)]
            for a in range(d)
        ]
    )


def test_equals_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """x~ = (x - mu) U diag(lambda)^(-1/2) by a singular value decomposition of the covariance, up to signs."""
    monkeypatch.setattr(module, "BLOCK", 7)
    x = drawn(50, 4)
    left, values, _ = np.linalg.svd(naive_covariance(x))
    expected = (x - x.mean(axis=0)) @ left / np.sqrt(values)
    whole = Whitening.fit(x)
    np.testing.assert_allclose(np.abs(whole.apply(x)), np.abs(expected), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(naive_covariance(whole.apply(x)), np.eye(4), atol=1e-5)
    np.testing.assert_array_equal(Whitening.fit(x, 2).matrix, whole.matrix[:, :2])


def test_directions_without_variance_are_dropped() -> None:
    x = drawn(50, 6).astype(np.float32)
    x[:, 3] = 7
    x[:, 5] = 2 * x[:, 0] - x[:, 1]
    whitening = Whitening.fit(x)
    assert (whitening.dropped, whitening.dimension) == (2, 4)
    np.testing.assert_allclose(naive_covariance(whitening.apply(x)), np.eye(4), atol=1e-4)
    with pytest.raises(UserError, match="50 vectors of 6 dimensions vary along 4"):
        Whitening.fit(x, 5)
    vectors = np.random.default_rng(3).normal(size=(6, 8))
    (doubt,) = Whitening.fit(vectors).doubts(6)
    assert "5 dimensions makes these 6 texts equally similar" in doubt
    assert Whitening.fit(vectors, 4).doubts(6) == []


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data(n: int = 400, d: int = 9, seed: int = 0) -> NDArray[np.float32]:
    """Correlated, far from the origin, and bent: its last coordinate is the square of the first, with noise."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n, d))
    base[:, -1] = base[:, 0] ** 2 + 0.1 * base[:, -1]
    return np.asarray(base @ rng.normal(size=(d, d)) + 3, dtype=np.float32)


def shaken(d: int = 9, settings: FlowSettings | None = None) -> Flow:
    """A flow in float64 none of whose weights is zero or one."""
    flow = Flow(d, settings or FlowSettings(width=6))
    flow.steps.double()
    with torch.no_grad():
        for number, parameter in enumerate(flow.steps.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=seeded(number), dtype=torch.float64))
    return flow


def test_log_determinant_is_that_of_autograds_jacobian() -> None:
    flow = shaken()
    x = torch.randn(6, 9, generator=seeded(5), dtype=torch.float64)
    z, found = flow.forward(x)
    assert (z - x).abs().max() > 0.5
    for row in x:
        jacobian = torch.autograd.functional.jacobian(lambda one: flow.forward(one[None])[0][0], row)  # type: ignore[no-untyped-call]
        assert abs(float(found.detach() - torch.linalg.slogdet(jacobian).logabsdet)) < 1e-9
        assert (jacobian - torch.diag(jacobian.diagonal())).abs().max() > 1e-3, "coordinates do act on each other"


def test_log_likelihood_is_the_change_of_variables() -> None:
    flow = Flow.fit(data(), FlowSettings(width=6, batch_size=100))
    x = data(5, seed=1)
    with torch.no_grad():
        z, log_det = flow.forward(torch.from_numpy(x))
    expected = [sum(norm.logpdf(v) for v in row) + float(log_det) for row in z.tolist()]
    np.testing.assert_allclose(flow.log_likelihood(torch.from_numpy(x)).detach(), expected, rtol=1e-5)


VECTORS = np.random.default_rng(0).normal(size=(200, 6)) * [9, 5, 3, 1, 0.5, 0.2] @ np.random.default_rng(1).normal(
    size=(6, 6)
) + np.arange(6)
TEXTS = [f"{word} number {n} is here." for n in range(8) for word in ("Lamp", "Snow", "A dog", "The train")]


def test_it_is_what_naive_loops_give() -> None:
    centred = VECTORS - VECTORS.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    expected = [row - sum((row @ one) * one for one in directions[:2]) for row in centred]
    assert AllButTheTop.fit(VECTORS, 2).apply(VECTORS) == pytest.approx(np.array(expected), abs=1e-5)


def test_the_saved_encoder_gives_the_same_vectors(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    opencse.whiten(encoder, TEXTS, tmp_path / "top", remove=2)
    expected = AllButTheTop.fit(encoder.encode(TEXTS), 2).apply(encoder.encode(TEXTS))
    assert SentenceEncoder.load(tmp_path / "top", device="cpu").encode(TEXTS) == pytest.approx(expected, abs=1e-4)
    assert "2 components removed" in (tmp_path / "top" / "README.md").read_text()
    assert SentenceTransformer(str(tmp_path / "top"), device="cpu").encode(TEXTS) == pytest.approx(expected, abs=1e-4)


RANDOM = np.random.default_rng(0)
CORPUS, POINTS = RANDOM.normal(size=(30, 6)), RANDOM.normal(size=(7, 6))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_cosine_of_two_vectors_is_the_mixed_similarity(monkeypatch: pytest.MonkeyPatch) -> None:
    share = 0.3
    corpus = np.concatenate([CORPUS, CORPUS[:4]])  # equal texts share a rank
    mapped = CorpusRanks.fit(corpus, share).apply(POINTS)
    similarities = [[cosine(text, other) for other in corpus] for text in POINTS]
    for i, j in itertools.combinations(range(len(POINTS)), 2):
        rounded = np.round(similarities, 9)
        expected = share * cosine(POINTS[i], POINTS[j]) + (1 - share) * spearmanr(rounded[i], rounded[j]).statistic
        assert cosine(mapped[i], mapped[j]) == pytest.approx(expected, abs=2e-6)
    without_ties = CorpusRanks.fit(CORPUS, share)
    at_once = without_ties.apply(POINTS)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1)
    assert without_ties.apply(POINTS) == pytest.approx(at_once, abs=1e-6), "text by text"


def test_training_raises_the_likelihood_and_repeats() -> None:
    seen, held_out = np.split(data(600), [400])
    settings = FlowSettings(epochs=5, batch_size=50, learning_rate=1e-2)
    started = Flow(9, settings)
    started.start(torch.from_numpy(seen))
    flow = Flow.fit(seen, settings)
    before, after = (one.log_likelihood(torch.from_numpy(held_out)).mean().item() for one in (started, flow))
    gain = after - before
    assert gain > 0.5, "nats"
    torch.manual_seed(2)
    np.testing.assert_array_equal(Flow.fit(seen, settings).apply(held_out), flow.apply(held_out))
