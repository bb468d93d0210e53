"""The losses of a step: their sum, without gradients, and their mean over batches."""

from __future__ import annotations

import pytest
import torch

from opencse.objective.step_losses import StepLosses


def step_losses(contrast: float, term: float, similarity: float) -> StepLosses:
    return StepLosses(
        {"contrast": torch.tensor(contrast), "term": torch.tensor(term)}, {"similarity": torch.tensor(similarity)}
    )


def test_the_total_is_the_sum_and_can_be_differentiated() -> None:
    leaf = torch.tensor(1.5, requires_grad=True)
    losses = StepLosses({"a": 2 * leaf, "b": torch.tensor(-4.0)}, {})
    assert losses.total.item() == -1.0
    losses.total.backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    assert leaf.grad.item() == 2.0


def test_detached_has_the_same_values_without_gradients() -> None:
    leaf = torch.tensor(1.5, requires_grad=True)
    detached = StepLosses({"a": 2 * leaf}, {"figure": torch.tensor(0.5)}).detached()
    assert not detached.total.requires_grad
    assert detached.total.item() == 3.0
    assert detached.report["figure"].item() == 0.5


def test_the_mean_is_of_each_loss_and_each_figure() -> None:
    mean = StepLosses.mean([step_losses(1.0, 4.0, 0.2), step_losses(3.0, 5.0, 0.4)])
    assert {name: loss.item() for name, loss in mean.losses.items()} == {"contrast": 2.0, "term": 4.5}
    assert mean.report["similarity"].item() == pytest.approx(0.3)


def test_the_mean_of_one_is_itself() -> None:
    one = step_losses(1.0, 4.0, 0.2)
    assert StepLosses.mean([one]) is one
