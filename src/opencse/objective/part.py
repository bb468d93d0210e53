"""The base class of all parts of an objective: views, negative sources, terms, and sides of a similarity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.context import Cannot
from opencse.objective.vectors.rewritten import Rewriting, Rewritten, add_template
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.progress import Progress
from opencse.settings import PartSettings


class Part(nn.Module):
    """A view, a negative source, a term or the sides of a similarity: one class, with its settings inside.

    ``Settings`` is a `PartSettings` with a ``kind`` of its own. A part lists what it reads of a step in ``reads``, and
    what it cannot be combined with in ``cannot`` or `check`. State that it carries from step to step (a queue, a
    momentum encoder) is buffers and modules, so that it is in ``state_dict``; its random draws come from `noise`.

    Attributes:
        settings: the settings it was made with.
        name: its name in the objective, for instance ``negatives.in_batch``; its noise depends on it.
        classes: number of classes of the data's rows, known when the part begins; 0 without classes.
        recordable: whether a step can be recorded and replayed (`opencse.training.step`): whether all that the part
            does in a step depends on the step's tensors alone, in the same operations each time. It draws nothing by
            `noise`, keeps no state in Python, and reads no tensor. What a view does to tokens happens before.
        cannot: the features (`opencse.objective.context`) that it cannot be combined with, each with the reason: a
            clause that follows its name, such as ``needs a decoder that reads a text``.
    """

    recordable: bool = False
    cannot: Cannot = ()

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
        self.classes = 0

    @property
    def kind(self) -> str:
        """Its name in recipes."""
        return str(self.settings.kind)

    @property
    def reads(self) -> Set[Request[Any]]:
        """What it reads of a step; nothing else is computed, and nothing twice."""
        return frozenset()

    @property
    def called(self) -> str:
        """Its name within a message."""
        return str(self.name)

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`, which imports this
        """Refuses other parts that it cannot be combined with, beyond what ``cannot`` says.

        Raises:
            UserError: in one line.
        """

    def check_encoder(self, encoder: SentenceEncoder, model: str) -> None:
        """Refuses an encoder, called ``model``, that it cannot be used with, beyond what ``cannot`` says.

        Raises:
            UserError: in one line.
        """

    def check_data(self, source: str, hard: int, only_hard: bool) -> None:
        """Refuses data that it cannot be used with.

        Args:
            source: the name of the data, for messages.
            hard: hard negatives in each row.
            only_hard: whether the objective has no negatives but these.

        Raises:
            UserError: in one line.
        """

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Prepares the part for a run, once: for instance makes a copy of the encoder, or a buffer.

        Args:
            encoder: the encoder to be trained, on its device, with its training head.
            batch_size: examples in a full batch (N).
            seed: the seed of the run, for draws that are made now.

        Raises:
            UserError: if the part cannot work with this encoder.
        """

    def study(self, encoder: SentenceEncoder, texts: Iterable[str], progress: Progress) -> None:
        """Reads all texts of the data set once, before `begin`; by default it reads none.

        Args:
            encoder: the encoder to be trained.
            texts: of every row that may be trained on, from an iterator that reads them as they are asked for.
            progress: receives lines and bars of long work.

        Raises:
            UserError: if the part cannot work with these texts.
        """

    @property
    def networks(self) -> Sequence[nn.Module]:
        """Its trained networks that `compute` runs over the rows of a step by `opencse.objective.vectors.chunks`.

        Several processes share the rows, so the gradients of these weights are added up. The part's other weights see
        all vectors in every process, so their gradients are averaged.
        """
        return ()

    def compute(self, inputs: StepInputs, reps: Representations) -> Any:  # noqa: ANN401 - the part's own
        """Runs the part's own networks on a step, once its vectors are known; None by default.

        It is called with gradient and in the precision of the step, and may call
        `opencse.objective.vectors.chunks.through`, which works in the step's chunks and processes. The part reads the
        result as ``reps.computed[self.name]``; a tensor is detached after the backward pass.

        Args:
            inputs: the step's texts, on the device.
            reps: the step's vectors.
        """

    def noise(self, step: Representations | StepInputs, use: str = "") -> torch.Generator:
        """A generator for this part's draws in ``step``; ``use`` names one of several kinds of draws."""
        return step.noise(f"{self.name}/{use}" if use else self.name)

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Updates the part's state, once per step, after the backward pass and before the optimizer moves the weights.

        Args:
            encoder: the encoder in training, with the weights that made this step's vectors.
            inputs: this step's texts, batch by batch (several if gradients are accumulated), on the encoder's device.
            reps: the vectors of each batch, without gradient.
        """

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """Figures for the log that are too expensive for every step; none by default."""
        return {}


class ReadsRewritten(Part):
    """A part that reads the anchors' texts after a change."""

    _max_length: int | None = None

    @property
    def change(self) -> Rewriting:
        """How the texts are changed."""
        return "negated"

    @property
    def request(self) -> Rewritten:
        """The vectors of the changed texts."""
        return Rewritten(self.change, self.settings.template, self.called.removeprefix("the "), self._max_length)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The views, and the changed texts."""
        return {*super().reads, self.request}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Reads the encoder's limit, and registers the template where templates' vectors are subtracted."""
        self._max_length = encoder.max_length
        add_template(encoder, self.settings.template)
