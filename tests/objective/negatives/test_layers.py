"""Intermediate layers as negatives against SSCL's eq. 4 and the authors' 5N columns, in loops."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.negatives.layers import Layers
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.step_losses import StepLosses
from opencse.objective.vectors.requests import Layer, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.base import DerivesPositives
from opencse.settings import validate

N, D, TAU = 4, 3, 0.4
IN_BATCH: dict[str, Any] = {"kind": "in_batch"}
REFERENCE: dict[str, Any] = {"layers": [-2, -3], "average_with_plain": True}
# Texts as numbers: anchor and positive of each example. Anchors 0 and 2 are equal, so are positive 1 and anchor 3.
DUPLICATES = [[1, 2], [3, 4], [1, 6], [4, 8]]
DISTINCT = [[10 * i, 10 * i + 1] for i in range(N)]


def build(
    *others: dict[str, Any],
    similarity: str = "cosine",
    mask: bool = True,
    view: dict[str, Any] | None = None,
    **layers: Any,
) -> Objective:
    data = {
        "view": view or {"kind": "dropout"},
        "negatives": [*others, {"kind": "layers", **layers}],
        "temperature": TAU,
        "similarity": similarity,
        "mask_duplicates": mask,
    }
    return Objective.from_settings(validate(ObjectiveSettings, data, "test.toml"))


def example(keys: list[list[int]] = DISTINCT, rows: int = 2 * N) -> Representations:
    random = torch.Generator().manual_seed(4)
    a, b = torch.randn(2, N, D, generator=random, dtype=torch.float64).requires_grad_()
    layers: dict[Request[Any], Tensor] = {
        Layer(number): torch.randn(rows, D, generator=random, dtype=torch.float64).requires_grad_()
        for number in (-2, -3, 0)
    }
    return Representations(a, b, a.unsqueeze(1)[:, :0], torch.tensor(keys), layers)


def sim(u: Tensor, v: Tensor, kind: str) -> float:
    u, v = u.detach(), v.detach()
    return float(u @ v / (u.norm() * v.norm() if kind == "cosine" else 1.0))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_equation_4_as_it_is_written(similarity: str) -> None:
    """The negative of the own sentence alone, in addition to the in-batch terms: 2N pairs over the batch's N rows."""
    reps = example()
    objective = build(IN_BATCH, similarity=similarity, columns="own", views="anchor")
    a, b, h = reps.anchor, reps.positive, reps[Layer(-2)]
    expected = 0.0
    for i in range(N):
        below = sum(math.exp(sim(a[i], b[j], similarity) / TAU) for j in range(N))
        below += math.exp(sim(a[i], h[i], similarity) / TAU)
        expected -= math.log(math.exp(sim(a[i], b[i], similarity) / TAU) / below) / N
    assert objective(reps).total.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [2, N, 16, 64])
def test_equation_4_sums_the_own_column_over_the_batch(n: int) -> None:
    """A naive sum over j = 1 .. N of both terms, as printed but for the views; a weight of 64 is that at 64 alone."""
    random = torch.Generator().manual_seed(n)
    a, b, h = torch.randn(3, n, D, generator=random, dtype=torch.float64)
    keys = torch.arange(2 * n).reshape(n, 2)
    reps = Representations(a, b, a.unsqueeze(1)[:, :0], keys, {Layer(-2): torch.cat([h, h])})
    expected = 0.0
    for i in range(n):
        top = math.exp(sim(a[i], b[i], "cosine") / TAU)
        below = 0.0
        for j in range(n):
            below += math.exp(sim(a[i], b[j], "cosine") / TAU) + math.exp(sim(a[i], h[i], "cosine") / TAU)
        expected -= math.log(top / below) / n
    own: dict[str, Any] = {"columns": "own", "views": "anchor"}
    found = build(IN_BATCH, weight="batch", **own)(reps).total
    assert found.item() == pytest.approx(expected, rel=1e-12)
    fixed = build(IN_BATCH, weight=64.0, **own)(reps).total
    if n == 64:
        assert torch.equal(found, fixed)
    else:
        assert fixed.item() - found.item() > 0.3


