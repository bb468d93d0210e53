"""Losses of plain tensors, and their gradients, against loops, torch and sentence-transformers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr
from sentence_transformers.sentence_transformer import losses
from torch import Tensor, nn
from torch.nn import functional

from opencse.objective.losses import (
    bidirectional_margin,
    binary_from_logits,
    group_whitening,
    info_nce,
    self_guided,
)
from opencse.objective.registry import build
from opencse.objective.similarity import SimilarityKind, pairwise_similarity
from opencse.objective.terms.distillation import (
    bounded_mse,
    jensen_shannon,
    list_mle,
    list_net,
    negative_entropy,
    rank_correlations,
    shuffled_in_groups,
)
from opencse.objective.terms.graded import (
    Angle,
    Cosent,
    CosineRegression,
    Distance,
    angle,
    cosent,
    cosine_regression,
    pair_features,
    pair_softmax,
    triplet,
    triplet_shortfall,
)
from opencse.objective.terms.networks import mutual_information
from opencse.objective.terms.pairs import contrastive_tension
from opencse.objective.terms.tokens import replaced_tokens
from opencse.objective.vectors.requests import Scores
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings

N, D, K = 5, 4, 6


def drawn(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=random, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def same(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    """The value, and a gradient that is somewhere not 0."""
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    gradients = [torch.autograd.grad(loss, leaves, retain_graph=True) for loss in (ours, theirs)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-10)
    assert all(gradient.abs().max() > 1e-4 for gradient in gradients[1])


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_info_nce_is_torchs_cross_entropy(similarity: SimilarityKind) -> None:
    anchor, positive, negatives = leaves = drawn(*[(N, D)] * 3)
    for smoothing in (0.0, 0.1):
        logits = pairwise_similarity(anchor, torch.cat([positive, negatives]), similarity) / 0.3
        wanted = functional.cross_entropy(logits, torch.arange(N), label_smoothing=smoothing)
        options = {"temperature": 0.3, "label_smoothing": smoothing}
        same(info_nce(anchor, positive, negatives, similarity=similarity, **options), wanted, leaves)


def test_half_precision_is_raised_to_float32_and_autocast_lowers_nothing() -> None:
    half = drawn(*[(N, D)] * 3, dtype=torch.bfloat16)
    raised = [vectors.float() for vectors in half]
    loss = info_nce(*raised)
    assert info_nce(*half) == loss
    assert info_nce(*half).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert info_nce(*raised) == loss


def test_a_very_small_temperature_does_not_overflow() -> None:
    anchor, positive = drawn((N, D), (N, D), dtype=torch.float32)
    loss = info_nce(anchor, positive, temperature=1e-6)
    cosines = pairwise_similarity(anchor.double(), positive.double(), "cosine")
    # In the limit: the distance from the positive to the best column, in units of the temperature.
    assert loss.item() == pytest.approx(((cosines.amax(1) - cosines.diagonal()) / 1e-6).mean().item(), rel=1e-3)
    assert torch.autograd.grad(loss, anchor)[0].isfinite().all()


@pytest.mark.parametrize("tau", [1.0, 0.002])
def test_the_binary_loss_by_loops(tau: float) -> None:
    positive, first, second = leaves = drawn((N,), (N, 3), (N, 2))
    left_out = torch.zeros(N, 2, dtype=torch.bool)
    left_out[1, 0] = True
    ours = binary_from_logits(positive / tau, first / tau, (second / tau).masked_fill(left_out, -torch.inf)).sum()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(ours, leaves, retain_graph=True))
    if tau > 0.1:  # else some q round to 1
        total = torch.zeros((), dtype=torch.float64)
        for i in range(N):
            row = torch.cat([positive[i : i + 1], first[i], second[i][~left_out[i]]])
            q, is_positive = row.softmax(dim=0), (torch.arange(len(row)) == 0).double()
            total = total + functional.binary_cross_entropy(q, is_positive)
        same(ours, total, leaves)


def mle_by_loops(student: Tensor, teacher: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for ours, theirs in zip(student / 0.3, teacher.tolist(), strict=True):
        remaining = sorted(range(K), key=lambda k: -theirs[k])
        while remaining:
            total = total - ours[remaining].log_softmax(dim=0)[0]
            remaining = remaining[1:]
    return total / N  # eq. 9: a sum over the positions


def js_by_hand(student: Tensor, teacher: Tensor) -> Tensor:
    p, q = student.softmax(dim=1), teacher.softmax(dim=1)
    mean = (p + q) / 2
    return (p * (p / mean).log() + q * (q / mean).log()).sum() / (2 * N)


def mse_by_loops(student: Tensor, teacher: Tensor) -> Tensor:
    counted = [(i, k) for i in range(N) for k in range(K) if -0.2 <= float(teacher[i, k]) <= 0.6]
    assert 0 < len(counted) < N * K
    return torch.stack([(student[i, k] - teacher[i, k]) ** 2 for i, k in counted]).mean()


LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "list_net": (
        lambda s, t: list_net(s, t, student_temperature=0.3, teacher_temperature=0.2),
        lambda s, t: functional.cross_entropy(s / 0.3, (t / 0.2).softmax(dim=1)),
    ),
    "list_mle": (lambda s, t: list_mle(s, t, student_temperature=0.3), mle_by_loops),
    "jensen_shannon": (jensen_shannon, js_by_hand),
    "negative_entropy": (
        negative_entropy,
        lambda s, t: sum(((x.softmax(1) * x.log_softmax(1)).sum(1).mean() - 1e-7 for x in (s, t)), torch.zeros(())) / 2,
    ),
    "bounded_mse": (lambda s, t: bounded_mse(s, t, -0.2, 0.6), mse_by_loops),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_by_loops(name: str) -> None:
    function, loops = LOSSES[name]
    student, teacher, other = drawn(*[(N, K)] * 3)
    teacher, other = teacher.detach(), other.detach()
    same(function(student, teacher), loops(student, teacher), [student])
    assert abs(float(function(student, other) - function(student, teacher))) > 1e-6, "the teacher counts"


@pytest.mark.parametrize("share", [0.15, 1.0])
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


PAIRS, WIDTH, CLASSES = 7, 6, 3
SCORES = torch.tensor([0.0, 0.2, 0.2, 1.0, 0.6, 0.4, 1.0], dtype=torch.float64)
"""With equal ones among them."""


class Given(nn.Module):
    """Stands for a model: gives vectors that are there already."""

    device = torch.device("cpu")

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return features


def columns(*vectors: Tensor) -> list[dict[str, Tensor]]:
    return [{"sentence_embedding": one} for one in vectors]


def same_with_gradients(one: Tensor, other: Tensor, leaves: list[Tensor]) -> None:
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6, check_dtype=False)
    ours, theirs = (torch.autograd.grad(loss, leaves, retain_graph=True) for loss in (one, other))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize(
    ("settings", "ours", "name"),
    [
        (Cosent.Settings(scale=3.0), partial(cosent, scale=3.0), "CoSENTLoss"),
        (Angle.Settings(scale=3.0), partial(angle, scale=3.0), "AnglELoss"),
        (CosineRegression.Settings(), cosine_regression, "CosineSimilarityLoss"),
    ],
)
def test_graded_pairs_as_in_sentence_transformers(settings: PartSettings, ours: Any, name: str) -> None:
    first, second = drawn((PAIRS, WIDTH), (PAIRS, WIDTH))
    scale = {"scale": settings.scale} if hasattr(settings, "scale") else {}
    theirs = getattr(losses, name)(Given(), **scale)(columns(first, second), SCORES)
    same_with_gradients(ours(first, second, SCORES), theirs, [first, second])
    reps = replace(Representations.of(first, second), answers={Scores(): SCORES})
    assert torch.equal(build(settings).loss(reps), ours(first, second, SCORES))
    assert ours(first.bfloat16(), second.bfloat16(), SCORES.float()).dtype == torch.float32


def test_pairs_without_an_order_or_an_even_number_of_dimensions() -> None:
    first, second = drawn((PAIRS, 5), (PAIRS, 5))
    assert cosent(first, second, torch.ones(PAIRS)) == 0
    padded = [functional.pad(one, (0, 1)) for one in (first, second)]
    torch.testing.assert_close(angle(first, second, SCORES), angle(padded[0], padded[1], SCORES))


def test_the_classifier_as_in_sentence_transformers() -> None:
    first, second = (one.float() for one in drawn((PAIRS, WIDTH), (PAIRS, WIDTH)))
    classes = torch.tensor([0, 2, 1, 1, 0, 2, 2])
    loss: Any = losses.SoftmaxLoss(Given(), WIDTH, CLASSES, concatenation_sent_multiplication=True)
    features = pair_features(first, second, ("vectors", "difference", "product"))
    ours = pair_softmax(features, classes, loss.classifier.weight, loss.classifier.bias)
    leaves = [first, second, *loss.classifier.parameters()]
    same_with_gradients(ours, loss(columns(first, second), classes), leaves)
    assert torch.equal(pair_features(first, second, ("product",)), features[:, 3 * WIDTH :])


@pytest.mark.parametrize("distance", ["euclidean", "manhattan", "cosine"])
def test_triplets_by_loops(distance: Distance) -> None:
    def far(a: Tensor, b: Tensor) -> Tensor:
        if distance == "cosine":
            return 1 - torch.cosine_similarity(a, b, dim=0)
        return (a - b).abs().sum() if distance == "manhattan" else (a - b).square().sum().sqrt()

    inputs = drawn((PAIRS, WIDTH), (PAIRS, WIDTH), (PAIRS, 2, WIDTH))
    anchor, positive, hard = inputs
    each = [
        torch.clamp(far(anchor[i], positive[i]) - far(anchor[i], hard[i, h]) + 0.3, min=0)
        for i, h in itertools.product(range(PAIRS), range(2))
    ]
    assert 0 < sum(bool(loss > 0) for loss in each) < len(each), "some are beyond the margin"
    wanted = torch.stack(each).mean()
    same_with_gradients(triplet(*inputs, margin=0.3, distance=distance), wanted, inputs)
    shortfall = triplet_shortfall(*inputs, margin=0.3, distance=distance)
    torch.testing.assert_close(shortfall.clamp(min=0).mean(), wanted)


def test_negations_by_loops() -> None:
    anchors, positives, negatives = leaves = drawn(*[(9, 6)] * 3)
    for alpha, beta in ((0.1, 0.3), (0.4, 0.5)):
        each = []
        for a, p, n in zip(anchors, positives, negatives, strict=True):
            difference = torch.cosine_similarity(a, n, dim=0) - torch.cosine_similarity(a, p, dim=0)
            each.append((difference + alpha).clamp(min=0) + (-difference - beta).clamp(min=0))
        same(bidirectional_margin(*leaves, alpha=alpha, beta=beta), torch.stack(each).mean(), leaves)


def test_mutual_information_by_loops() -> None:
    local, texts = drawn((3, 4, 5), (3, 5))
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    positive, negative = [], []
    for i, t in real.nonzero().tolist():
        for j in range(3):
            score = (local[i, t] * texts[j]).sum()
            if i == j:
                positive.append(math.log(2) - torch.log(1 + torch.exp(-score)))
            else:
                negative.append(torch.log(1 + torch.exp(score)) - math.log(2))
    loss = mutual_information(local, real, texts)
    same(loss, torch.stack(negative).mean() - torch.stack(positive).mean(), [local, texts])
    assert not torch.autograd.grad(loss, local)[0][real == 0].any()


@pytest.mark.parametrize("masked", [False, True])
def test_self_guidance_by_loops(masked: bool) -> None:
    anchor, layers = leaves = drawn((N, D), (3, N, D))
    left_out = torch.zeros(N, N, dtype=torch.bool)
    left_out[0, 2] = left_out[2, 0] = masked
    each = []
    for i in range(N):
        phi = [
            [(torch.cosine_similarity(anchor[i], layer[j], dim=0) / 0.2).exp() for j in range(N)] for layer in layers
        ]
        z = sum(row[j] for row in phi for j in range(N) if j != i and not left_out[i, j])
        each += [-torch.log(row[i] / (row[i] + z)) for row in phi]
    same(self_guided(anchor, layers, temperature=0.2, left_out=left_out), torch.stack(each).mean(), leaves)


def test_tension_and_replaced_tokens_are_torchs_cross_entropies() -> None:
    left, right = leaves = drawn((6, 3), (6, 3))
    labels = torch.tensor([1, 1, 0, 0, 1, 0])
    wanted = functional.binary_cross_entropy((left * right).sum(dim=1).sigmoid(), labels.double())
    same(contrastive_tension(left, right, labels), wanted, leaves)
    (logits,) = drawn((3, 4, 2))
    replaced = torch.randint(2, (3, 4), generator=torch.Generator().manual_seed(3))
    wanted = -logits.softmax(dim=2).gather(2, replaced.unsqueeze(2)).squeeze(2).log()
    torch.testing.assert_close(replaced_tokens(logits, replaced), wanted)


def test_whitened_groups_have_the_identity_as_covariance() -> None:
    (vectors,) = drawn((9, 7))
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    white = group_whitening(vectors, order, size=3, epsilon=1e-12)
    for group in (order[:3], order[3:6], order[6:]):
        torch.testing.assert_close(white[:, group].T @ white[:, group] / 9, torch.eye(len(group), dtype=torch.float64))
        turned = (vectors - vectors.mean(dim=0))[:, group].T @ white[:, group]
        torch.testing.assert_close(turned, turned.T, msg="the inverse root is symmetric")
    assert torch.autograd.gradcheck(lambda v: group_whitening(v, order, size=3), (vectors,))
    fixed = torch.autograd.grad(group_whitening(vectors, order, size=3, detached=True).square().sum(), vectors)[0]
    assert fixed.abs().max() > 1e-3, "the matrices alone take none"


def test_equal_eigenvalues_have_a_finite_gradient() -> None:
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: group_whitening(v, torch.arange(2), size=2), (x,))
    few = torch.randn(2, 6, dtype=torch.float32, requires_grad=True)  # fewer rows than dimensions
    (gradient,) = torch.autograd.grad(group_whitening(few, torch.arange(6), size=6).square().sum(), few)
    assert gradient.isfinite().all()
