"""Barlow Twins: the loss against loops, its artificial rows, gradients, and the rank of the correlation matrix."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.decorrelation import centred
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.terms.barlow_twins import BarlowTwins
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations
from opencse.settings import validate
from opencse.streams import seed_of


def given_views(anchor: Tensor, positive: Tensor, noise: int | None = None) -> Representations:
    keys = torch.zeros(len(anchor), 2, dtype=torch.int64)
    return Representations(anchor, positive, anchor.unsqueeze(1)[:, :0], keys, noise_seed=noise)


def views(
    n: int, d: int, *, noise: int | None = None, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Representations:
    random = torch.Generator().manual_seed(seed)
    first, second, mean = (torch.randn(rows, d, generator=random, dtype=torch.float64) for rows in (n, n, 1))
    return given_views((mean + first).to(dtype), (mean + 0.7 * first + 0.7 * second).to(dtype), noise)


def generator(noise: int) -> torch.Generator:
    """What the term draws from in a step whose noise has this seed."""
    return torch.Generator().manual_seed(seed_of(noise, "barlow_twins"))


def term(**settings: Any) -> BarlowTwins:
    return BarlowTwins(BarlowTwins.Settings(**settings))


def loss_by_loops(left: Tensor, right: Tensor, off_diagonal: float, *, centre: bool = False) -> float:
    """SimCSE++, eq. 4 with a plus before both sums, and the C_cd below it; 0 for a dimension of zeros."""
    n, d = left.shape

    def column(view: Tensor, c: int) -> list[float]:
        values = [float(view[i, c]) for i in range(n)]
        mean = sum(values) / n if centre else 0.0
        return [x - mean for x in values]

    a, b = [column(left, c) for c in range(d)], [column(right, c) for c in range(d)]
    first, second = 0.0, 0.0
    for c in range(d):
        for e in range(d):
            top = sum(x * y for x, y in zip(a[c], b[e], strict=True))
            bottom = math.sqrt(sum(x * x for x in a[c])) * math.sqrt(sum(y * y for y in b[e]))
            value = top / bottom if bottom else 0.0
            if c == e:
                first += (1 - value) ** 2
            else:
                second += value**2
    return first + off_diagonal * second


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("off_diagonal", [0.005, 0.8, 0.0])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (6, 4), (5, 9), (4, 1)])
def test_the_loss_against_loops(n: int, d: int, off_diagonal: float, centre: bool) -> None:
    reps = views(n, d)
    expected = loss_by_loops(reps.anchor, reps.positive, off_diagonal, centre=centre)
    found = term(off_diagonal=off_diagonal, centre=centre).loss(reps)
    assert found.shape == ()
    assert found.item() == pytest.approx(expected, rel=1e-10)
    other = loss_by_loops(reps.anchor, reps.positive, off_diagonal, centre=not centre)
    assert abs(other - expected) > 1e-4, "centring counts"


@pytest.mark.parametrize("artificial", [0, 3])
def test_the_loss_of_the_authors_code_against_loops(artificial: int) -> None:
    """Their batch norm (torch's own), products over the rows, .012 on what is off the diagonal."""
    reps = views(6, 4, noise=5)
    rows = torch.randn(artificial, 4, generator=generator(5), dtype=torch.float64)
    norm = torch.nn.BatchNorm1d(4, affine=False).double()
    left, right = (norm(torch.cat([side, rows])).tolist() for side in (reps.anchor, reps.positive))
    expected = 0.0
    for c in range(4):
        for e in range(4):
            value = sum(x[c] * y[e] for x, y in zip(left, right, strict=True)) / len(left)
            expected += (1 - value) ** 2 if c == e else 0.012 * value**2
    found = [
        term(off_diagonal=0.012, artificial=artificial, **how).loss(views(6, 4, noise=5)).item()
        for how in ({"scaling": "batch_norm"}, {"centre": True})
    ]
    assert found[0] == pytest.approx(expected, rel=1e-12)
    assert abs(found[1] - expected) > 1e-7, "the 1e-5 counts"


def test_a_dead_dimension_is_harmless_under_batch_norm() -> None:
    reps = views(5, 3)
    anchor = reps.anchor.index_fill(1, torch.tensor([1]), 2.5).requires_grad_()
    loss = term(scaling="batch_norm").loss(given_views(anchor, reps.positive))
    (gradient,) = torch.autograd.grad(loss, anchor)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_closed_forms() -> None:
    d = 4
    identity = torch.eye(d, dtype=torch.float64)
    assert term(off_diagonal=0.7).loss(given_views(identity, 3 * identity)).item() == pytest.approx(0.0, abs=1e-15)
    opposite = term(off_diagonal=0.7).loss(given_views(identity, -identity)).item()
    assert opposite == pytest.approx(4 * d), "(1 - (-1))^2 each: the first sum has a plus"
    equal = torch.ones(3, d, dtype=torch.float64)
    assert term(off_diagonal=0.7).loss(given_views(equal, equal)).item() == pytest.approx(0.7 * d * (d - 1))
    swapped = term(off_diagonal=0.7).loss(given_views(identity, identity[[1, 0, 2, 3]])).item()
    assert swapped == pytest.approx(2 + 0.7 * 2)


@pytest.mark.parametrize("centre", [False, True])
def test_artificial_rows_are_the_same_in_both_views(centre: bool) -> None:
    """Standard normal, drawn from the step's generator, appended to each view's matrix."""
    reps = views(5, 4, noise=8)
    rows = torch.randn(7, 4, generator=generator(8), dtype=torch.float64)
    left, right = torch.cat([reps.anchor, rows]), torch.cat([reps.positive, rows])
    expected = loss_by_loops(left, right, 0.1, centre=centre)
    assert term(artificial=7, off_diagonal=0.1, centre=centre).loss(reps).item() == pytest.approx(expected, rel=1e-10)
    assert abs(expected - loss_by_loops(reps.anchor, reps.positive, 0.1, centre=centre)) > 1e-2


def test_artificial_rows_pull_the_correlation_to_the_identity() -> None:
    """What Table 2 shows: the more rows, the closer the start is to what the loss asks for."""
    losses = []
    for artificial in (0, 100, 300, 704):
        reps = views(64, 768, noise=1, dtype=torch.float32)
        losses.append(term(artificial=artificial).loss(reps).item())
    assert losses == sorted(losses, reverse=True)
    assert losses[3] < 0.1 * losses[0]


def test_artificial_rows_are_drawn_again_and_repeatably() -> None:
    first, again, other = (term(artificial=3).loss(views(5, 4, noise=seed)).item() for seed in (1, 1, 2))
    assert first == again
    assert first != other
    reps = views(5, 4, noise=1)
    assert term(artificial=3).loss(reps).item() == first
    assert term(artificial=3).loss(reps).item() == first, "a step's rows are the same, however often they are drawn"
    with pytest.raises(RuntimeError, match="no noise_seed"):
        term(artificial=3).loss(views(5, 4))
    before = torch.random.get_rng_state()
    term(artificial=3).loss(views(5, 4, noise=1))
    assert torch.equal(before, torch.random.get_rng_state()), "dropout's generator is left alone"


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("artificial", [0, 6])
def test_gradient(artificial: int, centre: bool) -> None:
    reps = views(4, 3)

    def loss(anchor: Tensor, positive: Tensor) -> Tensor:
        moved = given_views(anchor, positive, 4)
        return term(artificial=artificial, centre=centre, off_diagonal=0.3).loss(moved)

    leaves = [v.clone().requires_grad_() for v in (reps.anchor, reps.positive)]
    assert torch.autograd.gradcheck(loss, leaves)
    torch.autograd.backward(loss(*leaves))
    for leaf in leaves:
        assert leaf.grad is not None
        assert leaf.grad.abs().min() > 1e-6


@given(st.integers(2, 6), st.integers(2, 5), st.integers(0, 1000), st.floats(0.01, 100), st.floats(-5, 5))
@examples(30)
def test_invariances(n: int, d: int, seed: int, scale: float, shift: float) -> None:
    reps = views(n, d, seed=seed)
    random = torch.Generator().manual_seed(seed)
    rows, columns = torch.randperm(n, generator=random), torch.randperm(d, generator=random)
    shuffled = given_views(reps.anchor[rows][:, columns], scale * reps.positive[rows][:, columns])
    for centre in (False, True):
        loss = term(centre=centre).loss(reps).item()
        assert term(centre=centre).loss(shuffled).item() == pytest.approx(loss, rel=1e-8)
        assert term(centre=centre).loss(given_views(reps.positive, reps.anchor)).item() == pytest.approx(loss, rel=1e-8)
    moved = given_views(reps.anchor + shift, reps.positive)
    assert term(centre=True).loss(moved).item() == pytest.approx(term(centre=True).loss(reps).item(), rel=1e-6)


@pytest.mark.parametrize(("value", "centre"), [(0.0, False), (0.0, True), (0.1, True), (0.3, True), (1e4, True)])
def test_a_dead_dimension_is_harmless(value: float, centre: bool) -> None:
    plain = views(7, 4, dtype=torch.float32)
    anchor, positive = plain.anchor.clone(), plain.positive.clone()
    anchor[:, 1] = positive[:, 1] = positive[:, 2] = value
    anchor.requires_grad_()
    positive.requires_grad_()
    loss = term(centre=centre, off_diagonal=0.5).loss(given_views(anchor, positive))
    torch.autograd.backward(loss)
    left, right = (centred(v.detach()) if centre else v.detach() for v in (anchor, positive))
    assert not left[:, 1].any()
    assert loss.item() == pytest.approx(loss_by_loops(left, right, 0.5), rel=1e-4)
    for gradient, dead in ((anchor.grad, [1]), (positive.grad, [1, 2])):
        assert gradient is not None
        assert torch.isfinite(gradient).all()
        assert not gradient[:, dead].any()
        assert gradient[:, 0].abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("artificial", [0, 5])
def test_half_precision_is_computed_in_float32(artificial: int, dtype: torch.dtype) -> None:
    reps = views(16, 8, noise=1, dtype=dtype)
    wide = given_views(reps.anchor.float(), reps.positive.float(), 1)
    expected = term(artificial=artificial).loss(wide)
    assert expected.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        again = given_views(wide.anchor, wide.positive, 1)
        inside = term(artificial=artificial).loss(again)
    assert inside.item() == expected.item()
    assert term(artificial=artificial).loss(reps).item() == expected.item()


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "artificial", "rank"),
    [(64, 768, 0, 64), (64, 768, 100, 164), (64, 768, 300, 364), (5, 12, 4, 9), (40, 12, 0, 12), (8, 12, 5, 12)],
)
def test_the_rank_of_the_correlation(n: int, d: int, artificial: int, rank: int, centre: bool) -> None:
    """SimCSE++, section 4.2: the batch bounds it, artificial rows raise the bound, the mean takes one."""
    found = term(artificial=artificial, centre=centre).diagnose(views(n, d, noise=3, dtype=torch.float32))
    assert list(found) == ["barlow_twins_rank"]
    assert found["barlow_twins_rank"].item() == (rank - 1 if centre and n + artificial <= d else rank)