@pytest.mark.parametrize("average", [True, False])
def test_the_authors_5n_columns(average: bool) -> None:
    """[a.b | a.n1 | a.n2 of layer -2 | the same of layer -3], cross-entropy with labels i; averaged with the plain."""
    reps = example()
    a, b = reps.anchor.tolist(), reps.positive.tolist()
    rows = [*b]
    for layer in (-2, -3):
        rows += reps[Layer(layer)][:N].tolist()
        rows += reps[Layer(layer)][N:].tolist()
    assert len(rows) == 5 * N
    whole, plain = 0.0, 0.0
    for i in range(N):
        logits = [sim(torch.tensor(a[i]), torch.tensor(row), "cosine") / TAU for row in rows]
        whole += (math.log(sum(map(math.exp, logits))) - logits[i]) / N
        plain += (math.log(sum(map(math.exp, logits[:N]))) - logits[i]) / N
    objective = build(IN_BATCH, **{**REFERENCE, "average_with_plain": average})
    expected = (whole + plain) / 2 if average else whole
    assert objective(reps).total.item() == pytest.approx(expected, rel=1e-5)
    assert whole > plain + 0.1
    assert objective.negatives_per_anchor(N, 0) == 5 * N - 1


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("columns", ["all", "own"])
@pytest.mark.parametrize("views", ["both", "anchor"])
@pytest.mark.parametrize("layers", [[-2], [-3, 0, -2]])
def test_every_setting_against_loops(layers: list[int], views: str, columns: str, weight: float, mask: bool) -> None:
    reps = example(DUPLICATES)
    objective = build(IN_BATCH, layers=layers, views=views, columns=columns, weight=weight, mask=mask)
    a, b = reps.anchor, reps.positive
    expected, masked, count = 0.0, 0, []
    similarities: list[float] = []
    for i in range(N):
        below = math.exp(sim(a[i], b[i], "cosine") / TAU)
        for j in range(N):
            clash = mask and i != j and bool(set(DUPLICATES[i]) & set(DUPLICATES[j]))
            if i != j:
                masked += clash
                below += 0 if clash else math.exp(sim(a[i], b[j], "cosine") / TAU)
                similarities += [] if clash else [sim(a[i], b[j], "cosine")]
        count.append(0)
        for layer, view, j in itertools.product(layers, range(2 if views == "both" else 1), range(N)):
            if columns == "own" and j != i:
                continue
            count[-1] += 1
            if mask and i != j and set(DUPLICATES[i]) & set(DUPLICATES[j]):
                masked += 1
                continue
            value = sim(a[i], reps[Layer(layer)][view * N + j], "cosine")
            similarities.append(value)
            below += weight * math.exp(value / TAU)
        expected -= math.log(math.exp(sim(a[i], b[i], "cosine") / TAU) / below) / N
    outcome: StepLosses = objective(reps)
    assert outcome.total.item() == pytest.approx(expected, rel=1e-12)
    assert outcome.report["duplicates_masked"].item() == masked
    assert (masked > 0) == mask
    assert outcome.report["negative_similarity"].item() == pytest.approx(
        sum(similarities) / len(similarities), rel=1e-5
    )
    per_layer = (2 if views == "both" else 1) * (N if columns == "all" else 1)
    assert set(count) == {len(layers) * per_layer}
    assert objective.negatives_per_anchor(N, 0) == N - 1 + count[0]
    found = objective.negatives[1].columns(reps, objective.scoring).dense()
    assert found.logits.shape == (N, count[0])


def test_the_own_text_is_a_negative_though_all_texts_are_equal() -> None:
    reps = example([[7, 7]] * N)
    columns = build().negatives[0].columns(reps, build().scoring).dense()
    own = torch.eye(N, dtype=torch.bool).repeat(1, 2)
    assert torch.equal(columns.left_out, ~own)


