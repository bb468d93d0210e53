"""The auto-encoder and the mixture as negatives: what they learn, their state; and the auto-encoder's formulas."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.columns import Scoring
from opencse.objective.negatives.base import Distribution, Fitted, standardised
from opencse.objective.negatives.gmm import Gmm, Mixture
from opencse.objective.objective import Objective
from opencse.objective.registry import build as build_part
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import validate
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens
from opencse.training.checkpoint import prefixed
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings

N, D = 6, 8
COSINE = Scoring("cosine", 0.5, True)
DOT = Scoring("dot", 1.0, True)
VAE: dict[str, Any] = {"kind": "vae", "latent": 3, "hidden": 5}
GMM: dict[str, Any] = {"kind": "gmm", "components": 2}
BOTH = pytest.mark.parametrize("data", [VAE, GMM], ids=["vae", "gmm"])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with a training head, whose vectors have another number of dimensions."""
    encoder = tiny_encoder.twin()
    encoder.projection = Dense(32, D)
    return encoder


def begun(encoder: SentenceEncoder, data: dict[str, Any], *, batch_size: int = N, seed: int = 0) -> Fitted:
    settings = validate(ObjectiveSettings, {"negatives": [data]}, "test").negatives[0]
    source = build_part(settings)
    assert isinstance(source, Fitted)
    source.begin(encoder, batch_size=batch_size, seed=seed)
    return source


