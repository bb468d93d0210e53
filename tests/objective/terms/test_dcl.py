"""Dimension-wise contrast: both scalings against loops, their published regimes, gradients, and the edge cases."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.decorrelation import standardised
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.terms.dcl import DCL
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations
from opencse.settings import validate
from opencse.text.corpus import tokenise
from opencse.text.readers import Source

Scaling = Literal["paper", "reference"]
SCALINGS: list[Scaling] = ["paper", "reference"]


def given_views(anchor: Tensor, positive: Tensor) -> Representations:
    return Representations(anchor, positive, anchor.unsqueeze(1)[:, :0], torch.zeros(len(anchor), 2, dtype=torch.int64))


def views(
    n: int, d: int, correlation: float = 0.7, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Representations:
    """Two views whose dimensions have means and scales of their own."""
    random = torch.Generator().manual_seed(seed)
    first, second, mean, scale = (torch.randn(rows, d, generator=random, dtype=torch.float64) for rows in (n, n, 1, 1))
    other = correlation * first + math.sqrt(1 - correlation**2) * second
    return given_views((mean + scale.exp() * first).to(dtype), (0.5 * mean + scale.exp() * other).to(dtype))


def term(scaling: Scaling = "paper", temperature: float = 5.0) -> DCL:
    return DCL(DCL.Settings(scaling=scaling, temperature=temperature))


def loss_by_loops(reps: Representations, scaling: Scaling, temperature: float) -> float:
    """SimCSE++, eq. 5 and what stands below it, one exponential after the other; a constant dimension is 0."""
    n, d = reps.anchor.shape
    paper = scaling == "paper"

    def column(view: Tensor, c: int) -> list[float]:
        values = [float(view[i, c]) for i in range(n)]
        if len(set(values)) == 1:
            return [0.0] * n
        mean = sum(values) / n
        variance = sum((x - mean) ** 2 for x in values) / (n - 1 if paper else n)
        deviation = math.sqrt(variance if paper else variance + 1e-5)
        return [(x - mean) / deviation for x in values]

    left = [column(reps.anchor, c) for c in range(d)]
    right = [column(reps.positive, c) for c in range(d)]
    total = 0.0
    for c in range(d):
        s = [sum(x * y for x, y in zip(left[c], right[e], strict=True)) / temperature for e in range(d)]
        if not paper:
            s = [x / n for x in s]
        total -= math.log(math.exp(s[c]) / sum(math.exp(x) for x in s))
    return total if paper else total / d


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("temperature", [5.0, 0.7])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (6, 4), (5, 9), (4, 1)])
def test_the_loss_against_loops(n: int, d: int, temperature: float, scaling: Scaling) -> None:
    reps = views(n, d)
    expected = loss_by_loops(reps, scaling, temperature)
    assert term(scaling, temperature).loss(reps).item() == pytest.approx(expected, rel=1e-10, abs=1e-12)
    if d > 1 and n > 2:
        swapped = given_views(reps.positive, reps.anchor)  # the rows are the anchor's dimensions: one direction
        assert abs(loss_by_loops(swapped, scaling, temperature) - expected) > 1e-6


def test_the_scalings_differ_and_the_temperature_counts() -> None:
    reps = views(6, 4)
    losses = [term(scaling, t).loss(reps).item() for scaling in SCALINGS for t in (5.0, 0.7)]
    assert len({round(loss, 3) for loss in losses}) == 4


def logits(reps: Representations, scaling: Scaling) -> Tensor:
    """The matrix s at temperature 5, from the term's own parts."""
    ddof, eps = (1, 0.0) if scaling == "paper" else (0, 1e-5)
    left, right = (standardised(view, ddof=ddof, eps=eps) for view in (reps.anchor, reps.positive))
    return left.T @ right / 5.0 / (1.0 if scaling == "paper" else len(left))


@pytest.mark.parametrize(
    ("scaling", "diagonal", "spread", "most", "loss"),
    [("paper", 11.4, 1.59, 0.95, 25.0), ("reference", 0.180, 0.0252, 0.0016, 6.464)],
)
def test_the_regimes_of_paper_and_code(
    scaling: Scaling, diagonal: float, spread: float, most: float, loss: float
) -> None:
    """N = 64, D = 768, temperature 5, views correlated by .905: the numbers of the docstring."""
    reps = views(64, 768, 0.905, seed=1)
    s = logits(reps, scaling)
    off = s[~torch.eye(768, dtype=torch.bool)]
    assert s.diagonal().mean().item() == pytest.approx(diagonal, rel=0.01)
    assert off.std().item() == pytest.approx(spread, rel=0.01)
    largest = s.softmax(dim=1).max().item()
    assert largest > most if scaling == "paper" else largest == pytest.approx(most, rel=0.02)
    assert term(scaling).loss(reps).item() == pytest.approx(loss, rel=0.1 if scaling == "paper" else 1e-3)
    assert math.log(768) == pytest.approx(6.64, abs=0.01)


