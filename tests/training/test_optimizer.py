"""AdamW as in torch and as in transformers 4, against plain loops; and what clipping means in several processes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from helpers import Broken
from opencse.errors import InterruptedRunError, UserError
from opencse.objective.losses import info_nce_from_logits
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.checkpoint import optimizer_tensors, restore_optimizer
from opencse.training.optimizer import TransformersAdamW, build_optimizer, learning_rate
from opencse.training.settings import TrainingSettings

RATE, DECAY, STEPS = 0.01, 0.3, 12
KINDS = ("torch", "transformers", "uncorrected")
EPS = 2e-8


def gradient_of(step: int, weight: int) -> float:
    """Small enough for eps to count; the second weight has none at every other step."""
    return (1 + weight) * 3e-8 * math.sin(1.7 * step + weight)


def by_loops(kind: str, start: list[float], *, decay: float = DECAY) -> list[float]:
    """The published formulas, number by number."""
    weights, mean, square = list(start), [0.0] * len(start), [0.0] * len(start)
    for step in range(1, STEPS + 1):
        rate = RATE / step
        for i in range(len(weights)):
            g = gradient_of(step, i)
            mean[i] = 0.9 * mean[i] + 0.1 * g
            square[i] = 0.999 * square[i] + 0.001 * g * g
            if kind != "torch":
                corrected = math.sqrt(1 - 0.999**step) / (1 - 0.9**step) if kind == "transformers" else 1.0
                weights[i] -= rate * corrected * mean[i] / (math.sqrt(square[i]) + EPS)
                weights[i] -= rate * decay * weights[i]
            else:
                weights[i] -= rate * decay * weights[i]
                corrected = mean[i] / (1 - 0.9**step)
                weights[i] -= rate * corrected / (math.sqrt(square[i] / (1 - 0.999**step)) + EPS)
    return weights


def moved(kind: str, start: list[float], *, decay: float = DECAY) -> list[float]:
    """The same by the optimizer of a run."""
    weights = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    settings = TrainingSettings(adamw=kind, learning_rate=RATE, weight_decay=decay, eps=EPS)
    optimizer = build_optimizer([weights], settings)
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = RATE / step
        weights.grad = torch.tensor([[gradient_of(step, i) for i in range(len(start))]], dtype=torch.float64)
        optimizer.step()
    return [float(w) for w in weights.detach()[0]]


@pytest.mark.parametrize("decay", [0.0, DECAY])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_against_loops(kind: str, decay: float) -> None:
    start = [1.0, -0.5, 0.25]
    expected = by_loops(kind, start, decay=decay)
    assert moved(kind, start, decay=decay) == pytest.approx(expected, rel=1e-12)
    for other in {*KINDS} - {kind}:
        away = zip(expected, by_loops(other, start, decay=decay), strict=True)
        assert max(abs(a - b) for a, b in away) > 1e-3, "eps counts where gradients are small"


def test_decay_comes_after_the_move() -> None:
    """A weight of 0: decayed first it stays where the move puts it, afterwards it shrinks from there."""
    ends = {}
    for kind in KINDS:
        weight = torch.nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
        settings = TrainingSettings(adamw=kind, learning_rate=0.5, weight_decay=0.4)
        optimizer = build_optimizer([weight], settings)
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        ends[kind] = float(weight.detach())
    assert ends["torch"] == pytest.approx(-0.5, rel=1e-6)
    assert ends["transformers"] == pytest.approx(-0.5 * (1 - 0.5 * 0.4), rel=1e-6)
    assert ends["uncorrected"] / ends["transformers"] == pytest.approx(3.16, rel=1e-3)


def test_how_much_more_eps_counts() -> None:
    """The numbers of the docstring and of the recipe's comment."""
    assert [1 / math.sqrt(1 - 0.999**step) for step in (1, 100)] == pytest.approx([31.6, 3.24], rel=0.01)
    for step, factor in ((1, 31.6), (100, 3.24)):
        sizes = []
        for eps, group in ((1e-8 * factor, torch.optim.AdamW), (1e-8, TransformersAdamW)):
            weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
            optimizer = group([{"params": [weight]}], lr=1.0, eps=eps, weight_decay=0.0)
            for _ in range(step):
                before = float(weight.detach())
                weight.grad = torch.full_like(weight, 1e-7)
                optimizer.step()
            sizes.append(before - float(weight.detach()))
        assert sizes[0] == pytest.approx(sizes[1], rel=1e-3)


def test_a_weight_without_gradient_keeps_its_place_and_its_count() -> None:
    still, moving = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    optimizer = TransformersAdamW([{"params": [still, moving]}], 0.1)
    moving.grad = torch.ones(1)
    optimizer.step()
    assert float(still.detach()) == 1.0
    assert still not in optimizer.state
    with pytest.raises(ValueError, match="calls no closure"):
        optimizer.step(lambda: 0.0)


@pytest.mark.slow
def test_a_resumed_run_is_the_uninterrupted_one(tiny_folder: Path, tmp_path: Path) -> None:
    def job(kind: str) -> TrainJob:
        settings = (
            "training.max_steps=8",
            "training.batch_size=8",
            "training.checkpoint_every=3",
            "training.learning_rate=1e-3",
            "training.weight_decay=0.1",
            "training.precision=float32",
            f"training.adamw={kind}",
        )
        return TrainJob(
            text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=settings, dev=None, device="cpu"
        )

    job("transformers").run(tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        job("transformers").run(tmp_path / "broken", progress=Broken(5))
    job("transformers").run(tmp_path / "broken", resume=True)
    job("torch").run(tmp_path / "torch")
    ends = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "broken", "torch")]
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


