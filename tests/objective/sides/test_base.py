"""Which vectors a similarity is between: SimCSE++'s Table 1, for positives and negatives separately."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.positive import Positive
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.sides.clean import CleanSides
from opencse.objective.sides.mean import Mean
from opencse.objective.sides.noisy import Noisy
from opencse.objective.sides.views import Anchors, Views
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.requests import Clean, Means, Sentences
from opencse.objective.vectors.step import Representations
from opencse.objective.views.dropout import Dropout
from opencse.settings import validate
from opencse.streams import seed_of
from sides_cases import SEED, D, N, representations, sides

TAU = 0.3
KINDS: dict[str, dict[str, Any]] = {
    "views": {"kind": "views"},
    "anchors": {"kind": "anchors"},
    "clean": {"kind": "clean"},
    "mean": {"kind": "mean", "samples": 3},
    "shared mean": {"kind": "mean", "samples": 3, "shared": True},
    "noisy": {"kind": "noisy", "variance": 0.2},
    "noisy positives": {"kind": "noisy", "variance": 0.2, "both": False},
}


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test"))


def of(positive: str, negatives: str, **data: Any) -> Objective:
    return build(
        positive={"of": KINDS[positive]},
        negatives=[{"kind": "in_batch", "of": KINDS[negatives], "weight": 0.7}],
        temperature=TAU,
        **data,
    )


def generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(SEED, name))


def chosen(kind: str, reps: Representations, noise: torch.Generator) -> tuple[list[list[float]], list[list[float]]]:
    """The left and right vectors as the definitions have them."""
    clean, means = reps[Clean()], reps[Means(3)]
    if kind == "noisy":
        draws = [torch.randn(N, D, generator=noise, dtype=torch.float64) * math.sqrt(0.2) for _ in range(2)]
        return (reps.anchor + draws[0]).tolist(), (reps.positive + draws[1]).tolist()
    if kind == "noisy positives":
        draw = torch.randn(N, D, generator=noise, dtype=torch.float64) * math.sqrt(0.2)
        return reps.anchor.tolist(), (reps.positive + draw).tolist()
    if kind == "shared mean":
        one = [[(x + y) / 2 for x, y in zip(*rows, strict=True)] for rows in zip(*means.tolist(), strict=True)]
        return one, one
    vectors = {
        "views": (reps.anchor, reps.positive),
        "anchors": (reps.anchor, reps.anchor),
        "clean": (clean, clean),
        "mean": (means[0], means[1]),
    }[kind]
    return vectors[0].tolist(), vectors[1].tolist()


def cosine(u: list[float], v: list[float]) -> float:
    dot = sum(x * y for x, y in zip(u, v, strict=True))
    return dot / math.sqrt(sum(x * x for x in u)) / math.sqrt(sum(y * y for y in v))


@pytest.mark.parametrize(("positive", "negatives"), list(itertools.product(KINDS, KINDS)))
def test_the_loss_of_every_pair_of_sides_as_loops(positive: str, negatives: str) -> None:
    reps = representations()
    (a, b) = chosen(positive, reps, generator("positive"))
    (c, d) = chosen(negatives, reps, generator("negatives.in_batch"))
    expected = 0.0
    for i in range(N):
        top = math.exp(cosine(a[i], b[i]) / TAU)
        below = top + sum(0.7 * math.exp(cosine(c[i], d[j]) / TAU) for j in range(N) if j != i)
        expected -= math.log(top / below) / N
    outcome = of(positive, negatives)(reps)
    assert outcome.total.item() == pytest.approx(expected, rel=1e-12)
    mean = sum(cosine(a[i], b[i]) for i in range(N)) / N
    assert outcome.report["positive_similarity"].item() == pytest.approx(mean, rel=1e-12)


def test_every_choice_is_another_loss() -> None:
    losses = [of(p, n)(representations()).total.item() for p, n in itertools.product(KINDS, KINDS)]
    alike = 2 * len(KINDS)  # a positive that is its own twin has cosine 1: anchors, clean and a shared mean
    assert len({round(loss, 9) for loss in losses}) == len(losses) - alike
    assert type(build().positive.of) is Views
    assert (
        of("views", "views")(representations()).total.item()
        == build(negatives=[{"kind": "in_batch", "weight": 0.7}], temperature=TAU)(representations()).total.item()
    )


@pytest.mark.parametrize("kind", ["views", "anchors", "clean", "mean", "noisy"])
def test_gradient_reaches_both_sides(kind: str) -> None:
    reps = representations()
    leaves = {"anchor": reps.anchor, "positive": reps.positive, "clean": reps[Clean()], "means": reps[Means(3)]}
    for leaf in leaves.values():
        leaf.requires_grad_()
    left, right = sides(of(kind, kind).positive.of, reps)
    torch.autograd.backward((left[1] * right[2]).sum())
    touched = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    expected = {"views": ["anchor", "positive"], "noisy": ["anchor", "positive"], "anchors": ["anchor"]}
    assert list(touched) == expected.get(kind, ["clean" if kind == "clean" else "means"])
    rows = sum(int((gradient.abs().sum(dim=-1) > 0).sum()) for gradient in touched.values())
    assert rows == 2


def test_what_each_side_needs() -> None:
    assert Views().reads == Anchors().reads == Noisy().reads == {Sentences()}
    assert CleanSides().reads == {Clean()}
    assert Mean(Mean.Settings(samples=4)).reads == {Means(4)}
    assert Mean.Settings().samples == 10
    assert Noisy.Settings().variance == 0.1
    assert of("mean", "clean").reads == {Means(3), Clean()}
    assert of("views", "noisy").reads == {Sentences()}
    term_alone = Objective(Dropout(), positive=Positive(Mean()), negatives=[], terms=[MaskedLM()])
    assert not any(isinstance(r, Means) for r in term_alone.reads), "nothing is contrasted, so no draw is made"
    for request in (Clean(), Means(2)):
        assert request.encodes


@pytest.mark.parametrize("kind", ["clean", "mean", "noisy"])
def test_vectors_that_were_not_made_are_missed(kind: str) -> None:
    reps = replace(representations(), answers={}, noise_seed=None)
    with pytest.raises(RuntimeError, match=r"(no noise_seed|no part of the objective reads)"):
        of(kind, "views")(reps)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"positive": {"of": {"kind": "means"}}}, ["positive.of", "means", "'mean'"]),
        ({"positive": {"of": {"kind": "mean", "samples": 0}}}, ["samples", "greater than or equal to 1"]),
        ({"positive": {"of": {"kind": "noisy", "variance": -0.1}}}, ["variance", "greater than or equal to 0"]),
        ({"positive": {"of": {"kind": "noisy", "variance": float("inf")}}}, ["variance", "finite"]),
        ({"positive": {"of": {"kind": "clean", "samples": 3}}}, ["samples"]),
        ({"positive": {"scale": 0.0}}, ["positive.scale", "greater than 0"]),
        ({"positive": {"scale": float("inf")}}, ["positive.scale", "finite"]),
        ({"negatives": [{"kind": "in_batch", "of": {"kind": "mean", "samples": 1.5}}]}, ["samples", "integer"]),
        (
            {"positive": {"of": {"kind": "mean"}}, "dual_encoder": True},
            ["do not go with objective.dual_encoder; leave it out"],
        ),
        (
            {"positive": {"of": {"kind": "mean"}}, "view": {"kind": "dropout", "shared_mask": True}},
            ["do not go with objective.view.shared_mask; leave it out"],
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_reported_in_one_line(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        build(**data)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_equal_numbers_of_draws_are_drawn_once_and_others_apart() -> None:
    assert of("mean", "mean").reads == {Means(3)}
    apart = build(
        positive={"of": {"kind": "mean", "samples": 4}},
        negatives=[{"kind": "in_batch", "of": {"kind": "mean", "samples": 10}}],
    )
    assert apart.reads == {Means(4), Means(10)}


# Means over dropout draws


# More noise
