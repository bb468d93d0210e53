"""Sharpness-aware (SAM) and adversarial (AWP) training: takes the gradient nearby, where the loss is higher.

It works with any recipe. Each step makes a pass as usual, moves the weights (and inputs, if set) a little up the loss,
makes a second pass there, and restores the weights bit for bit; the second pass's gradient is the step's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.objective.similarity import standard_normal
from opencse.objective.vectors.chunks import RowDisturb, random_state, restore
from opencse.objective.vectors.represent import GradientWatch, RowNoise
from opencse.settings import PartSettings

T = TypeVar("T")
DisturbBatch = Callable[[int], RowDisturb | None]
"""The disturbance of each batch of a pass, by its number (from 0)."""


class Undisturbed(PartSettings):
    """No disturbance of the inputs in the second pass."""

    kind: Literal["none"] = "none"


class GaussianInputs(PartSettings):
    """N(0, sd) on every dimension of the input embeddings in the second pass (Park's thesis, 4.2 "AWP + GNI")."""

    kind: Literal["gaussian"] = "gaussian"
    sd: float = Field(default=0.001, ge=0, allow_inf_nan=False)


class FgsmInputs(PartSettings):
    """``epsilon * sign(gradient)`` on the input embeddings in the second pass (Park's thesis, 4.2 "AWP + FGSM").

    The gradient is the first pass's with respect to the input embeddings; ``epsilon`` is our choice, the thesis
    gives none.
    """

    kind: Literal["fgsm"] = "fgsm"
    epsilon: float = Field(default=0.001, ge=0, allow_inf_nan=False)


InputsSettings = Annotated[Undisturbed | GaussianInputs | FgsmInputs, Field(discriminator="kind")]


class Sam(PartSettings):
    """Sharpness-aware minimisation (Foret et al. 2020, eq. 2; Park's thesis, 4.2): ``w + rho * g / ||g||``.

    g is the gradient of all weights together. ``rho`` = 0 is the plain step, bit for bit (under ``same_masks``).
    """

    kind: Literal["sam"] = "sam"
    rho: float = Field(default=0.05, ge=0, allow_inf_nan=False)
    inputs: InputsSettings = Undisturbed()
    same_masks: bool = True


class Awp(PartSettings):
    """Adversarial weight perturbation (Wu et al. 2020, eq. 9; Park's thesis, 4.2): ``w + gamma * ||w|| * g / ||g||``.

    Matrix by matrix; biases and LayerNorm weights stay. ``gamma`` is our choice, the thesis gives none.
    ``gamma`` = 0 is the plain step, bit for bit (under ``same_masks``).
    """

    kind: Literal["awp"] = "awp"
    gamma: float = Field(default=0.0005, ge=0, allow_inf_nan=False)
    inputs: InputsSettings = Undisturbed()
    same_masks: bool = True


WorstCaseSettings = Annotated[Sam | Awp, Field(discriminator="kind")]


class WorstCase:
    """Makes the two passes of a step.

    Args:
        settings: how weights and inputs are moved.
        parameters: the weights in training, which may be moved.
    """

    def __init__(self, settings: Sam | Awp, parameters: Sequence[nn.Parameter]) -> None:
        self.settings = settings
        self.parameters = parameters

    def gradients(
        self, forward_backward: Callable[[DisturbBatch | None], T], noise: Callable[[int], torch.Generator]
    ) -> T:
        """Adds the gradient of the worst case to the parameters, and restores the weights bit for bit.

        Args:
            forward_backward: makes a pass over the step's batches and adds its gradient to the parameters; its
                argument, if any, gives the change of each batch's input embeddings by the batch's number.
            noise: gives a generator for the change of each batch's inputs, by its number.

        Returns:
            The result of the first pass, at the unmoved weights.
        """
        watched: dict[int, GradientWatch] = {}
        fgsm = isinstance(self.settings.inputs, FgsmInputs)
        device = self.parameters[0].device
        before = random_state(device)
        first = forward_backward(_watch(watched) if fgsm else None)
        if self.settings.same_masks:  # else other dropout masks would move the loss more than the weights do
            restore(before, device)
        saved = self._ascend()
        for parameter in self.parameters:
            parameter.grad = None
        forward_backward(self._disturb(watched, noise))
        with torch.no_grad():  # copied back, because w + d - d is not w in floating point
            for parameter, weights in saved:
                parameter.copy_(weights)
        return first

    @torch.no_grad()
    def _ascend(self) -> list[tuple[nn.Parameter, Tensor]]:
        """Moves the weights up the loss; returns their old values."""
        moved = [(p, p.grad) for p in self.parameters if p.grad is not None]
        if isinstance(self.settings, Awp):
            moved = [(p, g) for p, g in moved if p.ndim >= 2]
        saved = [(p, p.clone()) for p, _ in moved]
        if isinstance(self.settings, Awp):
            for p, g in moved:
                _step(p, g, self.settings.gamma * p.norm(), g.norm())
        else:
            norm = torch.stack([g.norm() for _, g in moved]).norm()
            for p, g in moved:
                _step(p, g, torch.full_like(norm, self.settings.rho), norm)
        return saved

    def _disturb(
        self, watched: Mapping[int, GradientWatch], noise: Callable[[int], torch.Generator]
    ) -> DisturbBatch | None:
        inputs = self.settings.inputs
        if isinstance(inputs, FgsmInputs):
            epsilon = inputs.epsilon

            def up_the_loss(batch: int) -> RowDisturb:
                gradients = watched[batch]
                return lambda words, start: words + epsilon * gradients.of(start, len(words)).sign()

            return up_the_loss
        if isinstance(inputs, GaussianInputs):
            sd = inputs.sd
            return lambda batch: RowNoise(
                noise(batch), lambda words, draws: words + sd * standard_normal(words.shape, words, draws)
            )
        return None


def _watch(watched: dict[int, GradientWatch]) -> DisturbBatch:
    """Stores the gradients of each batch's input embeddings."""
    return lambda batch: watched.setdefault(batch, GradientWatch())


def _step(weights: Tensor, gradient: Tensor, size: Tensor, norm: Tensor) -> None:
    """``weights + size * gradient / norm``; a gradient of zero moves nothing."""
    weights.add_(gradient * torch.where(norm > 0, size / norm, torch.zeros_like(norm)))
