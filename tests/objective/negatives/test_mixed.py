"""MixCSE's negatives against loops: the paper's and those of the authors' code."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.objective.columns import Scoring
from opencse.objective.negatives.mixed import Mixed
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations
from opencse.settings import validate
from opencse.streams import seed_of

N, D, TAU = 5, 4, 0.3
PAPER: dict[str, Any] = {"kind": "mixed"}
CODE: dict[str, Any] = {
    "kind": "mixed", "other": "next", "normalised": False, "columns": "all", "mirrored": True, "collisions": "zero",
}  # fmt: skip


def leaves(n: int = N) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(2)
    first, second = torch.randn(2, n, D, generator=random, dtype=torch.float64).unbind()
    return first.requires_grad_(), second.requires_grad_()


def reps_of(anchor: Tensor, positive: Tensor, keys: list[int] | None = None) -> Representations:
    texts = torch.arange(len(anchor)) if keys is None else torch.tensor(keys)
    both = torch.stack([texts, texts + 100], dim=1)
    return Representations(anchor, positive, anchor.new_zeros(len(anchor), 0, D), both, noise_seed=8)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    similarity: Tensor = torch.dot(a, b) / (a.norm() * b.norm())
    return similarity


def by_the_objective(source: dict[str, Any], tile_bytes: int = 10**9) -> tuple[float, tuple[Tensor, ...]]:
    data = {"negatives": [{"kind": "in_batch"}, source], "temperature": TAU, "tile_bytes": tile_bytes}
    objective = Objective.from_settings(validate(ObjectiveSettings, data, "test"))
    vectors = leaves()
    loss = objective(reps_of(*vectors)).total
    return loss.item(), torch.autograd.grad(loss, vectors)


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
        terms = [torch.exp(cosine(anchor[i], positive[j]) / TAU) for j in range(N)]
        terms.append(torch.exp(cosine(anchor[i], mixed) / TAU))
        losses.append(-torch.log(terms[i] / sum(terms[1:], terms[0])))
    wanted = torch.stack(losses).mean()
    loss, gradients = by_the_objective(PAPER, tile_bytes)
    assert loss == pytest.approx(wanted.item(), rel=1e-10)
    for ours, theirs in zip(gradients, torch.autograd.grad(wanted, (anchor, positive)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tile_bytes", [1, 10**9])
def test_the_authors_code_by_loops(tile_bytes: int) -> None:
    """Rows of 3 N logits: the positives, mixtures of the positives, mixtures of the anchors."""
    anchor, positive = leaves()
    losses = []
    for i in range(N):
        logits = [cosine(anchor[i], positive[j]) / TAU for j in range(N)]
        for j in range(N):
            mixed = (0.2 * positive[j] + 0.8 * positive[(j + 1) % N]).detach()
            logits.append(cosine(anchor[i], mixed) / TAU * (0 if (j + 1) % N == i else 1))
        for j in range(N):
            mixed = (0.2 * anchor[i] + 0.8 * anchor[(i + 1) % N]).detach()
            logits.append(cosine(mixed, positive[j]) / TAU * (0 if (i + 1) % N == j else 1))
        losses.append(torch.nn.functional.cross_entropy(torch.stack(logits), torch.tensor(i)))
    wanted = torch.stack(losses).mean()
    loss, gradients = by_the_objective(CODE, tile_bytes)
    assert loss == pytest.approx(wanted.item(), rel=1e-10)
    for ours, theirs in zip(gradients, torch.autograd.grad(wanted, (anchor, positive)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_every_setting_changes_the_loss() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"share": 0.3}, {"other": "next"}, {"normalised": False}, {"columns": "all"}, {"mirrored": True},
        {"columns": "all", "collisions": "zero"}, {"columns": "all", "mirrored": True}, {"other": "drawn", **CODE},
    ]  # fmt: skip
    losses = [by_the_objective({**PAPER, **change})[0] for change in changes]
    assert drawn_shift() != 1
    assert all(abs(a - b) > 1e-6 for a, b in itertools.combinations(losses, 2))


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("columns", ["own", "all"])
def test_mixtures_of_the_anchors_own_text_are_left_out(columns: str, mask: bool) -> None:
    keys = [1, 2, 1, 3, 103]  # 0 and 2 are one text; the last is the positive of 3
    settings = {"kind": "mixed", "other": "next", "columns": columns, "mirrored": True}
    source = Mixed(validate(Mixed.Settings, settings, "test"))
    made = source.columns(reps_of(*leaves(), keys), Scoring(mask_duplicates=mask))
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


@pytest.mark.parametrize("data", [PAPER, CODE], ids=["paper", "code"])
@pytest.mark.parametrize("n", [1, 2])
def test_batches_of_one_and_two(data: dict[str, Any], n: int) -> None:
    source = Mixed(validate(Mixed.Settings, data, "test"))
    made = source.columns(reps_of(*leaves(n)), Scoring())
    assert torch.isfinite(made.logits).all()
    if n == 1:
        assert bool(made.left_out.all()) == (data is PAPER)
        assert data is PAPER or not made.logits.any(), "the code's mask sets the only logit to 0"


def test_half_precision_is_mixed_in_float32() -> None:
    anchor, positive = (vectors.detach().bfloat16() for vectors in leaves())
    source = Mixed(validate(Mixed.Settings, CODE, "test"))
    with torch.autocast("cpu", torch.bfloat16):
        half = source.columns(reps_of(anchor, positive), Scoring()).logits
    plain = source.columns(reps_of(anchor.float(), positive.float()), Scoring()).logits
    assert half.dtype == torch.float32
    assert torch.equal(half, plain)
    assert math.isfinite(float(half.sum()))
