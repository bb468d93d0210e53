"""Negatives of earlier steps, of layers and of rewritten texts: queue, bank, SSCL's layers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fuzzing import examples
from opencse.encoder.average import MovingAverage
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.columns import Scoring
from opencse.objective.context import Context
from opencse.objective.negatives.derived import RewrittenTexts
from opencse.objective.negatives.stored import MemoryBank, MomentumQueue, VectorQueue
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.requests import Layer
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.base import DerivesPositives
from opencse.settings import validate
from opencse.text.tokenizer import Tokens
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings

N = 4
MOMENTUM = 0.7


@pytest.fixture
def headed(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with a training head, whose vectors have another number of dimensions."""
    encoder = tiny_encoder.twin()
    torch.manual_seed(1)
    encoder.projection = Dense(32, 20)
    return encoder


def build(*, others: tuple[dict[str, Any], ...] = ({"kind": "in_batch"},), **queue: Any) -> Objective:
    negatives = [*others, {"kind": "momentum_queue", "momentum": MOMENTUM, "size": 6, **queue}]
    return Objective.from_settings(validate(ObjectiveSettings, {"negatives": negatives}, "test.toml"))


def source(objective: Objective) -> MomentumQueue:
    found = objective.negatives[-1]
    assert isinstance(found, MomentumQueue)
    return found


def queue_of(objective: Objective) -> VectorQueue:
    queue = source(objective).queue
    assert queue is not None
    return queue


def average_of(objective: Objective) -> MovingAverage:
    average = source(objective).average
    assert average is not None
    return average


def step_inputs(encoder: SentenceEncoder, texts: list[str], keys: list[int]) -> StepInputs:
    """Anchors, and positives that are other texts; ``keys`` are the anchors'."""
    rows = encoder.tokenize([*texts, *(f"so {text} indeed" for text in texts)])
    both = torch.tensor([[key, -key - 1] for key in keys])
    return StepInputs(encoder.tokenizer.pad(rows), len(texts), both)


def weights(encoder: SentenceEncoder) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in encoder.named_parameters()}


def steps(
    encoder: SentenceEncoder, objective: Objective, batches: list[StepInputs]
) -> tuple[list[dict[str, Tensor]], list[tuple[Tensor, Tensor]]]:
    """Real steps in the trainer's order; the weights and the queue that each one saw."""
    optimizer = build_optimizer(encoder.parameters(), TrainingSettings(learning_rate=0.01))
    seen, queued = [], []
    for inputs in batches:
        encoder.train()
        objective.train()
        seen.append(weights(encoder))
        queued.append((queue_of(objective).vectors.clone(), queue_of(objective).keys.clone()))
        reps = objective.represent(encoder, inputs)
        torch.autograd.backward(objective(reps).total)
        objective.after_backward(encoder, [inputs], [reps.detached()])
        optimizer.step()
        optimizer.zero_grad()
    assert all(p.grad is None and not p.requires_grad for p in objective.parameters())
    return seen, queued


def batches(encoder: SentenceEncoder, sentences: list[str], sizes: tuple[int, ...]) -> list[StepInputs]:
    cuts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [step_inputs(encoder, sentences[a:b], list(range(100 + a, 100 + b))) for a, b in itertools.pairwise(cuts)]


def begun(encoder: SentenceEncoder, *, batch_size: int = N, seed: int = 5, **queue: Any) -> Objective:
    objective = build(**queue)
    objective.begin(encoder, batch_size=batch_size, seed=seed)
    return objective


def test_each_step_is_the_papers(headed: SentenceEncoder, sentences: list[str]) -> None:
    """Queue and loss of every step, from the weights of every step alone: eq. 6 unrolled, eq. 7 in loops."""
    objective = begun(headed)
    start = weights(average_of(objective).encoder)
    sizes = (4, 4, 3, 4, 7, 2, 4)
    data = batches(headed, sentences, sizes)
    seen, queued = steps(headed, objective, data)
    other = headed.twin()
    list_of_vectors: list[Tensor] = []
    list_of_keys: list[int] = []
    for t, inputs in enumerate(data):
        vectors, keys = queued[t]
        assert sorted(keys.tolist()) == sorted(list_of_keys), "a step saw another queue"
        for vector, key in zip(vectors, keys.tolist(), strict=True):
            assert torch.allclose(vector, list_of_vectors[list_of_keys.index(key)], atol=1e-6)
        assert not set(keys.tolist()) & set(inputs.keys[:, 0].tolist())
        # eq. 6 unrolled: theta_m = m^(t+1) theta_m0 + (1 - m) sum_s m^(t-s) theta_s, the weights of this step included
        with torch.no_grad():
            for name, p in other.named_parameters():
                mean = MOMENTUM ** (t + 1) * start[name]
                for s in range(t + 1):
                    mean = mean + (1 - MOMENTUM) * MOMENTUM ** (t - s) * seen[s][name]
                p.copy_(mean)
            new = other.eval()(inputs.anchors).sentence
        list_of_vectors = [*list_of_vectors, *new][-6:]
        list_of_keys = [*list_of_keys, *inputs.keys[:, 0].tolist()][-6:]
    for name, p in average_of(objective).encoder.named_parameters():
        assert torch.allclose(p, other.get_parameter(name), atol=1e-6)
        gap = (p - headed.get_parameter(name)).abs().max()
        assert gap > 1e-4 or "key.bias" in name, f"{name} did not move, so nothing was tested"
    assert len({tuple(keys.tolist()) for _, keys in queued}) == len(sizes)


