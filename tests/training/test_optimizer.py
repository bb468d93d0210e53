"""AdamW and RMSprop against plain loops, clipping, one update, and how many steps a budget gives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.progress import Silent
from opencse.training.checkpoint import optimizer_tensors, restore_optimizer
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings
from opencse.training.step import Update, step_inputs
from steps import prepared

RATE, DECAY, STEPS = 0.01, 0.3, 12
KINDS = ("torch", "transformers", "uncorrected")
EPS = 2e-8


def gradient_of(step: int, weight: int) -> float:
    """Small enough for eps to count; the second weight has none at every other step."""
    return (1 + weight) * 3e-8 * math.sin(1.7 * step + weight)


def by_loops(kind: str, start: list[float]) -> list[float]:
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
                weights[i] -= rate * DECAY * weights[i]
            else:
                weights[i] -= rate * DECAY * weights[i]
                corrected = mean[i] / (1 - 0.9**step)
                weights[i] -= rate * corrected / (math.sqrt(square[i] / (1 - 0.999**step)) + EPS)
    return weights


def moved(kind: str, start: list[float]) -> list[float]:
    """The same by the optimizer of a run."""
    weights = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    settings = TrainingSettings(adamw=kind, learning_rate=RATE, weight_decay=DECAY, eps=EPS)
    optimizer = build_optimizer([weights], settings)
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = RATE / step
        weights.grad = torch.tensor([[gradient_of(step, i) for i in range(len(start))]], dtype=torch.float64)
        optimizer.step()
    return [float(w) for w in weights.detach()[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_against_loops(kind: str) -> None:
    start = [1.0, -0.5, 0.25]
    expected = by_loops(kind, start)
    assert moved(kind, start) == pytest.approx(expected, rel=1e-12)
    for other in {*KINDS} - {kind}:
        away = zip(expected, by_loops(other, start), strict=True)
        assert max(abs(a - b) for a, b in away) > 1e-3, "eps counts where gradients are small"


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


@pytest.mark.parametrize("kind", [{"optimizer": "rmsprop"}, {"adamw": "transformers", "weight_decay": 0.1}], ids=str)
def test_an_optimizer_is_resumed_bit_for_bit(kind: dict[str, Any]) -> None:
    def steps(optimizer: torch.optim.Optimizer, weights: torch.nn.Parameter, numbers: range) -> None:
        for step in numbers:
            weights.grad = torch.tensor([gradient_of(step, i) for i in range(3)])
            optimizer.step()

    settings = TrainingSettings.model_validate({"learning_rate": RATE, **kind})
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


def test_a_step_moves_the_weights_by_the_clipped_gradient(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    made = prepared("simcse++-dcl", tiny_folder, tmp_path, sentences, "training.max_grad_norm=0.5")
    taken = made.trainer(tmp_path, Silent())
    (update,) = taken.updates
    assert isinstance(update, Update)
    inputs = step_inputs(made.inputs, made.batches, 0, 1, made.encoder)
    before = [p.detach().clone() for p in made.encoder.parameters()]
    updated = update(inputs, diagnose=True)
    gradients = [p.grad for p in made.encoder.parameters() if p.grad is not None]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    report = updated.losses.report
    assert float(report["gradient_norm"]) > 0.5
    torch.testing.assert_close(norm, torch.tensor(0.5, dtype=norm.dtype), atol=1e-3, rtol=0)
    assert report["dcl_rank"] > 1
    assert set(updated.losses.losses) == {"contrast", "dcl"}
    assert not updated.reps.anchor.requires_grad
    moved = [not torch.equal(a, b) for a, b in zip(before, made.encoder.parameters(), strict=True)]
    assert sum(moved) > len(moved) // 2
    update.clear()
    assert all(p.grad is None for p in made.encoder.parameters())
    assert "dcl_rank" not in update(inputs).losses.report
