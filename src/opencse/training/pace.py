"""Plans the batches of a run, and measures how long a step takes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.precision import Precision
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.text.batches import Batches, BatchPlan, TokenBatchPlan
from opencse.training.mixture import DataSet, MixingPlan
from opencse.training.optimizer import build_optimizer, set_rate, trained_weights
from opencse.training.settings import TrainingSettings
from opencse.training.step import Step, step_inputs
from opencse.training.worst_case import WorstCase

_WARM_UP = 2
_TIMED = 12


def plan_batches(inputs: InputBuilder, settings: TrainingSettings) -> Batches:
    """Plans the batches: of ``batch_tokens`` tokens if that is set, else of ``batch_size`` examples."""
    if settings.batch_tokens is not None:
        return TokenBatchPlan(inputs.lengths, settings.batch_tokens, settings.seed_of_order)
    return BatchPlan(len(inputs), settings.batch_size, settings.seed_of_order)


def seconds_per_step(
    encoder: SentenceEncoder,
    objective: Objective,
    inputs: InputBuilder,
    batches: Batches,
    settings: TrainingSettings,
    precision: Precision,
    chunks: Chunks = WHOLE,
    most_seconds: float | None = None,
) -> float:
    """Measures the seconds of a training step: the mean over batches spread through the first epoch.

    Complete steps are made with a learning rate of zero and an optimizer that is dropped, so that no weight changes;
    the state of the objective's parts and the encoder's buffers are restored afterwards. With ``most_seconds`` no
    further step begins once that many seconds have passed since the first timed one.
    """
    buffers = [(buffer, buffer.clone()) for buffer in encoder.buffers()]
    state = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    optimizer = build_optimizer([*encoder.parameters(), *objective.parameters()], settings)
    set_rate(optimizer, 0.0)
    last = max(0, batches.steps_per_epoch // settings.accumulate - 1)
    spread = np.linspace(0, last, _WARM_UP + _TIMED).astype(int)
    # in random order: where the time is limited, the first batches must not be all that is timed
    order = np.random.default_rng(settings.seed).permutation(spread)
    worst_case = None if settings.worst_case is None else WorstCase(settings.worst_case, trained_weights(optimizer))
    trial = Step(encoder, objective, precision, worst_case=worst_case)
    encoder.train()
    objective.train()
    started, timed = 0.0, _TIMED
    for number, step in enumerate(order):
        if number == _WARM_UP:
            _wait(encoder.device)
            started = time.perf_counter()
        if most_seconds is not None and number > _WARM_UP and time.perf_counter() - started > most_seconds:
            timed = number - _WARM_UP
            break
        trial.gradients(step_inputs(inputs, batches, int(step), settings.accumulate, encoder, chunks))
        optimizer.step()  # at a rate of 0: its time counts, and no weight moves
        optimizer.zero_grad()
    _wait(encoder.device)
    seconds = (time.perf_counter() - started) / timed
    objective.load_state_dict(state)
    for buffer, before in buffers:
        buffer.copy_(before)
    return seconds


def mean_seconds_per_step(
    encoder: SentenceEncoder,
    sets: Sequence[DataSet],
    mixture: MixingPlan | None,
    settings: TrainingSettings,
    precision: Precision,
    chunks: Chunks = WHOLE,
    most_seconds: float | None = None,
) -> float:
    """Measures `seconds_per_step` of each data set, and takes the mean as they are mixed."""
    paces = [
        seconds_per_step(encoder, one.objective, one.inputs, one.batches, settings, precision, chunks, most_seconds)
        for one in sets
    ]
    return float(np.average(paces, weights=None if mixture is None else mixture.steps))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