def test_no_dropout_in_the_queue_not_even_in_attention(headed: SentenceEncoder, sentences: list[str]) -> None:
    attention = 0
    for name, module in headed.named_modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.9 if ".attention.self." in name else 0.0
            attention += module.p > 0
    assert attention == 3
    inputs = batches(headed, sentences, (N,))[0]
    objective = begun(headed.train())
    objective.train()
    before = [module.training for module in (*headed.modules(), *objective.modules())]
    with torch.no_grad():
        reps = objective.represent(headed, inputs)
        objective.after_backward(headed, [inputs], [reps])
        noisy = headed(inputs.anchors).sentence
        clean = headed.eval()(inputs.anchors).sentence
        headed.train()
    assert torch.allclose(queue_of(objective).vectors, clean, atol=1e-6)
    assert not torch.allclose(noisy, clean, atol=1e-3)
    assert [module.training for module in (*headed.modules(), *objective.modules())] == before
    assert all(before)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("head", ["momentum", "online"])
def test_which_head_makes_the_vectors(headed: SentenceEncoder, sentences: list[str], head: str, kept: bool) -> None:
    """The dense layers that are kept go with the head of training."""
    if kept:
        headed.dense.append(Dense(32, 24))
        headed.projection = None
    objective = begun(headed, head=head)
    follower = average_of(objective).encoder
    names = {name for name, _ in follower.named_parameters() if not name.startswith("backbone.")}
    prefix = "dense.0" if kept else "projection"
    assert names == ({f"{prefix}.linear.weight", f"{prefix}.linear.bias"} if head == "momentum" else set())
    inputs = batches(headed, sentences, (N,))[0]
    start = headed.twin()
    with torch.no_grad():
        for p in headed.parameters():
            p.add_(torch.randn_like(p) * 0.05)
        mixed = headed.twin()
        for name, p in mixed.named_parameters():
            if head == "momentum" or name.startswith("backbone."):
                p.copy_(MOMENTUM * start.get_parameter(name) + (1 - MOMENTUM) * p)
        reps = objective.represent(headed, inputs)
        assert len(queue_of(objective)) == 0
        objective.after_backward(headed, [inputs], [reps])
        expected = mixed.eval()(inputs.anchors).sentence
        unmixed = headed.eval()(inputs.anchors).sentence
    assert queue_of(objective).stored.shape == (6, 24 if kept else 20)
    assert torch.allclose(queue_of(objective).vectors, expected, atol=1e-5)
    assert not torch.allclose(unmixed, expected, atol=1e-2)


def test_random_weights_come_from_the_seed(headed: SentenceEncoder) -> None:
    state, own = torch.get_rng_state(), weights(headed)
    one, same, other = (weights(average_of(begun(headed, init="random", seed=seed)).encoder) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), state)
    for name, p in one.items():
        assert torch.equal(same[name], p)
        if name.startswith("projection"):
            assert torch.equal(own[name], p)
        elif p.ndim == 2:
            assert not torch.equal(own[name], p)
            assert not torch.equal(other[name], p)


def test_state_goes_to_a_checkpoint_and_back(headed: SentenceEncoder, sentences: list[str]) -> None:
    objective = begun(headed, init="random")
    data = batches(headed, sentences, (4, 3, 2))
    steps(headed, objective, data[:2])
    state = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    other = begun(headed, init="random", seed=77)
    assert len(queue_of(other)) == 0
    other.load_state_dict(state)
    assert len(queue_of(other)) == 6
    for objective_of in (objective, other):
        with torch.no_grad():
            objective_of.after_backward(headed, [data[2]], [objective_of.represent(headed, data[2])])
    for name, tensor in objective.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
        if "queue" in name:
            assert not torch.equal(tensor, state[name]), name
    assert sum("queue" in name for name in state) == 3