def test_the_rank_of_half_precision_vectors() -> None:
    found = term(artificial=3, centre=True).diagnose(views(6, 12, noise=3, dtype=torch.bfloat16))
    assert found["barlow_twins_rank"].item() == 8


def test_the_full_padding_gives_full_rank() -> None:
    found = term(artificial=704).diagnose(views(64, 768, noise=3, dtype=torch.float32))
    assert found["barlow_twins_rank"].item() == 768


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test.toml"))


def test_settings_and_what_it_reads() -> None:
    objective = build(terms=[{"kind": "barlow_twins"}])
    found = objective.terms[0]
    assert isinstance(found, BarlowTwins)
    assert found.settings.model_dump() == {
        "kind": "barlow_twins",
        "weight": 0.1,
        "off_diagonal": 0.005,
        "artificial": 0,
        "centre": False,
        "scaling": "unit",
        "projector": (),
    }
    assert found.reads == {Sentences()}
    assert build(negatives=[], terms=[{"kind": "barlow_twins"}]).reads == {Sentences()}
    reps = views(6, 4)
    both = build(terms=[{"kind": "barlow_twins", "weight": 0.3, "off_diagonal": 0.2}, {"kind": "dcl"}])
    outcome = both(reps)
    assert list(outcome.losses) == ["contrast", "barlow_twins", "dcl"]
    expected = 0.3 * loss_by_loops(reps.anchor, reps.positive, 0.2)
    assert outcome.losses["barlow_twins"].item() == pytest.approx(expected, rel=1e-6)
    assert set(both.diagnose(reps)) == {"barlow_twins_rank", "dcl_rank"}
    for data, words in (
        ({"artificial": -1}, ["artificial", "greater than or equal to 0"]),
        ({"off_diagonal": float("nan")}, ["off_diagonal"]),
        ({"weight": 0}, ["weight", "greater than 0"]),
        ({"lambda": 1.0}, ["'terms.0.barlow_twins.lambda'", "off_diagonal"]),
    ):
        with pytest.raises(UserError) as caught:
            build(terms=[{"kind": "barlow_twins", **data}])
        for word in words:
            assert word in str(caught.value)


