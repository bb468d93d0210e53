"""Maps of a model's vectors (whitening, flow, all-but-the-top, ranks of a corpus): formulas, and scores with them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm, spearmanr
from sentence_transformers import SentenceTransformer
from torch import Tensor

import opencse
from helpers import Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, StsData, TaskPairs
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models import corpus_ranks
from opencse.evaluation.models import whitening as module
from opencse.evaluation.models.all_but_the_top import AllButTheTop
from opencse.evaluation.models.corpus_ranks import CorpusRanks
from opencse.evaluation.models.flow import ActNorm, Flow, FlowSettings, FlowStep
from opencse.evaluation.models.whitening import Whitening, whitened
from opencse.evaluation.sts.data import TASKS
from opencse.evaluation.transforms import postprocessed, refitted_each_call, sample_texts
from opencse.text.readers import Source

Kind = Literal["whitening", "flow"]


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """How often each of 12 letters occurs, far from the origin."""
    return np.array([[text.lower().count(letter) + 3 for letter in "etaoinshrdlu"] for text in texts], np.float32)


JUDGED = EmbeddingModel("letters", letters, pooling="none", device="cpu")


@pytest.fixture
def corpus(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(sentences[:200]) + "\n")
    return path


def direct(kind: Kind, fitted: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return Whitening.fit(fitted).apply(vectors) if kind == "whitening" else Flow.fit(fitted).apply(vectors)


@pytest.mark.parametrize("kind", ["whitening", "flow"])
def test_fitted_on_a_corpus(kind: Kind, corpus: Path, sentences: list[str]) -> None:
    said: list[str] = []
    stages: list[tuple[str, int, int]] = []
    made = postprocessed(JUDGED, kind, corpus, progress=lambda *stage: stages.append(stage), say=said.append)
    assert (made.name, made.pooling, made.device) == (f"letters + {kind} ({corpus})", "none", "cpu")
    for texts in (sentences[200:230], sentences[:4]):
        np.testing.assert_array_equal(made.encode(texts), direct(kind, letters(sentences[:200]), letters(texts)))
    assert len(said) == 1
    assert said[0].startswith(f"{kind} fitted on 200 texts of {corpus} in ")
    assert stages == ([("training the flow", i, 7) for i in range(1, 8)] if kind == "flow" else [])


@pytest.mark.parametrize("kind", ["whitening", "flow"])
def test_fitted_on_the_target_which_is_the_first_call(kind: Kind, sentences: list[str]) -> None:
    said: list[str] = []
    made = postprocessed(JUDGED, kind, "target", say=said.append)
    assert made.name == f"letters + {kind} (target)"
    assert said == []
    first = made.encode(sentences[:150])
    np.testing.assert_array_equal(first, direct(kind, letters(sentences[:150]), letters(sentences[:150])))
    later = made.encode(sentences[5:30])
    np.testing.assert_allclose(later, first[5:30], rtol=1e-6, atol=1e-6, err_msg="later calls are of one space")
    assert len(said) == 1
    assert "the 150 texts evaluated" in said[0]
    fresh = postprocessed(JUDGED, kind, "target").encode(sentences[150:300])
    assert not np.allclose(fresh, made.encode(sentences[150:300]), atol=1e-3), "a new one is fitted anew"


def test_sentences_are_drawn_from_the_file(corpus: Path, sentences: list[str], tmp_path: Path) -> None:
    source = Source(str(corpus))
    assert sample_texts(source, 200) == sample_texts(source, 10**6) == sentences[:200]
    some = sample_texts(source, 30)
    assert len(set(some)) == 30
    places = [sentences.index(text) for text in some]
    assert places == sorted(places)
    assert max(places) > 150
    assert sample_texts(source, 30) == some != sample_texts(source, 30, seed=1)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("anchor\tpositive\na\tb\nb\tc\n")
    assert sample_texts(Source(str(pairs)), 9) == ["a", "b", "c"], "each text once"
    made = postprocessed(JUDGED, "whitening", corpus, sentences=30)
    np.testing.assert_array_equal(made.encode(some), Whitening.fit(letters(some)).apply(letters(some)))


def test_refusals(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown post-processing 'witening'; known: whitening, .*, ranks"):
        postprocessed(JUDGED, "witening", "target")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a flow keeps all dimensions"):
        postprocessed(JUDGED, "flow", "target", dimension=3)
    with pytest.raises(UserError, match=r"none\.txt: no such file"):
        postprocessed(JUDGED, "whitening", tmp_path / "none.txt")
    with pytest.raises(UserError, match="at least 1 sentence"):
        postprocessed(JUDGED, "whitening", corpus, sentences=0)
    with pytest.raises(UserError, match="vary along"):
        postprocessed(JUDGED, "whitening", corpus, dimension=13)


def sts(sentences: list[str]) -> StsData:
    rng = np.random.default_rng(0)

    def part(name: str, start: int) -> ScoredPairs:
        return ScoredPairs(
            name, rng.uniform(0, 5, 40), sentences[start : start + 40], sentences[start + 9 : start + 49]
        )

    tasks = {
        "sts12": TaskPairs(TASKS["sts12"], tuple(part(name, 10 * i) for i, name in enumerate(TASKS["sts12"].subsets))),
        "stsb": TaskPairs(TASKS["stsb"], (part("test", 200),)),
    }
    return StsData("made up", "prepared", tasks)


def test_layers_of_the_model_are_not_those_of_the_map(tiny_folder: Path, corpus: Path) -> None:
    """They would be scored without the map."""
    from opencse.evaluation.models.opening import open_model

    model = open_model(str(tiny_folder), device="cpu")
    assert model.layers is not None
    for fit in ("target", corpus):
        assert postprocessed(model, "whitening", fit, dimension=3).layers is None


def test_every_suite_fits_each_task_by_itself(sentences: list[str], tmp_path: Path) -> None:
    """Two collections give what each gives alone, and a file's map is fitted once for several suites."""
    from opencse.api.evaluation import evaluate, evaluate_all

    for number, name in enumerate(("one", "two")):
        own = sentences[100 * number : 100 * number + 100]
        folder = tmp_path / "retrieval" / name
        (folder / "qrels").mkdir(parents=True)
        (folder / "corpus.jsonl").write_text(
            "".join(json.dumps({"_id": str(i), "text": text}) + "\n" for i, text in enumerate(own[:80]))
        )
        (folder / "queries.jsonl").write_text(
            "".join(json.dumps({"_id": f"q{i}", "text": text}) + "\n" for i, text in enumerate(own[80:]))
        )
        judged = "".join(f"q{i}\t{i}\t1\n" for i in range(20))
        (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    found = {
        tasks: evaluate(letters, tmp_path, "retrieval", transform="whitening", tasks=list(tasks)).values()
        for tasks in (("one", "two"), ("one",), ("two",))
    }
    for name in ("one", "two"):
        alone = {key: value for key, value in found[name,].items() if name in key.split(".")}
        assert alone
        assert {key: found["one", "two"][key] for key in alone} == pytest.approx(alone, abs=1e-9)
    heard = Heard()
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(sentences[:200]) + "\n")
    (tmp_path / "sts" / "stsb").mkdir(parents=True)
    part = sts(sentences).tasks["stsb"].parts[0]
    rows = (f"{score}\t{a}\t{b}\n" for score, a, b in zip(part.scores, part.first, part.second, strict=True))
    (tmp_path / "sts" / "stsb" / "dev.tsv").write_text("".join(rows))
    scored = dict(
        evaluate_all([letters], tmp_path, ("dev", "retrieval"), transform="whitening", fit=corpus, progress=heard)
    )
    assert list(scored) == ["dev", "retrieval"]
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
    found = Whitening.fit(x).apply(x)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(naive_covariance(found), np.eye(4), atol=1e-5)


