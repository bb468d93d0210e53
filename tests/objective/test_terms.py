"""Terms of sentence vectors, against loops."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.losses import group_whitening, self_guided
from opencse.objective.objective import Objective
from opencse.objective.terms.dimensions import DCL, BarlowTwins, WhitenedContrast
from opencse.objective.terms.distillation import Margin
from opencse.objective.terms.graded import Softmax, Triplet
from opencse.objective.terms.pairs import BidirectionalMargin, ContrastiveTension
from opencse.objective.terms.start import SelfGuided
from opencse.objective.vectors.requests import Draws, Margins
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.plain import Pair
from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.settings import validate
from opencse.streams import seed_of
from opencse.text.given import open_texts
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings


def given_views(anchor: Tensor, positive: Tensor, noise: int = 0) -> Representations:
    keys = torch.zeros(len(anchor), 2, dtype=torch.int64)
    return Representations(anchor, positive, anchor.unsqueeze(1)[:, :0], keys, noise_seed=noise)


def views(n: int, d: int, *, noise: int = 0, seed: int = 0, dtype: torch.dtype = torch.float64) -> Representations:
    random = torch.Generator().manual_seed(seed)
    first, second, mean = (torch.randn(rows, d, generator=random, dtype=torch.float64) for rows in (n, n, 1))
    return given_views((mean + first).to(dtype), (mean + 0.7 * first + 0.7 * second).to(dtype), noise)


def term(**settings: Any) -> BarlowTwins:
    return BarlowTwins(BarlowTwins.Settings(**settings))


def loss_by_loops(left: Tensor, right: Tensor, off_diagonal: float, *, centre: bool = False) -> float:
    """SimCSE++, eq. 4 with a plus before both sums, and the C_cd below it; 0 for a dimension of zeros."""
    a, b = ((view - view.mean(dim=0) * centre).T for view in (left, right))
    total = 0.0
    for c in range(len(a)):
        for e in range(len(b)):
            lengths = float(a[c].norm() * b[e].norm())
            value = float(a[c] @ b[e]) / lengths if lengths else 0.0
            total += (1 - value) ** 2 if c == e else off_diagonal * value**2
    return total


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize(("n", "d", "artificial"), [(2, 3, 0), (5, 9, 7)])
def test_the_loss_against_loops(n: int, d: int, artificial: int, centre: bool) -> None:
    """Artificial rows are standard normal, of the step's generator, and the same in both views."""
    reps = views(n, d, noise=8)
    noise = torch.Generator().manual_seed(seed_of(8, "barlow_twins"))
    rows = torch.randn(artificial, d, generator=noise, dtype=torch.float64)
    left, right = (torch.cat([view, rows]) for view in (reps.anchor, reps.positive))
    found = term(off_diagonal=0.8, artificial=artificial, centre=centre).loss(reps)
    assert found.item() == pytest.approx(loss_by_loops(left, right, 0.8, centre=centre), rel=1e-10)


@pytest.mark.parametrize("centre", [False, True])
def test_gradient(centre: bool) -> None:
    reps = views(4, 3)

    def loss(anchor: Tensor, positive: Tensor) -> Tensor:
        return term(artificial=6, centre=centre, off_diagonal=0.3).loss(given_views(anchor, positive, 4))

    assert torch.autograd.gradcheck(loss, [v.clone().requires_grad_() for v in (reps.anchor, reps.positive)])


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "artificial", "rank"),
    [(64, 768, 100, 164), (5, 12, 4, 9), (40, 12, 0, 12)],
)
def test_the_rank_of_the_correlation(n: int, d: int, artificial: int, rank: int, centre: bool) -> None:
    """SimCSE++, section 4.2: the batch bounds it, artificial rows raise the bound, the mean takes one."""
    found = term(artificial=artificial, centre=centre).diagnose(views(n, d, noise=3, dtype=torch.float32))
    assert list(found) == ["barlow_twins_rank"]
    assert found["barlow_twins_rank"].item() == (rank - 1 if centre and n + artificial <= d else rank)


def test_a_projector_reads_the_vectors_first(encoder: SentenceEncoder) -> None:
    reps = views(9, encoder.training_dimension, dtype=torch.float32)
    made = term(scaling="batch_norm", off_diagonal=0.012, projector=(7, 5))
    made.begin(encoder, batch_size=9, seed=1)
    assert made.projector is not None
    first, scale, shift, second = (made.projector.get_parameter(f"{n}.{w}") for n, w in PROJECTED)

    def normed(vectors: Tensor) -> Tensor:
        return (vectors - vectors.mean(0)) / (vectors.var(0, correction=0) + 1e-5).sqrt()

    a, b = (
        normed((normed(view @ first.T) * scale + shift).clamp(min=0) @ second.T)
        for view in (reps.anchor, reps.positive)
    )
    squares = (a.T @ b / 9 - torch.eye(5)).square()
    expected = (squares * (torch.eye(5) + 0.012 * (1 - torch.eye(5)))).sum()
    assert made.loss(reps).item() == pytest.approx(expected.item(), rel=1e-5)
    assert [float(w.detach().std()) for w in (first, second)] == pytest.approx([0.02, 0.02], rel=0.35), "as BERT's"


