"""The ``[training]`` table of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from opencse.settings import Settings


class TrainingSettings(Settings):
    """How long, how fast, how exactly.

    Attributes:
        epochs: passes over the examples; a fraction stops inside one. The schedule spans the whole run.
        max_steps: fewer steps than the epochs give, if set.
        batch_size: examples in a batch (N).
        learning_rate: peak of AdamW's rate.
        schedule: ``linear`` decays to 0 at the last step (the authors' code), ``constant`` does not.
        warmup: share of the steps over which the rate rises linearly from 0.
        weight_decay: AdamW's, on matrices only (not on biases and LayerNorm weights).
        max_grad_norm: gradients are clipped to this norm.
        precision: ``auto`` takes bf16 autocast where the processor computes in it, float32 elsewhere.
        evaluate_every: steps between evaluations on the dev pairs (the start and the last step always are).
        checkpoint_every: steps between checkpoints; a kill loses at most these.
        log_every: steps between lines of metrics.jsonl.
        seed: of data order, dropout, augmentation and new weights, each from a stream of its own.
    """

    epochs: float = Field(default=1.0, gt=0)
    max_steps: int | None = Field(default=None, gt=0)
    batch_size: int = Field(default=64, ge=2)
    learning_rate: float = Field(default=3e-5, gt=0)
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = Field(default=0.0, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    precision: Literal["auto", "float32", "bf16"] = "auto"
    evaluate_every: int = Field(default=125, gt=0)
    checkpoint_every: int = Field(default=125, gt=0)
    log_every: int = Field(default=10, gt=0)
    seed: int = Field(default=42, ge=0)

    def steps(self, steps_per_epoch: int) -> int:
        """Optimizer steps of the run."""
        steps = max(1, round(self.epochs * steps_per_epoch))
        return steps if self.max_steps is None else min(steps, self.max_steps)
