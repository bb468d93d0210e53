"""Worst-case passes and steps of several batches: where the gradient is taken, and the weights as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.precision import choose_precision
from opencse.objective.vectors.step import StepInputs
from opencse.runs.run import Run
from opencse.text.readers import Source
from opencse.training.settings import Awp, FgsmInputs, Sam
from opencse.training.step import DisturbBatch, Step, WorstCase

N = 4
SETTINGS = (
    "training.epochs=10",
    "training.max_steps=6",
    "training.batch_size=8",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "encoder.pooling=mean",
)


class Toy(nn.Module):
    """``L(W, b) = sum(c * W^2) / 2 + sum(W b)``: dL/dW = c W + b, dL/db = column sums of W."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64))
        self.bias = nn.Parameter(torch.tensor([0.25, -1.0], dtype=torch.float64))
        self.curvature = torch.tensor([[2.0, 1.0], [4.0, 0.5]], dtype=torch.float64)

    def forward_backward(self, disturb: DisturbBatch | None) -> float:
        assert disturb is None
        loss = (self.curvature * self.weight**2).sum() / 2 + (self.weight * self.bias).sum()
        torch.autograd.backward(loss)
        return float(loss.detach())


def by_hand(toy: Toy, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return toy.curvature * weight + bias, weight.sum(dim=0)


def noise(batch: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(batch)


def train(model: Path, out: Path, text: Path, *settings: str) -> dict[str, Tensor]:
    job = Run(text=Source(str(text)), recipe="simcse", model=str(model), settings=(*SETTINGS, *settings), dev=None)
    job.train(out)
    weights: dict[str, Tensor] = load_file(out / "model.safetensors")
    return weights


@pytest.fixture
def text(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(sentences[:24]))
    return path


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.slow
@pytest.mark.parametrize(
    "worst_case", ['{kind="sam", rho=0.0}', '{kind="awp", gamma=0.0, inputs={kind="fgsm", epsilon=0.0}}']
)
def test_a_worst_case_of_no_size_is_the_plain_run_bit_for_bit(
    worst_case: str, tiny_folder: Path, tmp_path: Path, text: Path
) -> None:
    plain = train(tiny_folder, tmp_path / "plain", text)
    assert equal(train(tiny_folder, tmp_path / "none", text, f"training.worst_case={worst_case}"), plain)
    real = worst_case.replace("0.0}", "0.05}", 1)
    assert not equal(train(tiny_folder, tmp_path / "some", text, f"training.worst_case={real}"), plain)


@pytest.fixture
def batches(encoder: SentenceEncoder, sentences: list[str]) -> list[StepInputs]:
    keys = torch.arange(N).unsqueeze(1).repeat(1, 2)
    rows = [sentences[start : start + N] * 2 for start in (0, N)]
    padded = [encoder.tokenizer.pad(encoder.tokenize(texts)) for texts in rows]
    return [StepInputs(tokens, N, keys, noise_seed=3 + number) for number, tokens in enumerate(padded)]


def accumulated_step(encoder: SentenceEncoder, worst: Sam | Awp | None = None, precision: str = "float32") -> Step:
    objective = objective_of()
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


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_gradient_is_the_mean_of_the_batches(
    precision: str, encoder: SentenceEncoder, batches: list[StepInputs]
) -> None:
    step = accumulated_step(encoder, precision=precision)
    torch.manual_seed(5)
    parts, alone = [], []
    for batch in batches:  # each alone, with dropout going on as in one sequence
        alone.append(step.gradients([batch])[1])
        parts.append(gradients(encoder))
    expected = {name: torch.stack([part[name] for part in parts]).mean(dim=0) for name in parts[0]}
    torch.manual_seed(5)
    outcome = step.gradients(batches)[1]
    assert close(gradients(encoder), expected, 1e-5 if precision == "float32" else 0.02)
    for name, value in (outcome.losses | outcome.report).items():
        mean = sum(float((one.losses | one.report)[name]) for one in alone) / 2
        assert float(value) == pytest.approx(mean, rel=1e-3), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worst", "precision"),
    [(Sam(rho=0.1), "float32"), (Awp(gamma=0.02), "bf16"), (Awp(inputs=FgsmInputs(epsilon=0.01)), "float32")],
    ids=str,
)
def test_the_worst_case_is_that_of_the_mean_loss(
    worst: Sam | Awp, precision: str, encoder: SentenceEncoder, batches: list[StepInputs]
) -> None:
    """By hand: mean gradient under these masks, weights and inputs moved, mean gradient there, same masks."""
    step = accumulated_step(encoder, precision=precision)
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
    accumulated_step(encoder, worst, precision).gradients(batches)
    assert close(gradients(encoder), expected, 1e-5 if precision == "float32" else 0.05)
    assert all(torch.equal(p, before[name]) for name, p in encoder.named_parameters())


ACCUMULATED = (
    "training.batch_size=4",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "encoder.pooling=mean",
)


def job(model: Path, text: Path, *settings: str) -> Run:
    return Run(
        text=Source(str(text)),
        recipe="simcse",
        model=str(model),
        settings=(*ACCUMULATED, *settings),
        dev=None,
    )


@pytest.mark.parametrize("kind", ["sam", "awp"])
def test_the_gradient_is_taken_at_the_worst_case(kind: str) -> None:
    """SAM moves all weights along the whole gradient; AWP each matrix by gamma of its own length, and no bias."""
    toy, size = Toy(), 0.3
    weight, bias = toy.weight.detach().clone(), toy.bias.detach().clone()
    g, h = by_hand(toy, weight, bias)
    norm = (g.square().sum() + h.square().sum()).sqrt()
    if kind == "sam":
        expected = by_hand(toy, weight + size * g / norm, bias + size * h / norm)
    else:
        expected = by_hand(toy, weight + size * weight.norm() * g / g.norm(), bias)
    settings = Sam(rho=size) if kind == "sam" else Awp(gamma=size)
    loss = WorstCase(settings, [toy.weight, toy.bias]).gradients(toy.forward_backward, noise)
    assert loss == pytest.approx(float((toy.curvature * weight**2).sum() / 2 + (weight * bias).sum()))
    for parameter, gradient in zip((toy.weight, toy.bias), expected, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient, rtol=1e-12)
    assert torch.equal(toy.weight, weight)
    assert torch.equal(toy.bias, bias)
