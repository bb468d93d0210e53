"""One step of the weights: gradients clipped together, one move of the optimizer, and what is reported."""

from __future__ import annotations

from pathlib import Path

import torch

from opencse.progress import Silent
from opencse.training.step import step_inputs
from opencse.training.update import Update
from steps import prepared


def test_a_step_moves_the_weights_by_the_clipped_gradient(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    made = prepared("simcse++-dcl", tiny_folder, tmp_path, sentences, "training.max_grad_norm=0.5")
    taken = made.trainer(tmp_path, Silent(), dev=None, start=None)
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