def test_fewer_dimensions_are_the_first_columns() -> None:
    x = drawn(60, 6)
    whole, short = Whitening.fit(x), Whitening.fit(x, 2)
    np.testing.assert_array_equal(short.matrix, whole.matrix[:, :2])
    assert short.apply(x).shape == (60, 2)
    kept = x @ np.linalg.svd(naive_covariance(x))[0][:, :2]
    assert kept.var() > 0.5 * x.var(axis=0).sum() / 2, "those of the largest variance"
    assert short.dropped == 0


def test_directions_without_variance_are_dropped() -> None:
    x = drawn(50, 6).astype(np.float32)
    x[:, 3] = 7
    x[:, 5] = 2 * x[:, 0] - x[:, 1]
    whitening = Whitening.fit(x)
    assert (whitening.dropped, whitening.dimension) == (2, 4)
    np.testing.assert_allclose(naive_covariance(whitening.apply(x)), np.eye(4), atol=1e-4)
    with pytest.raises(UserError, match="50 vectors of 6 dimensions vary along 4") as caught:
        Whitening.fit(x, 5)
    assert "\n" not in str(caught.value)
    assert Whitening.fit(x, 4).dimension == 4


def test_texts_that_become_equally_similar_are_reported() -> None:
    vectors = np.random.default_rng(3).normal(size=(6, 8))
    few = Whitening.fit(vectors)
    unit = few.apply(vectors) / np.linalg.norm(few.apply(vectors), axis=1, keepdims=True)
    np.testing.assert_allclose((unit @ unit.T)[~np.eye(6, dtype=bool)], -1 / 5, atol=1e-5)
    (doubt,) = few.doubts(6)
    assert doubt.startswith(
        "warning    whitening with 5 dimensions makes these 6 texts equally similar; fit it on many"
    )
    assert Whitening.fit(vectors, 4).doubts(6) == []