@pytest.mark.parametrize("columns", ["all", "own"])
@pytest.mark.parametrize("detach", [True, False])
def test_where_the_gradient_goes(detach: bool, columns: str) -> None:
    reps = example()
    torch.autograd.backward(build(IN_BATCH, detach=detach, columns=columns, layers=[-2]).forward(reps).total)
    assert reps[Layer(-3)].grad is None
    if detach:
        assert reps[Layer(-2)].grad is None
    else:
        gradient = reps[Layer(-2)].grad
        assert gradient is not None
        assert gradient.abs().amin(dim=1).min() > 1e-6


def test_detached_or_not_the_loss_is_the_same() -> None:
    losses = [build(IN_BATCH, detach=detach)(example()).total.item() for detach in (True, False)]
    assert losses[0] == losses[1] != build(IN_BATCH, columns="own")(example()).total.item()


def test_a_view_without_positives_of_its_own_has_the_anchors_alone() -> None:
    reps = example(rows=N)
    objective = build(IN_BATCH, views="anchor")
    full = example()
    full = replace(full, answers={Layer(-2): torch.cat([reps[Layer(-2)], full[Layer(-2)][N:]])})
    assert objective(reps).total.item() == objective(full).total.item()
    with pytest.raises(RuntimeError, match="no intermediate vectors"):
        build(IN_BATCH, views="both")(reps)
    derived = {"kind": "output_gaussian"}
    assert isinstance(build(IN_BATCH, views="anchor", view=derived).view, DerivesPositives)
    with pytest.raises(UserError, match=r'the view output_gaussian makes them of the anchors.*set views = "anchor"'):
        build(IN_BATCH, views="both", view=derived)


def test_needs() -> None:
    assert build(layers=[-2, 0]).reads == {Sentences(), *(Layer(n) for n in [-2, 0])}


def step(encoder: SentenceEncoder, sentences: list[str]) -> StepInputs:
    rows = encoder.tokenize([*sentences[:N], *sentences[N : 2 * N]])
    return StepInputs(encoder.tokenizer.pad(rows), N, torch.arange(2 * N).reshape(2, N).T)


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_step_of_a_real_encoder(tiny_folder: Path, sentences: list[str], pooling: str, head: bool) -> None:
    """The authors' default, from the hidden states themselves: pooling and head are shared by the layers."""
    encoder = SentenceEncoder.load(tiny_folder, pooling=pooling, device="cpu")
    if head:
        encoder.projection = Dense.mlp_head(32, torch.Generator().manual_seed(1))
        encoder.projection.linear.weight.data *= 20
    inputs = step(encoder, sentences)
    objective = build(IN_BATCH, **REFERENCE)
    objective.begin(encoder, batch_size=N, seed=0)
    with torch.no_grad():
        found = objective(objective.represent(encoder, inputs)).total.item()
        mask = inputs.tokens.attention_mask
        output = encoder.backbone(
            input_ids=inputs.tokens.input_ids, attention_mask=mask, output_hidden_states=True
        ).hidden_states
    vectors = {}
    for layer in (1, 2, 3):
        rows = []
        for row in range(2 * N):
            states = output[layer][row].double()
            pooled = states[0] if pooling == "cls" else states[mask[row].bool()].mean(dim=0)
            if head:
                assert isinstance(encoder.projection, Dense)
                linear = encoder.projection.linear
                pooled = torch.tanh(linear.weight.detach().double() @ pooled + linear.bias.detach().double())
            rows.append(pooled)
        vectors[layer] = rows
    expected = 0.0
    for i in range(N):
        anchor, positive = vectors[3][i], vectors[3][N + i]
        plain = sum(math.exp(sim(anchor, vectors[3][N + j], "cosine") / TAU) for j in range(N))
        extra = sum(math.exp(sim(anchor, row, "cosine") / TAU) for layer in (1, 2) for row in vectors[layer])
        target = sim(anchor, positive, "cosine") / TAU
        expected += (math.log(plain) - target + math.log(plain + extra) - target) / 2 / N
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("detach", [True, False])
def test_the_loss_changes_the_layer_through_its_own_vector(
    encoder: SentenceEncoder, sentences: list[str], detach: bool
) -> None:
    """Detached, the gradient of layer 1 comes through the last layer alone; else through its own columns too."""
    gradients = []
    for without in (detach, True):
        encoder.zero_grad()
        torch.manual_seed(3)
        objective = build(IN_BATCH, layers=[1], detach=without)
        torch.autograd.backward(objective(objective.represent(encoder, step(encoder, sentences))).total)
        found = [encoder.backbone.get_parameter(f"encoder.layer.{k}.output.dense.weight").grad for k in (0, 1)]
        gradients.append([g.clone() for g in found if g is not None])
    (below, above), (below_alone, above_alone) = gradients
    assert above.abs().max() > 0
    assert torch.allclose(above, above_alone, atol=1e-7)  # what comes after layer 1 does not see the difference
    assert torch.allclose(below, below_alone, atol=1e-7) == detach


