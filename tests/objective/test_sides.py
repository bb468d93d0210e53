"""Which vectors a similarity is between: SimCSE++'s Table 1, for positives and negatives separately."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import Encoded, SentenceEncoder
from opencse.errors import UserError
from opencse.objective.objective import Objective, ObjectiveSettings
from opencse.objective.representations import Needs, Representations, StepInputs, represent
from opencse.objective.sides import Anchors, Clean, Mean, Noisy, Views, needs_of, sides
from opencse.settings import validate

N, D = 4, 6
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
    return Objective(validate(ObjectiveSettings, data, "test"))


def of(positive: str, negatives: str, **data: Any) -> Objective:
    return build(
        positive={"of": KINDS[positive]},
        negatives=[{"kind": "in_batch", "of": KINDS[negatives], "weight": 0.7}],
        temperature=TAU,
        **data,
    )


def made() -> Representations:
    random = torch.Generator().manual_seed(2)
    anchor, positive, clean = (torch.randn(N, D, generator=random, dtype=torch.float64) for _ in range(3))
    return Representations(
        anchor,
        positive,
        anchor.unsqueeze(1)[:, :0],
        torch.arange(2 * N).reshape(N, 2),
        clean=clean,
        means=torch.randn(2, N, D, generator=random, dtype=torch.float64),
        noise=torch.Generator().manual_seed(9),
    )


def chosen(kind: str, reps: Representations, noise: torch.Generator) -> tuple[list[list[float]], list[list[float]]]:
    """The left and right vectors as the definitions have them."""
    assert reps.clean is not None
    assert reps.means is not None
    if kind == "noisy":
        draws = [torch.randn(N, D, generator=noise, dtype=torch.float64) * math.sqrt(0.2) for _ in range(2)]
        return (reps.anchor + draws[0]).tolist(), (reps.positive + draws[1]).tolist()
    if kind == "noisy positives":
        draw = torch.randn(N, D, generator=noise, dtype=torch.float64) * math.sqrt(0.2)
        return reps.anchor.tolist(), (reps.positive + draw).tolist()
    if kind == "shared mean":
        one = [[(x + y) / 2 for x, y in zip(*rows, strict=True)] for rows in zip(*reps.means.tolist(), strict=True)]
        return one, one
    vectors = {
        "views": (reps.anchor, reps.positive),
        "anchors": (reps.anchor, reps.anchor),
        "clean": (reps.clean, reps.clean),
        "mean": (reps.means[0], reps.means[1]),
    }[kind]
    return vectors[0].tolist(), vectors[1].tolist()


def cosine(u: list[float], v: list[float]) -> float:
    dot = sum(x * y for x, y in zip(u, v, strict=True))
    return dot / math.sqrt(sum(x * x for x in u)) / math.sqrt(sum(y * y for y in v))


@pytest.mark.parametrize(("positive", "negatives"), list(itertools.product(KINDS, KINDS)))
def test_the_loss_of_every_pair_of_sides_as_loops(positive: str, negatives: str) -> None:
    reps, noise = made(), torch.Generator().manual_seed(9)
    (a, b), (c, d) = chosen(positive, reps, noise), chosen(negatives, reps, noise)
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
    losses = [of(p, n)(made()).total.item() for p, n in itertools.product(KINDS, KINDS)]
    alike = 2 * len(KINDS)  # a positive that is its own twin has cosine 1: anchors, clean and a shared mean
    assert len({round(loss, 9) for loss in losses}) == len(losses) - alike
    assert build().settings.positive.of == Views()
    assert (
        of("views", "views")(made()).total.item()
        == build(negatives=[{"kind": "in_batch", "weight": 0.7}], temperature=TAU)(made()).total.item()
    )


@pytest.mark.parametrize("kind", ["views", "anchors", "clean", "mean", "noisy"])
def test_gradient_reaches_both_sides(kind: str) -> None:
    reps = made()
    assert reps.clean is not None
    assert reps.means is not None
    leaves = {"anchor": reps.anchor, "positive": reps.positive, "clean": reps.clean, "means": reps.means}
    for leaf in leaves.values():
        leaf.requires_grad_()
    left, right = sides(of(kind, kind).settings.positive.of, reps)
    torch.autograd.backward((left[1] * right[2]).sum())
    touched = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    expected = {"views": ["anchor", "positive"], "noisy": ["anchor", "positive"], "anchors": ["anchor"]}
    assert list(touched) == expected.get(kind, ["clean" if kind == "clean" else "means"])
    rows = sum(int((gradient.abs().sum(dim=-1) > 0).sum()) for gradient in touched.values())
    assert rows == 2


def test_what_each_side_needs() -> None:
    assert needs_of(Views()) == needs_of(Anchors()) == needs_of(Noisy()) == Needs(sentences=True)
    assert needs_of(Clean()) == Needs(clean=True)
    assert needs_of(Mean(samples=4)) == Needs(samples=4)
    assert Mean().samples == 10
    assert Noisy().variance == 0.1
    assert of("mean", "clean").needs == Needs(samples=3, clean=True)
    assert of("views", "noisy").needs == Needs(sentences=True)
    term_alone = build(positive={"of": KINDS["mean"]}, negatives=[], terms=[{"kind": "mlm"}])
    assert term_alone.needs.samples is None, "nothing is contrasted, so no draw is made"
    for needs in (Needs(clean=True), Needs(samples=2)):
        assert needs.reads_sentences


@pytest.mark.parametrize("kind", ["clean", "mean", "noisy"])
def test_vectors_that_were_not_made_are_missed(kind: str) -> None:
    reps = replace(made(), clean=None, means=None, noise=None)
    with pytest.raises(RuntimeError, match="this step was given no"):
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
            {
                "positive": {"of": {"kind": "mean", "samples": 4}},
                "negatives": [{"kind": "in_batch", "of": {"kind": "mean", "samples": 10}}],
            },
            ["numbers of dropout draws, 4 and 10", "give both the same"],
        ),
        (
            {"positive": {"of": {"kind": "mean"}}, "dual_encoder": True},
            ["do not go with objective.dual_encoder; set it to false"],
        ),
        (
            {"positive": {"of": {"kind": "mean"}}, "view": {"kind": "dropout", "shared_mask": True}},
            ["do not go with objective.view.shared_mask; set it to false"],
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_told_in_one_line(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        build(**data)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_equal_numbers_of_draws_go_together() -> None:
    assert of("mean", "mean").needs == Needs(samples=3)


# Means over dropout draws


def step(encoder: SentenceEncoder, texts: list[str], n: int, noise_seed: int = 0) -> StepInputs:
    keys = torch.arange(len(texts)).reshape(-1, n).T.contiguous()
    return StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts)), n, keys, noise_seed=noise_seed)


def seen(encoder: SentenceEncoder) -> list[Tensor]:
    """The vectors of every forward from now on."""
    outputs: list[Tensor] = []

    def keep(module: object, args: object, output: Encoded) -> None:
        assert output.sentence is not None
        outputs.append(output.sentence)

    encoder.register_forward_hook(keep)
    return outputs


@pytest.mark.parametrize("samples", [1, 3])
def test_means_are_over_fresh_draws_of_each_view(encoder: SentenceEncoder, sentences: list[str], samples: int) -> None:
    """One sentence throughout: whatever differs is dropout, and every row has a mask of its own."""
    outputs = seen(encoder)
    reps = represent(encoder, step(encoder, [sentences[0]] * 3 * N, N), Needs(hard=True, samples=samples))
    assert [len(output) for output in outputs] == [3 * N + samples * 2 * N]
    (rows,) = outputs
    assert torch.pdist(rows).min() > 1e-3
    assert torch.equal(reps.anchor, rows[:N])
    assert torch.equal(reps.positive, rows[N : 2 * N])
    assert torch.equal(reps.hard[:, 0], rows[2 * N : 3 * N])
    assert reps.means is not None
    assert reps.means.shape == (2, N, 32)
    for view, i in itertools.product(range(2), range(N)):
        draws = [rows[3 * N + k * 2 * N + view * N + i] for k in range(samples)]
        assert torch.allclose(reps.means[view, i], sum(draws, torch.zeros(32)) / samples, atol=1e-6)


def test_means_are_of_the_right_texts(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.eval()
    needs = Needs(sentences=True, hard=True, samples=3, layers=frozenset({1}))
    reps = represent(encoder, step(encoder, sentences[: 3 * N], N), needs)
    plain = represent(encoder, step(encoder, sentences[: 3 * N], N), replace(needs, samples=None))
    assert reps.means is not None
    assert torch.pdist(torch.cat([reps.anchor, reps.positive])).min() > 1e-2
    for left, right in (
        (reps.means[0], reps.anchor),
        (reps.means[1], reps.positive),
        (reps.hard, plain.hard),
        (reps.layers[1], plain.layers[1]),
    ):
        assert left.shape == right.shape
        assert torch.allclose(left, right, atol=1e-5)
    assert plain.means is None


def test_variance_over_draws_falls_as_one_over_their_number(encoder: SentenceEncoder) -> None:
    """SimCSE++, section 3.1: the mean of K draws has 1/K of the variance of one."""
    inputs = step(encoder, ["a cat sleeps"] * 400, 200)
    variances = {}
    torch.manual_seed(0)
    for samples in (1, 8):
        with torch.no_grad():
            means = represent(encoder, inputs, Needs(samples=samples)).means
        assert means is not None
        variances[samples] = [float(view.var(dim=0).mean()) for view in means]
    for view in range(2):
        assert variances[1][view] > 1e-4
        assert variances[1][view] / variances[8][view] == pytest.approx(8, rel=0.2)


def test_gradient_flows_through_every_draw(encoder: SentenceEncoder, sentences: list[str]) -> None:
    outputs = seen(encoder)
    reps = represent(encoder, step(encoder, sentences[: 2 * N], N), Needs(samples=2))
    outputs[0].retain_grad()
    assert reps.means is not None
    torch.autograd.backward((reps.means * torch.arange(1.0, 33.0)).sum())
    gradient = outputs[0].grad
    assert gradient is not None
    assert torch.equal(gradient[: 2 * N], torch.zeros(2 * N, 32))
    assert torch.allclose(gradient[2 * N :], (torch.arange(1.0, 33.0) / 2).expand(4 * N, -1))


# More noise


def test_moments_of_the_noise() -> None:
    zeros, count = torch.zeros(300, 100, dtype=torch.float64), 300 * 100
    ones = zeros + 1
    for variance in (0.1, 2.0):
        noise = torch.Generator().manual_seed(4)
        reps = Representations(zeros, ones, zeros.unsqueeze(1)[:, :0], torch.zeros(300, 2), noise=noise)
        left, right = sides(Noisy(variance=variance), reps)
        again, _ = sides(Noisy(variance=variance), reps)
        for draw in (left, right - 1, again):
            assert abs(float(draw.mean())) < 5 * math.sqrt(variance / count)
            assert float(draw.var()) == pytest.approx(variance, rel=5 * math.sqrt(2 / count))
        for one, other in ((left, right - 1), (left, again)):  # fresh for each side and each use
            assert abs(float((one * other).mean())) < 5 * variance / math.sqrt(count)
        # on every number, not once a row or a column
        assert float(left.mean(dim=0).var()) == pytest.approx(variance / 300, rel=0.7)
        assert float(left.mean(dim=1).var()) == pytest.approx(variance / 100, rel=0.7)


def test_no_variance_is_no_noise() -> None:
    reps = made()
    left, right = sides(Noisy(variance=0.0), reps)
    assert torch.equal(left, reps.anchor)
    assert torch.equal(right, reps.positive)


def noise_of(encoder: SentenceEncoder, texts: list[str], noise_seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The noise on both sides, and the state of torch's own generator afterwards."""
    reps = represent(encoder, step(encoder, texts, len(texts) // 2, noise_seed), Needs(sentences=True))
    left, right = sides(Noisy(variance=1.0), reps)
    return left - reps.anchor, right - reps.positive, torch.get_rng_state()


def test_noise_depends_on_the_seed_alone(encoder: SentenceEncoder, sentences: list[str]) -> None:
    torch.manual_seed(0)
    first = noise_of(encoder, sentences[: 2 * N], 5)
    torch.manual_seed(1)
    same = noise_of(encoder, sentences[10 : 10 + 2 * N], 5)  # other texts, other dropout
    torch.manual_seed(0)
    other = noise_of(encoder, sentences[: 2 * N], 6)
    for side in range(2):
        assert torch.allclose(first[side], same[side], atol=1e-6)
        assert not torch.allclose(first[side], other[side], atol=0.1)
    torch.manual_seed(0)
    represent(encoder, step(encoder, sentences[: 2 * N], N, 5), Needs(sentences=True))
    assert torch.equal(torch.get_rng_state(), first[2]), "dropout's generator is not drawn from"


def test_noise_in_half_precision_keeps_the_type() -> None:
    half = torch.ones(2, 3, dtype=torch.bfloat16)
    noise = torch.Generator().manual_seed(0)
    reps = Representations(half, half, half.unsqueeze(1)[:, :0], torch.zeros(2, 2), noise=noise)
    left, right = sides(Noisy(), reps)
    assert left.dtype == right.dtype == torch.bfloat16