PROJECTED = [(0, "weight"), (1, "weight"), (1, "bias"), (3, "weight")]
Scaling = Literal["paper", "reference"]
SCALINGS: list[Scaling] = ["paper", "reference"]


def scaled_views(
    n: int, d: int, correlation: float = 0.7, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Representations:
    """Two views whose dimensions have means and scales of their own."""
    random = torch.Generator().manual_seed(seed)
    first, second, mean, scale = (torch.randn(rows, d, generator=random, dtype=torch.float64) for rows in (n, n, 1, 1))
    other = correlation * first + math.sqrt(1 - correlation**2) * second
    return given_views((mean + scale.exp() * first).to(dtype), (0.5 * mean + scale.exp() * other).to(dtype))


def dcl(scaling: Scaling = "paper", temperature: float = 5.0) -> DCL:
    return DCL(DCL.Settings(scaling=scaling, temperature=temperature))


def dcl_by_loops(reps: Representations, scaling: Scaling, temperature: float) -> float:
    """SimCSE++, eq. 5 and what stands below it, dimension after dimension; a constant one is 0."""
    n, d = reps.anchor.shape
    paper = scaling == "paper"

    def column(view: Tensor) -> Tensor:
        if len(set(view.tolist())) == 1:
            return torch.zeros_like(view)
        variance = view.var() if paper else view.var(correction=0) + 1e-5
        return (view - view.mean()) / variance.sqrt()

    total = 0.0
    for c in range(d):
        own = column(reps.anchor[:, c])
        s = [float(own @ column(reps.positive[:, e])) / temperature / (1 if paper else n) for e in range(d)]
        total -= math.log(math.exp(s[c]) / sum(math.exp(x) for x in s))
    return total if paper else total / d


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(("n", "d", "temperature"), [(2, 3, 5.0), (6, 4, 0.7), (4, 1, 0.7)])
def test_dcl_against_loops(n: int, d: int, temperature: float, scaling: Scaling) -> None:
    reps = scaled_views(n, d)
    expected = dcl_by_loops(reps, scaling, temperature)
    assert dcl(scaling, temperature).loss(reps).item() == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_constant_dimension_is_harmless(scaling: Scaling) -> None:
    plain = scaled_views(7, 4, dtype=torch.float32)
    views = [plain.anchor.clone(), plain.positive.clone()]
    views[0][:, 1] = views[1][:, 1] = views[1][:, 2] = 0.3
    now = given_views(views[0].clone(), views[1].clone())
    leaves = [view.requires_grad_() for view in views]
    loss = dcl(scaling).loss(given_views(leaves[0], leaves[1]))
    assert loss.item() == pytest.approx(dcl_by_loops(now, scaling, 5.0), rel=1e-4)
    anchor, positive = torch.autograd.grad(loss, leaves)
    assert anchor.isfinite().all()
    assert positive.isfinite().all()
    assert anchor[:, 0].abs().max() > 0
    assert scaling == "reference" or not (anchor[:, 1].any() or positive[:, 1:3].any())


N, D = 6, 32


def begun(encoder: SentenceEncoder, **chosen: Any) -> WhitenedContrast:
    term = WhitenedContrast(WhitenedContrast.Settings.model_validate(chosen))
    term.name = "terms.whitened"
    term.begin(encoder, batch_size=N, seed=0)
    assert isinstance(term.layer, Dense)
    term.layer.linear.weight.data *= 20
    return term.double()


def reps_of(copies: Tensor) -> Representations:
    made = Representations.of(copies[0], copies[1])
    return replace(made, answers={Draws(len(copies) - 2): copies[2:]} if len(copies) > 2 else {}, noise_seed=4)


def vectors(copies: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(N, D, generator=generator, dtype=torch.float64)
    noise = torch.randn(copies, N, D, generator=generator, dtype=torch.float64)
    return (base + 0.5 * noise).requires_grad_()


def orders(term: WhitenedContrast, reps: Representations, count: int) -> list[Tensor]:
    noise = term.noise(reps)
    return [torch.rand(D, generator=noise).argsort() for _ in range(count)]


def naive(term: WhitenedContrast, copies: Tensor, same: set[tuple[int, int]]) -> Tensor:
    """The loss sentence by sentence; copies are whitened one by one."""
    settings, layer = term.settings, term.layer
    assert isinstance(layer, Dense)
    linear = layer.linear
    count = len(copies)
    order = orders(term, reps_of(copies), count)
    options: dict[str, Any] = {"size": settings.group_size, "epsilon": settings.epsilon, "detached": settings.detached}
    if settings.rows == "copy":
        white = [list(group_whitening(copies[c], order[c], **options)) for c in range(count)]
    else:
        rows = [copies[c, i] for i in range(N) for c in range(count)]
        parts = [group_whitening(torch.stack(rows[p * N : (p + 1) * N]), order[p], **options) for p in range(count)]
        joined = [row for part in parts for row in part]
        white = [[joined[i * count + c] for i in range(N)] for c in range(count)]
    z = [[torch.tanh(linear.weight @ row + linear.bias) for row in copy] for copy in white]
    unit = [[row / row.norm() for row in copy] for copy in z]
    total = torch.zeros((), dtype=torch.float64)
    for c in range(1, count):
        for i in range(N):
            exps = {
                j: torch.exp(unit[0][i] @ unit[c][j] / settings.temperature) for j in range(N) if (i, j) not in same
            }
            total = total - torch.log(exps[i] / sum(exps.values())) / N
    return total


@pytest.mark.parametrize(
    "chosen", [{}, {"copies": 2}, {"copies": 4, "group_size": 5}, {"rows": "thirds"}, {"detached": True}]
)
def test_loss_and_gradients_by_loops(encoder: SentenceEncoder, chosen: dict[str, Any]) -> None:
    term, copies = begun(encoder, **chosen), vectors(chosen.get("copies", 3))
    reps = reps_of(copies)
    ours, theirs = term.loss(reps), naive(term, copies, set())
    assert abs(ours - theirs) < 1e-10
    of = [copies, *term.layer.parameters()]
    for a, b in zip(torch.autograd.grad(ours, of), torch.autograd.grad(theirs, of), strict=True):
        assert (a - b).abs().max() < 1e-10
        assert b.abs().max() > 1e-5


def test_equal_texts_are_no_negatives_unless_set(encoder: SentenceEncoder) -> None:
    copies = vectors()
    keys = torch.arange(2 * N).reshape(N, 2)
    keys[3] = keys[1]
    reps = replace(reps_of(copies), keys=keys)
    term = begun(encoder)
    assert abs(term.loss(reps) - naive(term, copies, {(1, 3), (3, 1)})) < 1e-10
    term = begun(encoder, mask_duplicates=False)
    assert abs(term.loss(reps) - naive(term, copies, set())) < 1e-10


FOUR = 4


def guided(encoder: SentenceEncoder, **chosen: Any) -> SelfGuided:
    term = SelfGuided(SelfGuided.Settings.model_validate({"size": 7, **chosen}))
    term.name = "terms.self_guided"
    term.begin(encoder, batch_size=FOUR, seed=0)
    return term


@pytest.fixture
def inputs(encoder: SentenceEncoder, sentences: list[str]) -> StepInputs:
    ids = encoder.tokenizer.encode([sentences[i][: 20 * (i + 1)] for i in range(FOUR)], 24)
    return StepInputs(encoder.tokenizer.pad(ids), FOUR, torch.arange(FOUR).reshape(FOUR, 1).repeat(1, 2))


def guided_reps(anchor: Tensor, inputs: StepInputs, layers: Tensor) -> Representations:
    return replace(Representations.of(anchor, anchor), keys=inputs.keys, computed={"terms.self_guided": layers})


def test_the_vectors_are_the_means_of_the_layers_of_the_start(encoder: SentenceEncoder, inputs: StepInputs) -> None:
    term = guided(encoder)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(0.1)  # the copy does not move with the encoder
    term.train()
    ours = term.compute(inputs, guided_reps(torch.eye(FOUR), inputs, torch.zeros(1)))
    assert not ours.requires_grad
    tokens = inputs.tokens
    with torch.no_grad():
        states = (
            term.start.eval()
            .backbone(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask, output_hidden_states=True)
            .hidden_states
        )
    assert len(ours) == len(states) == encoder.depth + 1
    for layer, state in zip(ours, states, strict=True):
        for i, real in enumerate(tokens.attention_mask.sum(dim=1).tolist()):
            torch.testing.assert_close(layer[i], state[i, :real].mean(dim=0), atol=1e-5, rtol=0)


def test_the_loss_is_of_projected_vectors_and_trains_the_projection(
    encoder: SentenceEncoder, inputs: StepInputs
) -> None:
    term = guided(encoder).double()
    anchor = torch.randn(FOUR, encoder.dimension, dtype=torch.float64, requires_grad=True)
    layers = term.compute(inputs, guided_reps(anchor, inputs, anchor))
    first, second = (term.projection[i] for i in (0, 2))  # type: ignore[index]

    def project(x: Tensor) -> Tensor:
        inner = torch.nn.functional.gelu(x @ first.weight.T + first.bias)
        return torch.nn.functional.gelu(inner @ second.weight.T + second.bias)

    loss = term.loss(guided_reps(anchor, inputs, layers))
    assert abs(loss - self_guided(project(anchor), project(layers))) < 1e-10
    torch.autograd.backward(loss)
    assert all(p.grad is not None and p.grad.any() for p in term.projection.parameters())
    assert anchor.grad is not None
    optimizer = build_optimizer(term.parameters(), TrainingSettings())
    assert sum(p.numel() for group in optimizer.param_groups for p in group["params"]) == 32 * 7 + 7 + 7 * 7 + 7
    assert any(name.startswith("start.") for name in term.state_dict())


def tension_reps(n: int = 5) -> Representations:
    anchor, positive = torch.randn(2, n, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return Representations.of(anchor, positive)


def test_the_first_pairs_are_one_sentence_and_the_others_two() -> None:
    reps, term = tension_reps(), ContrastiveTension(ContrastiveTension.Settings(negatives=60))
    first, second = term.pairs(reps)
    assert first[:5].tolist() == second[:5].tolist() == [0, 1, 2, 3, 4]
    drawn = set(zip(first[5:].tolist(), second[5:].tolist(), strict=True))
    assert drawn == {(i, j) for i in range(5) for j in range(5) if i != j}, "all pairs of two, no pair of one"
    again = term.pairs(reps)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])


def margin_term(**data: Any) -> Margin:
    return Margin(validate(Margin.Settings, {"kind": "margin", **data}, "test"))


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("loss", ["mse", "kl"])
def test_the_losses_by_loops(loss: str, similarity: str) -> None:
    random = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(FOUR, 3, generator=random, dtype=torch.float64) for _ in range(3))
    margins = torch.tensor([1.5, -0.5, 0.0, 2.0])
    reps = replace(Representations.of(a, b, c.unsqueeze(1)), answers={Margins(): margins})
    made = margin_term(loss=loss, similarity=similarity, factor=2.0, temperature=0.5)
    total, gap = 0.0, 0.0
    for i in range(FOUR):
        scores = []
        for other in (b[i], c[i]):
            dot = float(a[i] @ other)
            scores.append(2 * (dot if similarity == "dot" else dot / (float(a[i].norm()) * float(other.norm()))))
        margin = scores[0] - scores[1]
        gap += abs(margin - float(margins[i])) / FOUR
        if loss == "mse":
            total += (margin - float(margins[i])) ** 2 / FOUR
        else:
            p, q = (1 / (1 + math.exp(-value / 0.5)) for value in (margin, float(margins[i])))
            total += 0.25 * (q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))) / FOUR
    assert float(made.loss(reps)) == pytest.approx(total, rel=1e-10)
    assert float(made.diagnose(reps)["margin_gap"]) == pytest.approx(gap, rel=1e-10)