def started(encoder: SentenceEncoder, layers: list[int]) -> Objective:
    """As a run starts: the encoder is known, then parts begin."""
    objective = build(layers=layers)
    objective.check(Context(objective, encoder=encoder))
    objective.begin(encoder, batch_size=N, seed=0)
    return objective


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([-1], r"-1 is the last layer, the anchor itself; take -2, or one from 0 to 2"),
        ([3], r"3 is the last layer, the anchor itself"),
        ([4], r"no layer 4; take one from 0 to 2, or -2 to -4"),
        ([-2, -5], r"no layer -5; take one from 0 to 2, or -2 to -4"),
        ([-2, 2], r"-2 and 2 are the same layer; give it once"),
        ([1, 0, 1], r"1 and 1 are the same layer; give it once"),
    ],
    ids=str,
)
def test_layers_that_are_not_there(encoder: SentenceEncoder, layers: list[int], words: str) -> None:
    with pytest.raises(UserError, match=f"^layers: .*{words}") as caught:
        started(encoder, layers)
    assert "\n" not in str(caught.value)


def test_every_layer_before_the_last_is_there(encoder: SentenceEncoder, sentences: list[str]) -> None:
    for layers in ([0, 1, 2], [-2, -3, -4]):
        objective = started(encoder, layers)
        with torch.no_grad():
            assert objective(objective.represent(encoder, step(encoder, sentences))).total.item() > 0


def test_a_backbone_without_layers(encoder: SentenceEncoder) -> None:
    encoder.backbone.config.num_hidden_layers = 0
    with pytest.raises(UserError, match="no intermediate layer; drop the layers negatives"):
        started(encoder, [0])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"layers": []}, "at least 1 item"),
        ({"layers": [1.5]}, "valid integer"),
        ({"columns": "some"}, "'all' or 'own'"),
        ({"views": "positive"}, "'both' or 'anchor'"),
        ({"weight": 0}, "greater than 0"),
        ({"weight": float("inf")}, "greater than 0"),
        ({"weight": True}, "greater than 0"),
        ({"weight": "bath"}, 'or "batch"'),
        ({"layer": [-2]}, "did you mean 'layers'"),
    ],
    ids=str,
)
def test_wrong_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        build(**settings)


def test_an_average_needs_something_plain() -> None:
    with pytest.raises(UserError, match=r"leaves no negatives for the plain loss; add in_batch negatives") as caught:
        build(average_with_plain=True)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="leaves no negatives"):
        build({"kind": "layers", "layers": [0], "average_with_plain": True}, average_with_plain=True)
    assert build(IN_BATCH, average_with_plain=True).negatives[1].averaged_with_plain
    assert build({"kind": "layers", "layers": [0]}, average_with_plain=True).negatives[1].averaged_with_plain
    assert not build().negatives[0].averaged_with_plain
    validate(ObjectiveSettings, {"negatives": [], "terms": [{"kind": "mlm"}]}, "test")


def test_the_defaults_are_the_papers() -> None:
    chosen = validate(ObjectiveSettings, {"negatives": [{"kind": "layers"}]}, "test").negatives[0]
    assert isinstance(chosen, Layers.Settings)
    assert (chosen.layers, chosen.columns, chosen.views) == ((-2,), "all", "both")
    assert (chosen.detach, chosen.average_with_plain, chosen.weight) == (False, False, 1.0)
