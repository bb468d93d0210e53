"""Noisy anchors against Park's thesis, section 4.3, in loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.objective.columns import LogitColumns, Scoring
from opencse.objective.negatives.noisy_anchor import NoisyAnchor
from opencse.objective.vectors.step import Representations
from opencse.settings import validate
from opencse.streams import seed_of

N, D = 5, 3

COSINE = Scoring("cosine", 0.5, True)

DOT = Scoring("dot", 0.5, True)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn_by(kind: str, seed: int) -> torch.Generator:
    """What a source that stands alone draws from in a step whose noise has this seed."""
    return generator(seed_of(seed, kind))


def anchors_of(n: int = N, d: int = D, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Correlated dimensions of different means and scales."""
    random = torch.randn(n, d, generator=generator(seed), dtype=torch.float64)
    mixed = random @ (torch.eye(d) + 0.7 * torch.ones(d, d)).double() * torch.arange(1, d + 1) + torch.arange(d)
    return mixed.to(dtype)


def reps_of(anchor: Tensor, noise: int | None = 0, keys: Sequence[int] | None = None) -> Representations:
    n, d = anchor.shape
    own = torch.arange(n) if keys is None else torch.tensor(keys)
    both = torch.stack([own, own + 1000], dim=1)
    return Representations(anchor, anchor.detach() + 0.1, anchor.new_zeros(n, 0, d), both, noise_seed=noise)


def similarity(a: list[float], b: list[float], scoring: Scoring) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    if scoring.similarity == "cosine":
        product /= math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return product / scoring.temperature


def expect_logits(columns: LogitColumns, anchors: Tensor, others: Tensor, scoring: Scoring, rel: float = 1e-9) -> None:
    expected = [[similarity(a, b, scoring) for b in others.tolist()] for a in anchors.tolist()]
    assert columns.logits.shape == (len(anchors), len(others))
    for row, wanted in zip(columns.logits.tolist(), expected, strict=True):
        assert row == pytest.approx(wanted, rel=rel, abs=1e-12)


def scales(rows: list[list[float]], sd: str) -> list[float]:
    return [stdev(column) if sd == "batch" else 1.0 for column in zip(*rows, strict=True)]


def noisy_anchor(**data: Any) -> NoisyAnchor:
    return NoisyAnchor(validate(NoisyAnchor.Settings, {"kind": "noisy_anchor", **data}, "test"))


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


def test_the_noise_of_anchors_has_the_batchs_spread() -> None:
    anchors = anchors_of(2)
    many = [noisy_anchor().columns(reps_of(anchors, noise=seed), DOT).dense().logits for seed in range(1000)]
    found = torch.stack(many) * DOT.temperature  # (seeds, i, j): a_i . (a_j + sigma * eps)
    variance = anchors.var(dim=0)
    for i in range(2):
        spread = float((anchors[i].square() * variance).sum().sqrt())
        for j in range(2):
            assert abs(float(found[:, i, j].mean() - anchors[i] @ anchors[j])) < 5 * spread / math.sqrt(1000)
            assert float(found[:, i, j].std()) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("detach", [False, True])
def test_gradient_reaches_the_noisy_anchor_but_not_its_scale(detach: bool) -> None:
    leaf = anchors_of().requires_grad_()
    columns = noisy_anchor(detach=detach).columns(reps_of(leaf, noise=7), COSINE).dense()
    (found,) = torch.autograd.grad(columns.logits.exp().sum(), leaf)
    offset = noised(leaf.detach(), 7) - leaf.detach()
    other = leaf.detach() if detach else leaf
    (wanted,) = torch.autograd.grad(COSINE.logits(leaf, other + offset).exp().sum(), leaf)
    torch.testing.assert_close(found, wanted)
    assert wanted.abs().max() > 0


def test_noisy_anchors_in_half_precision_and_small_batches() -> None:
    half = anchors_of(8, 16, dtype=torch.bfloat16)
    plain = noisy_anchor().columns(reps_of(half.float()), COSINE).dense().logits
    with torch.autocast("cpu", torch.bfloat16):
        cast = noisy_anchor().columns(reps_of(half), COSINE).dense().logits
    assert plain.dtype == cast.dtype == torch.float32
    assert torch.equal(plain, cast)
    for n in (1, 2):
        still = torch.ones(n, 4, requires_grad=True)
        logits = noisy_anchor().columns(reps_of(still), COSINE).dense().logits
        logits.sum().backward()  # type: ignore[no-untyped-call]
        torch.testing.assert_close(logits.detach(), torch.full((n, n), 2.0))
        assert still.grad is not None
        assert torch.isfinite(still.grad).all()
