"""The hardest of many drawn negatives against loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import Scoring
from opencse.objective.negatives import pool
from opencse.objective.negatives.gaussian import Gaussian
from opencse.objective.negatives.noisy_anchor import NoisyAnchor
from opencse.objective.negatives.pool import nearest_of_each, nearest_of_pool
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations
from opencse.settings import validate
from opencse.streams import seed_of

N, D = 4, 5
ONE_AT_A_TIME, ALL_AT_ONCE = 1, 2**20


def anchors_of(n: int = N) -> Tensor:
    return torch.randn(n, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def reps_of(anchor: Tensor) -> Representations:
    keys = torch.arange(2 * len(anchor)).reshape(len(anchor), 2)
    return Representations(anchor, anchor.detach() + 0.1, anchor.new_zeros(len(anchor), 0, D), keys, noise_seed=3)


def cosine(a: Tensor, b: Tensor) -> float:
    x, y = a.tolist(), b.tolist()
    length = math.sqrt(sum(u * u for u in x)) * math.sqrt(sum(v * v for v in y))
    return float(sum(u * v for u, v in zip(x, y, strict=True)) / length)


class Drawn:
    """Gives prepared vectors one after another."""

    def __init__(self, vectors: Tensor) -> None:
        self.vectors, self.at = vectors, 0

    def __call__(self, count: int) -> Tensor:
        self.at += count
        return self.vectors[self.at - count : self.at]


@pytest.mark.parametrize("at_once", [ONE_AT_A_TIME, 8 * (N + D) * 3, ALL_AT_ONCE])
def test_the_nearest_to_any_anchor_by_loops(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "POOL_BYTES", at_once)
    anchors = anchors_of()
    vectors = torch.randn(11, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    near = [max(cosine(vector, anchor) for anchor in anchors) for vector in vectors]
    order = sorted(range(11), key=lambda k: -near[k])[:4]
    assert torch.equal(nearest_of_pool(anchors, Drawn(vectors), 11, 4), vectors[order])
    assert nearest_of_pool(anchors, lambda count: vectors[:0], 11, 4).shape == (0, D)


@pytest.mark.parametrize("at_once", [ONE_AT_A_TIME, 8 * (N + D) * 3, ALL_AT_ONCE])
def test_the_nearest_to_each_anchor_by_loops(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "POOL_BYTES", at_once)
    anchors = anchors_of()
    vectors = torch.randn(11, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    made, far = nearest_of_each(anchors, Drawn(vectors), 11, 3)
    assert torch.equal(made, vectors)
    assert far is not None
    for i, row in enumerate(far.rows(slice(0, N)).tolist()):
        order = sorted(range(11), key=lambda k: -cosine(vectors[k], anchors[i]))[:3]
        assert [k for k in range(11) if not row[k]] == sorted(order)
    assert nearest_of_each(anchors, Drawn(vectors), 3, 3)[1] is None


def by_the_objective(source: dict[str, Any], tile_bytes: int = 10**9) -> tuple[float, Tensor]:
    data = {"negatives": [{"kind": "in_batch"}, source], "temperature": 0.3, "tile_bytes": tile_bytes}
    leaf = anchors_of().requires_grad_()
    loss = Objective.from_settings(validate(ObjectiveSettings, data, "test"))(reps_of(leaf)).total
    return loss.item(), torch.autograd.grad(loss, leaf)[0]


@pytest.mark.parametrize("tile_bytes", [1, 10**9])
@pytest.mark.parametrize("hardest", ["batch", "anchor"])
def test_the_contrast_with_the_hardest_by_loops(hardest: str, tile_bytes: int) -> None:
    source = {"kind": "gaussian", "count": 0.5, "pool": 4, "hardest": hardest}
    loss, gradient = by_the_objective(source, tile_bytes)
    leaf = anchors_of().requires_grad_()
    reps = reps_of(leaf)
    noise = torch.Generator().manual_seed(seed_of(3, "negatives.gaussian"))
    drawn = Gaussian().generate(leaf.detach(), 16, noise)

    def sim(a: Tensor, b: Tensor) -> Tensor:
        logit: Tensor = torch.dot(a, b) / (a.norm() * b.norm()) / 0.3
        return logit

    losses = []
    shared = sorted(range(16), key=lambda k: -max(cosine(drawn[k], a) for a in leaf.detach()))[:2]
    for i in range(N):
        nearest = sorted(range(16), key=lambda k: -cosine(drawn[k], leaf[i].detach()))[:2]
        terms = [torch.exp(sim(leaf[i], reps.positive[j])) for j in range(N)]
        terms += [torch.exp(sim(leaf[i], drawn[k])) for k in (shared if hardest == "batch" else nearest)]
        losses.append(-torch.log(terms[i] / sum(terms[1:], terms[0])))
    wanted = torch.stack(losses).mean()
    assert loss == pytest.approx(wanted.item(), rel=1e-10)
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted, leaf)[0], rtol=1e-10, atol=1e-10)


def test_a_larger_pool_gives_harder_negatives() -> None:
    each = [by_the_objective({"kind": "gaussian", "pool": size, "hardest": "anchor"})[0] for size in (1, 8, 64)]
    assert each[0] < each[1] < each[2]
    shared = [by_the_objective({"kind": "gaussian", "pool": size})[0] for size in (1, 8, 64)]
    assert len({*each, *shared}) == 5
    assert each[0] == shared[0] == by_the_objective({"kind": "gaussian"})[0]


@pytest.mark.parametrize("own", [True, False])
def test_the_hardest_noisy_copy_of_each_anchor_by_loops(own: bool) -> None:
    leaf = anchors_of().requires_grad_()
    settings = validate(NoisyAnchor.Settings, {"kind": "noisy_anchor", "pool": 6, "own": own}, "test")
    columns = NoisyAnchor(settings).columns(reps_of(leaf), Scoring())
    noise = torch.Generator().manual_seed(seed_of(3, "noisy_anchor"))
    anchors = leaf.detach()
    copies = [anchors + anchors.std(dim=0) * torch.randn(N, D, generator=noise, dtype=torch.float64) for _ in range(6)]
    for j in range(N):
        near = [max(cosine(copy[j], anchors[i]) for i in range(N) if i != j) for copy in copies]
        torch.testing.assert_close(columns.right[j].detach(), copies[near.index(max(near))][j], rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(columns.right.sum(), leaf)
    assert torch.equal(gradient, torch.ones_like(leaf))


def test_one_anchor_alone_and_distributions_that_are_not_fitted(tiny_encoder: SentenceEncoder) -> None:
    alone = torch.ones(1, D)
    source = NoisyAnchor(validate(NoisyAnchor.Settings, {"kind": "noisy_anchor", "pool": 3}, "test"))
    assert torch.isfinite(source.columns(reps_of(alone), Scoring()).dense().logits).all()
    for hardest in ("batch", "anchor"):
        data = {"negatives": [{"kind": "gmm", "components": 2, "pool": 4, "hardest": hardest}]}
        (gmm,) = Objective.from_settings(validate(ObjectiveSettings, data, "test")).negatives
        gmm.begin(tiny_encoder, batch_size=N, seed=0)
        assert gmm.columns(reps_of(anchors_of()), Scoring()).shape == (N, 0)


def test_a_pool_that_is_too_small_is_refused() -> None:
    with pytest.raises(UserError, match=r"a pool of 0\.5 times the batch has no 1 to keep; raise pool"):
        validate(Gaussian.Settings, {"kind": "gaussian", "pool": 0.5}, "test")
