"""Records a training step as a CUDA graph, and replays it: the processor launches one graph instead of all its kernels.

The replayed step is the recorded one bit for bit: the same kernels on the same tensors, and dropout draws what it would
have drawn. A step can be recorded if everything that it computes depends on tensors alone; parts say so
(`opencse.objective.part.Part.recordable`), and what the processor must read or draw by itself fails while recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from opencse.errors import reason, shortened
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import Chunks, random_state, restore
from opencse.objective.vectors.step import StepInputs
from opencse.progress import Say
from opencse.text.tokenizer import Tokens
from opencse.training.settings import TrainingSettings
from opencse.training.update import Update, Updated

Recorder = Callable[[Callable[[], Updated]], Callable[[], Updated]]
"""Records a step without making it; the result makes it, and gives what it wrote, in the same tensors every time."""
Shapes = tuple[object, ...]


def why_not_recorded(objective: Objective, settings: TrainingSettings, chunks: Chunks) -> str | None:
    """The reason why steps cannot be recorded; None where they can."""
    unfit = [part.name for part in objective.all_parts if not part.recordable]
    if unfit:
        return f"{', '.join(unfit)} cannot be recorded"
    if objective.dual_encoder or objective.view.two_passes or objective.learned_temperature is not None:
        return "of several passes or a learned temperature"
    if settings.accumulate > 1 or settings.worst_case is not None or not chunks.undivided:
        return "of several batches, chunks or processes"
    if settings.optimizer != "adamw" or settings.adamw != "torch":
        return "of another optimizer than torch's AdamW"
    return None


class RecordedUpdate:
    """Makes steps as ``update`` does; of each shape the first one plainly, then by a recording of the second.

    Attributes:
        update: makes the steps.
        say: is called with a line if a step cannot be recorded.
        refusal: why no further step is recorded, once one could not be.
        recordings: by the shapes of their inputs.
    """

    def __init__(self, update: Update, say: Say, record: Recorder | None = None) -> None:
        self.update, self.say = update, say
        self.refusal: str | None = None
        self._record = record or _cuda_graphs()
        self._seen: set[Shapes] = set()
        self.recordings: dict[Shapes, _Recording] = {}

    def __call__(self, batches: Sequence[StepInputs], *, diagnose: bool = False) -> Updated:
        """Makes a step on the one batch in ``batches``; see `Update`."""
        (inputs,) = batches
        shapes = _shapes(inputs)
        if shapes not in self.recordings:
            if self.refusal is not None or shapes not in self._seen or inputs.prepared:
                self._seen.add(shapes)
                return self.update(batches, diagnose=diagnose)
            try:
                self.recordings[shapes] = self._recorded(inputs)
            except (RuntimeError, ValueError, TypeError) as error:
                self.refusal = shortened(reason(error), 200)
                self.say(f"steps      are not recorded as graphs ({self.refusal}), which is slower")
                return self.update(batches, diagnose=diagnose)
        updated = self.recordings[shapes].replay(inputs)
        return updated.with_figures(self.update.step.objective) if diagnose else updated

    def _recorded(self, inputs: StepInputs) -> _Recording:
        static = _copied(inputs)
        device = inputs.keys.device
        before = random_state(device)
        self.update.clear()
        try:
            again = self._record(lambda: self.update([static]))
        except BaseException:
            restore(before, device)
            raise
        finally:
            self.update.clear()
        return _Recording(static, again)

    def clear(self) -> None:
        """Drops the gradients; a replay writes them again."""
        self.update.clear()


@dataclass(frozen=True)
class _Recording:
    """One recorded step, and the inputs that it reads."""

    inputs: StepInputs
    again: Callable[[], Updated]

    def replay(self, inputs: StepInputs) -> Updated:
        """Makes the step on ``inputs``; what it returns is overwritten by the next one."""
        for static, fresh in zip(_tensors(self.inputs), _tensors(inputs), strict=True):
            if static is not None and fresh is not None:
                static.copy_(fresh, non_blocking=True)
        updated = self.again()
        return replace(updated, reps=replace(updated.reps, noise_seed=inputs.noise_seed))


def _tensors(inputs: StepInputs) -> list[Tensor | None]:
    """All tensors of a step's inputs."""
    tokens = inputs.tokens
    return [tokens.input_ids, tokens.attention_mask, tokens.unpooled, inputs.keys, inputs.labels]


def _copied(inputs: StepInputs) -> StepInputs:
    """The same inputs in tensors of their own."""
    ids, mask, unpooled, keys, labels = (None if one is None else one.clone() for one in _tensors(inputs))
    if ids is None or mask is None or keys is None:
        raise TypeError("a step without ids, mask or keys")
    return replace(inputs, tokens=Tokens(ids, mask, unpooled), keys=keys, labels=labels)


def _shapes(inputs: StepInputs) -> Shapes:
    """What a recording depends on, the numbers in the tensors aside."""
    shapes = [None if one is None else (tuple(one.shape), one.dtype) for one in _tensors(inputs)]
    return (*shapes, inputs.examples, inputs.anchor_length, inputs.positives)


def _cuda_graphs() -> Recorder:
    """Records CUDA graphs that share one pool of memory: only what a step returns outlives it."""
    pool: Any = torch.cuda.graph_pool_handle()

    def record(function: Callable[[], Updated]) -> Callable[[], Updated]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            updated = function()

        def again() -> Updated:
            graph.replay()
            return updated

        return again

    return record