@pytest.mark.parametrize(("correlation", "loss", "gradient"), [(0.99, 1.2, 600), (0.89, 4.6, 2_400)])
def test_how_much_smaller_the_code_makes_it(correlation: float, loss: float, gradient: float) -> None:
    """The numbers in the recipes: N = 64, D = 768, temperature 5, over the standardised dimensions."""
    losses, norms = {}, {}
    for scaling in SCALINGS:
        random = torch.Generator().manual_seed(1)
        first, second = (torch.randn(64, 768, generator=random, dtype=torch.float64) for _ in range(2))
        reps = given_views(first, correlation * first + math.sqrt(1 - correlation**2) * second)
        for side in (reps.anchor, reps.positive):
            side.detach_().requires_grad_()
        made = term(scaling).loss(reps)
        losses[scaling] = made.item()
        norms[scaling] = torch.cat(torch.autograd.grad(made, [reps.anchor, reps.positive])).norm().item()
    assert losses["paper"] / losses["reference"] == pytest.approx(loss, rel=0.1)
    assert norms["paper"] / norms["reference"] == pytest.approx(gradient, rel=0.1)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_gradient_is_that_of_the_loops(scaling: Scaling) -> None:
    """Both views get gradient, through means and deviations as well."""
    reps = views(5, 3)
    anchor, positive = (v.clone().requires_grad_() for v in (reps.anchor, reps.positive))
    torch.autograd.backward(term(scaling, 0.9).loss(given_views(anchor, positive)))
    step = 1e-6
    for leaf, name in ((anchor, "anchor"), (positive, "positive")):
        assert leaf.grad is not None
        for i, c in ((0, 0), (2, 1), (4, 2)):
            move = torch.zeros(5, 3, dtype=torch.float64)
            move[i, c] = step
            ends = [
                loss_by_loops(
                    given_views(reps.anchor + sign * move, reps.positive)
                    if name == "anchor"
                    else given_views(reps.anchor, reps.positive + sign * move),
                    scaling,
                    0.9,
                )
                for sign in (1, -1)
            ]
            slope = (ends[0] - ends[1]) / (2 * step)
            assert abs(slope) > 1e-3
            assert leaf.grad[i, c].item() == pytest.approx(slope, rel=1e-5)


