"""Sampled noise and noisy anchors against Park's thesis, section 4.3, in loops."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
from torch import Tensor

from noise_cases import (
    COSINE,
    DOT,
    D,
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
from opencse.objective.negatives.gaussian import Gaussian
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

DRAWS = 200_000


def gaussian(**data: Any) -> Gaussian:
    return Gaussian(validate(Gaussian.Settings, {"kind": "gaussian", **data}, "test"))


def covariance(rows: list[list[float]]) -> list[list[float]]:
    centres = [mean(column) for column in zip(*rows, strict=True)]
    d = len(centres)
    return [
        [sum((r[u] - centres[u]) * (r[v] - centres[v]) for r in rows) / (len(rows) - 1) for v in range(d)]
        for u in range(d)
    ]


def expect_moments(drawn: Tensor, centre: list[float], spread: list[list[float]]) -> None:
    """Mean and covariance of the draws, each number within five standard errors."""
    assert drawn.shape == (DRAWS, len(centre))
    found = covariance_of(drawn)
    for u, wanted in enumerate(centre):
        assert abs(float(drawn[:, u].mean()) - wanted) < 5 * math.sqrt(spread[u][u] / DRAWS)
        for v in range(len(centre)):
            error = math.sqrt((spread[u][u] * spread[v][v] + spread[u][v] ** 2) / DRAWS)
            assert abs(float(found[u, v]) - spread[u][v]) < 5 * error


def covariance_of(drawn: Tensor) -> Tensor:
    centred = drawn - drawn.mean(dim=0)
    return centred.T @ centred / (len(drawn) - 1)


def centres(rows: list[list[float]], kind: str) -> list[float]:
    return [mean(column) if kind == "batch" else 0.0 for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("sd", ["batch", "one"])
@pytest.mark.parametrize("centre", ["batch", "zero"])
def test_the_four_rows_of_table_7(centre: str, sd: str) -> None:
    anchors = anchors_of()
    rows = anchors.tolist()
    drawn = gaussian(mean=centre, sd=sd).generate(anchors, DRAWS, generator(1))
    diagonal = [[s * s if u == v else 0.0 for v in range(D)] for u, s in enumerate(scales(rows, sd))]
    expect_moments(drawn, centres(rows, centre), diagonal)
    assert max(abs(c) for c in centres(rows, "batch")) > 0.5


@pytest.mark.parametrize("centre", ["batch", "zero"])
def test_full_covariance_is_the_batchs_own(centre: str) -> None:
    anchors = anchors_of()
    rows = anchors.tolist()
    drawn = gaussian(mean=centre, covariance="full").generate(anchors, DRAWS, generator(2))
    expect_moments(drawn, centres(rows, centre), covariance(rows))
    assert abs(covariance(rows)[0][1]) > 0.5


@pytest.mark.parametrize("sd", ["batch", "one"])
@pytest.mark.parametrize("centre", ["batch", "zero"])
def test_the_product_with_the_covariance_matrix(centre: str, sd: str) -> None:
    anchors = anchors_of()
    rows, d = anchors.tolist(), range(D)
    sigma, scale, place = covariance(rows), scales(rows, sd), centres(rows, centre)
    drawn = gaussian(mean=centre, sd=sd, covariance="product").generate(anchors, DRAWS, generator(3))
    centre_of_all = [sum(sigma[u][w] * place[w] for w in d) for u in d]
    spread = [[sum(sigma[u][w] * scale[w] ** 2 * sigma[w][v] for w in d) for v in d] for u in d]
    expect_moments(drawn, centre_of_all, spread)


@pytest.mark.parametrize("covariance", ["none", "full", "product"])
@pytest.mark.parametrize("scoring", [COSINE, DOT], ids=["cosine", "dot"])
def test_columns_are_similarities_with_what_was_drawn(scoring: Scoring, covariance: str) -> None:
    source = gaussian(covariance=covariance, count=1.4, weight=3.0)
    anchors = anchors_of()
    columns = source.columns(reps_of(anchors, noise=4), scoring).dense()
    expect_logits(columns, anchors, source.generate(anchors, 7, drawn_by("gaussian", 4)), scoring)
    assert columns.log_weight == pytest.approx(math.log(3.0))
    assert columns.excluded is None
    assert columns.duplicates is None


@pytest.mark.parametrize(
    ("count", "n", "expected"), [(0, 4, 0), (0.5, 4, 2), (0.55, 5, 3), (1.0, 5, 5), (2.5, 4, 10), (8.0, 2, 16)]
)
def test_count_is_a_multiple_of_the_batch(count: float, n: int, expected: int) -> None:
    source = gaussian(count=count)
    assert source.count(n, 0) == source.count(n, 3) == expected
    assert source.columns(reps_of(anchors_of(n)), COSINE).dense().logits.shape == (n, expected)


def test_a_smaller_last_batch_gets_fewer_columns() -> None:
    source = gaussian(count=2)
    shapes = [tuple(source.columns(reps_of(anchors_of(n)), COSINE).dense().logits.shape) for n in (4, 4, 3)]
    assert shapes == [(4, 8), (4, 8), (3, 6)]


def contrast(reps: Representations, negatives: list[dict[str, Any]]) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of a step, its gradient and the report's mean similarity."""
    leaf = reps.anchor.clone().requires_grad_()
    objective = Objective.from_settings(validate(ObjectiveSettings, {"negatives": negatives}, "test"))
    again = Representations(leaf, reps.positive, reps.hard, reps.keys, noise_seed=reps.noise_seed)
    outcome = objective(again)
    (gradient,) = torch.autograd.grad(outcome.total, leaf)
    return outcome.total.detach(), gradient, outcome.report["negative_similarity"]


