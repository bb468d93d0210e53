"""AdamW and its schedule, both a function of the step alone."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from opencse.training.settings import TrainingSettings


def build_optimizer(parameters: Iterable[nn.Parameter], settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW (betas 0.9, 0.999; eps 1e-8) over matrices with weight decay and the rest without."""
    trained = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    fused = all(p.device.type in ("cpu", "cuda") for p in trained)
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=settings.learning_rate, fused=fused)


def learning_rate(step: int, steps: int, settings: TrainingSettings) -> float:
    """The rate of ``step`` (from 0) of ``steps``: linear warm-up over the first share, then the schedule."""
    warmup = round(settings.warmup * steps)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (steps - step) / max(1, steps - warmup)