def cloud(step: int, n: int = N, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Two narrow clusters far from each other and from 0, every other row."""
    centre = torch.where(torch.arange(n) % 2 == 0, 1.0, -1.0).unsqueeze(1) * torch.linspace(1, 2, D) + 5.0
    return (centre + 0.1 * torch.randn(n, D, generator=generator(1000 + step))).to(dtype)


def reps_of(anchor: Tensor, step: int) -> Representations:
    n = len(anchor)
    keys = torch.arange(2 * n).reshape(n, 2)
    return Representations(anchor, anchor, anchor.new_zeros(n, 0, D), keys, noise_seed=step)


def no_inputs(n: int) -> StepInputs:
    """What these sources do not read."""
    ids = torch.zeros(n, 1, dtype=torch.int64)
    return StepInputs(Tokens(ids, ids + 1), n, torch.zeros(1))


@torch.no_grad()
def one_step(source: Fitted, encoder: SentenceEncoder, step: int, anchor: Tensor | None = None) -> Tensor:
    """Columns, then the fit, as a trainer would; the columns' logits."""
    reps = reps_of(cloud(step) if anchor is None else anchor, step)
    logits = source.columns(reps, DOT).dense().logits
    source.after_backward(encoder, [no_inputs(len(reps.anchor))], [reps.detached()])
    return logits


def distribution_of(source: Fitted) -> Distribution:
    assert source.distribution is not None
    return source.distribution


@BOTH
def test_columns_are_samples_once_it_is_fitted(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    source = begun(encoder, {**data, "count": 1.5, "weight": 2.0})
    assert source.count(N, 0) == 9
    reps = reps_of(cloud(0), 0)
    assert source.columns(reps, COSINE).dense().logits.shape == (N, 0)
    one_step(source, encoder, 0)
    leaf = cloud(1).requires_grad_()
    columns = source.columns(reps_of(leaf, 1), COSINE).dense()
    samples = distribution_of(source).sample(9, generator(seed_of(1, data["kind"])))
    assert samples.shape == (9, D)
    assert not samples.requires_grad
    torch.testing.assert_close(columns.logits, COSINE.logits(leaf, samples))
    assert columns.log_weight == pytest.approx(math.log(2.0))
    (found,) = torch.autograd.grad(columns.logits.exp().sum(), leaf)
    (wanted,) = torch.autograd.grad(COSINE.logits(leaf, samples).exp().sum(), leaf)
    torch.testing.assert_close(found, wanted)
    assert wanted.abs().max() > 0


@pytest.mark.parametrize(
    "data", [{"kind": "vae", "latent": 2, "hidden": 16, "learning_rate": 0.01}, GMM], ids=["vae", "gmm"]
)
def test_samples_come_from_the_clusters_of_the_last_steps(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    source = begun(encoder, data)
    for step in range(60):
        one_step(source, encoder, step)
    samples = distribution_of(source).sample(2000, generator(3))
    direction = torch.linspace(1, 2, D)
    along = (samples - 5.0) @ direction / direction.square().sum()  # 1 and -1 at the clusters' centres
    off = (samples - 5.0 - along.unsqueeze(1) * direction).norm(dim=1)
    assert float(off.max()) < 1.0
    assert float(((along.abs() - 1).abs() < 0.35).float().mean()) > 0.7  # of one Gaussian it would be 0.34
    assert 0.4 < float((along > 0).float().mean()) < 0.6


@BOTH
def test_old_steps_are_forgotten(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    """After ``steps`` steps of another cloud, nothing of the first one is left in the scale of the samples."""
    source = begun(encoder, {**data, "steps": 3})
    for step in range(4):
        one_step(source, encoder, step, cloud(step) + 500)
    for step in range(4, 7):
        one_step(source, encoder, step)
    assert source.store is not None
    assert len(source.store) == 3 * N
    samples = distribution_of(source).sample(500, generator())
    assert float(samples.abs().max()) < 20


@BOTH
def test_the_same_seeds_make_the_same_samples(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    runs = []
    for seed in (0, 0, 1):
        source = begun(encoder, data, seed=seed)
        runs.append([one_step(source, encoder, step) for step in range(4)])
    assert all(torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    if data is VAE:
        assert not torch.equal(runs[0][3], runs[2][3])
    assert not torch.equal(runs[0][2], runs[0][3])


@BOTH
def test_the_state_goes_through_a_checkpoint(encoder: SentenceEncoder, data: dict[str, Any], tmp_path: Path) -> None:
    whole = begun(encoder, data)
    fresh = {name: value.shape for name, value in whole.state_dict().items()}
    for step in range(3):
        one_step(whole, encoder, step)
    state = whole.state_dict()
    assert {name: value.shape for name, value in state.items()} == fresh
    save_file(prefixed("part", state), tmp_path / "state.safetensors")
    other = begun(encoder, data, seed=5)
    loaded = {n.removeprefix("part."): t for n, t in load_file(tmp_path / "state.safetensors").items()}
    other.load_state_dict(loaded)
    for step in range(3, 6):
        anchors = cloud(step, N - step % 2)
        assert torch.equal(one_step(whole, encoder, step, anchors), one_step(other, encoder, step, anchors))
    ends = other.state_dict()
    for name, value in whole.state_dict().items():
        assert torch.equal(value, ends[name]), name
        assert not torch.equal(value, loaded[name]), f"{name} has not moved"


@BOTH
def test_the_runs_optimizer_finds_nothing_to_train(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    objective = Objective.from_settings(
        validate(ObjectiveSettings, {"negatives": [{"kind": "in_batch"}, data]}, "test")
    )
    objective.begin(encoder, batch_size=N, seed=0)
    source = objective.negatives[1]
    assert isinstance(source, Fitted)
    one_step(source, encoder, 0)
    assert not list(objective.parameters())
    optimizer = build_optimizer([*encoder.parameters(), *objective.parameters()], TrainingSettings())
    assert len([p for group in optimizer.param_groups for p in group["params"]]) == len(list(encoder.parameters()))
    assert all(not value.requires_grad for value in source.state_dict(keep_vars=True).values())
    assert all(p.grad is None for p in encoder.parameters())


@BOTH
def test_autocast_and_half_precision_change_no_bit(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    plain, cast = begun(encoder, data), begun(encoder, data)
    for step in range(3):
        half = cloud(step, dtype=torch.bfloat16)
        wanted = one_step(plain, encoder, step, half.float())
        with torch.autocast("cpu", torch.bfloat16):
            found = one_step(cast, encoder, step, half)
        assert found.dtype == torch.float32
        assert torch.isfinite(found).all()
        assert torch.equal(found, wanted)
    assert all(value.dtype in (torch.float32, torch.int64) for value in cast.state_dict().values())


@BOTH
def test_vectors_in_double_precision(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    one, other = begun(encoder, data), begun(encoder, data)
    for step in range(2):
        wanted = one_step(one, encoder, step)
        found = one_step(other, encoder, step, cloud(step, dtype=torch.float64))
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), wanted)


@BOTH
def test_the_scale_of_the_vectors_is_the_samples(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    one, other = begun(encoder, data), begun(encoder, data)
    for step in range(3):
        one_step(one, encoder, step)
        one_step(other, encoder, step, cloud(step) * 2.0**-12)
    samples = [distribution_of(source).sample(50, generator()) for source in (one, other)]
    torch.testing.assert_close(samples[1] * 2.0**12, samples[0], rtol=1e-3, atol=1e-3)
    assert float(samples[0].std(dim=0).min()) > 0


@BOTH
def test_batches_of_two_and_dimensions_without_spread(encoder: SentenceEncoder, data: dict[str, Any]) -> None:
    source = begun(encoder, data, batch_size=2)
    for step in range(12):
        anchors = cloud(step, 2)
        anchors[:, 2] = 0.1
        anchors[:, 3] = 0.0
        assert torch.isfinite(one_step(source, encoder, step, anchors)).all()
    samples = distribution_of(source).sample(100, generator())
    torch.testing.assert_close(samples[:, 2:4], torch.tensor([0.1, 0.0]).expand(100, 2))
    assert float(samples[:, 0].std()) > 0
    alike = begun(encoder, data, batch_size=2)
    for step in range(3):
        one_step(alike, encoder, step, torch.full((2, D), 0.3))
    torch.testing.assert_close(distribution_of(alike).sample(9, generator()), torch.full((9, D), 0.3))


def test_a_smaller_last_batch_changes_nothing_but_the_count(encoder: SentenceEncoder) -> None:
    source = begun(encoder, GMM)
    shapes = [tuple(one_step(source, encoder, s, cloud(s, n)).shape) for s, n in enumerate((N, 2, N))]
    assert shapes == [(N, 0), (2, 2), (N, N)]


def test_standardised() -> None:
    points = torch.randn(7, 3, generator=generator(), dtype=torch.float64) * torch.tensor([1.0, 3.0, 0.0]) + 0.1
    found, mean, sd = standardised(points)
    for k in range(2):
        column = points[:, k].tolist()
        centre = sum(column) / 7
        spread = math.sqrt(sum((x - centre) ** 2 for x in column) / 6)
        assert (float(mean[k]), float(sd[k])) == pytest.approx((centre, spread))
        assert found[:, k].tolist() == pytest.approx([(x - centre) / spread for x in column])
    assert float(sd[2]) == 0.0
    assert found[:, 2].abs().max() < 1e-12


def test_what_the_mixture_refuses(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match=r"^gmm: 8 components cannot be fitted on 4 outputs \(2 steps of 2\); set more"):
        begun(encoder, {"kind": "gmm", "steps": 2}, batch_size=2)
    begun(encoder, {"kind": "gmm", "steps": 4}, batch_size=2)
    with pytest.raises(UserError, match=r"^gmm: a sentence vector is not finite; lower training\.learning_rate"):
        Mixture(Gmm.Settings(components=2), torch.zeros(0, D), seed=0).fit(cloud(0) * float("inf"), generator())


def test_both_refuse_a_share_that_is_no_vector(encoder: SentenceEncoder) -> None:
    for data in (VAE, GMM):
        with pytest.raises(UserError, match=rf"^{data['kind']}: count 0\.01 gives no vector for a batch of 6"):
            begun(encoder, {**data, "count": 0.01})