@pytest.mark.parametrize("kind", ["gaussian", "vae", "gmm"])
def test_a_count_of_zero_is_plain_simcse_bit_for_bit(kind: str) -> None:
    reps = reps_of(anchors_of(8, 16, dtype=torch.float32))
    plain = contrast(reps, [{"kind": "in_batch"}])
    none = contrast(reps, [{"kind": "in_batch"}, {"kind": kind, "count": 0}])
    assert all(torch.equal(a, b) for a, b in zip(plain, none, strict=True))
    silent = contrast(replace(reps, noise_seed=None), [{"kind": "in_batch"}, {"kind": kind, "count": 0}])
    assert torch.equal(silent[0], none[0]), "no noise is drawn for no column"


def test_a_count_of_one_is_not() -> None:
    reps = reps_of(anchors_of(8, 16, dtype=torch.float32))
    plain = contrast(reps, [{"kind": "in_batch"}])
    noisy = contrast(reps, [{"kind": "in_batch"}, {"kind": "gaussian"}])
    assert noisy[0] > plain[0]
    assert not torch.equal(noisy[1], plain[1])


@pytest.mark.parametrize("covariance", ["none", "full", "product"])
def test_the_samples_take_no_gradient(covariance: str) -> None:
    source = gaussian(covariance=covariance)
    leaf = anchors_of().requires_grad_()
    samples = source.generate(leaf.detach(), N, drawn_by("gaussian", 5))
    (found,) = torch.autograd.grad(source.columns(reps_of(leaf, noise=5), COSINE).dense().logits.exp().sum(), leaf)
    (wanted,) = torch.autograd.grad(COSINE.logits(leaf, samples).exp().sum(), leaf)
    assert torch.equal(found, wanted)
    assert wanted.abs().min() > 0


def test_noise_is_drawn_again_and_shared_by_all_anchors() -> None:
    source = gaussian()
    alike = anchors_of()
    alike[1] = alike[0]
    first, again, other = (source.columns(reps_of(alike, noise=seed), COSINE).dense().logits for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.isclose(first, other).any()
    torch.testing.assert_close(first[0], first[1], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("data", [{}, {"covariance": "full"}, {"covariance": "product"}, {"mean": "zero"}])
def test_autocast_and_half_precision_change_no_statistic(data: dict[str, Any]) -> None:
    source = gaussian(**data)
    half = anchors_of(8, 16, dtype=torch.bfloat16)
    plain = source.columns(reps_of(half.float()), DOT).dense().logits
    with torch.autocast("cpu", torch.bfloat16):
        cast = source.columns(reps_of(half), DOT).dense().logits
    assert plain.dtype == cast.dtype == torch.float32
    assert torch.equal(plain, cast)


@pytest.mark.parametrize("data", [{}, {"covariance": "full"}, {"covariance": "product"}, {"sd": "one"}])
@pytest.mark.parametrize("n", [1, 2])
def test_tiny_batches_and_dimensions_without_spread(n: int, data: dict[str, Any]) -> None:
    anchors = anchors_of(n, 4, dtype=torch.float32)
    anchors[:, 1] = 0.1
    anchors[:, 2] = 0.0
    leaf = anchors.clone().requires_grad_()
    columns = gaussian(count=3, **data).columns(reps_of(leaf), COSINE).dense()
    columns.logits.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(columns.logits).all()
    assert leaf.grad is not None
    assert torch.isfinite(leaf.grad).all()
    samples = gaussian(**data).generate(anchors, 50, generator())
    assert torch.isfinite(samples).all()
    if not data or data == {"covariance": "full"}:
        torch.testing.assert_close(samples[:, 1:3], anchors[:1, 1:3].expand(50, 2))
        assert n == 1 or samples[:, 0].std() > 0
    if n == 1 and not data:
        assert torch.equal(samples, anchors.expand(50, 4))


def test_wrong_settings_are_reported_in_one_line(tiny_folder: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"count": -1}, "greater than or equal to 0"),
        ({"count": float("inf")}, "finite"),
        ({"weight": 0}, "greater than 0"),
        ({"mean": 0}, "'batch' or 'zero'"),
        ({"covariance": "full", "sd": "one"}, 'leave sd at "batch"'),
    ]
    for data, words in wrong:
        with pytest.raises(UserError, match=words) as caught:
            gaussian(**data)
        assert "\n" not in str(caught.value)
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    with pytest.raises(UserError, match=r"^gaussian: count 0\.1 gives no vector for a batch of 4; set a larger count$"):
        gaussian(count=0.1).begin(encoder, batch_size=4, seed=0)
    gaussian(count=0.1).begin(encoder, batch_size=64, seed=0)
    gaussian(count=0).begin(encoder, batch_size=4, seed=0)


def test_vectors_made_by_hand_have_no_noise() -> None:
    with pytest.raises(RuntimeError, match="no noise_seed"):
        gaussian().columns(reps_of(anchors_of(), noise=None), COSINE).dense()
    with pytest.raises(RuntimeError, match="no noise_seed"):
        noisy_anchor().columns(reps_of(anchors_of(), noise=None), COSINE).dense()


def test_samples_climb_the_contrast_of_the_positives_with_them_alone() -> None:
    random = torch.Generator().manual_seed(5)
    reps = replace(Representations.of(*(torch.randn(6, 4, generator=random, dtype=torch.float64) for _ in range(2))))
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
