"""Noisy anchors against Park's thesis, section 4.3, in loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from noise_cases import (
    COSINE,
    DOT,
    N,
    anchors_of,
    drawn_by,
    expect_logits,
    noisy_anchor,
    reps_of,
    scales,
)
from opencse.objective.columns import Scoring


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
