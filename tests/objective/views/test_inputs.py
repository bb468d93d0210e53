"""Positives whose input embeddings are disturbed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.inputs import InputBernoulli, InputGaussian, InputGaussianDropout
from opencse.settings import validate

N = 5
KINDS: list[dict[str, Any]] = [
    {"kind": "input_gaussian", "sd": 0.1},
    {"kind": "input_gaussian_dropout", "sd": 0.1},
    {"kind": "input_bernoulli", "rate": 0.1},
    {"kind": "input_bernoulli", "rate": 0.1, "features": True},
    {"kind": "input_fgsm", "epsilon": 0.1},
]
NOTHING: list[dict[str, Any]] = [
    {"kind": "input_gaussian", "sd": 0.0},
    {"kind": "input_gaussian_dropout", "sd": 0.0},
    {"kind": "input_bernoulli", "rate": 0.0},
    {"kind": "input_fgsm", "epsilon": 0.0},
]


def build(view: dict[str, Any], **more: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, {"view": view, **more}, "test"))


def step(encoder: SentenceEncoder, sentences: list[str], seed: int = 5) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:N] * 2))
    return StepInputs(tokens, N, torch.arange(N).unsqueeze(1).repeat(1, 2), noise_seed=seed)


def embeddings() -> Tensor:
    return torch.randn(20, 30, 50, generator=torch.Generator().manual_seed(2)) + 3.0


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_gaussian_noise_is_added() -> None:
    words = embeddings()
    noise = InputGaussian(InputGaussian.Settings(sd=0.25)).disturb(words, generator()) - words
    assert float(noise.mean()) == pytest.approx(0, abs=5 * 0.25 / words.numel() ** 0.5)
    assert float(noise.std()) == pytest.approx(0.25, rel=0.02)
    assert abs(float(torch.corrcoef(torch.stack([noise[0].flatten(), noise[1].flatten()]))[0, 1])) < 0.15


def test_gaussian_dropout_multiplies() -> None:
    words = embeddings()
    factor = InputGaussianDropout(InputGaussianDropout.Settings(sd=0.25)).disturb(words, generator()) / words
    assert float(factor.median()) == pytest.approx(1, abs=0.01)
    assert float((factor - 1).square().mean().sqrt()) == pytest.approx(0.25, rel=0.02)


@pytest.mark.parametrize("features", [False, True])
def test_bernoulli_drops_numbers_or_dimensions(features: bool) -> None:
    words = embeddings()
    made = InputBernoulli(InputBernoulli.Settings(rate=0.2, features=features)).disturb(words, generator())
    gone = made == 0
    assert torch.allclose(made[~gone], words[~gone] / 0.8)
    draws = gone.numel() / (words.shape[1] if features else 1)
    assert float(gone.float().mean()) == pytest.approx(0.2, abs=5 * (0.16 / draws) ** 0.5)
    whole = (gone == gone[:, :1]).all(dim=1)
    assert bool(whole.all()) is features
    assert not torch.equal(gone[0], gone[1]), "every sentence has its own"


@pytest.mark.parametrize("view", KINDS, ids=str)
def test_only_the_positives_are_disturbed(view: dict[str, Any], encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.eval()
    inputs = step(encoder, sentences)
    plain = build({"kind": "dropout"}).represent(encoder, inputs)
    reps = build(view).represent(encoder, inputs)
    assert torch.equal(reps.anchor, plain.anchor)
    changed = (reps.positive - plain.positive).abs().amax(dim=1)
    assert (changed > 1e-4).all()


class NoisyAnchors(InputGaussian):
    """A view that changes the inputs of both sides: other noise on the anchors than on the positives."""

    def disturb_anchors(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        return embeddings + torch.randn(embeddings.shape, generator=noise)


def test_a_view_may_disturb_the_anchors_too(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.eval()
    inputs = step(encoder, sentences)
    plain = build({"kind": "input_gaussian", "sd": 0.1}).represent(encoder, inputs)
    both = Objective(NoisyAnchors(InputGaussian.Settings(sd=0.1)), negatives=[InBatch()])
    both.view.name = "view"
    reps = both.represent(encoder, inputs)
    assert ((reps.anchor - plain.anchor).abs().amax(dim=1) > 1e-4).all()
    assert torch.equal(reps.positive, plain.positive), "the draws of the two sides are apart"


@pytest.mark.parametrize("view", NOTHING, ids=str)
def test_none_of_it_is_plain_simcse_bit_for_bit(
    view: dict[str, Any], encoder: SentenceEncoder, sentences: list[str]
) -> None:
    inputs = step(encoder, sentences)
    made, after = [], []
    for chosen in ({"kind": "dropout"}, view):
        torch.manual_seed(3)
        made.append(build(chosen).represent(encoder, inputs))
        after.append(torch.get_rng_state())
    assert not torch.equal(made[0].anchor, made[0].positive), "dropout is on"
    assert torch.equal(made[0].anchor, made[1].anchor)
    assert torch.equal(made[0].positive, made[1].positive)
    assert torch.equal(after[0], after[1]), "the attack's own pass moves no generator"


def test_fgsm_steps_up_the_contrastive_loss(encoder: SentenceEncoder, sentences: list[str]) -> None:
    """Each number by epsilon, with the sign of the loss's slope, found by central differences."""
    encoder.eval()
    epsilon = 1e-3
    inputs = step(encoder, sentences)
    objective, plain = build({"kind": "input_fgsm", "epsilon": epsilon}), build({"kind": "dropout"})
    seen: list[Tensor] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["inputs_embeds"].detach()), with_kwargs=True
    )
    objective.represent(encoder, inputs)
    before, after = seen
    assert torch.equal(before[:N], after[:N])
    moved = after[N:] - before[N:]
    real = inputs.tokens.attention_mask[N:].bool()
    assert torch.allclose(moved[real].abs(), torch.tensor(epsilon), rtol=1e-2)

    def loss(words: Tensor) -> float:
        with torch.no_grad():
            return float(plain(plain.represent(encoder, inputs, disturb=lambda _, __: words)).total)

    compared = 0
    for row, place, d in [(r, p, d) for r in range(N) for p in (1, 3) for d in (0, 11, 23)]:
        up, down = before.clone(), before.clone()
        up[N + row, place, d] += 2e-3
        down[N + row, place, d] -= 2e-3
        slope = (loss(up) - loss(down)) / 4e-3
        if abs(slope) > 1e-3:
            compared += 1
            assert math.copysign(1.0, slope) == math.copysign(1.0, float(moved[row, place, d]))
    assert compared > 10
    assert loss(after) > loss(before)