def test_a_projector_reads_the_vectors_first(encoder: SentenceEncoder) -> None:
    random = torch.Generator().manual_seed(0)
    size = encoder.training_dimension
    anchor, positive = (torch.randn(9, size, generator=random) for _ in range(2))
    reps = given_views(anchor, positive)
    settings = BarlowTwins.Settings(scaling="batch_norm", off_diagonal=0.012, projector=(7, 5))
    term = BarlowTwins(settings)
    term.begin(encoder, batch_size=9, seed=1)
    term.train()
    assert term.projector is not None
    weights = dict(term.projector.named_parameters())
    first, scale, shift, second = (weights[name] for name in ("0.weight", "1.weight", "1.bias", "3.weight"))

    def projected(vectors: Tensor) -> Tensor:
        """Layer by layer, batch normalisation with the biased variance plus 1e-5."""
        inside = vectors @ first.T
        inside = (inside - inside.mean(0)) / (inside.var(0, correction=0) + 1e-5).sqrt()
        inside = (inside * scale + shift).clamp(min=0)
        outside = inside @ second.T
        return (outside - outside.mean(0)) / (outside.var(0, correction=0) + 1e-5).sqrt()  # once

    products = projected(anchor).T @ projected(positive) / 9
    squares = [(products[c, d] - 1) ** 2 if c == d else 0.012 * products[c, d] ** 2 for c in range(5) for d in range(5)]
    expected = torch.stack(squares).sum()
    assert term.loss(reps).item() == pytest.approx(expected.item(), rel=1e-5)
    assert [float(w.detach().std()) for w in (first, second)] == pytest.approx([0.02, 0.02], rel=0.35), (
        "BERT's first weights"
    )
    plain = BarlowTwins(BarlowTwins.Settings(scaling="batch_norm", off_diagonal=0.012)).loss(reps)
    assert plain.item() != pytest.approx(expected.item(), rel=0.01)
    assert sum(parameter.numel() for parameter in term.parameters()) == 7 * size + 7 + 7 + 5 * 7
    again = BarlowTwins(settings)
    again.begin(encoder, batch_size=9, seed=1)
    torch.testing.assert_close(again.loss(reps), term.loss(reps))