def test_how_much_the_last_direction_is_stretched() -> None:
    scale = np.array([100.0, 50.0, 10.0, 1.0, 0.01])
    random = np.random.default_rng(0)
    x = np.linalg.qr(random.normal(size=(400, 5)))[0]
    x = (x - x.mean(axis=0)) * scale
    found = Whitening.fit(x)
    assert found.stretch == pytest.approx(10_000, rel=0.2)
    assert found.within(1.5) == 1
    assert found.within(200) == 4
    assert Whitening.fit(x, found.within(200)).stretch < 200


def test_refusals_of_whitening() -> None:
    bad = drawn(9, 3)
    bad[2, 1] = np.nan
    with pytest.raises(UserError, match="NaN or infinite"):
        Whitening.fit(bad)
    with pytest.raises(UserError, match="vary along 0; give more texts"):
        Whitening.fit(np.ones((4, 3)))


def test_far_from_the_origin_in_float32() -> None:
    """Moments are of float64: a mean a thousand times the spread does not drown it."""
    x = (drawn(3000, 3) + 1000).astype(np.float32)
    np.testing.assert_allclose(np.cov(Whitening.fit(x).apply(x).T, dtype=np.float64), np.eye(3), atol=1e-3)


@pytest.mark.slow
def test_a_whitened_encoder_saves_and_loads_with_the_same_vectors(
    encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    fitted, others = sentences[:300], [*sentences[300:330], "A."]
    whitening = Whitening.fit(encoder.encode(fitted))
    assert whitening.dropped == 1, "the direction that LayerNorm leaves without variance"
    made = whitened(encoder, whitening)
    expected = whitening.apply(encoder.encode(others))
    assert expected.std() > 0.3
    assert made.dimension == whitening.dimension == 31
    np.testing.assert_allclose(made.encode(others), expected, atol=2e-3)
    assert np.abs(np.cov(made.encode(fitted).T) - np.eye(made.dimension)).max() < 0.01
    made.save(tmp_path)
    again = SentenceEncoder.load(tmp_path, device="cpu").encode(others)
    np.testing.assert_array_equal(again, made.encode(others))
    theirs = SentenceTransformer(str(tmp_path), device="cpu").encode(others)
    np.testing.assert_allclose(theirs, again, atol=2e-3)


def test_what_cannot_be_appended(encoder: SentenceEncoder) -> None:
    whitening = Whitening.fit(drawn(90, 6))
    with pytest.raises(UserError, match="takes vectors of 6 dimensions, the encoder gives 32"):
        whitened(encoder, whitening)
    unit = encoder.twin()
    unit.normalize = True
    with pytest.raises(UserError, match="set encoder"):
        whitened(unit, Whitening.fit(drawn(90, 32)))


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


@pytest.mark.parametrize("settings", [FlowSettings(width=6), FlowSettings(width=6, levels=1)])
def test_log_determinant_is_that_of_autograds_jacobian(settings: FlowSettings) -> None:
    flow = shaken(settings=settings)
    x = torch.randn(6, 9, generator=seeded(5), dtype=torch.float64)
    z, found = flow.forward(x)
    assert z.shape == x.shape
    assert (z - x).abs().max() > 0.5

    def one(row: Tensor) -> Tensor:
        return flow.forward(row[None])[0][0]

    for row in x:
        jacobian = torch.autograd.functional.jacobian(one, row)  # type: ignore[no-untyped-call]
        expected = torch.linalg.slogdet(jacobian).logabsdet
        assert abs(float(found.detach() - expected)) < 1e-9
        off = (jacobian - torch.diag(jacobian.diagonal())).abs().max()
        assert off > 1e-3, "coordinates do act on each other"
    assert found.abs() > 0.01


def test_log_likelihood_is_the_change_of_variables() -> None:
    flow = Flow.fit(data(), FlowSettings(width=6, batch_size=100))
    x = data(5, seed=1)
    with torch.no_grad():
        z, log_det = flow.forward(torch.from_numpy(x))
    expected = [sum(norm.logpdf(v) for v in row) + float(log_det) for row in z.tolist()]
    np.testing.assert_allclose(flow.log_likelihood(x), expected, rtol=1e-5)


def test_layers_by_hand() -> None:
    x = torch.tensor([[1.0, 2, 3], [3, 2, 7]])
    norm_layer = ActNorm(3)
    norm_layer.start(x)
    torch.testing.assert_close(norm_layer(x), torch.tensor([[-1.0, 0, -1], [1, 0, 1]]), atol=1e-5, rtol=0)
    assert norm_layer.log_scale.sum().item() == pytest.approx(-math.log(1) - math.log(1e-6) - math.log(2), abs=1e-4)
    step = FlowStep(3, 4, seeded())
    torch.testing.assert_close(step(x), torch.tensor([[3.0, 2, 1], [7, 2, 3]]), msg="a new step moves nothing")
    with torch.no_grad():
        step.shift.get_parameter("4.bias").fill_(5)
    torch.testing.assert_close(step(x), torch.tensor([[3.0, 2, 6], [7, 2, 8]]))


def test_training_raises_the_likelihood_of_vectors_it_has_not_seen() -> None:
    seen, held_out = np.split(data(600), [400])
    settings = FlowSettings(epochs=5, batch_size=50, learning_rate=1e-2)
    started = Flow(9, settings)
    started.start(torch.from_numpy(seen))
    flow = Flow.fit(seen, settings)
    gain = flow.log_likelihood(held_out).mean() - started.log_likelihood(held_out).mean()
    assert gain > 0.5, "nats"
    z = flow.apply(held_out)
    assert z.dtype == np.float32
    assert z.shape == held_out.shape
    before = np.abs(np.corrcoef(held_out.T) - np.eye(9)).mean()
    assert np.abs(np.corrcoef(z.T) - np.eye(9)).mean() < before


def test_the_same_seed_gives_the_same_flow_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    settings = FlowSettings(batch_size=100)
    one = Flow.fit(data(), settings).apply(data())
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    np.testing.assert_array_equal(Flow.fit(data(), settings).apply(data()), one)
    other = Flow.fit(data(), FlowSettings(batch_size=100, seed=7)).apply(data())
    assert np.abs(other - one).max() > 0.1


def test_refusals_of_flow() -> None:
    bad = data()
    bad[3, 3] = np.inf
    with pytest.raises(UserError, match="NaN or infinite"):
        Flow.fit(bad)
    with pytest.raises(UserError, match="at least 2 vectors, not 1"):
        Flow.fit(data(1))
    with pytest.raises(UserError, match="vectors of 7 dimensions are too short for a flow of 3 levels"):
        Flow.fit(data(d=7))
    with pytest.raises(UserError, match=r"diverged at batch .* lower its learning rate"):
        Flow.fit(data(), FlowSettings(learning_rate=1e6, epochs=9))


VECTORS = np.random.default_rng(0).normal(size=(200, 6)) * [9, 5, 3, 1, 0.5, 0.2] @ np.random.default_rng(1).normal(
    size=(6, 6)
) + np.arange(6)
TEXTS = [f"{word} number {n} is here." for n in range(8) for word in ("Lamp", "Snow", "A dog", "The train")]


def test_it_is_what_naive_loops_give() -> None:
    removed = 2
    mean = [sum(float(row[k]) for row in VECTORS) / len(VECTORS) for k in range(6)]
    centred = [[float(row[k]) - mean[k] for k in range(6)] for row in VECTORS]
    _, _, directions = np.linalg.svd(np.array(centred), full_matrices=False)
    expected = []
    for row in centred:
        left = list(row)
        for direction in directions[:removed]:
            share = sum(row[k] * direction[k] for k in range(6))
            left = [left[k] - share * direction[k] for k in range(6)]
        expected.append(left)
    top = AllButTheTop.fit(VECTORS, removed)
    assert (VECTORS - top.mean) @ top.matrix == pytest.approx(np.array(expected), abs=1e-10)
    assert top.apply(VECTORS) == pytest.approx(np.array(expected), abs=1e-5)


def test_it_is_a_transform_of_any_model(tmp_path: Path) -> None:
    rows = {str(number): vector for number, vector in enumerate(VECTORS)}
    model = EmbeddingModel("rows", lambda texts: np.stack([rows[text] for text in texts]))
    names, said = list(rows), Heard()
    mapped = postprocessed(model, "all-but-the-top", "target", remove=2, say=said.say)
    assert mapped.encode(names) == pytest.approx(AllButTheTop.fit(VECTORS, 2).apply(VECTORS))
    assert "2 of 6 components removed" in said.said[0]
    again = refitted_each_call(model, "all-but-the-top", remove=2)
    assert again.encode(names[:50]) == pytest.approx(AllButTheTop.fit(VECTORS[:50], 2).apply(VECTORS[:50]))
    with pytest.raises(UserError, match="all-but-the-top keeps all dimensions"):
        postprocessed(model, "all-but-the-top", "target", dimension=3)
    with pytest.raises(UserError, match="is for the transform all-but-the-top, not flow"):
        postprocessed(model, "flow", "target", remove=3)
    with pytest.raises(UserError, match="--remove 2 needs --transform all-but-the-top"):
        opencse.evaluate("opencse-mini", tmp_path, remove=2)


def test_the_saved_encoder_gives_the_same_vectors(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    before = encoder.encode(TEXTS)
    opencse.whiten(encoder, TEXTS, tmp_path / "top", remove=2)
    opened = SentenceEncoder.load(tmp_path / "top", device="cpu")
    expected = AllButTheTop.fit(before, 2).apply(before)
    assert opened.encode(TEXTS) == pytest.approx(expected, abs=1e-4)
    assert opened.dimension == encoder.dimension
    assert "2 components removed" in (tmp_path / "top" / "README.md").read_text()
    from sentence_transformers import SentenceTransformer

    assert SentenceTransformer(str(tmp_path / "top"), device="cpu").encode(TEXTS) == pytest.approx(expected, abs=1e-4)
    with pytest.raises(UserError, match="--remove keeps all dimensions; leave --dimension out"):
        opencse.whiten(encoder, TEXTS, tmp_path / "other", remove=2, dimension=3)


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
    monkeypatch.setattr(corpus_ranks, "_BLOCK_BYTES", 1)
    assert without_ties.apply(POINTS) == pytest.approx(at_once, abs=1e-6), "text by text"


def test_texts_without_a_direction_or_an_order() -> None:
    ranks = CorpusRanks.fit(np.repeat(CORPUS[:1], 5, axis=0), 0.5)
    mapped = ranks.apply(np.array([CORPUS[0], np.zeros(6)]))
    assert np.isfinite(mapped).all()
    assert mapped[0] @ mapped[0] == pytest.approx(0.5), "all texts of the corpus are equally near"
    assert not mapped[1].any()


def test_refusals_of_corpus_ranks() -> None:
    with pytest.raises(UserError, match=r"from 0 to 1, not 1\.5"):
        CorpusRanks.fit(CORPUS, 1.5)
    with pytest.raises(UserError, match="ranks need at least 2 finite vectors of a corpus, not 1"):
        CorpusRanks.fit(CORPUS[:1])


def test_any_model_is_evaluated_with_it(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(f"{n} lamps and {n * n % 7} trains" for n in range(20)))

    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[len(text), text.count("a"), text.count("e") + 1] for text in texts], dtype=np.float32)

    model = EmbeddingModel("letters", encode)  # type: ignore[arg-type]
    ranked = postprocessed(model, "ranks", corpus, cosine_share=0.25)
    texts = ["a lamp", "seven trains"]
    wanted = CorpusRanks.fit(encode(corpus.read_text().splitlines()), 0.25).apply(encode(texts))
    assert np.asarray(ranked.encode(texts)) == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(UserError, match="ranks needs a corpus: --fit FILE"):
        postprocessed(model, "ranks", "target")
    with pytest.raises(UserError, match="the share of the cosine is for the transform ranks, not flow"):
        postprocessed(model, "flow", corpus, cosine_share=0.5)
    with pytest.raises(UserError, match=r"--cosine-share 0\.5 needs --transform ranks"):
        opencse.evaluate("bag-of-words", tmp_path, cosine_share=0.5)
