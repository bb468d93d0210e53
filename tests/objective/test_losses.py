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

N, D = 5, 4


def three(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Anchors, positives and further negatives."""
    random = torch.Generator().manual_seed(0)
    return [torch.randn(N, D, generator=random, dtype=torch.float64).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_info_nce_is_torchs_cross_entropy(similarity: SimilarityKind) -> None:
    anchor, positive, negatives = three()
    for smoothing in (0.0, 0.1):
        for others in (None, negatives):
            columns = positive if others is None else torch.cat([positive, others])
            logits = pairwise_similarity(anchor, columns, similarity) / 0.3
            wanted = functional.cross_entropy(logits, torch.arange(N), label_smoothing=smoothing)
            options = {"temperature": 0.3, "label_smoothing": smoothing}
            loss = info_nce(anchor, positive, others, similarity=similarity, **options)
            torch.testing.assert_close(loss, wanted, rtol=1e-12, atol=0)


def test_half_precision_is_raised_to_float32_and_autocast_lowers_nothing() -> None:
    half = three(torch.bfloat16)
    raised = [vectors.float() for vectors in half]
    loss = info_nce(*raised)
    assert info_nce(*half) == loss
    assert info_nce(*half).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert info_nce(*raised) == loss


@pytest.mark.parametrize("tau", [1e-3, 1e-6])
def test_a_very_small_temperature_does_not_overflow(tau: float) -> None:
    anchor, positive, _ = three(torch.float32)
    loss = info_nce(anchor.requires_grad_(), positive, temperature=tau)
    cosines = pairwise_similarity(anchor.double(), positive.double(), "cosine")
    # In the limit: the distance from the positive to the best column, in units of the temperature.
    assert loss.item() == pytest.approx(((cosines.amax(1) - cosines.diagonal()) / tau).mean().item(), rel=1e-3)
    assert torch.autograd.grad(loss, anchor)[0].isfinite().all()


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


K = 6


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


PAIRS, WIDTH, CLASSES = 7, 6, 3
SCORES = torch.tensor([0.0, 0.2, 0.2, 1.0, 0.6, 0.4, 1.0], dtype=torch.float64)
"""With equal ones among them."""


def vectors_of(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


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
    for gradient, right in zip(ours, theirs, strict=True):
        assert float(right.abs().max()) > 1e-6, "the comparison means something"
        torch.testing.assert_close(gradient, right, rtol=1e-5, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize(
    ("settings", "ours", "name"),
    [
        (Cosent.Settings(scale=3.0), partial(cosent, scale=3.0), "CoSENTLoss"),
        (Angle.Settings(scale=3.0), partial(angle, scale=3.0), "AnglELoss"),
        (CosineRegression.Settings(), cosine_regression, "CosineSimilarityLoss"),
    ],
)
def test_graded_pairs_as_in_sentence_transformers(settings: PartSettings, ours: Any, name: str) -> None:
    first, second = vectors_of(PAIRS, WIDTH), vectors_of(PAIRS, WIDTH, seed=2)
    scale = {"scale": settings.scale} if hasattr(settings, "scale") else {}
    theirs = getattr(losses, name)(Given(), **scale)(columns(first, second), SCORES)
    same_with_gradients(ours(first, second, SCORES), theirs, [first, second])
    reps = replace(Representations.of(first, second), answers={Scores(): SCORES})
    assert torch.equal(build(settings).loss(reps), ours(first, second, SCORES))
    assert ours(first.bfloat16(), second.bfloat16(), SCORES.float()).dtype == torch.float32


def test_pairs_without_an_order_or_an_even_number_of_dimensions() -> None:
    first, second = vectors_of(PAIRS, 5), vectors_of(PAIRS, 5, seed=2)
    assert cosent(first, second, torch.ones(PAIRS)) == 0
    padded = [functional.pad(one, (0, 1)) for one in (first, second)]
    torch.testing.assert_close(angle(first, second, SCORES), angle(padded[0], padded[1], SCORES))


def test_the_classifier_as_in_sentence_transformers() -> None:
    first, second, classes = (
        vectors_of(PAIRS, WIDTH).float(),
        vectors_of(PAIRS, WIDTH, seed=2).float(),
        torch.tensor([0, 2, 1, 1, 0, 2, 2]),
    )
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

    inputs = (
        vectors_of(PAIRS, WIDTH),
        vectors_of(PAIRS, WIDTH, seed=2),
        vectors_of(PAIRS, 2, WIDTH, seed=3),
    )
    anchor, positive, hard = inputs
    each = [
        torch.clamp(far(anchor[i], positive[i]) - far(anchor[i], hard[i, h]) + 0.3, min=0)
        for i, h in itertools.product(range(PAIRS), range(2))
    ]
    assert 0 < sum(bool(loss > 0) for loss in each) < len(each), "some are beyond the margin"
    wanted = torch.stack(each).mean()
    same_with_gradients(triplet(*inputs, margin=0.3, distance=distance), wanted, list(inputs))
    shortfall = triplet_shortfall(*inputs, margin=0.3, distance=distance)
    torch.testing.assert_close(shortfall.clamp(min=0).mean(), wanted)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def naive(anchors: Tensor, positives: Tensor, negatives: Tensor, alpha: float, beta: float) -> Tensor:
    total = anchors.new_zeros(())
    for a, p, n in zip(anchors, positives, negatives, strict=True):
        difference = cosine(a, n) - cosine(a, p)
        if float(difference) > -alpha:
            total = total + difference + alpha
        if float(difference) < -beta:
            total = total - difference - beta
    return total / len(anchors)


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.3), (0.0, 1.0), (0.4, 0.5)])
def test_loss_and_gradients_equal_loops(alpha: float, beta: float) -> None:
    generator = torch.Generator().manual_seed(3)
    vectors = [torch.randn(9, 6, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]
    losses = [
        bidirectional_margin(*vectors, alpha=alpha, beta=beta),
        naive(vectors[0], vectors[1], vectors[2], alpha, beta),
    ]
    assert math.isclose(float(losses[0]), float(losses[1]), abs_tol=1e-10)
    assert float(losses[0]) > 0
    for a, b in zip(*(torch.autograd.grad(loss, vectors) for loss in losses), strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=0)
        assert bool(a.any())


def naive_information(local: Tensor, real: Tensor, texts: Tensor) -> Tensor:
    positive, negative = [], []
    for i in range(len(local)):
        for t in range(local.shape[1]):
            if not real[i, t]:
                continue
            for j in range(len(texts)):
                score = sum((a * b for a, b in zip(local[i, t], texts[j], strict=True)), torch.zeros(()))
                if i == j:
                    positive.append(math.log(2) - torch.log(1 + torch.exp(-score)))
                else:
                    negative.append(torch.log(1 + torch.exp(score)) - math.log(2))
    return sum(negative, torch.zeros(())) / len(negative) - sum(positive, torch.zeros(())) / len(positive)


def test_the_loss_and_its_gradients_are_those_of_loops() -> None:
    random = torch.Generator().manual_seed(3)
    local = torch.randn(3, 4, 5, generator=random, dtype=torch.float64).requires_grad_()
    texts = torch.randn(3, 5, generator=random, dtype=torch.float64).requires_grad_()
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    results = []
    for function in (mutual_information, naive_information):
        loss = function(local, real, texts)
        results.append([loss, *torch.autograd.grad(loss, [local, texts])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
    assert not results[0][1][real == 0].any()


LAYERS = 3


def naive_layers(anchor: Tensor, layers: Tensor, temperature: float, left_out: Tensor | None) -> Tensor:
    def phi(x: Tensor, y: Tensor) -> Tensor:
        dot = sum((x[d] * y[d] for d in range(D)), start=torch.zeros((), dtype=x.dtype))
        lengths = sum(x[d] ** 2 for d in range(D)) * sum(y[d] ** 2 for d in range(D))
        return torch.exp(dot / lengths**0.5 / temperature)

    total = torch.zeros((), dtype=anchor.dtype)
    for i in range(N):
        others = [j for j in range(N) if j != i and not (left_out is not None and left_out[i, j])]
        z = torch.zeros((), dtype=anchor.dtype)
        for k in range(LAYERS):
            z = z + sum(phi(anchor[i], layers[k, j]) for j in others)
        for k in range(LAYERS):
            own = phi(anchor[i], layers[k, i])
            total = total - torch.log(own / (own + z))
    return total / (N * LAYERS)


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    anchor, layers = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((N, D), (LAYERS, N, D))
    )
    return anchor.requires_grad_(), layers.requires_grad_()


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_loss_and_gradients(temperature: float, masked: bool) -> None:
    left_out = None
    if masked:
        left_out = torch.zeros(N, N, dtype=torch.bool)
        left_out[0, 2] = left_out[2, 0] = True
    tensors = inputs()
    ours, theirs = (
        self_guided(*tensors, temperature=temperature, left_out=left_out),
        naive_layers(*tensors, temperature, left_out),
    )
    assert abs(ours - theirs) < 1e-10
    for a, b in zip(torch.autograd.grad(ours, tensors), torch.autograd.grad(theirs, tensors), strict=True):
        assert (a - b).abs().max() < 1e-10
        assert b.abs().max() > 1e-4


def test_the_loss_by_loops_and_its_gradients() -> None:
    random = torch.Generator().manual_seed(2)
    left, right = (torch.randn(6, 3, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    labels = torch.tensor([1, 1, 0, 0, 1, 0])
    total = 0.0
    for x, y, label in zip(left.tolist(), right.tolist(), labels.tolist(), strict=True):
        share = 1 / (1 + math.exp(-sum(p * q for p, q in zip(x, y, strict=True))))
        total -= math.log(share if label else 1 - share)
    assert contrastive_tension(left, right, labels).item() == pytest.approx(total / 6, rel=1e-12)

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return contrastive_tension(a, b, labels)

    assert torch.autograd.gradcheck(loss, [left, right])


def test_the_loss_of_replaced_tokens_by_loops() -> None:
    random = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 4, 2, generator=random, dtype=torch.float64)
    replaced = torch.randint(2, (3, 4), generator=random)
    losses = replaced_tokens(logits, replaced)
    for row, token in itertools.product(range(3), range(4)):
        exponentials = [math.exp(value) for value in logits[row, token].tolist()]
        share = exponentials[int(replaced[row, token])] / sum(exponentials)
        assert losses[row, token].item() == pytest.approx(-math.log(share), rel=1e-12)


ROWS, DIMENSIONS = 9, 7


def vectors() -> Tensor:
    return torch.randn(
        ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    ).requires_grad_()


def test_equal_eigenvalues_have_a_finite_gradient() -> None:
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: group_whitening(v, torch.arange(2), size=2), (x,))
    few = torch.randn(2, 6, dtype=torch.float32, requires_grad=True)  # fewer rows than dimensions
    (gradient,) = torch.autograd.grad(group_whitening(few, torch.arange(6), size=6).square().sum(), few)
    assert gradient.isfinite().all()
