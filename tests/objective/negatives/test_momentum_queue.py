"""The momentum queue against ESimCSE's eq. 6 and 7 in loops: contents, weights, order within a step, state."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from opencse.encoder.average import MovingAverage
from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.modules.dense import Dense
from opencse.objective.negatives.momentum_queue import MomentumQueue
from opencse.objective.negatives.vector_queue import VectorQueue
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.step_losses import StepLosses
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import validate
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings

CPU = torch.device("cpu")
N = 4
MOMENTUM = 0.7


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
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


@dataclass
class Run:
    """Real steps in the trainer's order, and what was there at each."""

    encoder: SentenceEncoder
    objective: Objective
    seen: list[dict[str, Tensor]] = field(default_factory=list)
    queued: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    outcomes: list[StepLosses] = field(default_factory=list)
    inputs: list[StepInputs] = field(default_factory=list)

    def steps(self, batches: list[StepInputs], rate: float = 0.01) -> Run:
        parameters = [*self.encoder.parameters(), *self.objective.parameters()]
        optimizer = build_optimizer(parameters, TrainingSettings(learning_rate=rate))
        for inputs in batches:
            self.encoder.train()
            self.objective.train()
            self.seen.append(weights(self.encoder))
            self.queued.append((queue_of(self.objective).vectors.clone(), queue_of(self.objective).keys.clone()))
            reps = self.objective.represent(self.encoder, inputs)
            outcome = self.objective(reps)
            torch.autograd.backward(outcome.total)
            self.objective.after_backward(self.encoder, [inputs], [reps.detached()])
            optimizer.step()
            optimizer.zero_grad()
            self.outcomes.append(outcome)
            self.inputs.append(inputs)
        return self


def batches(encoder: SentenceEncoder, sentences: list[str], sizes: tuple[int, ...]) -> list[StepInputs]:
    cuts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [step_inputs(encoder, sentences[a:b], list(range(100 + a, 100 + b))) for a, b in itertools.pairwise(cuts)]


def begun(encoder: SentenceEncoder, *, batch_size: int = N, seed: int = 5, **queue: Any) -> Objective:
    objective = build(**queue)
    objective.begin(encoder, batch_size=batch_size, seed=seed)
    return objective


def filled(objective: Objective, vectors: Tensor, keys: Tensor) -> Objective:
    queue = VectorQueue(8, vectors.shape[1], device=CPU, dtype=vectors.dtype)
    queue.push(vectors, keys)
    source(objective).queue = queue
    source(objective).average = MovingAverage.__new__(MovingAverage)  # never called by a loss
    return objective


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_loss_is_equation_7(similarity: str, weight: float, mask: bool) -> None:
    random = torch.Generator().manual_seed(2)
    a, b = torch.randn(2, N, 3, generator=random, dtype=torch.float64)
    q = torch.randn(5, 3, generator=random, dtype=torch.float64)
    keys = torch.tensor([[1, 11], [2, 12], [3, 13], [4, 14]])
    queue_keys = torch.tensor([2, 13, 50, 51, 4])  # anchor 1's text, positive 2's, two others, anchor 3's
    negatives = [{"kind": "in_batch"}, {"kind": "momentum_queue", "weight": weight}]
    data = {"negatives": negatives, "similarity": similarity, "temperature": 0.4, "mask_duplicates": mask}
    objective = filled(Objective.from_settings(validate(ObjectiveSettings, data, "test")), q, queue_keys)

    def sim(u: Tensor, v: Tensor) -> float:
        return float(u @ v / (u.norm() * v.norm() if similarity == "cosine" else 1.0))

    expected, masked, pushed_from = 0.0, 0, []
    for i in range(N):
        below = sum(math.exp(sim(a[i], b[j]) / 0.4) for j in range(N))
        for m in range(5):
            if mask and int(queue_keys[m]) in keys[i].tolist():
                masked += 1
                continue
            below += weight * math.exp(sim(a[i], q[m]) / 0.4)
            pushed_from.append(sim(a[i], q[m]))
        expected -= math.log(math.exp(sim(a[i], b[i]) / 0.4) / below) / N
    anchor = a.clone().requires_grad_()
    outcome: StepLosses = objective(Representations(anchor, b, a.unsqueeze(1)[:, :0], keys))
    assert outcome.total.item() == pytest.approx(expected, rel=1e-12)
    assert outcome.report["duplicates_masked"].item() == masked == (3 if mask else 0)
    others = [sim(a[i], b[j]) for i in range(N) for j in range(N) if i != j]
    mean = sum(others + pushed_from) / len(others + pushed_from)
    assert outcome.report["negative_similarity"].item() == pytest.approx(mean, rel=1e-5)
    torch.autograd.backward(outcome.total)
    assert anchor.grad is not None
    assert not queue_of(objective).stored.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_an_empty_queue_has_no_columns(encoder: SentenceEncoder, smoothing: float) -> None:
    random = torch.Generator().manual_seed(2)
    a, b = torch.randn(2, N, 20, generator=random)
    reps = Representations(a.requires_grad_(), b, a.unsqueeze(1)[:, :0], torch.arange(2 * N).reshape(N, 2))
    data: dict[str, Any] = {"negatives": [{"kind": "momentum_queue"}], "label_smoothing": smoothing}
    alone = Objective.from_settings(validate(ObjectiveSettings, data, "test"))
    alone.begin(encoder, batch_size=N, seed=1)
    outcome: StepLosses = alone(reps)
    assert outcome.total.item() == 0.0
    assert {name: value.item() for name, value in outcome.report.items() if name != "positive_similarity"} == {
        "negative_similarity": 0.0,
        "duplicates_masked": 0.0,
    }
    torch.autograd.backward(outcome.total)
    assert a.grad is not None
    assert a.grad.abs().max() == 0