def test_the_attack_has_the_masks_of_the_pass_that_counts(encoder: SentenceEncoder, sentences: list[str]) -> None:
    states: list[Tensor] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: states.append(torch.get_rng_state()), with_kwargs=True
    )
    build({"kind": "input_fgsm"}).represent(encoder, step(encoder, sentences))
    assert len(states) == 2
    assert torch.equal(states[0], states[1])


@pytest.mark.parametrize("family", ["roberta", "distilbert", "modernbert"])
def test_any_family_reads_embeddings_as_it_reads_ids(
    family: str, encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    """Positions, padding and masks included: an identity in between changes nothing."""
    from transformers import AutoModel, DistilBertConfig, ModernBertConfig, PretrainedConfig, RobertaConfig

    vocabulary = encoder.tokenizer.vocabulary_size
    torch.manual_seed(0)
    configs: dict[str, PretrainedConfig] = {
        "roberta": RobertaConfig(
            vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=70, pad_token_id=0, type_vocab_size=1,
        ),
        "distilbert": DistilBertConfig(
            vocab_size=vocabulary, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=64
        ),
        "modernbert": ModernBertConfig(
            vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
            max_position_embeddings=64, pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3,
        ),
    }  # fmt: skip
    AutoModel.from_config(configs[family]).save_pretrained(tmp_path)  # type: ignore[no-untyped-call]
    encoder.tokenizer.hf.save_pretrained(tmp_path)
    other = SentenceEncoder.load(tmp_path, pooling="mean", device="cpu").eval()
    inputs = step(other, sentences)
    assert not inputs.tokens.attention_mask.all(), "there is padding"
    plain = build({"kind": "dropout"}).represent(other, inputs)
    reps = build(NOTHING[0]).represent(other, inputs)
    assert torch.allclose(reps.positive, plain.positive, atol=1e-6)
    moved = build({"kind": "input_gaussian", "sd": 0.5}).represent(other, inputs)
    assert (moved.positive - plain.positive).abs().max() > 1e-3


@pytest.mark.parametrize("view", ["input_gaussian", "input_fgsm"])
def test_means_of_texts_as_they_are_do_not_go_with_changed_ones(view: str) -> None:
    for means in (
        {"positive": {"of": {"kind": "mean"}}},
        {"negatives": [{"kind": "in_batch", "of": {"kind": "mean"}}]},
    ):
        with pytest.raises(UserError, match=f"means over dropout draws .* the view {view} changes"):
            build({"kind": view}, **means)


def test_two_encoders_are_refused() -> None:
    with pytest.raises(UserError, match="input_gaussian changes the input embeddings of one encoder"):
        build({"kind": "input_gaussian"}, dual_encoder=True)
