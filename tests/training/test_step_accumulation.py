"""Several batches in one step: the gradient of their mean loss, in one pass or two, in float32 and bf16, clipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError
from opencse.kernels.precision import choose_precision
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.step_losses import StepLosses
from opencse.objective.vectors.step import StepInputs
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text.readers import Source
from opencse.training.step import Step
from opencse.training.worst_case import Awp, FgsmInputs, Sam, WorstCase

N = 4


@pytest.fixture
def batches(encoder: SentenceEncoder, sentences: list[str]) -> list[StepInputs]:
    keys = torch.arange(N).unsqueeze(1).repeat(1, 2)
    rows = [sentences[start : start + N] * 2 for start in (0, N, 2 * N)]
    padded = [encoder.tokenizer.pad(encoder.tokenize(texts)) for texts in rows]
    return [StepInputs(tokens, N, keys, noise_seed=3 + number) for number, tokens in enumerate(padded)]


def step_of(encoder: SentenceEncoder, worst: Sam | Awp | None = None, precision: str = "float32") -> Step:
    objective = Objective.from_settings(validate(ObjectiveSettings, {}, "test"))
    passes = None if worst is None else WorstCase(worst, list(encoder.parameters()))
    chosen = choose_precision("bf16" if precision == "bf16" else "float32", encoder.device)
    return Step(encoder, objective, chosen, worst_case=passes)


def gradients(encoder: SentenceEncoder) -> dict[str, Tensor]:
    found = {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad()
    assert found
    assert any(g.any() for g in found.values())
    return found


def close(a: dict[str, Tensor], b: dict[str, Tensor], tolerance: float) -> bool:
    norm = torch.stack([g.norm() for g in b.values()]).norm()
    gap = torch.stack([(a[name] - b[name]).norm() for name in b]).norm()
    return a.keys() == b.keys() and float(gap / norm) < tolerance


def one_by_one(encoder: SentenceEncoder, step: Step, batches: list[StepInputs]) -> dict[str, Tensor]:
    """The mean of the batches' own gradients, each found alone, with dropout going on as in one sequence."""
    parts = []
    for batch in batches:
        step.gradients([batch])
        parts.append(gradients(encoder))
    return {name: torch.stack([part[name] for part in parts]).mean(dim=0) for name in parts[0]}


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_gradient_is_the_mean_of_the_batches(
    precision: str, encoder: SentenceEncoder, batches: list[StepInputs]
) -> None:
    step = step_of(encoder, precision=precision)
    torch.manual_seed(5)
    expected = one_by_one(encoder, step, batches)
    torch.manual_seed(5)
    reps, outcome = step.gradients(batches)
    got = gradients(encoder)
    assert close(got, expected, 1e-5 if precision == "float32" else 0.02)
    assert not close(got, {name: 3 * g for name, g in expected.items()}, 0.1)
    assert not outcome.total.requires_grad
    assert reps.anchor.shape[0] == N


def test_losses_and_numbers_are_means(encoder: SentenceEncoder, batches: list[StepInputs]) -> None:
    step = step_of(encoder)
    torch.manual_seed(5)
    alone = [step.gradients([batch])[1] for batch in batches]
    torch.manual_seed(5)
    outcome = step.gradients(batches)[1]
    for name, loss in outcome.losses.items():
        assert float(loss) == pytest.approx(sum(float(o.losses[name]) for o in alone) / 3)
    for name, value in outcome.report.items():
        assert float(value) == pytest.approx(sum(float(o.report[name]) for o in alone) / 3)
    assert len({float(o.total) for o in alone}) == 3
    assert isinstance(outcome, StepLosses)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("worst", [Sam(rho=0.1), Awp(gamma=0.02), Awp(inputs=FgsmInputs(epsilon=0.01))], ids=str)
