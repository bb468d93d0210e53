"""Computes the gradients of a step: of one batch or several, in one pass, or two with adversarial weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.padded import MULTIPLE
from opencse.kernels.precision import Precision
from opencse.kernels.states import ON_GPU
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective, StepLosses
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.processes import Processes
from opencse.text.batches import Batches
from opencse.training.worst_case import DisturbBatch, WorstCase


@dataclass(frozen=True)
class Step:
    """Turns the inputs of a step into gradients of the parameters, in training and when its pace is measured.

    Attributes:
        encoder: the encoder in training.
        objective: its objective.
        precision: arithmetic of the forward pass.
        worst_case: two passes instead of one (sharpness-aware, adversarial), if given.
    """

    encoder: SentenceEncoder
    objective: Objective
    precision: Precision
    worst_case: WorstCase | None = None

    def gradients(self, batches: Sequence[StepInputs]) -> tuple[Representations, StepLosses]:
        """Adds the step's gradients to the parameters, and lets the parts update their state.

        With k batches the gradient is that of their mean loss; each is contrasted separately. Two adversarial passes
        are two passes over all batches: the weights move up the mean loss.

        Returns:
            The last batch's vectors, without gradient, and the mean losses, both at the unmoved weights.
        """

        def forward_backward(disturb: DisturbBatch | None) -> list[tuple[Representations, StepLosses]]:
            passes = []
            for number, inputs in enumerate(batches):
                with self.precision.autocast(self.encoder.device):
                    moved = None if disturb is None else disturb(number)
                    reps = self.objective.represent(self.encoder, inputs, disturb=moved)
                outcome = self.objective(reps)
                torch.autograd.backward(outcome.total / len(batches))
                passes.append((reps.detached(), outcome.detached()))
            self._add_up(batches[0].chunks.world)
            return passes

        if self.worst_case is None:
            passes = forward_backward(None)
        else:
            passes = self.worst_case.gradients(forward_backward, lambda number: batches[number].noise("adversarial"))
        with torch.no_grad(), self.precision.autocast(self.encoder.device):
            self.objective.after_backward(self.encoder, batches, [reps for reps, _ in passes])
        return passes[-1][0], StepLosses.mean([outcome for _, outcome in passes])

    def _add_up(self, world: Processes) -> None:
        """Gives every process the complete gradient.

        Each process has the gradients of an encoder, or of a part's network, for its own rows: these are added up. The
        objective's other weights, and a head that normalises over the batch, saw all vectors in every process: the mean
        over the processes is taken.
        """
        if not world.several:
            return
        encoders = [self.encoder, *([] if self.objective.second is None else [self.objective.second])]
        shared = {p for network in (*encoders, *self.objective.networks) for p in network.parameters()}
        for encoder in (one for one in encoders if one.batch_heads):
            shared -= {*encoder.dense.parameters()}
            shared -= set() if encoder.projection is None else {*encoder.projection.parameters()}
        trained = list(dict.fromkeys(p for m in (self.encoder, self.objective) for p in m.parameters()))
        trained = [p for p in trained if p.requires_grad]
        reached = world.any_of([p.grad is not None for p in trained])
        gradients = []
        for parameter in (p for p, is_reached in zip(trained, reached, strict=True) if is_reached):
            if parameter.grad is None:  # no row of this process reaches it
                parameter.grad = torch.zeros_like(parameter)
            if parameter not in shared:
                parameter.grad /= world.count
            gradients.append(parameter.grad)
        world.add_up(gradients)


def step_inputs(
    inputs: InputBuilder,
    batches: Batches,
    step: int,
    accumulate: int,
    encoder: SentenceEncoder,
    chunks: Chunks = WHOLE,
) -> list[StepInputs]:
    """Builds the inputs of ``step`` (from 0): its ``accumulate`` batches, on the device of ``encoder``.

    Where layers are computed with padding, all lengths are multiples of what they are padded to.
    """
    numbers = range(step * accumulate, (step + 1) * accumulate)
    multiple = MULTIPLE if encoder.computation in ON_GPU else 1
    built = (inputs.build(batches.batch(n), n).padded(multiple, encoder.tokenizer.pad_id) for n in numbers)
    return [replace(batch.to(encoder.device), chunks=chunks) for batch in built]
