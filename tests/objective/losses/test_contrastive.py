"""The contrastive loss against SimCSE's formulas written as loops, closed forms, gradients and invariances."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contrast_cases import Case, D, N, per_anchor, representations
from fuzzing import examples
from opencse.objective.columns import LogitColumns
from opencse.objective.losses import (
    SimilarityKind,
    binary_from_logits,
    info_nce,
    info_nce_from_logits,
    pairwise_similarity,
)
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.step_losses import StepLosses
from opencse.objective.vectors.step import Representations
from opencse.settings import validate


def oracle(case: Case, reps: Representations) -> list[float]:
    """SimCSE's eq. 1, 4, 5 and 8, one exponential after the other."""

    def sim(u: list[float], v: list[float]) -> float:
        product = sum(x * y for x, y in zip(u, v, strict=True))
        if case.similarity == "cosine":
            product /= math.sqrt(sum(x * x for x in u)) * math.sqrt(sum(y * y for y in v))
        return product

    a, b, c = reps.anchor.tolist(), reps.positive.tolist(), reps.hard.tolist()
    keys = reps.keys.tolist()
    losses = []
    for i in range(len(a)):
        own = {keys[i][0], keys[i][1]}
        parts = [math.exp(sim(a[i], b[i]) / case.tau)]
        for j in range(len(a)):
            clash = case.mask and (keys[j][0] in own or keys[j][1] in own)
            if case.columns is not None and j != i and not clash:
                parts.append(case.weight * math.exp(sim(a[i], b[j]) / case.tau))
                if case.columns == "positives_and_anchors":
                    parts.append(case.weight * math.exp(sim(a[i], a[j]) / case.tau))
            for h in range(case.hard):
                if not (case.mask and keys[j][2 + h] in own):
                    factor = case.alpha if i == j else 1.0
                    parts.append(factor * math.exp(sim(a[i], c[j][h]) / case.tau))
        shares = [part / sum(parts) for part in parts]
        plain = -math.log(shares[0])
        uniform = -sum(math.log(share) for share in shares) / len(shares)
        losses.append((1 - case.smoothing) * plain + case.smoothing * uniform)
    return losses


GRID = [
    Case(similarity, 0.3, columns, weight, hard, alpha, smoothing, duplicates, mask)
    for similarity, columns, weight, (hard, alpha), smoothing, (duplicates, mask) in itertools.product(
        ("cosine", "dot"),
        ("positives", "positives_and_anchors"),
        (1.0, 1.7),
        ((0, 1.0), (1, 1.0), (1, 2.5), (2, 0.3)),
        (0.0, 0.1),
        ((False, True), (True, True), (True, False)),
    )
] + [Case(columns=None, hard=hard, alpha=2.0, duplicates=True) for hard in (1, 2)]


@pytest.mark.parametrize("case", GRID, ids=str)
def test_every_anchor_as_in_the_paper(case: Case) -> None:
    reps = representations(case)
    expected = oracle(case, reps)
    assert per_anchor(case, reps).tolist() == pytest.approx(expected, rel=1e-12, abs=1e-13)
    outcome = case.objective()(reps)
    assert list(outcome.losses) == ["contrast"]
    assert outcome.total.item() == pytest.approx(sum(expected) / N, rel=1e-12)


@pytest.mark.parametrize("hard", [0, 1, 2])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_info_nce_of_plain_tensors_is_the_loss_of_an_objective(
    hard: int, similarity: SimilarityKind, smoothing: float
) -> None:
    case = Case(similarity, hard=hard, smoothing=smoothing)
    reps = representations(case)
    negatives = reps.hard.transpose(0, 1).reshape(-1, D) if hard else None
    loss = info_nce(
        reps.anchor, reps.positive, negatives, temperature=0.3, similarity=similarity, label_smoothing=smoothing
    )
    assert loss.item() == pytest.approx(sum(oracle(case, reps)) / N, rel=1e-12)
    assert loss.item() == case.objective()(reps).losses["contrast"].item()