def settings(**queue: Any) -> ObjectiveSettings:
    return validate(ObjectiveSettings, {"negatives": [{"kind": "momentum_queue", **queue}]}, "test.toml")


def queued_objective(**queue: Any) -> Objective:
    negatives = [{"kind": "in_batch"}, {"kind": "momentum_queue", **queue}]
    return Objective.from_settings(validate(ObjectiveSettings, {"negatives": negatives}, "test.toml"))


@pytest.mark.parametrize("size", [0, True, 2.5, "-1x", "0x", None])
def test_a_wrong_size_is_reported_in_plain_words(size: Any) -> None:
    with pytest.raises(UserError, match=r"size is a number of sentences \(160\) or a multiple of the batch") as caught:
        settings(size=size)
    assert "\n" not in str(caught.value)


def test_a_size_is_a_number_or_a_multiple_of_the_batch(encoder: SentenceEncoder) -> None:
    for size, batch_size, expected in (
        (160, 64, 160),
        ("2.5x", 64, 160),
        ("2.4x", 7, 17),
    ):
        objective = queued_objective(size=size)
        assert objective.negatives_per_anchor(batch_size, 0) == expected + batch_size - 1
        objective.begin(encoder, batch_size=batch_size, seed=1)
        assert isinstance(source := objective.negatives[-1], MomentumQueue)
        assert source.queue is not None
        assert source.queue.size == len(source.queue.stored) == expected
        assert objective.negatives_per_anchor(2, 3) == expected + 1  # a queue keeps the size it has
    with pytest.raises(UserError, match=r"size 0\.1x is no sentence at a batch of 4; raise it"):
        queued_objective(size="0.1x").begin(encoder, batch_size=4, seed=1)


def test_random_weights_are_no_start_for_adapters(encoder: SentenceEncoder) -> None:
    encoder.adapted = True
    queued_objective(size=4).begin(encoder, batch_size=4, seed=0)
    with pytest.raises(UserError, match='LoRA trains none of them; set init = "pretrained"'):
        queued_objective(size=4, init="random").begin(encoder, batch_size=4, seed=0)


D = 3
COSINE = Scoring("cosine", 0.5, True)


def anchors_of(n: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed)).to(dtype) + 0.5


def reps_of(anchor: Tensor, keys: Sequence[int], positives: Sequence[int] | None = None) -> Representations:
    others = [key + 1000 for key in keys] if positives is None else positives
    both = torch.tensor([list(keys), list(others)]).T
    return Representations(anchor, anchor.detach(), anchor.new_zeros(len(anchor), 0, D), both)


def no_inputs(n: int) -> StepInputs:
    """What the bank does not read."""
    return StepInputs(
        Tokens(torch.zeros(n, 1, dtype=torch.int64), torch.ones(n, 1, dtype=torch.int64)), n, torch.zeros(1)
    )


