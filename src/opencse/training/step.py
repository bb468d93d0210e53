"""Makes the steps: gradients of one batch or several, the move of the weights, and steps recorded as CUDA graphs.

Sharpness-aware (SAM) and adversarial (AWP) training takes the gradient nearby, where the loss is higher. It works with
any recipe: each step makes a pass as usual, moves the weights (and inputs, if set) a little up the loss, makes a second
pass there, and restores the weights bit for bit; the second pass's gradient is the step's.

A replayed step is the recorded one bit for bit: the same kernels on the same tensors, and dropout draws what it would
have drawn. A step can be recorded if everything that it computes depends on tensors alone; parts say so
(`opencse.objective.part.Part.recordable`), and what the processor must read or draw by itself fails while recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import reason, shortened
from opencse.kernels.gpu import MULTIPLE
from opencse.kernels.precision import Precision
from opencse.kernels.states import ON_GPU
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective, StepLosses
from opencse.objective.similarity import standard_normal
from opencse.objective.vectors.chunks import WHOLE, Chunks, RowDisturb, random_state, restore
from opencse.objective.vectors.represent import GradientWatch, RowNoise
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.processes import Processes
from opencse.progress import Say
from opencse.text.tokenizer import Tokens
from opencse.training.batches import Batches
from opencse.training.optimizer import trained_weights
from opencse.training.settings import Awp, FgsmInputs, GaussianInputs, Sam, TrainingSettings

T = TypeVar("T")
DisturbBatch = Callable[[int], RowDisturb | None]
"""The disturbance of each batch of a pass, by its number (from 0)."""


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
            # AWP's code leaves biases and norms alone.
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
                # Batch by batch, so that one graph at a time is in memory.
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
        # A head that normalises over the batch runs over all rows in every process.
        for encoder in (one for one in encoders if one.batch_heads):
            shared -= {*encoder.dense.parameters()}
            shared -= set() if encoder.projection is None else {*encoder.projection.parameters()}
        trained = list(dict.fromkeys(p for m in (self.encoder, self.objective) for p in m.parameters()))
        trained = [p for p in trained if p.requires_grad]
        # All processes add up the same list, or they would wait for each other.
        reached = world.any_of([p.grad is not None for p in trained])
        gradients = []
        for parameter in (p for p, is_reached in zip(trained, reached, strict=True) if is_reached):
            if parameter.grad is None:  # no row of this process reaches it
                parameter.grad = torch.zeros_like(parameter)
            # Complete in every process already, so that their sum is divided.
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


@dataclass(frozen=True)
class Updated:
    """What one step gave, at the weights before it.

    Attributes:
        reps: the last batch's vectors, without gradient.
        losses: the mean losses and figures, with the norm of the gradient before it was clipped.
    """

    reps: Representations
    losses: StepLosses

    def with_figures(self, objective: Objective) -> Updated:
        """The same with the figures that `Objective.diagnose` gives of the vectors."""
        report = self.losses.report | _figures(objective, self.reps)
        return Updated(self.reps, StepLosses(self.losses.losses, report))


def _figures(objective: Objective, reps: Representations) -> dict[str, Tensor]:
    with torch.no_grad():
        return objective.diagnose(reps)


@dataclass(frozen=True)
class Update:
    """Makes steps: the gradients of ``step``, clipped together, and one move of the optimizer.

    Attributes:
        step: gives the gradients.
        optimizer: moves the weights.
        max_norm: the gradients are clipped to this norm.
    """

    step: Step
    optimizer: torch.optim.Optimizer
    max_norm: float

    def __call__(self, batches: Sequence[StepInputs], *, diagnose: bool = False) -> Updated:
        """Makes a step on ``batches``; the gradients stay until `clear`.

        Args:
            batches: of the step.
            diagnose: add the figures that are too expensive for every step.
        """
        reps, outcome = self.step.gradients(batches)
        figures = _figures(self.step.objective, reps) if diagnose else {}
        # one norm for encoder and parts: clipped one by one, the step would turn
        norm = nn.utils.clip_grad_norm_(trained_weights(self.optimizer), self.max_norm)
        self.optimizer.step()
        return Updated(reps, StepLosses(outcome.losses, outcome.report | {"gradient_norm": norm} | figures))

    def clear(self) -> None:
        """Drops the gradients."""
        self.optimizer.zero_grad(set_to_none=True)  # not to zeros: AdamW would decay what no row has reached


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
            # The first step of a shape compiles and allocates what a recording may not.
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
        # thread_local: what other threads do on the GPU does not end the recording.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            updated = function()

        def again() -> Updated:
            graph.replay()
            return updated

        return again

    return record