@pytest.mark.parametrize(
    "change",
    [
        {"similarity": "dot"},
        {"tau": 0.2},
        {"columns": "positives_and_anchors"},
        {"columns": None},
        {"weight": 1.7},
        {"hard": 1},
        {"alpha": 2.5},
        {"smoothing": 0.1},
        {"mask": False},
    ],
    ids=str,
)
def test_every_choice_of_the_grid_matters(change: dict[str, Any]) -> None:
    plain = Case(hard=2, duplicates=True)
    before, after = (oracle(case, representations(plain)) for case in (plain, replace(plain, **change)))
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) > 1e-3


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("n", [2, 7])
def test_identical_vectors_give_the_log_of_the_number_of_columns(n: int, similarity: str, smoothing: float) -> None:
    vectors = torch.ones(n, 3, dtype=torch.float64)
    keys = torch.arange(3 * n).reshape(n, 3)
    for columns, hard, count in (("positives", 0, n), ("positives_and_anchors", 0, 2 * n - 1), ("positives", 1, 2 * n)):
        case = Case(similarity, 0.05, columns, hard=hard, smoothing=smoothing)
        reps = Representations(vectors, vectors, vectors.unsqueeze(1)[:, :hard], keys)
        assert per_anchor(case, reps).tolist() == pytest.approx([math.log(count)] * n, rel=1e-12)


CHECKED = {
    "plain": Case(),
    "hard": Case(hard=2, alpha=2.0),
    "duplicates": Case(hard=1, duplicates=True),
    "dot": Case("dot", 1.0),
    "label smoothing": Case(hard=1, smoothing=0.1, duplicates=True),
    "anchors too": Case(columns="positives_and_anchors", weight=0.5),
}


@pytest.mark.parametrize("case", CHECKED.values(), ids=CHECKED)
def test_gradient_of_the_objective(case: Case) -> None:
    reps = representations(case)
    leaves = [t.requires_grad_() for t in (reps.anchor, reps.positive, reps.hard) if t.numel()]

    def total(anchor: Tensor, positive: Tensor, hard: Tensor = reps.hard) -> Tensor:
        outcome: StepLosses = case.objective()(Representations(anchor, positive, hard, reps.keys))
        assert outcome.total.dtype == torch.float64
        return outcome.total

    assert torch.autograd.gradcheck(total, leaves)
    for gradient in torch.autograd.grad(total(*leaves), leaves):
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 1e-3


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_raised_to_float32(dtype: torch.dtype, similarity: str) -> None:
    case = Case(similarity, hard=1, alpha=2.0, smoothing=0.1)
    half = representations(case, dtype=dtype)
    raised = Representations(half.anchor.float(), half.positive.float(), half.hard.float(), half.keys)
    losses = per_anchor(case, half)
    assert losses.dtype == torch.float32
    assert torch.equal(losses, per_anchor(case, raised))
    assert not torch.equal(losses, per_anchor(case, representations(case, dtype=torch.float32)))
    assert case.objective()(half).total.dtype == torch.float32