def test_the_worst_case_is_that_of_the_mean_loss(
    worst: Sam | Awp, precision: str, encoder: SentenceEncoder, batches: list[StepInputs]
) -> None:
    """By hand: mean gradient under these masks, weights and inputs moved, mean gradient there, same masks."""
    step = step_of(encoder, precision=precision)
    seen: list[Tensor] = []

    def watch(words: Tensor, start: int) -> Tensor:
        assert start == 0
        words.retain_grad()
        seen.append(words)
        return words

    def mean_gradient(moves: list[Tensor] | None) -> dict[str, Tensor]:
        torch.manual_seed(5)
        for number, batch in enumerate(batches):
            with step.precision.autocast(encoder.device):
                change = watch if moves is None else (lambda words, start, move=moves[number]: words + move)
                reps = step.objective.represent(encoder, batch, disturb=change)
            torch.autograd.backward(step.objective(reps).total / len(batches))
        return gradients(encoder)

    ascent = mean_gradient(None)
    before = {name: p.detach().clone() for name, p in encoder.named_parameters()}
    whole = torch.stack([g.norm() for g in ascent.values()]).norm()
    with torch.no_grad():
        for name, p in encoder.named_parameters():
            if isinstance(worst, Sam):
                p.add_(worst.rho * ascent[name] / whole if name in ascent else torch.zeros_like(p))
            elif name in ascent and p.ndim >= 2 and ascent[name].any():
                p.add_(worst.gamma * p.norm() * ascent[name] / ascent[name].norm())
    epsilon = worst.inputs.epsilon if isinstance(worst.inputs, FgsmInputs) else 0.0
    moves = [torch.zeros_like(words) if w is None else epsilon * w.sign() for words in seen for w in [words.grad]]
    expected = mean_gradient(moves)
    encoder.load_state_dict(before, strict=False)
    assert not close(ascent, expected, 1e-3), "the second pass is somewhere else"

    torch.manual_seed(5)
    step_of(encoder, worst, precision).gradients(batches)
    assert close(gradients(encoder), expected, 1e-5 if precision == "float32" else 0.05)
    assert all(torch.equal(p, before[name]) for name, p in encoder.named_parameters())


SETTINGS = (
    "training.batch_size=4",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "encoder.pooling=mean",
)


@pytest.fixture
def text(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(sentences[:24]))
    return path


def job(model: Path, text: Path, *settings: str) -> TrainJob:
    return TrainJob(
        text=Source(str(text)), recipe="simcse", model=str(model), settings=(*SETTINGS, *settings), dev=None
    )


@pytest.mark.slow
def test_a_run_reads_every_example_once_and_says_so(tiny_folder: Path, tmp_path: Path, text: Path) -> None:
    made = job(tiny_folder, text, "training.accumulate=3")
    plan = made.prepare(Silent()).plan
    assert plan.steps == 2
    assert any("batch 4 x 3, each contrasted separately" in line and "1.00 epochs" in line for line in plan.lines())
    assert plan.negatives_per_anchor == 3
    seen: list[int] = []
    prepared = made.prepare(Silent())
    for number in range(6):
        seen += prepared.batches.batch(number).tolist()
    assert sorted(seen) == list(range(24))
    assert job(tiny_folder, text, "training.accumulate=4", "training.epochs=2").prepare(Silent()).plan.steps == 3


@pytest.mark.slow
def test_gradients_are_clipped_once_over_the_whole_step(tiny_folder: Path, tmp_path: Path, text: Path) -> None:
    """Plain SGD cannot be asked for, so the log tells: the norm before clipping is that of the mean gradient."""
    settings = ("training.accumulate=3", 'training.worst_case={kind="sam", rho=0.05}', "training.max_grad_norm=1e-3")
    job(tiny_folder, text, *settings).run(tmp_path / "run")
    logged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(logged) == 2
    assert all(line["gradient_norm"] > 1e-3 for line in logged)


@pytest.mark.slow
def test_one_batch_a_step_is_the_plain_run(tiny_folder: Path, tmp_path: Path, text: Path) -> None:
    for name, settings in {"plain": (), "one": ("training.accumulate=1",), "two": ("training.accumulate=2",)}.items():
        job(tiny_folder, text, *settings).run(tmp_path / name)
    plain, one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "one", "two"))
    assert all(torch.equal(plain[key], one[key]) for key in plain)
    assert not all(torch.equal(plain[key], two[key]) for key in plain)


@pytest.mark.slow
def test_resumed_is_uninterrupted(tiny_folder: Path, tmp_path: Path, text: Path) -> None:
    settings = ("training.accumulate=2", "training.checkpoint_every=1", 'training.worst_case={kind="awp"}')
    job(tiny_folder, text, *settings).run(tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        calls: list[int] = []
        gradients_of = Step.gradients

        def dies(self: Step, batches: list[StepInputs]) -> object:
            calls.append(len(batches))
            if len(calls) == 3:
                raise KeyboardInterrupt
            return gradients_of(self, batches)

        patch.setattr(Step, "gradients", dies)
        with pytest.raises(InterruptedRunError):
            job(tiny_folder, text, *settings).run(tmp_path / "broken")
    assert calls == [2, 2, 2]
    job(tiny_folder, text, *settings).run(tmp_path / "broken", resume=True)
    whole, broken = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(whole[key], broken[key]) for key in whole)
