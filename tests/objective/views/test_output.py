"""Positives made of the anchors' own vectors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.negatives.gaussian import Gaussian
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.output import OutputBernoulli, OutputGaussian, OutputMask, keep_mask, spread
from opencse.settings import validate

N, D = 6, 40
KINDS: list[dict[str, Any]] = [
    {"kind": "output_gaussian"},
    {"kind": "output_bernoulli"},
    {"kind": "output_mask", "features": "smallest"},
    {"kind": "output_mask", "features": "largest"},
    {"kind": "output_fgsm"},
]


def anchors(n: int = N, d: int = D) -> Tensor:
    scale = torch.linspace(0.1, 5.0, d, dtype=torch.float64)
    return scale * torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 2.0


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(view: dict[str, Any], **more: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, {"view": view, **more}, "test"))


def step(encoder: SentenceEncoder, sentences: list[str], n: int = N, seed: int = 5) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:n]))
    return StepInputs(tokens, n, torch.arange(n).unsqueeze(1).repeat(1, 2), noise_seed=seed)


def test_spread_is_the_unbiased_deviation_of_each_dimension() -> None:
    vectors = anchors()
    for d in range(D):
        column = [float(v) for v in vectors[:, d]]
        mean = sum(column) / N
        assert float(spread(vectors)[d]) == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in column) / (N - 1)))
    assert not spread(vectors[:1]).any()
    assert not spread(vectors.requires_grad_()).requires_grad


def test_gaussian_noise_has_the_batch_s_spread() -> None:
    vectors, view, noise = anchors(), OutputGaussian(OutputGaussian.Settings(scale=0.5)), generator()
    draws = torch.stack([(view.derive(vectors, noise) - vectors) / spread(vectors) for _ in range(4000)])
    assert draws.mean(dim=0).abs().max() < 0.5 * 5 / 4000**0.5
    assert torch.allclose(draws.std(dim=0), torch.tensor(0.5, dtype=torch.float64), atol=0.5 * 5 / 8000**0.5)
    assert not torch.equal(draws[0], draws[1])


def test_bernoulli_zeroes_a_tenth_and_keeps_the_rest_as_it_is() -> None:
    vectors, view = anchors(200, 500), OutputBernoulli(OutputBernoulli.Settings())
    made = view.derive(vectors, generator())
    gone = made == 0
    assert torch.equal(made[~gone], vectors[~gone])
    assert float(gone.double().mean()) == pytest.approx(0.1, abs=5 * (0.09 / gone.numel()) ** 0.5)
    assert keep_mask((3, 4), 0.0, vectors, generator()).all()


@pytest.mark.parametrize("features", ["smallest", "largest"])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.33])
def test_masks_against_a_sort(features: str, rate: float) -> None:
    settings = validate(OutputMask.Settings, {"features": features, "rate": rate}, "test")
    vectors = anchors()
    made = OutputMask(settings).derive(vectors, generator())
    for row, changed in zip(vectors.tolist(), made.tolist(), strict=True):
        order = sorted(range(D), key=lambda d: abs(row[d]), reverse=features == "largest")
        gone = set(order[: round(rate * D)])
        assert changed == [0.0 if d in gone else row[d] for d in range(D)]


@pytest.mark.parametrize("view", KINDS, ids=str)
def test_one_forward_of_the_anchors_and_gradient_through_both_sides(
    view: dict[str, Any], encoder: SentenceEncoder, sentences: list[str]
) -> None:
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    objective = build(view)
    reps = objective.represent(encoder, step(encoder, sentences))
    assert rows == [N]
    assert reps.positive.shape == reps.anchor.shape == (N, 32)
    assert not torch.equal(reps.positive, reps.anchor)
    (through,) = torch.autograd.grad(reps.positive.sum(), reps.anchor, retain_graph=True)
    if view["kind"] in ("output_gaussian", "output_fgsm"):
        assert torch.equal(through, torch.ones_like(through)), "statistics and directions take no gradient"
    else:
        assert torch.equal(through, (reps.positive != 0).float())
    torch.autograd.backward(objective(reps).total)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.backbone.parameters())


@pytest.mark.parametrize(
    "view",
    [
        {"kind": "output_gaussian", "scale": 0.0},
        {"kind": "output_bernoulli", "rate": 0.0},
        {"kind": "output_mask", "rate": 0.0},
        {"kind": "output_fgsm", "epsilon": 0.0},
    ],
    ids=str,
)
def test_nothing_of_it_is_the_anchor_itself(
    view: dict[str, Any], encoder: SentenceEncoder, sentences: list[str]
) -> None:
    reps = build(view).represent(encoder, step(encoder, sentences))
    assert torch.equal(reps.positive, reps.anchor)


def test_fgsm_steps_along_the_sign_of_the_contrastive_gradient(encoder: SentenceEncoder, sentences: list[str]) -> None:
    """Against InfoNCE written as loops, its gradient by central differences."""
    tau, epsilon = 0.05, 0.01
    negatives: list[dict[str, Any]] = [{"kind": "in_batch"}, {"kind": "gaussian"}]
    objective = build({"kind": "output_fgsm", "epsilon": epsilon}, temperature=tau, negatives=negatives)
    inputs = step(encoder, sentences)
    reps = objective.represent(encoder, inputs)
    a = reps.anchor.detach().double()
    fake = objective.negatives[1]
    assert isinstance(fake, Gaussian)
    drawn = fake.generate(a.float(), N, inputs.noise("negatives.gaussian")).double()

    def loss(b: Tensor) -> float:
        total = 0.0
        for i in range(N):
            cosines = [float(torch.cosine_similarity(a[i], b[j], dim=0)) / tau for j in range(N)]
            cosines += [float(torch.cosine_similarity(a[i], drawn[k], dim=0)) / tau for k in range(N)]
            total += math.log(sum(math.exp(c) for c in cosines)) - cosines[i]
        return total / N

    moved = (reps.positive.detach().double() - a) / spread(a)
    assert torch.allclose(moved.abs(), torch.full_like(moved, epsilon), rtol=1e-2)
    agreed = compared = 0
    for i, d in [(i, d) for i in range(N) for d in range(0, 32, 5)]:
        up, down = a.clone(), a.clone()
        up[i, d] += 1e-4
        down[i, d] -= 1e-4
        slope = (loss(up) - loss(down)) / 2e-4
        if abs(slope) > 1e-4:
            compared += 1
            agreed += math.copysign(1.0, slope) == math.copysign(1.0, float(moved[i, d]))
    assert compared > 20
    assert agreed == compared
    assert loss(reps.positive.detach().double()) > loss(a)


def test_noise_is_of_the_step_alone(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective = build({"kind": "output_gaussian"})
    encoder.eval()
    with torch.no_grad():
        made = [objective.represent(encoder, step(encoder, sentences, seed=seed)).positive for seed in (1, 1, 2)]
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


@pytest.mark.parametrize("view", ["input_fgsm", "output_fgsm"])
def test_a_gradient_needs_a_contrast_of_the_positives(view: str) -> None:
    with pytest.raises(UserError, match=f"the view {view} follows the gradient of a contrast, and there are no neg"):
        build({"kind": view}, negatives=[], terms=[{"kind": "dcl"}])
    for other in ("clean", "anchors"):
        with pytest.raises(UserError, match=rf"follows .* the positives' vectors, and objective.positive.of = {other}"):
            build({"kind": view}, positive={"of": {"kind": other}})
    assert build({"kind": view}, positive={"of": {"kind": "noisy"}}).reads


def test_what_cannot_go_together_is_refused() -> None:
    with pytest.raises(UserError, match="a second encoder would have nothing to read: the view output_gaussian"):
        build({"kind": "output_gaussian"}, dual_encoder=True)
    with pytest.raises(UserError, match="scale: input should be greater than or equal to 0"):
        validate(OutputGaussian.Settings, {"scale": -1.0}, "test")