def test_each_step_is_the_papers(encoder: SentenceEncoder, sentences: list[str]) -> None:
    """Queue and loss of every step, from the weights of every step alone: eq. 6 unrolled, eq. 7 in loops."""
    objective = begun(encoder)
    start = weights(average_of(objective).encoder)
    sizes = (4, 4, 3, 4, 7, 2, 4)
    run = Run(encoder, objective).steps(batches(encoder, sentences, sizes))
    other = encoder.twin()
    list_of_vectors: list[Tensor] = []
    list_of_keys: list[int] = []
    for t, inputs in enumerate(run.inputs):
        vectors, keys = run.queued[t]
        assert sorted(keys.tolist()) == sorted(list_of_keys), "a step saw another queue"
        for vector, key in zip(vectors, keys.tolist(), strict=True):
            assert torch.allclose(vector, list_of_vectors[list_of_keys.index(key)], atol=1e-6)
        assert not set(keys.tolist()) & set(inputs.keys[:, 0].tolist())
        # eq. 6 unrolled: theta_m = m^(t+1) theta_m0 + (1 - m) sum_s m^(t-s) theta_s, the weights of this step included
        with torch.no_grad():
            for name, p in other.named_parameters():
                mean = MOMENTUM ** (t + 1) * start[name]
                for s in range(t + 1):
                    mean = mean + (1 - MOMENTUM) * MOMENTUM ** (t - s) * run.seen[s][name]
                p.copy_(mean)
            new = other.eval()(inputs.anchors).sentence
        list_of_vectors = [*list_of_vectors, *new][-6:]
        list_of_keys = [*list_of_keys, *inputs.keys[:, 0].tolist()][-6:]
    for name, p in average_of(objective).encoder.named_parameters():
        assert torch.allclose(p, other.get_parameter(name), atol=1e-6)
        gap = (p - encoder.get_parameter(name)).abs().max()
        assert gap > 1e-4 or "key.bias" in name, f"{name} did not move, so nothing was tested"
    assert len({tuple(keys.tolist()) for _, keys in run.queued}) == len(sizes)


