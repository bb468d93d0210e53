"""The optimizer, and the schedule of its learning rate, a function of the step alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from opencse.training.settings import TrainingSettings


class TransformersAdamW(torch.optim.Optimizer):
    """AdamW of transformers 4 (4.2.1, with which the code of SimCSE and its descendants trains).

    With m and v the moving averages of the gradient and of its square, t the step of the weight w (from 1)::

        w <- w - lr * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + eps)
        w <- w - lr * weight_decay * w

    Kingma and Ba (and torch) add eps to the corrected root, ``sqrt(v / (1 - beta_2^t)) + eps``, and decay first. So
    eps is larger here by ``1 / sqrt(1 - beta_2^t)``: 32 times at the first step, 3.2 times at the hundredth. Without
    ``correct_bias`` the two factors of the first line are left out: the first moves are 3.2 times as long.

    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0]))
        >>> weight.grad = torch.tensor([0.5])
        >>> TransformersAdamW([{"params": [weight]}], lr=0.1).step()
        >>> round(weight.item(), 4)  # a first step moves by the rate, whatever the gradient's size
        0.9
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.correct_bias = correct_bias

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Moves every weight that has a gradient."""
        for group in self.param_groups:
            for weights in group["params"]:
                if weights.grad is not None:
                    self._move(weights, weights.grad, group)

    def _move(self, weights: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weights]
        if not state:  # only tensors, for the checkpoint
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weights), torch.zeros_like(weights)
        state["step"] += 1
        step, (first, second) = int(state["step"]), group["betas"]
        mean = state["exp_avg"].mul_(first).add_(gradient, alpha=1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        correction = math.sqrt(1 - second**step) / (1 - first**step) if self.correct_bias else 1.0
        size = group["lr"] * correction
        # eps before the bias correction, where torch's AdamW adds it after.
        weights.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-size)
        # After the step and of the moved weights, as transformers 4 has it.
        if group["weight_decay"] > 0:
            weights.mul_(1 - group["lr"] * group["weight_decay"])


def build_optimizer(parameters: Iterable[nn.Parameter], settings: TrainingSettings) -> torch.optim.Optimizer:
    """Makes AdamW, with weight decay for matrices and without for other weights; or RMSprop.

    RMSprop has TensorFlow's defaults, with which CT was trained: ``v <- .9 v + .1 g^2``, then
    ``w <- w - lr * g / (sqrt(v) + 1e-7)``.
    """
    trained = [p for p in dict.fromkeys(parameters) if p.requires_grad]  # networks may share weights
    if settings.optimizer == "rmsprop":
        # Keras' defaults, with which CT's code trains.
        return torch.optim.RMSprop(trained, lr=settings.learning_rate, alpha=0.9, eps=1e-7)
    groups = [  # as in BERT: decay would pull LayerNorm's scales from 1 to 0
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.adamw != "torch":
        correct = settings.adamw == "transformers"
        return TransformersAdamW(
            groups, settings.learning_rate, betas=settings.betas, eps=settings.eps, correct_bias=correct
        )
    fused = all(p.device.type in ("cpu", "cuda") for p in trained)
    on_gpu = bool(trained) and all(p.device.type == "cuda" for p in trained)
    rate = torch.tensor(settings.learning_rate, device=trained[0].device) if on_gpu else settings.learning_rate
    # a rate in a tensor can be changed between two replays of a recorded step
    return torch.optim.AdamW(groups, lr=rate, betas=settings.betas, eps=settings.eps, fused=fused, capturable=on_gpu)


def trained_weights(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """The weights that the optimizer moves, in the order of its state.

    Example:
        >>> matrix, bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))
        >>> [weights.ndim for weights in trained_weights(build_optimizer([bias, matrix], TrainingSettings()))]
        [2, 1]
    """
    return [weights for group in optimizer.param_groups for weights in group["params"]]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of the next step."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(step: int, steps: int, settings: TrainingSettings) -> float:
    """The rate of ``step`` (from 0) of ``steps``: linear warm-up over the first share, then the schedule.

    Rates that change at given steps leave the warm-up as it is.

    Example:
        >>> settings = TrainingSettings(learning_rate=1.0, warmup=0.2)
        >>> [round(learning_rate(step, 10, settings), 3) for step in range(10)]
        [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    """
    warmup = round(settings.warmup * steps)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup  # step + 1: a first step at rate 0 would be lost
    if settings.schedule == "constant":
        reached = [rate for first, rate in settings.rate_changes if first <= step + 1]
        return reached[-1] if reached else settings.learning_rate
    return settings.learning_rate * (steps - step) / max(1, steps - warmup)