N, D, PROCESSES = 8, 5, 4


def gathered_loss(weights: Tensor, texts: Tensor, live: slice | None) -> Tensor:
    """SimCSE's loss of the whole batch; all rows but the ``live`` ones, if given, are without gradient."""
    sides = [functional.normalize(torch.tanh(side @ weights), dim=1) for side in texts]
    if live is not None:
        rows = torch.zeros(N, 1, dtype=torch.float64)
        rows[live] = 1.0
        sides = [rows * side + (1 - rows) * side.detach() for side in sides]
    logits = sides[0] @ sides[1].T / 0.05
    own = torch.eye(N, dtype=torch.bool)
    return info_nce_from_logits(logits.diagonal(), logits.masked_fill(own, -torch.inf)).mean()


def test_four_processes_clip_at_one_what_is_clipped_at_four_here() -> None:
    """Each computes the whole loss and differentiates its own rows; the gradients are averaged, then clipped."""
    random = torch.Generator().manual_seed(0)
    texts = torch.randn(2, N, D, generator=random, dtype=torch.float64)
    weights = torch.randn(D, D, generator=random, dtype=torch.float64).requires_grad_()

    def gradient(live: slice | None) -> Tensor:
        return torch.autograd.grad(gathered_loss(weights, texts, live), weights)[0]

    def clipped(given: Tensor, most: float) -> Tensor:
        return given * min(1.0, most / float(given.norm()))

    share = N // PROCESSES
    theirs = torch.stack([gradient(slice(r * share, (r + 1) * share)) for r in range(PROCESSES)]).mean(dim=0)
    whole = gradient(None)
    torch.testing.assert_close(theirs, whole / 4, rtol=1e-12, atol=0)
    at = load_recipe("simcse-supervised:reference").training.max_grad_norm
    for scale in (0.2, 1.5, 6.0):  # of norms below both bounds, between them, above both
        given = whole / whole.norm() * scale
        torch.testing.assert_close(clipped(given / 4, 1.0), clipped(given, at) / 4, rtol=1e-12, atol=0)
        assert scale == 0.2 or not torch.allclose(clipped(given / 4, 1.0), clipped(given, 1.0) / 4)
    assert (at, load_recipe("simcse-supervised").training.max_grad_norm) == (4.0, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_betas_are_those_of_the_settings(kind: str) -> None:
    settings = TrainingSettings.model_validate({"adamw": kind, "betas": (0.9, 0.8)})
    optimizer = build_optimizer([torch.nn.Parameter(torch.zeros(1, 1))], settings)
    assert [tuple(group["betas"]) for group in optimizer.param_groups] == [(0.9, 0.8)]


def test_rmsprop_against_loops() -> None:
    start, square = [1.0, -0.5, 0.25], [0.0] * 3
    weights = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = build_optimizer([weights], TrainingSettings(optimizer="rmsprop", learning_rate=RATE))
    expected = list(start)
    for step in range(1, STEPS + 1):
        for i in range(3):
            g = gradient_of(step, i)
            square[i] = 0.9 * square[i] + 0.1 * g * g
            expected[i] -= RATE * g / (math.sqrt(square[i]) + 1e-7)
        weights.grad = torch.tensor([gradient_of(step, i) for i in range(3)], dtype=torch.float64)
        optimizer.step()
    assert weights.tolist() == pytest.approx(expected, rel=1e-12)


def test_rates_that_change_at_steps() -> None:
    settings = load_recipe("ct:rmsprop").training
    rates = [learning_rate(step, 5_000, settings) for step in (0, 500, 501, 1000, 1001, 1501, 2000, 2001, 4_999)]
    assert rates == [1e-5, 1e-5, 8e-6, 8e-6, 6e-6, 4e-6, 4e-6, 2e-6, 2e-6]  # as PiecewiseConstantDecay
    assert settings.optimizer == "rmsprop"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate_changes": [[5, 1e-5]]}, "rate_changes are of a constant rate; set schedule = constant"),
        ({"schedule": "constant", "rate_changes": [[5, 1e-5], [5, 2e-5]]}, "the steps of rate_changes ascend"),
        ({"optimizer": "rmsprop", "weight_decay": 0.1}, "leave them out"),
    ],
)
def test_settings_of_the_optimizer_that_say_nothing(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        validate(TrainingSettings, wrong, "mine")


def test_rmsprop_is_resumed_bit_for_bit() -> None:
    def steps(optimizer: torch.optim.Optimizer, weights: torch.nn.Parameter, numbers: range) -> None:
        for step in numbers:
            weights.grad = torch.tensor([gradient_of(step, i) for i in range(3)])
            optimizer.step()

    settings = TrainingSettings(optimizer="rmsprop", learning_rate=RATE)
    through = torch.nn.Parameter(torch.ones(3))
    steps(build_optimizer([through], settings), through, range(1, 9))
    first = torch.nn.Parameter(torch.ones(3))
    before = build_optimizer([first], settings)
    steps(before, first, range(1, 5))
    again = torch.nn.Parameter(first.detach().clone())
    after = build_optimizer([again], settings)
    restore_optimizer(after, optimizer_tensors(before))
    steps(after, again, range(5, 9))
    assert torch.equal(again, through)