@pytest.fixture(scope="module")
def narrow(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with a training head, whose vectors have another number of dimensions."""
    encoder = tiny_encoder.twin()
    encoder.projection = Dense(32, D)
    return encoder


def begun_bank(encoder: SentenceEncoder, batch_size: int, **data: Any) -> MemoryBank:
    bank = MemoryBank(validate(MemoryBank.Settings, {"kind": "memory_bank", **data}, "test"))
    bank.begin(encoder, batch_size=batch_size, seed=0)
    return bank


def test_the_bank_is_state(narrow: SentenceEncoder) -> None:
    bank, other = begun_bank(narrow, 2, steps=2), begun_bank(narrow, 2, steps=2)
    for step in range(3):
        bank.after_backward(narrow, [no_inputs(2)], [reps_of(anchors_of(2, seed=step), [0, 1])])
    reps = reps_of(anchors_of(2, seed=9), [0, 7])
    other.load_state_dict({name: value.clone() for name, value in bank.state_dict().items()})
    found, wanted = other.columns(reps, COSINE).dense(), bank.columns(reps, COSINE).dense()
    assert torch.equal(found.logits, wanted.logits)
    assert torch.equal(found.left_out, wanted.left_out)
    assert found.left_out.any()
    assert not list(bank.parameters())


CPU = torch.device("cpu")


@examples(60)
@given(st.integers(1, 9), st.lists(st.integers(0, 12), max_size=12))
def test_the_ring_is_a_list_whose_oldest_fall_out(size: int, pushes: list[int]) -> None:
    queue = VectorQueue(size, 2, device=CPU, dtype=torch.float32)
    expected: list[int] = []
    number = 0
    for count in pushes:
        new = list(range(number, number + count))
        number += count
        expected = (expected + new)[-size:]
        queue.push(torch.tensor([[float(i), -1.0] for i in new]).reshape(-1, 2), torch.tensor(new, dtype=torch.int64))
        assert len(queue) == len(expected)
        assert sorted(queue.keys.tolist()) == expected
        assert queue.vectors[:, 0].tolist() == [float(key) for key in queue.keys]
        assert (queue.vectors[:, 1] == -1).all()
    assert queue.stored.shape == (size, 2)


TAU = 0.4
IN_BATCH: dict[str, Any] = {"kind": "in_batch"}
REFERENCE: dict[str, Any] = {"layers": [-2, -3], "average_with_plain": True}
DISTINCT = [[10 * i, 10 * i + 1] for i in range(N)]


def layered(
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


@pytest.mark.parametrize("columns", ["all", "own"])
@pytest.mark.parametrize("detach", [True, False])
def test_where_the_gradient_goes(detach: bool, columns: str) -> None:
    reps = example()
    torch.autograd.backward(layered(IN_BATCH, detach=detach, columns=columns, layers=[-2]).forward(reps).total)
    assert reps[Layer(-3)].grad is None
    if detach:
        assert reps[Layer(-2)].grad is None
    else:
        gradient = reps[Layer(-2)].grad
        assert gradient is not None
        assert gradient.abs().amin(dim=1).min() > 1e-6


def test_a_view_without_positives_of_its_own_has_the_anchors_alone() -> None:
    reps = example(rows=N)
    objective = layered(IN_BATCH, views="anchor")
    full = example()
    full = replace(full, answers={Layer(-2): torch.cat([reps[Layer(-2)], full[Layer(-2)][N:]])})
    assert objective(reps).total.item() == objective(full).total.item()
    with pytest.raises(RuntimeError, match="no intermediate vectors"):
        layered(IN_BATCH, views="both")(reps)
    derived = {"kind": "output_gaussian"}
    assert isinstance(layered(IN_BATCH, views="anchor", view=derived).view, DerivesPositives)
    with pytest.raises(UserError, match=r'the view output_gaussian makes them of the anchors.*set views = "anchor"'):
        layered(IN_BATCH, views="both", view=derived)


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
    objective = layered(IN_BATCH, **REFERENCE)
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


def started(encoder: SentenceEncoder, layers: list[int]) -> Objective:
    """As a run starts: the encoder is known, then parts begin."""
    objective = layered(layers=layers)
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


def test_an_average_needs_something_plain() -> None:
    with pytest.raises(UserError, match=r"leaves no negatives for the plain loss; add in_batch negatives") as caught:
        layered(average_with_plain=True)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="leaves no negatives"):
        layered({"kind": "layers", "layers": [0], "average_with_plain": True}, average_with_plain=True)
    assert layered(IN_BATCH, average_with_plain=True).negatives[1].averaged_with_plain
    assert layered({"kind": "layers", "layers": [0]}, average_with_plain=True).negatives[1].averaged_with_plain
    assert not layered().negatives[0].averaged_with_plain
    validate(ObjectiveSettings, {"negatives": [], "terms": [{"kind": "mlm"}]}, "test")


@pytest.mark.parametrize("side", ["anchor", "positive"])
def test_columns_equal_loops(side: str) -> None:
    generator = torch.Generator().manual_seed(0)
    anchor, positive, changed = (torch.randn(4, 5, generator=generator, dtype=torch.float64) for _ in range(3))
    source = RewrittenTexts(RewrittenTexts.Settings(template="not {text}", side=side, weight=0.5))
    keys = torch.zeros(4, 2, dtype=torch.long)  # equal texts count too
    reps = Representations(anchor, positive, anchor[:, None][:, :0], keys, {source.request: changed})
    logits = source.columns(reps, Scoring(temperature=0.1)).dense().weighted()
    left = anchor if side == "anchor" else positive
    for i in range(4):
        for j in range(4):
            cosine = left[i] @ changed[j] / (left[i].norm() * changed[j].norm())
            assert math.isclose(float(logits[i, j]), float(cosine) / 0.1 + math.log(0.5), abs_tol=1e-10)
    assert source.count(4, 0) == 4