@given(st.integers(2, 6), st.integers(2, 5), st.integers(0, 1000), st.floats(0.01, 100), st.floats(-5, 5))
@examples(30)
def test_invariances(n: int, d: int, seed: int, scale: float, shift: float) -> None:
    """Order of examples and of dimensions, and in the paper's form each dimension's place and scale, do not count."""
    reps = views(n, d, seed=seed)
    random = torch.Generator().manual_seed(seed)
    rows, columns = torch.randperm(n, generator=random), torch.randperm(d, generator=random)
    for scaling in SCALINGS:
        loss = term(scaling).loss(reps).item()
        shuffled = given_views(reps.anchor[rows][:, columns], reps.positive[rows][:, columns])
        assert term(scaling).loss(shuffled).item() == pytest.approx(loss, rel=1e-9)
        assert term(scaling).loss(given_views(reps.anchor + shift, reps.positive)).item() == pytest.approx(
            loss, rel=1e-7
        )
    moved = given_views(scale * reps.anchor, scale * reps.positive)
    assert term().loss(moved).item() == pytest.approx(term().loss(reps).item(), rel=1e-7)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1e4])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_constant_dimension_is_harmless(scaling: Scaling, value: float) -> None:
    """Dead in both views, in one view, or all dimensions at once: finite, and the paper's form leaves them alone."""
    plain = views(7, 4, dtype=torch.float32)
    anchor, positive = plain.anchor.clone(), plain.positive.clone()
    anchor[:, 1] = positive[:, 1] = positive[:, 2] = value
    anchor.requires_grad_()
    positive.requires_grad_()
    loss = term(scaling).loss(given_views(anchor, positive))
    torch.autograd.backward(loss)
    now = given_views(anchor.detach(), positive.detach())
    assert loss.item() == pytest.approx(loss_by_loops(now, scaling, 5.0), rel=1e-4)
    assert anchor.grad is not None
    assert positive.grad is not None
    assert torch.isfinite(anchor.grad).all()
    assert torch.isfinite(positive.grad).all()
    assert anchor.grad[:, 0].abs().max() > 0
    if scaling == "paper":
        assert not anchor.grad[:, 1].any()
        assert not positive.grad[:, 1:3].any()
        left, right = (standardised(view.detach(), ddof=1, eps=0.0) for view in (anchor, positive))
        s = left.T @ right / 5.0
        assert not s[1].any(), "its logits are 0, so its loss is log D"
        assert not s[:, 2].any()
        assert s[0, 0].abs() > 0.1
    everything = term(scaling).loss(given_views(torch.full((3, 5), value), torch.full((3, 5), value))).item()
    assert everything == pytest.approx(math.log(5) * (5 if scaling == "paper" else 1), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_half_precision_is_computed_in_float32(scaling: Scaling, dtype: torch.dtype) -> None:
    reps = views(16, 8, dtype=dtype)
    wide = given_views(reps.anchor.float(), reps.positive.float())
    expected = term(scaling).loss(wide)
    assert expected.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        inside = term(scaling).loss(wide)
    assert inside.dtype == torch.float32
    assert inside.item() == expected.item()
    assert term(scaling).loss(reps).item() == expected.item()


def test_a_batch_of_one_is_refused() -> None:
    with pytest.raises(UserError, match=r"dcl term.*training\.batch_size") as caught:
        term().loss(views(1, 4))
    assert "\n" not in str(caught.value)
    assert math.isfinite(term().loss(views(2, 4)).item())


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(("n", "d", "rank"), [(64, 768, 63), (5, 12, 4), (40, 12, 12), (13, 12, 12), (12, 12, 11)])
def test_the_rank_of_the_cross_correlation(n: int, d: int, rank: int, scaling: Scaling) -> None:
    """Of float32 vectors, as in training: at most N - 1, not blurred by rounding."""
    half = views(n, d, dtype=torch.bfloat16)
    assert term(scaling).diagnose(half)["dcl_rank"].item() == rank
    reps = views(n, d, dtype=torch.float32)
    found = term(scaling).diagnose(reps)
    assert list(found) == ["dcl_rank"]
    assert found["dcl_rank"].item() == rank
    if d < 100:
        whole = logits(given_views(reps.anchor.double(), reps.positive.double()), scaling)
        assert torch.linalg.matrix_rank(whole).item() == rank


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test.toml"))


def test_settings_and_what_it_reads() -> None:
    objective = build(terms=[{"kind": "dcl"}])
    found = objective.terms[0]
    assert isinstance(found, DCL)
    assert (found.weight, found.settings.temperature, found.settings.scaling) == (0.1, 5.0, "paper")
    assert found.reads == {Sentences()}
    assert build(negatives=[], terms=[{"kind": "dcl"}]).reads == {Sentences()}
    reps = views(6, 4)
    outcome = build(negatives=[], terms=[{"kind": "dcl", "weight": 0.3, "scaling": "reference"}])(reps)
    assert list(outcome.losses) == ["dcl"]
    assert outcome.total.item() == pytest.approx(0.3 * loss_by_loops(reps, "reference", 5.0), rel=1e-6)
    for data, words in (
        ({"scaling": "code"}, ["scaling", "paper", "reference"]),
        ({"temperature": 0}, ["temperature", "greater than 0"]),
        ({"weight": 0}, ["weight", "greater than 0"]),
        ({"tau": 1.0}, ["'terms.0.dcl.tau'", "temperature"]),
    ):
        with pytest.raises(UserError) as caught:
            build(terms=[{"kind": "dcl", **data}])
        for word in words:
            assert word in str(caught.value)


def test_alone_it_reads_two_views_of_one_forward(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences[:20]))
    encoder = SentenceEncoder.load(tiny_folder, device="cpu").train()
    objective = build(negatives=[], terms=[{"kind": "dcl"}])
    inputs = InputBuilder(tokenise(Source(str(text)), encoder.tokenizer, 16), encoder.tokenizer, objective, 1)
    step = inputs.build(torch.arange(8).numpy(), 0)
    seen: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    reps = objective.represent(encoder, step)
    assert seen == [16]
    assert not torch.equal(reps.anchor, reps.positive), "dropout makes two views"
    torch.autograd.backward(objective(reps).total)
    gradient = encoder.backbone.get_input_embeddings().weight.grad
    assert isinstance(gradient, Tensor)
    assert gradient.abs().max() > 0
    # Alone and with contrast, it is the same loss.
    beside = build(terms=[{"kind": "dcl"}])(reps)
    assert beside.losses["dcl"].item() == objective(reps).losses["dcl"].item()
