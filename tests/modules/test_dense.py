"""The heads of a recipe: how a linear reduction starts, how it is kept, and what cannot be asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from opencse.adapting.selection import DevScore
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense, HeadSettings, new_head
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.finish import TrainResult
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text import sample
from opencse.text.readers import Source

QUICK = ("training.max_steps=4", "training.batch_size=8", "training.evaluate_every=2", "training.precision=float32")


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def job(model: Path, *settings: str, dev: str | None = None) -> TrainJob:
    return TrainJob(
        text=Source(str(sample.TRAIN)), model=str(model), settings=(*QUICK, *settings), dev=dev, device="cpu"
    )


@pytest.mark.parametrize(("features", "size"), [(32, 5), (32, 32), (768, 128), (6, 9)])
def test_a_linear_head_starts_as_a_projection(features: int, size: int) -> None:
    head = Dense.linear_head(features, seeded(), size)
    weight = head.linear.weight.detach().double()
    assert weight.shape == (size, features)
    product = weight @ weight.T if size <= features else weight.T @ weight
    assert torch.allclose(product, torch.eye(min(size, features), dtype=torch.float64), atol=1e-5)
    assert not head.linear.bias.any()
    assert head.activation_name == "identity"
    vectors = torch.randn(4, features, generator=seeded(1))
    assert torch.allclose(head(vectors), vectors @ head.linear.weight.T)
    assert all(p.requires_grad for p in head.parameters())


@pytest.mark.parametrize("head", [{"kind": "linear", "size": 3}, {"kind": "mlp", "size": 3}, {"kind": "mlp"}], ids=str)
def test_heads_come_from_the_generator_alone(head: dict[str, Any]) -> None:
    weights = []
    for seed in (1, 1, 2):
        made = new_head(HeadSettings(**head), 8, seeded(seed))
        assert isinstance(made, Dense)
        weights.append(made.linear.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_head_of_settings() -> None:
    def head(**settings: Any) -> Dense:
        made = new_head(HeadSettings(**settings), 32, seeded())
        assert isinstance(made, Dense)
        return made

    assert new_head(HeadSettings(), 32, seeded()) is None
    assert torch.equal(head(kind="mlp").linear.weight, Dense.mlp_head(32, seeded()).linear.weight)
    assert head(kind="mlp").linear.weight.shape == (32, 32)
    small = head(kind="mlp", size=6)
    assert (small.linear.weight.shape, small.activation_name) == ((6, 32), "tanh")
    assert small.linear.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not small.linear.bias.any()
    linear = head(kind="linear", size=6)
    assert torch.equal(linear.linear.weight, Dense.linear_head(32, seeded(), 6).linear.weight)
    assert linear.activation_name == "identity"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"kind": "linear"}, ["a linear head needs a size", 'head = { kind = "linear", size = 256 }']),
        ({"kind": "linear", "size": 0}, ["size", "greater than or equal to 1", "got 0"]),
        ({"size": 8}, ["a size goes with a head", "linear, mlp or projection"]),
        ({"kind": "dense"}, ["kind", "'none', 'mlp', 'linear' or 'projection'", "got 'dense'"]),
    ],
    ids=str,
)
def test_wrong_heads_are_told_in_one_line(head: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        validate(HeadSettings, head, "test.toml")
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_the_mend_works_from_the_command_line() -> None:
    recipe = load_recipe("simcse", overrides=['encoder.head={ kind = "linear", size = 256 }'])
    assert recipe.encoder.head == HeadSettings(kind="linear", size=256)
    with pytest.raises(UserError, match=r"--set encoder\.head\.kind=linear: encoder\.head: .*needs a size"):
        load_recipe("simcse", overrides=["encoder.head.kind=linear"])


def theirs(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
    return np.asarray(model.encode(texts, show_progress_bar=False), dtype=np.float32)


def dense_of(folder: Path) -> list[tuple[int, int, str]]:
    listing = json.loads((folder / "modules.json").read_text())
    configs = [
        json.loads((folder / entry["path"] / "config.json").read_text())
        for entry in listing
        if entry["type"] == "sentence_transformers.models.Dense"
    ]
    return [(c["in_features"], c["out_features"], c["activation_function"].rsplit(".", 1)[1]) for c in configs]


def same_vectors(folder: Path, dimension: int, texts: list[str]) -> None:
    """The folder gives the same vectors in both libraries, of the dimension asked for."""
    ours = SentenceEncoder.load(folder, device="cpu")
    vectors = ours.encode(texts)
    assert ours.dimension == dimension
    assert vectors.shape == (len(texts), dimension)
    assert np.abs(vectors - vectors[0]).max() > 1e-3
    assert np.abs(vectors - theirs(folder, texts)).max() < 1e-5


@pytest.fixture(scope="module")
def reduced(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    folder = tmp_path_factory.mktemp("reduced") / "run"
    head = 'encoder.head={ kind = "linear", size = 5, keep = true }'
    return job(tiny_folder, head, "encoder.pooling=mean", "training.learning_rate=1e-3").run(folder)


@pytest.mark.slow
def test_a_kept_reduction_is_in_the_folder(reduced: TrainResult, sentences: list[str]) -> None:
    folder = reduced.folder
    assert dense_of(folder) == [(32, 5, "Identity")]
    same_vectors(folder, 5, sentences[:9])
    trained = SentenceEncoder.load(folder, device="cpu").dense[0]
    assert isinstance(trained, Dense)
    start = Dense.linear_head(32, torch.Generator().manual_seed(42), 5)
    moved = (trained.linear.weight.detach() - start.linear.weight.detach()).abs()
    assert 1e-4 < float(moved.max()) < 0.1, "it began from the run's seed, and it was trained"


@pytest.mark.slow
def test_a_kept_head_on_a_model_with_dense_layers(reduced: TrainResult, tmp_path: Path, sentences: list[str]) -> None:
    """The new layer is put on top of those that are there."""
    for head, dimension, activation in (
        ('{ kind = "linear", size = 3, keep = true }', 3, "Identity"),
        ('{ kind = "mlp", keep = true }', 5, "Tanh"),
        ('{ kind = "mlp", size = 4, keep = true }', 4, "Tanh"),
    ):
        folder = tmp_path / activation / str(dimension)
        job(reduced.folder, f"encoder.head={head}", "encoder.pooling=mean").run(folder)
        assert dense_of(folder) == [(32, 5, "Identity"), (5, dimension, activation)]
        same_vectors(folder, dimension, sentences[:9])


@pytest.mark.slow
def test_a_head_for_training_only_leaves_the_dimension(tiny_folder: Path, tmp_path: Path) -> None:
    training = job(tiny_folder, 'encoder.head={ kind = "linear", size = 5 }', "encoder.pooling=mean")
    prepared = training.prepare(Silent())
    inputs = prepared.inputs.build(prepared.batches.batch(0), 0)
    assert prepared.objective.represent(prepared.encoder, inputs).anchor.shape == (8, 5)
    training.run(tmp_path / "run")
    assert dense_of(tmp_path / "run") == []
    assert SentenceEncoder.load(tmp_path / "run", device="cpu").dimension == 32


@pytest.fixture
def falling(monkeypatch: pytest.MonkeyPatch) -> list[NDArray[np.float32]]:
    """Every score is below the one before; what was scored is noted, by the vectors of a sentence."""
    scored: list[NDArray[np.float32]] = []

    def score(self: GradedPairSelector, encoder: SentenceEncoder) -> DevScore:
        scored.append(encoder.encode("A dog runs."))
        return DevScore(50.0 - len(scored))

    monkeypatch.setattr(GradedPairSelector, "score", score)
    return scored


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_where_the_start_is_kept_it_has_the_dimension_asked_for(
    kind: Literal["linear", "mlp"],
    tiny_folder: Path,
    tmp_path: Path,
    sentences: list[str],
    falling: list[NDArray[np.float32]],
) -> None:
    wanted = f'encoder.head={{ kind = "{kind}", size = 6, keep = true }}'
    result = job(tiny_folder, wanted, "encoder.pooling=mean", dev="sample").run(tmp_path / "run")
    assert result.kept == "start"
    plain = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    untrained = new_head(HeadSettings(kind=kind, size=6), 32, seeded(42))
    assert untrained is not None
    plain.dense.append(untrained)
    if kind == "linear":
        same_vectors(result.folder, 6, sentences[:9])
    kept = SentenceEncoder.load(result.folder, device="cpu").encode(sentences[:9])
    assert np.array_equal(kept, plain.encode(sentences[:9]))
    assert np.array_equal(falling[0], plain.encode("A dog runs.")), "and so it was scored"
    assert not np.array_equal(falling[0], falling[1])
    assert dense_of(result.folder) == dense_of(result.folder / "last")


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    ['{ kind = "mlp", keep = true }', '{ kind = "linear", size = 32, keep = true }', '{ kind = "linear", size = 6 }'],
)
def test_otherwise_the_start_is_the_model_as_it_was_given(
    head: str, tiny_folder: Path, tmp_path: Path, falling: list[NDArray[np.float32]]
) -> None:
    result = job(tiny_folder, f"encoder.head={head}", "encoder.pooling=mean", dev="sample").run(tmp_path / "run")
    assert result.kept == "start"
    assert dense_of(result.folder) == []
    plain = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    assert np.array_equal(falling[0], plain.encode("A dog runs."))
    assert len(dense_of(result.folder / "last")) == ("keep" in head)
