"""The losses of labelled pairs and triples against loops, and against sentence-transformers."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from opencse.objective.losses.graded import (
    Distance,
    PairFeature,
    angle,
    angle_similarity,
    cosent,
    cosine_regression,
    pair_features,
    pair_softmax,
    ranked,
    triplet,
    triplet_shortfall,
)

N, D, CLASSES = 7, 6, 3


def rows(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_scores() -> Tensor:
    """With equal ones among them."""
    return torch.tensor([0.0, 0.2, 0.2, 1.0, 0.6, 0.4, 1.0], dtype=torch.float64)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    total = sum((x * y for x, y in zip(a, b, strict=True)), torch.zeros((), dtype=torch.float64))
    length: Tensor = sum((x * x for x in a), torch.zeros(())) ** 0.5 * sum((y * y for y in b), torch.zeros(())) ** 0.5
    return total / length


def ranked_by_loops(similarities: list[Tensor], scores: Tensor, scale: float) -> Tensor:
    total = torch.ones((), dtype=torch.float64)
    for i, j in itertools.product(range(len(scores)), repeat=2):
        if scores[i] > scores[j]:
            total = total + torch.exp(scale * (similarities[j] - similarities[i]))
    return torch.log(total)


def same_with_gradients(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Both functions of the inputs, and all their gradients, to 1e-10."""
    results = []
    for function in (ours, theirs):
        leaves = [values.clone().requires_grad_() for values in inputs]
        loss = function(*leaves)
        results.append((loss.detach(), torch.autograd.grad(loss, leaves)))
    (one, gradients), (other, expected) = results
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    for gradient, right in zip(gradients, expected, strict=True):
        assert float(right.abs().max()) > 1e-6, "the comparison means something"
        torch.testing.assert_close(gradient, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [20.0, 1.5])
def test_cosent_by_loops(scale: float) -> None:
    scores = some_scores()

    def loops(first: Tensor, second: Tensor) -> Tensor:
        return ranked_by_loops([cosine(a, b) for a, b in zip(first, second, strict=True)], scores, scale)

    same_with_gradients(lambda a, b: cosent(a, b, scores, scale=scale), loops, rows(N, D), rows(N, D, seed=2))


def angle_by_loops(first: Tensor, second: Tensor) -> Tensor:
    """With Python's complex numbers: the quotients of the paper, normalised; without gradient."""
    values = []
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        a, b = (one + [0.0] * (len(one) % 2) for one in (a, b))
        half = len(a) // 2
        z, w = ([complex(one[k], one[k + half]) for k in range(half)] for one in (a, b))
        size = math.hypot(*a) * math.hypot(*b)
        parts = [p * q.conjugate() / size for p, q in zip(z, w, strict=True)]
        assert all(abs(cmath.phase(part)) <= math.pi for part in parts)
        values.append(abs(sum(part.real + part.imag for part in parts)))
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("size", [6, 5])
def test_angles_by_complex_numbers(size: int) -> None:
    first, second = rows(N, size), rows(N, size, seed=2)
    torch.testing.assert_close(angle_similarity(first, second), angle_by_loops(first, second), rtol=1e-12, atol=1e-12)


