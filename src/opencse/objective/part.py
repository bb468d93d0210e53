"""What every part of an objective is."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.context import Context
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import PartSettings


class Part(nn.Module):
    """A view, a negative source, a term or the sides of a similarity: one class, with the settings that name it.

    ``Settings`` is a `PartSettings` with a ``kind`` of its own; a part is made of one. What a part reads it says in
    ``reads``; what it cannot go with it refuses in `check`. State that it carries from step to step (a queue, a
    momentum encoder) is buffers and modules, so that it is part of ``state_dict``; noise that it draws comes from
    `noise`.

    Attributes:
        settings: what it was made of.
        name: of the part in its objective, ``negatives.in_batch``; its noise depends on it.
    """

    Settings: ClassVar[Any]
    settings: Any

    def __init_subclass__(cls, **keywords: Any) -> None:  # noqa: ANN401 - as Python has it
        super().__init_subclass__(**keywords)
        if "Settings" in cls.__dict__:
            cls.Settings.part = cls

    def __init__(self, settings: PartSettings | None = None) -> None:
        super().__init__()
        self.settings = type(self).Settings() if settings is None else settings
        self.name = self.settings.kind

    @property
    def kind(self) -> str:
        """What recipes call it."""
        return str(self.settings.kind)

    @property
    def reads(self) -> Set[Request[Any]]:
        """What it reads of a step, so that no forward is made that nobody reads, and none twice."""
        return frozenset()

    def check(self, context: Context) -> None:
        """Refuses what the part cannot go with; called as each piece of ``context`` becomes known.

        Raises:
            UserError: in one line.
        """

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Called once before a run; a part that keeps a copy of the encoder or a buffer makes it here.

        Args:
            encoder: what will be trained, on its device, its training head in place.
            batch_size: examples in a full batch (N).
            seed: of the run, for whatever the part draws now.

        Raises:
            UserError: if the part cannot work with this encoder.
        """

    @property
    def networks(self) -> Sequence[nn.Module]:
        """Its trained networks that `compute` runs over the rows of a step by `opencse.objective.vectors.network`.

        Several processes share the rows, so the gradients of these weights are added up; those of the part's other
        weights, which see all vectors in every process, are averaged.
        """
        return ()

    def compute(self, inputs: StepInputs, reps: Representations) -> Any:  # noqa: ANN401 - the part's own
        """What the part's own networks make of a step, once its vectors are there; None by default.

        It is called with gradient and in the precision of the step, and may call
        `opencse.objective.vectors.network.through`, which goes in the step's chunks and processes. The part reads the
        outcome as ``reps.computed[self.name]``; of a tensor there is a detached copy after the backward pass.

        Args:
            inputs: the step's texts, on the device.
            reps: the step's vectors.
        """

    def noise(self, step: Representations | StepInputs, use: str = "") -> torch.Generator:
        """The generator of this part's draws of ``step``, those called ``use`` where it makes several."""
        return step.noise(f"{self.name}/{use}" if use else self.name)

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
        """Figures for the log that are too expensive for every step; none by default."""
        del reps
        return {}
