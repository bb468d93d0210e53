"""The losses that follow a teacher, and their gradients, against loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from opencse.objective.losses.distillation import (
    bounded_mse,
    jensen_shannon,
    list_mle,
    list_net,
    margin_mse,
    negative_entropy,
    rank_correlations,
    score_kl,
    shuffled_in_groups,
)

N, K = 4, 6


def tensors(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    student, teacher = (2 * torch.rand(N, K, generator=random, dtype=torch.float64) - 1 for _ in range(2))
    return student.requires_grad_(), teacher


def softmax(row: list[Tensor]) -> list[Tensor]:
    total = torch.stack([value.exp() for value in row]).sum()
    return [value.exp() / total for value in row]


def rows(matrix: Tensor, divisor: float = 1.0) -> list[list[Tensor]]:
    return [[value / divisor for value in row] for row in matrix]


def net_by_loops(student: Tensor, teacher: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for ours, theirs in zip(rows(student, 0.3), rows(teacher, 0.2), strict=True):
        for p, q in zip(softmax(ours), softmax(theirs), strict=True):
            total = total - q * p.log()
    return total / N


def mle_by_loops(student: Tensor, teacher: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for ours, theirs in zip(rows(student, 0.3), teacher.tolist(), strict=True):
        remaining = list(range(K))
        while remaining:
            best = max(remaining, key=lambda k: theirs[k])
            chances = softmax([ours[k] for k in remaining])
            total = total - chances[remaining.index(best)].log()
            remaining.remove(best)
    return total / N  # eq. 9: a sum over the positions


def js_by_loops(student: Tensor, teacher: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for first, second in zip(rows(student), rows(teacher), strict=True):
        for p, q in zip(softmax(first), softmax(second), strict=True):
            mean = (p + q) / 2
            total = total + (p * (p / mean).log() + q * (q / mean).log()) / 2
    return total / N


def entropy_by_loops(student: Tensor, teacher: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for first, second in zip(rows(student), rows(teacher), strict=True):
        for share in (*softmax(first), *softmax(second)):
            total = total + share * (share.log() - 1e-7) / 2
    return total / N


def mse_by_loops(student: Tensor, teacher: Tensor) -> Tensor:
    counted = [(i, k) for i in range(N) for k in range(K) if -0.2 <= float(teacher[i, k]) <= 0.6]
    assert 0 < len(counted) < N * K
    squares = [(student[i, k] - teacher[i, k]) ** 2 for i, k in counted]
    return torch.stack(squares).sum() / len(counted)


LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "list_net": (lambda s, t: list_net(s, t, student_temperature=0.3, teacher_temperature=0.2), net_by_loops),
    "list_mle": (lambda s, t: list_mle(s, t, student_temperature=0.3), mle_by_loops),
    "jensen_shannon": (jensen_shannon, js_by_loops),
    "negative_entropy": (negative_entropy, entropy_by_loops),
    "bounded_mse": (lambda s, t: bounded_mse(s, t, -0.2, 0.6), mse_by_loops),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_by_loops(name: str) -> None:
    function, loops = LOSSES[name]
    student, teacher = tensors()
    ours, theirs = function(student, teacher), loops(student, teacher)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    gradients = [torch.autograd.grad(loss, student)[0] for loss in (ours, theirs)]
    assert gradients[0].abs().max() > 1e-3
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-10)
    other = function(student, tensors(seed=1)[1])
    assert abs(float(other.detach() - ours.detach())) > 1e-6, "the teacher counts"


def test_the_losses_are_least_where_student_and_teacher_agree() -> None:
    student, teacher = (one.detach() for one in tensors())
    assert list_net(teacher, teacher) < list_net(student, teacher)
    assert list_mle(teacher, teacher) < list_mle(student, teacher) < list_mle(-teacher, teacher)
    assert jensen_shannon(teacher, teacher).abs() < 1e-12
    assert float(jensen_shannon(50 * teacher, -50 * teacher)) == pytest.approx(math.log(2), rel=1e-3)
    assert bounded_mse(student, teacher, 2.0, 3.0) == 0


def test_half_precision_is_raised() -> None:
    student, teacher = (one.detach().bfloat16() for one in tensors())
    for function, _ in LOSSES.values():
        assert function(student, teacher).dtype == torch.float32


@pytest.mark.parametrize("share", [0.1, 0.15, 0.4, 1.0])
def test_texts_are_shuffled_within_their_groups(share: float) -> None:
    random = torch.Generator().manual_seed(2)
    teacher = 2 * torch.rand(3, 25, generator=random) - 1
    orders = torch.stack(
        [shuffled_in_groups(teacher, share, torch.rand(3, 25, generator=random)) for _ in range(60)]
    ).tolist()
    for row in range(3):
        nearest = sorted(range(25), key=lambda k: -float(teacher[row, k]))
        total, below, groups = sum(math.exp(v) for v in teacher[row].tolist()), 0.0, []
        for column in nearest:
            below += math.exp(float(teacher[row, column])) / total
            groups.append(min(int(below / share), math.ceil(1 / share) - 1))
        for position in range(25):
            group = {nearest[p] for p in range(25) if groups[p] == groups[position]}
            seen = {order[row][position] for order in orders}
            assert seen <= group
            assert len(seen) > 1 or len(group) == 1


def test_rank_correlations_are_spearmans() -> None:
    random = torch.Generator().manual_seed(3)
    similarities = torch.rand(5, 40, generator=random, dtype=torch.float64)
    similarities[1] = similarities[0] ** 3
    ours = rank_correlations(similarities)
    for i in range(5):
        for j in range(5):
            wanted = spearmanr(similarities[i].numpy(), similarities[j].numpy()).statistic
            assert float(ours[i, j]) == pytest.approx(wanted, abs=1e-12)
    assert float(ours[0, 1]) == pytest.approx(1.0)


@pytest.mark.parametrize("negatives", [1, 3])
def test_given_scores_as_sentence_transformers_has_them(negatives: int) -> None:
    from sentence_transformers.sentence_transformer import losses

    random = torch.Generator().manual_seed(5)
    vectors = [torch.randn(N, 4, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2 + negatives)]
    scores = 3 * torch.randn(N, 1 + negatives, generator=random, dtype=torch.float64)
    student = torch.stack([(vectors[0] * other).sum(dim=1) for other in vectors[1:]], dim=1)
    empty: Any = torch.nn.Module()
    pairs = [
        (
            margin_mse(student[:, 0], student[:, 1:], scores[:, :1] - scores[:, 1:]),
            losses.MarginMSELoss(empty).compute_loss_from_embeddings(vectors, scores),
        ),
        (
            score_kl(student, scores, temperature=2.0),
            losses.DistillKLDivLoss(empty, temperature=2.0).compute_loss_from_embeddings(vectors, scores),
        ),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
        mine = torch.autograd.grad(ours, vectors, retain_graph=True)
        for one, other in zip(mine, torch.autograd.grad(theirs, vectors, retain_graph=True), strict=True):
            assert one.abs().max() > 1e-3
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