def test_the_angle_loss_by_loops() -> None:
    scores = some_scores()

    def loops(first: Tensor, second: Tensor) -> Tensor:
        values = []
        for a, b in zip(first, second, strict=True):
            imaginary = sum(
                (a[k + D // 2] * b[k] - a[k] * b[k + D // 2] for k in range(D // 2)), torch.zeros((), dtype=a.dtype)
            )
            values.append((cosine(a, b) + imaginary / (a.norm() * b.norm())).abs())
        return ranked_by_loops(values, scores, 3.0)

    same_with_gradients(lambda a, b: angle(a, b, scores, scale=3.0), loops, rows(N, D), rows(N, D, seed=2))


def test_cosine_regression_by_loops() -> None:
    scores = some_scores()

    def loops(first: Tensor, second: Tensor) -> Tensor:
        errors = [(cosine(a, b) - y) ** 2 for a, b, y in zip(first, second, scores, strict=True)]
        return torch.stack(errors).sum() / len(errors)

    same_with_gradients(lambda a, b: cosine_regression(a, b, scores), loops, rows(N, D), rows(N, D, seed=2))


EVERY: tuple[PairFeature, ...] = ("vectors", "difference", "product")


@pytest.mark.parametrize("features", [EVERY, ("vectors", "difference"), ("product",)])
def test_the_classifier_by_loops(features: tuple[PairFeature, ...]) -> None:
    classes = torch.tensor([0, 2, 1, 1, 0, 2, 2])
    width = pair_features(rows(1, D), rows(1, D), features).shape[1]

    def ours(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return pair_softmax(pair_features(first, second, features), classes, weight, bias)

    def loops(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for u, v, label in zip(first, second, classes.tolist(), strict=True):
            read: list[Tensor] = []
            read += [*u, *v] if "vectors" in features else []
            read += [(x - y).abs() for x, y in zip(u, v, strict=True)] if "difference" in features else []
            read += [x * y for x, y in zip(u, v, strict=True)] if "product" in features else []
            logits = [
                sum((w * x for w, x in zip(row, read, strict=True)), bias[number]) for number, row in enumerate(weight)
            ]
            total = total - logits[label] + torch.log(sum((logit.exp() for logit in logits), torch.zeros(())))
        return total / len(classes)

    same_with_gradients(
        ours, loops, rows(N, D), rows(N, D, seed=2), rows(CLASSES, width, seed=3), rows(CLASSES, seed=4)
    )


@pytest.mark.parametrize("distance", ["euclidean", "manhattan", "cosine"])
def test_triplets_by_loops(distance: Distance) -> None:
    def far(a: Tensor, b: Tensor) -> Tensor:
        if distance == "cosine":
            return 1 - cosine(a, b)
        parts = [(x - y).abs() for x, y in zip(a, b, strict=True)]
        zero = torch.zeros((), dtype=torch.float64)
        return sum(parts, zero) if distance == "manhattan" else sum((p * p for p in parts), zero) ** 0.5

    def loops(anchor: Tensor, positive: Tensor, hard: Tensor) -> Tensor:
        losses = [
            torch.clamp(far(anchor[i], positive[i]) - far(anchor[i], hard[i, h]) + 0.3, min=0)
            for i, h in itertools.product(range(N), range(2))
        ]
        assert 0 < sum(bool(loss > 0) for loss in losses) < len(losses), "some are beyond the margin"
        return torch.stack(losses).sum() / len(losses)

    ours = partial(triplet, margin=0.3, distance=distance)
    inputs = rows(N, D), rows(N, D, seed=2), rows(N, 2, D, seed=3)
    same_with_gradients(ours, loops, *inputs)
    shortfall = triplet_shortfall(*inputs, margin=0.3, distance=distance)
    assert shortfall.clamp(min=0).mean().item() == pytest.approx(loops(*inputs).item(), rel=1e-12)


def test_equal_texts_have_finite_gradients() -> None:
    same = torch.ones(2, 3, requires_grad=True)
    triplet(same, same, same.unsqueeze(1), margin=1.0, distance="euclidean").backward()  # type: ignore[no-untyped-call]
    assert same.grad is not None
    assert bool(torch.isfinite(same.grad).all())


def test_of_equal_scores_nothing_is_learned() -> None:
    similarities = rows(4).requires_grad_()
    loss = ranked(similarities, torch.ones(4))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0
    assert similarities.grad is not None
    assert not similarities.grad.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    first, second, scores = rows(N, D).to(dtype), rows(N, D, seed=2).to(dtype), some_scores().float()
    for loss in (cosent(first, second, scores), angle(first, second, scores), cosine_regression(first, second, scores)):
        assert loss.dtype == torch.float32
    hard = rows(N, 1, D, seed=3).to(dtype)
    assert triplet(first, second, hard, margin=1.0, distance="euclidean").dtype == torch.float32


class Given(nn.Module):
    """Stands for a model: gives vectors that are there already."""

    device = torch.device("cpu")

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return features


def theirs(name: str, *arguments: Any, **settings: Any) -> Any:
    losses = pytest.importorskip("sentence_transformers.losses")
    return getattr(losses, name)(Given(), *arguments, **settings)


def columns(*vectors: Tensor) -> list[dict[str, Tensor]]:
    return [{"sentence_embedding": one} for one in vectors]


def test_graded_pairs_as_in_sentence_transformers() -> None:
    first, second, scores = rows(N, D), rows(N, D, seed=2), some_scores()
    for ours, name in ((cosent, "CoSENTLoss"), (angle, "AnglELoss"), (cosine_regression, "CosineSimilarityLoss")):
        expected = theirs(name)(columns(first, second), scores)
        torch.testing.assert_close(ours(first, second, scores), expected, rtol=1e-6, atol=1e-6, check_dtype=False)


def test_the_classifier_as_in_sentence_transformers() -> None:
    first, second, classes = rows(N, D).float(), rows(N, D, seed=2).float(), torch.tensor([0, 2, 1, 1, 0, 2, 2])
    loss = theirs("SoftmaxLoss", D, CLASSES, concatenation_sent_multiplication=True)
    ours = pair_softmax(pair_features(first, second, EVERY), classes, loss.classifier.weight, loss.classifier.bias)
    torch.testing.assert_close(ours, loss(columns(first, second), classes))


@pytest.mark.parametrize(("distance", "metric"), [("euclidean", 2), ("manhattan", 1)])
def test_triplets_as_in_sentence_transformers(distance: Distance, metric: int) -> None:
    anchor, positive, hard = rows(N, D), rows(N, D, seed=2), rows(N, 1, D, seed=3)

    def exact(a: Tensor, b: Tensor) -> Tensor:
        return functional.pairwise_distance(a, b, p=metric, eps=0.0)

    loss = theirs("TripletLoss", distance_metric=exact, triplet_margin=5.0)
    expected = loss(columns(anchor, positive, hard[:, 0]), None)
    torch.testing.assert_close(triplet(anchor, positive, hard, margin=5.0, distance=distance), expected)


def test_cosine_triplets_as_in_sentence_transformers() -> None:
    metrics = pytest.importorskip("sentence_transformers.losses").TripletDistanceMetric
    anchor, positive, hard = rows(N, D), rows(N, D, seed=2), rows(N, 1, D, seed=3)
    loss = theirs("TripletLoss", distance_metric=metrics.COSINE, triplet_margin=0.5)
    expected = loss(columns(anchor, positive, hard[:, 0]), None)
    torch.testing.assert_close(triplet(anchor, positive, hard, margin=0.5, distance="cosine"), expected)
