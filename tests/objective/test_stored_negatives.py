"""Negatives of earlier steps, of layers and of rewritten texts: queue, bank, SSCL's layers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fuzzing import examples
from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.negatives.stored import MomentumQueue, VectorQueue
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import Layer
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.base import DerivesPositives
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
    return objective_of(negatives=negatives)


def source(objective: Objective) -> MomentumQueue:
    found = objective.negatives[-1]
    assert isinstance(found, MomentumQueue)
    return found


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
        queued.append((source(objective).queue.vectors.clone(), source(objective).queue.keys.clone()))
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
    start = weights(source(objective).average.encoder)
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
    for name, p in source(objective).average.encoder.named_parameters():
        assert torch.allclose(p, other.get_parameter(name), atol=1e-6)
        gap = (p - headed.get_parameter(name)).abs().max()
        assert gap > 1e-4 or "key.bias" in name, f"{name} did not move, so nothing was tested"
    assert len({tuple(keys.tolist()) for _, keys in queued}) == len(sizes)


def test_random_weights_come_from_the_seed(headed: SentenceEncoder) -> None:
    state, own = torch.get_rng_state(), weights(headed)
    one, same, other = (weights(source(begun(headed, init="random", seed=seed)).average.encoder) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), state)
    for name, p in one.items():
        assert torch.equal(same[name], p)
        if name.startswith("projection"):
            assert torch.equal(own[name], p)
        elif p.ndim == 2:
            assert not torch.equal(own[name], p)
            assert not torch.equal(other[name], p)


@pytest.mark.parametrize("size", [0, True, "0x"])
def test_a_wrong_size_is_reported_in_plain_words(size: Any) -> None:
    with pytest.raises(UserError, match=r"size is a number of sentences \(160\) or a multiple of the batch") as caught:
        build(size=size)
    assert "\n" not in str(caught.value)


def test_a_size_is_a_number_or_a_multiple_of_the_batch(encoder: SentenceEncoder) -> None:
    for size, batch_size, expected in (
        (160, 64, 160),
        ("2.5x", 64, 160),
        ("2.4x", 7, 17),
    ):
        objective = build(size=size)
        assert objective.negatives_per_anchor(batch_size, 0) == expected + batch_size - 1
        objective.begin(encoder, batch_size=batch_size, seed=1)
        queue = source(objective).queue
        assert queue.size == len(queue.stored) == expected
        assert objective.negatives_per_anchor(2, 3) == expected + 1  # a queue keeps the size it has
    with pytest.raises(UserError, match=r"size 0\.1x is no sentence at a batch of 4; raise it"):
        build(size="0.1x").begin(encoder, batch_size=4, seed=1)


def test_random_weights_are_no_start_for_adapters(encoder: SentenceEncoder) -> None:
    encoder.adapted = True
    build(size=4).begin(encoder, batch_size=4, seed=0)
    with pytest.raises(UserError, match='LoRA trains none of them; set init = "pretrained"'):
        build(size=4, init="random").begin(encoder, batch_size=4, seed=0)


D = 3


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
DISTINCT = [[10 * i, 10 * i + 1] for i in range(N)]


def layered(
    *others: dict[str, Any],
    view: dict[str, Any] | None = None,
    **layers: Any,
) -> Objective:
    negatives = [*others, {"kind": "layers", **layers}]
    return objective_of(view=view or {"kind": "dropout"}, negatives=negatives, temperature=TAU)


def example(keys: list[list[int]] = DISTINCT, rows: int = 2 * N) -> Representations:
    random = torch.Generator().manual_seed(4)
    a, b = torch.randn(2, N, D, generator=random, dtype=torch.float64).requires_grad_()
    layers: dict[Request[Any], Tensor] = {
        Layer(number): torch.randn(rows, D, generator=random, dtype=torch.float64).requires_grad_()
        for number in (-2, -3, 0)
    }
    return Representations(a, b, a.unsqueeze(1)[:, :0], torch.tensor(keys), layers)


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
    derived = {"kind": "output_gaussian"}
    assert isinstance(layered(IN_BATCH, views="anchor", view=derived).view, DerivesPositives)
    with pytest.raises(
        UserError, match=r'set views = "anchor".*the view output_gaussian makes the positives. vectors of the anchors'
    ):
        layered(IN_BATCH, views="both", view=derived)


def step(encoder: SentenceEncoder, sentences: list[str]) -> StepInputs:
    rows = encoder.tokenize([*sentences[:N], *sentences[N : 2 * N]])
    return StepInputs(encoder.tokenizer.pad(rows), N, torch.arange(2 * N).reshape(2, N).T)


def started(encoder: SentenceEncoder, layers: list[int]) -> Objective:
    """As a run starts: the encoder is known, then parts begin."""
    objective = layered(layers=layers)
    objective.check_encoder(encoder)
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
    with pytest.raises(UserError, match=r"leaves no negatives for the plain loss; add in_batch negatives"):
        layered({"kind": "layers", "layers": [0], "average_with_plain": True}, average_with_plain=True)
    assert layered(IN_BATCH, average_with_plain=True).negatives[1].averaged_with_plain
