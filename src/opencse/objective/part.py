"""What every part of an objective is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from opencse.objective.representations import Needs, Representations, StepInputs

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


class Part(nn.Module):
    """A view, a negative source or a term: says what it reads, and may carry state from step to step.

    State (a queue, a momentum encoder) is buffers and modules, so that it is part of ``state_dict``.
    """

    needs: Needs = Needs()

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Called once before a run; a part that keeps a copy of the encoder or a buffer makes it here.

        Args:
            encoder: what will be trained, on its device, its training head in place.
            batch_size: examples in a full batch (N).
            seed: of the run, for whatever the part draws now.

        Raises:
            UserError: if the part cannot work with this encoder.
        """

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Called once a step, when the gradients are there and the optimizer has not moved the weights yet.

        Args:
            encoder: what is trained, with the weights that made this step's vectors.
            inputs: this step's texts, batch by batch (one, or as many as are accumulated), on the encoder's device.
            reps: the vectors of each batch, without gradient.
        """

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """Numbers worth a look at the steps that are logged, too dear for every step; none by default."""
        del reps
        return {}