def test_the_first_step_is_plain_simcse(encoder: SentenceEncoder, sentences: list[str]) -> None:
    data = batches(encoder, sentences, (N, N))
    plain = Objective.from_settings(validate(ObjectiveSettings, {}, "test"))
    queue = begun(encoder.train())
    for number, inputs in enumerate(data):
        torch.manual_seed(9)
        expected = plain(plain.represent(encoder, inputs)).total
        torch.manual_seed(9)
        reps = queue.represent(encoder, inputs)
        found = queue(reps).total
        queue.after_backward(encoder, [inputs], [reps.detached()])
        assert (found.item() == expected.item()) == (number == 0)
        assert len(queue_of(queue)) == (N, 6)[number]


def test_later_columns_come_from_the_queue(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective = begun(encoder)
    run = Run(encoder, objective).steps(batches(encoder, sentences, (4, 4, 4)))
    reps = objective.represent(encoder, run.inputs[0])
    columns = source(objective).columns(reps, objective.scoring).dense()
    assert columns.logits.shape == (4, 6)
    queue = queue_of(objective)
    expected = nn.functional.cosine_similarity(reps.anchor[:, None], queue.vectors[None], dim=-1) / 0.05
    assert torch.allclose(columns.logits, expected, atol=1e-4)
    assert queue.vectors.norm(dim=1).max() < 0.99  # stored as they come


def test_no_dropout_in_the_queue_not_even_in_attention(encoder: SentenceEncoder, sentences: list[str]) -> None:
    attention = 0
    for name, module in encoder.named_modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.9 if ".attention.self." in name else 0.0
            attention += module.p > 0
    assert attention == 3
    inputs = batches(encoder, sentences, (N,))[0]
    objective = begun(encoder.train())
    objective.train()
    before = [module.training for module in (*encoder.modules(), *objective.modules())]
    with torch.no_grad():
        reps = objective.represent(encoder, inputs)
        objective.after_backward(encoder, [inputs], [reps])
        noisy = encoder(inputs.anchors).sentence
        clean = encoder.eval()(inputs.anchors).sentence
        encoder.train()
    assert torch.allclose(queue_of(objective).vectors, clean, atol=1e-6)
    assert not torch.allclose(noisy, clean, atol=1e-3)
    assert [module.training for module in (*encoder.modules(), *objective.modules())] == before
    assert all(before)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("head", ["momentum", "online"])
def test_which_head_makes_the_vectors(encoder: SentenceEncoder, sentences: list[str], head: str, kept: bool) -> None:
    """The dense layers that are kept go with the head of training."""
    if kept:
        encoder.dense.append(Dense(32, 24))
        encoder.projection = None
    objective = begun(encoder, head=head)
    follower = average_of(objective).encoder
    names = {name for name, _ in follower.named_parameters() if not name.startswith("backbone.")}
    prefix = "dense.0" if kept else "projection"
    assert names == ({f"{prefix}.linear.weight", f"{prefix}.linear.bias"} if head == "momentum" else set())
    inputs = batches(encoder, sentences, (N,))[0]
    start = encoder.twin()
    with torch.no_grad():
        for p in encoder.parameters():
            p.add_(torch.randn_like(p) * 0.05)
        mixed = encoder.twin()
        for name, p in mixed.named_parameters():
            if head == "momentum" or name.startswith("backbone."):
                p.copy_(MOMENTUM * start.get_parameter(name) + (1 - MOMENTUM) * p)
        reps = objective.represent(encoder, inputs)
        assert len(queue_of(objective)) == 0
        objective.after_backward(encoder, [inputs], [reps])
        expected = mixed.eval()(inputs.anchors).sentence
        unmixed = encoder.eval()(inputs.anchors).sentence
    assert queue_of(objective).stored.shape == (6, 24 if kept else 20)
    assert torch.allclose(queue_of(objective).vectors, expected, atol=1e-5)
    assert not torch.allclose(unmixed, expected, atol=1e-2)


def test_without_any_head_the_queue_is_as_wide_as_the_backbone(encoder: SentenceEncoder) -> None:
    encoder.projection = None
    assert queue_of(begun(encoder)).stored.shape == (6, 32)


def test_random_weights_decay_as_momentum_to_the_t(encoder: SentenceEncoder, sentences: list[str]) -> None:
    state = torch.get_rng_state()
    objective = begun(encoder, init="random")
    assert torch.equal(torch.get_rng_state(), state)
    start = weights(average_of(objective).encoder)
    same, other = (average_of(begun(encoder, init="random", seed=seed)).encoder for seed in (5, 6))
    assert all(torch.equal(same.get_parameter(name), p) for name, p in start.items())
    name = "backbone.encoder.layer.1.intermediate.dense.weight"
    assert not torch.equal(other.get_parameter(name), start[name])
    own = weights(encoder)
    random = {name for name in start if not torch.equal(start[name], own[name])}
    matrices = {name for name, p in own.items() if p.ndim == 2 and name.startswith("backbone.")}
    assert matrices <= random, "a matrix is not random"
    assert not any(name.startswith("projection") for name in random)
    assert start[name].std().item() == pytest.approx(encoder.backbone.config.initializer_range, rel=0.05)
    assert average_of(objective).encoder.backbone.config._attn_implementation == "sdpa"
    assert not any("pooler" in name for name in start)
    Run(encoder, objective).steps(batches(encoder, sentences, (N,) * 5), rate=1e-30)
    for name, p in average_of(objective).encoder.named_parameters():
        assert torch.allclose(p - own[name], MOMENTUM**5 * (start[name] - own[name]), atol=1e-6)


def test_momentum_0_is_the_encoder_itself(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective = begun(encoder, momentum=0.0)
    run = Run(encoder, objective).steps(batches(encoder, sentences, (N, N)))
    for name, p in average_of(objective).encoder.named_parameters():
        assert torch.equal(p, run.seen[-1][name])


def test_the_average_is_not_trained(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective = begun(encoder)
    assert len(list(objective.parameters())) == len(list(encoder.parameters())) > 40
    assert not any(p.requires_grad for p in objective.parameters())
    optimizer = build_optimizer([*encoder.parameters(), *objective.parameters()], TrainingSettings())
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in encoder.parameters()}
    Run(encoder, objective).steps(batches(encoder, sentences, (N, N)))
    assert all(p.grad is None for p in objective.parameters())
    assert not queue_of(objective).stored.requires_grad


def test_the_average_has_no_masked_lm_head(encoder: SentenceEncoder, tiny_folder: Path, sentences: list[str]) -> None:
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    objective = begun(encoder)
    assert average_of(objective).encoder.lm_head is None
    assert encoder.lm_head is not None
    assert not any("lm_head" in name for name in objective.state_dict())
    Run(encoder, objective).steps(batches(encoder, sentences, (N, N)))
    assert len(queue_of(objective)) == 6


def test_state_goes_to_a_checkpoint_and_back(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective = begun(encoder, init="random")
    data = batches(encoder, sentences, (4, 3, 2))
    Run(encoder, objective).steps(data[:2])
    state = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    other = begun(encoder, init="random", seed=77)
    assert len(queue_of(other)) == 0
    other.load_state_dict(state)
    assert len(queue_of(other)) == 6
    for objective_of in (objective, other):
        with torch.no_grad():
            objective_of.after_backward(encoder, [data[2]], [objective_of.represent(encoder, data[2])])
    for name, tensor in objective.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
        if "queue" in name:
            assert not torch.equal(tensor, state[name]), name
    assert sum("queue" in name for name in state) == 3


def test_under_autocast_the_queue_stays_in_float32(encoder: SentenceEncoder, sentences: list[str]) -> None:
    for head in ("momentum", "online"):
        objective = begun(encoder, head=head)
        inputs = batches(encoder, sentences, (N,))[0]
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            objective.after_backward(encoder, [inputs], [objective.represent(encoder, inputs)])
        assert queue_of(objective).vectors.dtype == torch.float32
        assert all(p.dtype == torch.float32 for p in average_of(objective).parameters())
        with torch.no_grad():
            exact = encoder.eval()(inputs.anchors).sentence
        assert torch.allclose(queue_of(objective).vectors, exact, atol=0.05)