def test_autocast_does_not_lower_the_similarities() -> None:
    case = Case(hard=1)
    reps = representations(case, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert (reps.anchor @ reps.positive.T).dtype == torch.bfloat16  # autocast is on
        inside = per_anchor(case, reps)
    assert torch.equal(inside, per_anchor(case, reps))


@pytest.mark.parametrize("tau", [1e-3, 1e-6])
def test_a_very_small_temperature_does_not_overflow(tau: float) -> None:
    case = Case(tau=tau)
    reps = representations(case, dtype=torch.float32)
    assert not torch.isfinite(torch.exp(torch.tensor(1 / tau)))  # what a naive sum would meet
    anchor = reps.anchor.requires_grad_()
    losses = per_anchor(case, reps)
    cosines = pairwise_similarity(reps.anchor.double(), reps.positive.double(), "cosine")
    # In the limit: the distance from the positive to the best column, in units of the temperature.
    assert losses.tolist() == pytest.approx(((cosines.amax(1) - cosines.diagonal()) / tau).tolist(), rel=1e-3, abs=1e-2)
    assert losses.max() > 100
    (gradient,) = torch.autograd.grad(losses.sum(), anchor)
    assert torch.isfinite(gradient).all()


SEEDS = st.integers(0, 10_000)


@examples(30)
@given(
    seed=SEEDS,
    order=st.permutations(range(N)),
    duplicates=st.booleans(),
    columns=st.sampled_from(["positives", "positives_and_anchors"]),
)
def test_permuted_examples_permute_the_losses(seed: int, order: list[int], duplicates: bool, columns: str) -> None:
    case = Case(columns=columns, hard=2, alpha=2.0, smoothing=0.1, duplicates=duplicates)
    reps = representations(case, seed)
    moved = Representations(reps.anchor[order], reps.positive[order], reps.hard[order], reps.keys[order])
    before = per_anchor(case, reps)
    assert torch.allclose(per_anchor(case, moved), before[order], rtol=1e-10, atol=0)
    assert len(set(before.tolist())) == N


@examples(30)
@given(seed=SEEDS, scales=st.lists(st.floats(0.5, 20.0), min_size=3 * N, max_size=3 * N))
def test_cosine_is_scale_invariant_and_dot_is_not(seed: int, scales: list[float]) -> None:
    a, b, c = torch.tensor(scales, dtype=torch.float64).reshape(3, N, 1)
    cosine, dot = (Case(kind, hard=1) for kind in ("cosine", "dot"))
    reps = representations(cosine, seed)
    scaled = Representations(a * reps.anchor, b * reps.positive, c.unsqueeze(2) * reps.hard, reps.keys)
    assert torch.allclose(per_anchor(cosine, scaled), per_anchor(cosine, reps), rtol=1e-9, atol=1e-12)
    doubled = Representations(2 * reps.anchor, reps.positive, reps.hard, reps.keys)
    assert not torch.allclose(per_anchor(dot, doubled), per_anchor(dot, reps), rtol=1e-3)


@examples(50)
@given(seed=SEEDS, logit=st.floats(-50, 50), log_weight=st.floats(-3, 3))
def test_another_column_never_lowers_the_loss(seed: int, logit: float, log_weight: float) -> None:
    random = torch.Generator().manual_seed(seed)
    positive = 2 * torch.randn(N, generator=random, dtype=torch.float64)
    columns = LogitColumns(2 * torch.randn(N, 3, generator=random, dtype=torch.float64))
    extra = LogitColumns(torch.full((N, 1), logit, dtype=torch.float64), log_weight)
    first, added = columns.weighted(), extra.weighted()
    before, after = info_nce_from_logits(positive, first), info_nce_from_logits(positive, first, added)
    assert (after >= before - 1e-14).all()
    at_positive = LogitColumns(positive.unsqueeze(1))
    assert (info_nce_from_logits(positive, first, at_positive.weighted()) > before + 1e-6).all()
    everywhere = torch.ones(N, 1, dtype=torch.bool)
    for without in (replace(extra, excluded=everywhere), replace(extra, duplicates=everywhere)):
        torch.testing.assert_close(
            info_nce_from_logits(positive, first, without.weighted()), before, rtol=1e-14, atol=1e-14
        )
        both = ([first], [first, without.weighted()])
        smoothed = [info_nce_from_logits(positive, *some, label_smoothing=0.2) for some in both]
        torch.testing.assert_close(*smoothed, rtol=1e-14, atol=1e-14)


def test_the_sources_are_what_the_recipes_name() -> None:
    kinds = [type(part) for part in Case(hard=1).objective().negatives]
    assert kinds == [InBatch, Hard]


@pytest.mark.parametrize("tau", [1.0, 0.05, 0.002])
def test_the_binary_loss_by_loops(tau: float) -> None:
    random = torch.Generator().manual_seed(2)
    positive, first, second = (torch.randn(N, *k, generator=random, dtype=torch.float64) for k in ((), (3,), (2,)))
    second[1, 0] = -torch.inf
    inputs = [positive.requires_grad_(), first.requires_grad_(), second.requires_grad_()]
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        logits = torch.stack([value for value in [positive[i], *first[i], *second[i]] if torch.isfinite(value)]) / tau
        q = logits.softmax(dim=0)
        others = [q[torch.arange(len(q)) != k].sum().clamp(min=1e-300).log() for k in range(1, len(q))]
        total = total - (logits.log_softmax(dim=0)[0] + sum(others)) / len(q)
    ours = binary_from_logits(positive / tau, first / tau, second / tau).sum()
    gradients = torch.autograd.grad(ours, inputs)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    if tau > 0.1:  # else some q round to 1
        torch.testing.assert_close(ours, total, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(gradients, torch.autograd.grad(total, inputs), rtol=1e-10, atol=1e-10)


def test_the_binary_loss_of_rows_in_which_one_negative_has_all_probability() -> None:
    positive, negatives = (torch.tensor(v, requires_grad=True) for v in ([-200.0], [[200.0, -torch.inf]]))
    loss = binary_from_logits(positive, negatives).sum()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (positive, negatives)))


def test_an_objective_with_the_binary_loss() -> None:
    random = torch.Generator().manual_seed(4)
    reps = Representations.of(*torch.randn(2, N, D, generator=random, dtype=torch.float64))
    logits = pairwise_similarity(reps.anchor, reps.positive, "cosine") / 0.05
    others = logits.masked_fill(torch.eye(N, dtype=torch.bool), -torch.inf)
    wanted = binary_from_logits(logits.diagonal(), others).mean()
    for tile_bytes in (1, 2**24):  # never in tiles
        data = {"loss": "binary", "tile_bytes": tile_bytes}
        made = Objective.from_settings(validate(ObjectiveSettings, data, "test"))
        torch.testing.assert_close(made(reps).total, wanted, rtol=1e-12, atol=0)
