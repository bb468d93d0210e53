"""Drawn negatives against loops: Gaussian samples, noisy anchors, the hardest of a pool, MixCSE."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import objective_of
from noise_cases import (
    COSINE,
    N,
    anchors_of,
    drawn_by,
    expect_logits,
    generator,
    noisy_anchor,
    reps_of,
    scales,
)
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import Scoring
from opencse.objective.negatives.derived import Mixed
from opencse.objective.negatives.generated import Gaussian, NoisyAnchor
from opencse.objective.vectors.step import Representations
from opencse.settings import validate
from opencse.streams import seed_of

DRAWS = 200_000


def gaussian(**data: Any) -> Gaussian:
    return Gaussian(validate(Gaussian.Settings, {"kind": "gaussian", **data}, "test"))


@pytest.mark.parametrize(
    ("centre", "sd", "covariance"),
    [
        ("batch", "batch", "none"),
        ("batch", "one", "none"),
        ("zero", "batch", "none"),
        ("zero", "one", "none"),
        ("batch", "batch", "full"),
        ("zero", "batch", "full"),
        ("batch", "one", "product"),
        ("zero", "batch", "product"),
    ],
)
def test_samples_have_the_moments_of_section_4_3(centre: str, sd: str, covariance: str) -> None:
    """Mean and covariance of the draws, each number within five standard errors; Table 7 has those of none."""
    anchors = anchors_of()
    sigma, place, scale = torch.cov(anchors.T), anchors.mean(dim=0), anchors.var(dim=0)
    place, scale = (place if centre == "batch" else 0 * place), (scale if sd == "batch" else torch.ones_like(scale))
    wanted, spread = {
        "none": (place, scale.diag()),
        "full": (place, sigma),
        "product": (sigma @ place, sigma @ scale.diag() @ sigma),
    }[covariance]
    drawn = gaussian(mean=centre, sd=sd, covariance=covariance).generate(anchors, DRAWS, generator(1))
    variance = spread.diagonal()
    assert ((drawn.mean(dim=0) - wanted).abs() < 5 * (variance / DRAWS).sqrt()).all()
    error = ((variance.outer(variance) + spread.square()) / DRAWS).sqrt()
    assert ((torch.cov(drawn.T) - spread).abs() < 5 * error).all()


@pytest.mark.parametrize("data", [{}, {"covariance": "full"}, {"covariance": "product"}])
@pytest.mark.parametrize("n", [1, 2])
def test_tiny_batches_and_dimensions_without_spread(n: int, data: dict[str, Any]) -> None:
    anchors = anchors_of(n, 4, dtype=torch.float32)
    anchors[:, 1] = 0.1
    leaf = anchors.clone().requires_grad_()
    logits = gaussian(count=3, **data).columns(reps_of(leaf), COSINE).dense().logits
    assert logits.isfinite().all()
    assert torch.autograd.grad(logits.sum(), leaf)[0].isfinite().all()
    samples = gaussian(**data).generate(anchors, 50, generator())
    if data.get("covariance") != "product":
        torch.testing.assert_close(samples[:, 1], anchors[:1, 1].expand(50))


def test_wrong_settings_are_reported_in_one_line(tiny_folder: Path) -> None:
    for data, words in (
        ({"count": float("inf")}, "finite"),
        ({"covariance": "full", "sd": "one"}, 'leave sd at "batch"'),
    ):
        with pytest.raises(UserError, match=words):
            gaussian(**data)
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    with pytest.raises(UserError, match=r"^gaussian: count 0\.1 gives no vector for a batch of 4; set a larger count$"):
        gaussian(count=0.1).begin(encoder, batch_size=4, seed=0)


def test_samples_climb_the_contrast_of_the_positives_with_them_alone() -> None:
    random = torch.Generator().manual_seed(5)
    reps = Representations.of(*(torch.randn(6, 4, generator=random, dtype=torch.float64) for _ in range(2)))
    scoring = Scoring(temperature=0.5)
    plain = gaussian(mean="zero", sd="one").columns(reps, scoring).right
    samples = plain.clone()
    for _ in range(3):
        samples = samples.detach().requires_grad_()
        total = torch.zeros((), dtype=torch.float64)
        for a, b in zip(reps.anchor, reps.positive, strict=True):
            positive = (torch.cosine_similarity(a, b, dim=0) / 0.5).exp()
            negatives = sum((torch.cosine_similarity(a, g, dim=0) / 0.5).exp() for g in samples)
            total = total - (positive / (positive + negatives)).log()
        (up,) = torch.autograd.grad(total / 6, samples)
        samples = samples.detach() + torch.stack([0.2 * u / (u @ u).sqrt() for u in up])
    moved = gaussian(mean="zero", sd="one", ascend={"steps": 3, "rate": 0.2}).columns(reps, scoring).right
    torch.testing.assert_close(moved, samples, rtol=1e-10, atol=1e-10)
    assert not moved.requires_grad
    assert (moved - plain).norm(dim=1).min() > 0.3
    assert gaussian(count=0, ascend={}).columns(reps, scoring).right.shape == (0, 4)


def noised(anchors: Tensor, seed: int) -> Tensor:
    noise = torch.randn(anchors.shape, generator=drawn_by("noisy_anchor", seed), dtype=anchors.dtype)
    sd = torch.tensor(scales(anchors.tolist(), "batch"), dtype=anchors.dtype)
    return anchors + sd * noise


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_noisy_anchors_against_loops(similarity: str, own: bool, mask: bool) -> None:
    scoring = Scoring("cosine" if similarity == "cosine" else "dot", 0.5, mask)
    anchors, keys = anchors_of(), [1, 2, 1, 3, 1001]  # 0 and 2 are one text, which is the positive of the last
    columns = noisy_anchor(own=own, weight=2.0).columns(reps_of(anchors, noise=6, keys=keys), scoring).dense()
    expect_logits(columns, anchors, noised(anchors, 6), scoring)
    assert columns.log_weight == pytest.approx(math.log(2.0))
    texts = [{key, key + 1000} for key in keys]
    for i in range(N):
        for j in range(N):
            clash = mask and i != j and bool(texts[i] & texts[j])
            assert bool(columns.left_out[i, j]) == (clash or (i == j and not own))
            assert clash == (columns.duplicates is not None and bool(columns.duplicates[i, j]))
    assert noisy_anchor(own=own).count(N, 0) == N - (not own)


N_POOL, D = 4, 5


def some_anchors(n: int = N_POOL) -> Tensor:
    return torch.randn(n, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def pooled_reps(anchor: Tensor) -> Representations:
    return replace(Representations.of(anchor, anchor.detach() + 0.1), noise_seed=3)


def cosine(a: Tensor, b: Tensor) -> float:
    x, y = a.tolist(), b.tolist()
    length = math.sqrt(sum(u * u for u in x)) * math.sqrt(sum(v * v for v in y))
    return float(sum(u * v for u, v in zip(x, y, strict=True)) / length)


def by_the_objective(source: dict[str, Any], tile_bytes: int = 10**9) -> tuple[float, Tensor]:
    leaf = some_anchors().requires_grad_()
    objective = objective_of(negatives=[{"kind": "in_batch"}, source], temperature=0.3, tile_bytes=tile_bytes)
    loss = objective(pooled_reps(leaf)).total
    return loss.item(), torch.autograd.grad(loss, leaf)[0]


@pytest.mark.parametrize("tile_bytes", [1, 10**9])
@pytest.mark.parametrize("hardest", ["batch", "anchor"])
def test_the_contrast_with_the_hardest_by_loops(hardest: str, tile_bytes: int) -> None:
    source = {"kind": "gaussian", "count": 0.5, "pool": 4, "hardest": hardest}
    loss, gradient = by_the_objective(source, tile_bytes)
    leaf = some_anchors().requires_grad_()
    reps = pooled_reps(leaf)
    noise = torch.Generator().manual_seed(seed_of(3, "negatives.gaussian"))
    drawn = Gaussian().generate(leaf.detach(), 16, noise)

    def sim(a: Tensor, b: Tensor) -> Tensor:
        logit: Tensor = torch.dot(a, b) / (a.norm() * b.norm()) / 0.3
        return logit

    losses = []
    shared = sorted(range(16), key=lambda k: -max(cosine(drawn[k], a) for a in leaf.detach()))[:2]
    for i in range(N_POOL):
        nearest = sorted(range(16), key=lambda k: -cosine(drawn[k], leaf[i].detach()))[:2]
        terms = [torch.exp(sim(leaf[i], reps.positive[j])) for j in range(N_POOL)]
        terms += [torch.exp(sim(leaf[i], drawn[k])) for k in (shared if hardest == "batch" else nearest)]
        losses.append(-torch.log(terms[i] / sum(terms[1:], terms[0])))
    wanted = torch.stack(losses).mean()
    assert loss == pytest.approx(wanted.item(), rel=1e-10)
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted, leaf)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("own", [True, False])
def test_the_hardest_noisy_copy_of_each_anchor_by_loops(own: bool) -> None:
    leaf = some_anchors().requires_grad_()
    settings = validate(NoisyAnchor.Settings, {"kind": "noisy_anchor", "pool": 6, "own": own}, "test")
    columns = NoisyAnchor(settings).columns(pooled_reps(leaf), Scoring())
    noise = torch.Generator().manual_seed(seed_of(3, "noisy_anchor"))
    anchors = leaf.detach()
    copies = [
        anchors + anchors.std(dim=0) * torch.randn(N_POOL, D, generator=noise, dtype=torch.float64) for _ in range(6)
    ]
    for j in range(N_POOL):
        near = [max(cosine(copy[j], anchors[i]) for i in range(N_POOL) if i != j) for copy in copies]
        torch.testing.assert_close(columns.right[j].detach(), copies[near.index(max(near))][j], rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(columns.right.sum(), leaf)
    assert torch.equal(gradient, torch.ones_like(leaf))


def test_a_pool_that_is_too_small_is_refused() -> None:
    with pytest.raises(UserError, match=r"a pool of 0\.5 times the batch has no 1 to keep; raise pool"):
        validate(Gaussian.Settings, {"kind": "gaussian", "pool": 0.5}, "test")


TAU = 0.3
PAPER: dict[str, Any] = {"kind": "mixed"}
CODE: dict[str, Any] = {
    "kind": "mixed", "other": "next", "normalised": False, "columns": "all", "mirrored": True, "collisions": "zero",
}  # fmt: skip


def leaves(n: int = N) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(2)
    first, second = torch.randn(2, n, D, generator=random, dtype=torch.float64).unbind()
    return first.requires_grad_(), second.requires_grad_()


def mixed_reps(anchor: Tensor, positive: Tensor, keys: list[int] | None = None) -> Representations:
    texts = torch.arange(len(anchor)) if keys is None else torch.tensor(keys)
    both = torch.stack([texts, texts + 100], dim=1)
    return replace(Representations.of(anchor, positive), keys=both, noise_seed=8)


def cosine_with_gradient(a: Tensor, b: Tensor) -> Tensor:
    similarity: Tensor = torch.dot(a, b) / (a.norm() * b.norm())
    return similarity


def mixed_loss(source: dict[str, Any], tile_bytes: int = 10**9) -> tuple[float, tuple[Tensor, ...]]:
    objective = objective_of(negatives=[{"kind": "in_batch"}, source], temperature=TAU, tile_bytes=tile_bytes)
    vectors = leaves()
    loss = objective(mixed_reps(*vectors)).total
    return loss.item(), torch.autograd.grad(loss, vectors)


def is_the_mean(source: dict[str, Any], tile_bytes: int, losses: list[Tensor], vectors: tuple[Tensor, Tensor]) -> None:
    wanted = torch.stack(losses).mean()
    loss, gradients = mixed_loss(source, tile_bytes)
    assert loss == pytest.approx(wanted.item(), rel=1e-10)
    for ours, theirs in zip(gradients, torch.autograd.grad(wanted, vectors), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def drawn_shift() -> int:
    noise = torch.Generator().manual_seed(seed_of(8, "negatives.mixed"))
    return int(torch.randint(1, N, (), generator=noise))


@pytest.mark.parametrize("tile_bytes", [1, 10**9])
def test_the_paper_by_loops(tile_bytes: int) -> None:
    anchor, positive = leaves()
    losses, shift = [], drawn_shift()
    for i in range(N):
        other = positive[(i + shift) % N].detach()
        own = positive[i].detach()
        mixed = 0.2 * own / own.norm() + 0.8 * other / other.norm()
        terms = [torch.exp(cosine_with_gradient(anchor[i], positive[j]) / TAU) for j in range(N)]
        terms.append(torch.exp(cosine_with_gradient(anchor[i], mixed) / TAU))
        losses.append(-torch.log(terms[i] / sum(terms[1:], terms[0])))
    is_the_mean(PAPER, tile_bytes, losses, (anchor, positive))


@pytest.mark.parametrize("tile_bytes", [1, 10**9])
def test_the_authors_code_by_loops(tile_bytes: int) -> None:
    """Rows of 3 N logits: the positives, mixtures of the positives, mixtures of the anchors."""
    anchor, positive = leaves()
    losses = []
    for i in range(N):
        logits = [cosine_with_gradient(anchor[i], positive[j]) / TAU for j in range(N)]
        for j in range(N):
            mixed = (0.2 * positive[j] + 0.8 * positive[(j + 1) % N]).detach()
            logits.append(cosine_with_gradient(anchor[i], mixed) / TAU * (0 if (j + 1) % N == i else 1))
        for j in range(N):
            mixed = (0.2 * anchor[i] + 0.8 * anchor[(i + 1) % N]).detach()
            logits.append(cosine_with_gradient(mixed, positive[j]) / TAU * (0 if (i + 1) % N == j else 1))
        losses.append(torch.nn.functional.cross_entropy(torch.stack(logits), torch.tensor(i)))
    is_the_mean(CODE, tile_bytes, losses, (anchor, positive))


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("columns", ["own", "all"])
def test_mixtures_of_the_anchors_own_text_are_left_out(columns: str, mask: bool) -> None:
    keys = [1, 2, 1, 3, 103]  # 0 and 2 are one text; the last is the positive of 3
    settings = {"kind": "mixed", "other": "next", "columns": columns, "mirrored": True}
    source = Mixed(validate(Mixed.Settings, settings, "test"))
    made = source.columns(mixed_reps(*leaves(), keys), Scoring(mask_duplicates=mask))
    per_block = N if columns == "all" else 1
    assert made.shape == (N, 2 * per_block) == (N, source.count(N, 0))
    texts = [{key, key + 100} for key in keys]

    def left_out(anchor: int, mixture: int) -> bool:
        """Whether a mixture holds the text of an example that is another one by number, or the example itself."""
        other = (mixture + 1) % N
        clash = any(number != anchor and texts[number] & texts[anchor] for number in (mixture, other))
        return other == anchor or (mask and clash)

    for i in range(N):
        for k in range(per_block):
            mixture = k if columns == "all" else i
            assert bool(made.left_out[i, k]) == left_out(i, mixture)
            if columns == "all":  # there the mixture stands on the anchor's side
                assert bool(made.left_out[i, N + k]) == left_out(k, i)
            else:
                assert bool(made.left_out[i, 1]) == left_out(i, i)
    assert (made.duplicates is not None and bool(made.duplicates.any())) == mask
