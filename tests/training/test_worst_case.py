"""Worst-case passes and steps of several batches: where the gradient is taken, and the weights as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.precision import Precision, choose_precision
from opencse.objective.objective import Objective, StepLosses
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import StepInputs
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text.readers import Source
from opencse.training.step import Step
from opencse.training.worst_case import Awp, DisturbBatch, FgsmInputs, GaussianInputs, Sam, WorstCase

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


def test_sam_by_hand() -> None:
    toy, rho = Toy(), 0.3
    weight, bias = toy.weight.detach().clone(), toy.bias.detach().clone()
    g, h = by_hand(toy, weight, bias)
    norm = (g.square().sum() + h.square().sum()).sqrt()
    expected = by_hand(toy, weight + rho * g / norm, bias + rho * h / norm)
    loss = WorstCase(Sam(rho=rho), [toy.weight, toy.bias]).gradients(toy.forward_backward, noise)
    assert loss == pytest.approx(float((toy.curvature * weight**2).sum() / 2 + (weight * bias).sum()))
    for parameter, gradient in zip((toy.weight, toy.bias), expected, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient, rtol=1e-12)
    assert not torch.allclose(expected[0], g), "the second pass is somewhere else"
    assert torch.equal(toy.weight, weight)
    assert torch.equal(toy.bias, bias)


def test_awp_by_hand() -> None:
    toy, gamma = Toy(), 0.1
    weight, bias = toy.weight.detach().clone(), toy.bias.detach().clone()
    g, _ = by_hand(toy, weight, bias)
    expected = by_hand(toy, weight + gamma * weight.norm() * g / g.norm(), bias)
    WorstCase(Awp(gamma=gamma), [toy.weight, toy.bias]).gradients(toy.forward_backward, noise)
    assert toy.weight.grad is not None
    assert toy.bias.grad is not None
    assert torch.allclose(toy.weight.grad, expected[0], rtol=1e-12)
    assert torch.allclose(toy.bias.grad, expected[1], rtol=1e-12)
    assert not torch.allclose(expected[1], by_hand(toy, weight, bias)[1])
    assert torch.equal(toy.weight, weight)
    assert torch.equal(toy.bias, bias)


def test_a_gradient_of_zero_moves_nothing() -> None:
    weight = nn.Parameter(torch.ones(2, 2))

    def flat(disturb: DisturbBatch | None) -> float:
        del disturb
        torch.autograd.backward((0 * weight).sum())
        return 0.0

    for settings in (Sam(), Awp()):
        WorstCase(settings, [weight]).gradients(flat, noise)
        assert torch.equal(weight, torch.ones(2, 2))
        assert weight.grad is not None
        assert not weight.grad.any()


def step_of(encoder: SentenceEncoder, settings: Sam | Awp | None) -> Step:
    objective = Objective.from_settings(validate(ObjectiveSettings, {}, "test"))
    worst_case = None if settings is None else WorstCase(settings, list(encoder.parameters()))
    precision: Precision = choose_precision("float32", encoder.device)
    return Step(encoder, objective, precision, worst_case=worst_case)


def inputs_of(encoder: SentenceEncoder, sentences: list[str]) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:N] * 2))
    return StepInputs(tokens, N, torch.arange(N).unsqueeze(1).repeat(1, 2), noise_seed=3)


@pytest.mark.parametrize(
    ("kind", "inputs"), [(Sam, None), (Awp, GaussianInputs(sd=0.05)), (Sam, FgsmInputs(epsilon=1e-4))], ids=str
)
def test_the_loss_is_higher_at_the_worst_case_and_the_weights_come_back(
    kind: type[Sam | Awp], inputs: GaussianInputs | FgsmInputs | None, encoder: SentenceEncoder, sentences: list[str]
) -> None:
    settings = kind() if inputs is None else kind(inputs=inputs)
    step, given = step_of(encoder, settings), inputs_of(encoder, sentences)
    before = {name: p.detach().clone() for name, p in encoder.named_parameters()}
    losses: list[float] = []
    step.objective.register_forward_hook(lambda module, args, outcome: losses.append(float(outcome.total.detach())))
    torch.manual_seed(1)
    reps, outcome = step.gradients([given])
    assert len(losses) == 2
    assert losses[0] == float(outcome.total.detach())
    if not isinstance(inputs, GaussianInputs):
        assert losses[1] > losses[0]
    assert losses[1] != losses[0]
    assert not reps.anchor.requires_grad
    for name, p in encoder.named_parameters():
        assert torch.equal(p, before[name]), name
        assert p.grad is not None
    plain = step_of(encoder, None)
    worst = {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
    encoder.zero_grad()
    torch.manual_seed(1)
    plain.gradients([given])
    assert any(p.grad is not None and not torch.allclose(p.grad, worst[n]) for n, p in encoder.named_parameters())


@pytest.mark.parametrize("same", [True, False])
def test_masks_are_the_same_in_both_passes_if_set(same: bool, encoder: SentenceEncoder, sentences: list[str]) -> None:
    states: list[Tensor] = []
    encoder.backbone.register_forward_pre_hook(lambda module, args: states.append(torch.get_rng_state()))
    step_of(encoder, Awp(same_masks=same)).gradients([inputs_of(encoder, sentences)])
    assert len(states) == 2
    assert torch.equal(states[0], states[1]) is same
    assert not torch.equal(states[1], torch.get_rng_state())


def test_fgsm_inputs_follow_the_first_pass(encoder: SentenceEncoder, sentences: list[str]) -> None:
    """With gamma 0 the weights stand still, so the second pass's inputs are the first's, each moved by epsilon."""
    seen: list[Tensor] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["inputs_embeds"].detach()), with_kwargs=True
    )
    given = inputs_of(encoder, sentences)
    step_of(encoder, Awp(gamma=0.0, inputs=FgsmInputs(epsilon=0.01))).gradients([given])
    moved = (seen[1] - seen[0])[given.tokens.attention_mask.bool()]
    assert torch.allclose(moved.abs(), torch.tensor(0.01), atol=1e-6)
    assert (moved > 0).any()
    assert (moved < 0).any()


def train(model: Path, out: Path, text: Path, *settings: str) -> dict[str, Tensor]:
    job = TrainJob(text=Source(str(text)), recipe="simcse", model=str(model), settings=(*SETTINGS, *settings), dev=None)
    job.run(out)
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


@pytest.mark.slow
def test_a_queue_sees_the_weights_as_they_are(tiny_folder: Path, tmp_path: Path, text: Path) -> None:
    """The momentum encoder at momentum 0 is the encoder: the perturbed weights must never reach it."""
    queue = 'objective.negatives=[{kind="in_batch"}, {kind="momentum_queue", size=8, momentum=0.0}]'
    seen: list[bool] = []
    after: Callable[..., None] = Objective.after_backward

    def spy(self: Objective, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: object) -> None:
        after(self, encoder, inputs, reps)
        state = self.state_dict()
        prefix = "parts.1.average.encoder."
        own = encoder.state_dict()
        seen.append(all(torch.equal(state[k], own[k.removeprefix(prefix)]) for k in state if k.startswith(prefix)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "after_backward", spy)
        train(tiny_folder, tmp_path / "run", text, queue, 'training.worst_case={kind="sam", rho=0.5}')
    assert seen == [True] * 6


def test_masked_copies_alone_and_two_forwards_cannot_be_disturbed() -> None:
    with pytest.raises(UserError, match="encodes only masked copies"):
        load_recipe("pretrain", overrides=['training.worst_case={kind="awp", inputs={kind="gaussian"}}'])
    for wrong in ("objective.dual_encoder=true", "objective.view.shared_mask=true"):
        with pytest.raises(UserError, match="changes the inputs of one forward, and this objective makes two"):
            load_recipe("simcse", overrides=[wrong, 'training.worst_case={kind="awp", inputs={kind="gaussian"}}'])
        load_recipe("simcse", overrides=[wrong, 'training.worst_case={kind="awp"}'])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "more"),
    [
        ('training.worst_case={kind="awp", inputs={kind="fgsm"}}', ()),
        ('objective.view={kind="input_fgsm"}', ("training.chunk=4",)),
    ],
)
def test_fgsm_with_adapters_alone(
    tiny_folder: Path, tmp_path: Path, text: Path, setting: str, more: tuple[str, ...]
) -> None:
    """LoRA trains no embedding, and the gradient at the input is there all the same."""
    trained = train(tiny_folder, tmp_path / "out", text, "encoder.lora={rank=2}", setting, *more)
    assert not equal(trained, train(tiny_folder, tmp_path / "plain", text, "encoder.lora={rank=2}", *more))


@pytest.fixture
def batches(encoder: SentenceEncoder, sentences: list[str]) -> list[StepInputs]:
    keys = torch.arange(N).unsqueeze(1).repeat(1, 2)
    rows = [sentences[start : start + N] * 2 for start in (0, N, 2 * N)]
    padded = [encoder.tokenizer.pad(encoder.tokenize(texts)) for texts in rows]
    return [StepInputs(tokens, N, keys, noise_seed=3 + number) for number, tokens in enumerate(padded)]


def accumulated_step(encoder: SentenceEncoder, worst: Sam | Awp | None = None, precision: str = "float32") -> Step:
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
    step = accumulated_step(encoder, precision=precision)
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
    step = accumulated_step(encoder)
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


def job(model: Path, text: Path, *settings: str) -> TrainJob:
    return TrainJob(
        text=Source(str(text)),
        recipe="simcse",
        model=str(model),
        settings=(*ACCUMULATED, *settings),
        dev=None,
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
