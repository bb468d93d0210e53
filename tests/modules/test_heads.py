"""The heads of a recipe: how they start, how they are kept, and what cannot be asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from helpers import Broken, json_in, resumed_is_whole
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense, HeadSettings, Projection, as_saved, new_head
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.runs.finish import TrainResult
from opencse.runs.run import Run
from opencse.settings import validate
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.selection import DevScore, GradedPairSelector
from steps import prepared

QUICK = ("training.max_steps=4", "training.batch_size=8", "training.evaluate_every=2", "training.precision=float32")


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def job(model: Path, *settings: str, dev: str | None = None) -> Run:
    return Run(text=Source(str(sample.TRAIN)), model=str(model), settings=(*QUICK, *settings), dev=dev, device="cpu")


@pytest.mark.parametrize(("features", "size"), [(32, 5), (6, 9)])
def test_a_linear_head_starts_as_a_projection(features: int, size: int) -> None:
    head = Dense.linear_head(features, seeded(), size)
    weight = head.linear.weight.detach().double()
    assert weight.shape == (size, features)
    product = weight @ weight.T if size <= features else weight.T @ weight
    assert torch.allclose(product, torch.eye(min(size, features), dtype=torch.float64), atol=1e-5)
    vectors = torch.randn(4, features, generator=seeded(1))
    assert torch.allclose(head(vectors), vectors @ head.linear.weight.T)


def test_the_head_of_settings() -> None:
    assert new_head(HeadSettings(), 32, seeded()) is None
    for kind, activation in (("mlp", "tanh"), ("linear", "identity")):
        made = new_head(validate(HeadSettings, {"kind": kind, "size": 6}, "test.toml"), 32, seeded())
        assert isinstance(made, Dense)
        assert (made.linear.weight.shape, made.activation_name) == ((6, 32), activation)
    for head, told in (({"kind": "linear"}, "a linear head needs a size"), ({"size": 8}, "a size goes with a head")):
        with pytest.raises(UserError, match=told):
            validate(HeadSettings, head, "test.toml")


def theirs(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
    return np.asarray(model.encode(texts, show_progress_bar=False), dtype=np.float32)


def dense_of(folder: Path) -> list[tuple[int, int, str]]:
    listing = json_in(folder / "modules.json")
    configs = [
        json_in(folder / entry["path"] / "config.json")
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
    return job(tiny_folder, head, "encoder.pooling=mean", "training.learning_rate=1e-3").train(folder)


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
    head = 'encoder.head={ kind = "mlp", size = 4, keep = true }'
    job(reduced.folder, head, "encoder.pooling=mean").train(tmp_path / "run")
    assert dense_of(tmp_path / "run") == [(32, 5, "Identity"), (5, 4, "Tanh")]
    same_vectors(tmp_path / "run", 4, sentences[:9])


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
    result = job(tiny_folder, wanted, "encoder.pooling=mean", dev="sample").train(tmp_path / "run")
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


def test_it_is_the_layers_of_torch_in_their_order() -> None:
    head = Projection(6, seeded())
    theirs = nn.Sequential(
        nn.Linear(6, 12, bias=False),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Linear(12, 6, bias=False),
        nn.BatchNorm1d(6, affine=False),
    )
    theirs[0].load_state_dict(head.inner.state_dict())
    theirs[3].load_state_dict(head.outer.state_dict())
    for step in range(4):
        vectors = torch.randn(8, 6, generator=seeded(step))
        torch.testing.assert_close(head(vectors), theirs(vectors))
    for own, other in ((head.inner_norm, theirs[1]), (head.outer_norm, theirs[4])):
        counts = {name: tensor for name, tensor in other.state_dict().items() if name != "num_batches_tracked"}
        assert own.state_dict().keys() == counts.keys()
        assert all(torch.equal(own.state_dict()[name], tensor) for name, tensor in counts.items())
        assert own.running_mean.any()
    head.eval(), theirs.eval()
    vectors = torch.randn(3, 6, generator=seeded(9))
    torch.testing.assert_close(head(vectors), theirs(vectors))
    torch.testing.assert_close(
        nn.Sequential(*as_saved(nn.Sequential(head)))(vectors), head(vectors), atol=1e-5, rtol=1e-4
    )
    for weight in (head.inner.weight, head.outer.weight):
        assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.3)


def test_a_batch_of_one_is_refused_and_an_inference_of_one_is_not() -> None:
    head = Projection(4, seeded())
    with pytest.raises(UserError, match=r"^the projection head normalises .* set training\.batch_size higher, or \S+$"):
        head(torch.ones(1, 4))
    assert head.eval()(torch.ones(1, 4)).shape == (1, 4)


@pytest.mark.parametrize("keep", [False, True])
def test_chunks_have_the_means_of_the_whole_batch(
    keep: bool, lively_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    settings = f'encoder.head={{ kind = "projection", keep = {str(keep).lower()} }}'
    run = prepared("simcse", lively_folder, tmp_path, sentences, settings, "encoder.dropout=0.0")
    inputs = run.inputs.build(run.batches.batch(0), 0)
    found = []
    for chunks in (WHOLE, Chunks(3)):
        encoder = run.encoder.twin().train()
        reps = run.objective.represent(encoder, replace(inputs, chunks=chunks))
        found.append([reps.anchor.detach(), reps.positive.detach(), *(b.double() for b in encoder.buffers())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    both = torch.cat(found[0][:2])
    assert float(both.mean(dim=0).abs().max()) < 1e-10, "means of both views together"
    alone = run.encoder.twin().train()(inputs.tokens.rows(0, 3)).sentence
    assert (alone - found[0][0][:3]).abs().max() > 0.1, "a chunk's own means are others"


SETTINGS = (
    "encoder.head={ kind = 'projection', keep = true }",
    "training.max_steps=6",
    "training.batch_size=8",
    "training.checkpoint_every=2",
    "training.learning_rate=1e-3",
    "training.precision=float32",
)


@pytest.mark.slow
def test_a_kept_head_resumes_bit_for_bit_and_is_two_dense_layers(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    from sentence_transformers import SentenceTransformer

    job = Run(text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=SETTINGS, dev=None, device="cpu")
    assert len(resumed_is_whole(job, tmp_path, Broken(5))) == 7, "backbone and two dense layers, kept and last; a log"
    encoder = SentenceEncoder(tmp_path / "whole", device="cpu")
    ours = encoder.encode(sentences[:9])
    theirs = SentenceTransformer(str(tmp_path / "whole"), device="cpu").encode(sentences[:9])
    assert np.abs(ours - theirs).max() < 1e-4
    first, second = (layer for layer in as_saved(encoder.dense) if isinstance(layer, Dense))
    assert (first.activation_name, second.activation_name) == ("relu", "identity")
    assert second.linear.bias.abs().max() > 1e-3, "running means, not those of the start"


def test_a_kept_head_does_not_go_with_intermediate_layers(
    lively_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    with pytest.raises(UserError, match=r"^vectors of intermediate layers .* encoder\.head\.keep=false, or \S+$"):
        prepared("sscl", lively_folder, tmp_path, sentences, 'encoder.head={ kind = "projection", keep = true }')
