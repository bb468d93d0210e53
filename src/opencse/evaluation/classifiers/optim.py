"""Adam and RMSprop over many fits at once, with torch.optim's arithmetic.

Every parameter is (groups, fits, rows, columns); the weight decay is (groups, fits), one value a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    """What the training loop asks of one."""

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Changes the parameters in place; ``gradients`` are shaped as they are, and are overwritten."""

    def keep(self, groups: Tensor, parameters: list[Tensor]) -> None:
        """Goes on with these groups (m,) alone, whose ``parameters`` stand in tensors of their own."""


class Adam:
    r"""Adam with l2 as torch.optim.Adam's ``weight_decay``: added to the gradient (Kingma and Ba 2015, algorithm 1).

    .. math:: g \leftarrow g + \lambda w, \quad m \leftarrow m + (1-\beta_1)(g - m), \quad
              v \leftarrow \beta_2 v + (1-\beta_2) g^2, \quad
              w \leftarrow w - \frac{\eta}{1-\beta_1^t} \frac{m}{\sqrt{v} / \sqrt{1-\beta_2^t} + \epsilon}
    """

    rate, beta1, beta2, epsilon = 1e-3, 0.9, 0.999, 1e-8

    def __init__(self, parameters: list[Tensor], l2: Tensor) -> None:
        """``parameters``: (groups, fits, rows, columns) each; ``l2``: (groups, fits)."""
        self.parameters = parameters
        self.decay = l2[:, :, None, None]
        self.means = [torch.zeros_like(p) for p in parameters]
        self.squares = [torch.zeros_like(p) for p in parameters]
        self.steps = 0

    def step(self, gradients: Sequence[Tensor]) -> None:
        """See ``Optimizer``."""
        self.steps += 1
        size = self.rate / (1 - self.beta1**self.steps)
        root = (1 - self.beta2**self.steps) ** 0.5
        for parameter, gradient, mean, square in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            gradient.addcmul_(parameter, self.decay)
            mean.lerp_(gradient, 1 - self.beta1)
            square.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
            parameter.addcdiv_(mean, square.sqrt().div_(root).add_(self.epsilon), value=-size)

    def keep(self, groups: Tensor, parameters: list[Tensor]) -> None:
        """See ``Optimizer``."""
        self.parameters = parameters
        self.decay = self.decay[groups]
        self.means = [mean[groups] for mean in self.means]
        self.squares = [square[groups] for square in self.squares]


class RMSprop:
    r"""RMSprop with l2 as torch.optim.RMSprop's ``weight_decay``: added to the gradient (Hinton 2012, lecture 6).

    .. math:: g \leftarrow g + \lambda w, \quad v \leftarrow \alpha v + (1-\alpha) g^2, \quad
              w \leftarrow w - \eta \frac{g}{\sqrt{v} + \epsilon}
    """

    rate, alpha, epsilon = 1e-2, 0.99, 1e-8

    def __init__(self, parameters: list[Tensor], l2: Tensor) -> None:
        """``parameters``: (groups, fits, rows, columns) each; ``l2``: (groups, fits)."""
        self.parameters = parameters
        self.decay = l2[:, :, None, None]
        self.squares = [torch.zeros_like(p) for p in parameters]

    def step(self, gradients: Sequence[Tensor]) -> None:
        """See ``Optimizer``."""
        for parameter, gradient, square in zip(self.parameters, gradients, self.squares, strict=True):
            gradient.addcmul_(parameter, self.decay)
            square.mul_(self.alpha).addcmul_(gradient, gradient, value=1 - self.alpha)
            parameter.addcdiv_(gradient, square.sqrt().add_(self.epsilon), value=-self.rate)

    def keep(self, groups: Tensor, parameters: list[Tensor]) -> None:
        """See ``Optimizer``."""
        self.parameters = parameters
        self.decay = self.decay[groups]
        self.squares = [square[groups] for square in self.squares]


def optimizer(name: Literal["adam", "rmsprop"], parameters: list[Tensor], l2: Tensor) -> Optimizer:
    """The optimizer of that name; see the classes."""
    return Adam(parameters, l2) if name == "adam" else RMSprop(parameters, l2)