def test_rows_without_one_hard_negative_are_refused() -> None:
    objective = Objective(Pair(), terms=[Margin()])
    assert objective.label == "margin"
    for hard in (0, 2):
        with pytest.raises(UserError, match="needs one hard negative in each row"):
            objective.check_data("x.tsv", hard, "margin")


def test_data_without_hard_negatives_is_refused(tiny_folder: Path) -> None:
    pairs = open_texts([("A cat.", "A kitten."), ("Rain.", "A train.")])
    job = Run(text=pairs, recipe="triplet", model=str(tiny_folder), settings=("data.max_length=32",), dev=None)
    with pytest.raises(UserError, match="the triplet term needs a hard negative in each row"):
        job.open(Silent())
    with pytest.raises(ValueError, match="above the largest cosine distance"):
        Triplet.Settings(distance="cosine", margin=2.5)


def classifying(encoder: SentenceEncoder, classes: int = 3, seed: int = 1, **settings: object) -> Softmax:
    term = Softmax(Softmax.Settings.model_validate(settings))
    term.classes = classes
    term.begin(encoder, batch_size=4, seed=seed)
    return term


def test_the_first_weights_follow_from_the_seed(encoder: SentenceEncoder) -> None:
    one, again, other = (classifying(encoder, seed=seed).classifier for seed in (1, 1, 2))
    assert torch.equal(one.weight, again.weight)
    assert not torch.equal(one.weight, other.weight)
    assert one.weight.shape == (3, 3 * encoder.training_dimension)
    bound = one.in_features**-0.5
    assert 0.9 * bound < float(one.weight.detach().abs().max()) <= bound


def test_what_is_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="the data has 1; give rows of at least two classes"):
        classifying(encoder, classes=1)


def test_margins_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="alpha is the smaller margin"):
        BidirectionalMargin.Settings(alpha=0.4, beta=0.3)
