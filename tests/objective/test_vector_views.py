"""Views that change input embeddings or output vectors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.negatives.generated import Gaussian
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.perturbation import (
    BothSides,
    InputBernoulli,
    InputGaussian,
    OutputGaussian,
    SideChange,
    spread,
)
from opencse.settings import validate
from opencse.text.tokenizer import TokenisedText

N = 5
KINDS: list[dict[str, Any]] = [
    {"kind": "input_gaussian", "sd": 0.1},
    {"kind": "input_gaussian_dropout", "sd": 0.1},
    {"kind": "input_bernoulli", "rate": 0.1},
    {"kind": "input_bernoulli", "rate": 0.1, "features": True},
    {"kind": "input_fgsm", "epsilon": 0.1},
]


def step(encoder: SentenceEncoder, sentences: list[str]) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:N] * 2))
    return StepInputs(tokens, N, torch.arange(N).unsqueeze(1).repeat(1, 2), noise_seed=5)


def embeddings() -> Tensor:
    return torch.randn(20, 30, 50, generator=torch.Generator().manual_seed(2)) + 3.0


def test_gaussian_noise_is_added() -> None:
    words = embeddings()
    noise = InputGaussian(InputGaussian.Settings(sd=0.25)).disturb(words, generator()) - words
    assert float(noise.mean()) == pytest.approx(0, abs=5 * 0.25 / words.numel() ** 0.5)
    assert float(noise.std()) == pytest.approx(0.25, rel=0.02)
    assert abs(float(torch.corrcoef(torch.stack([noise[0].flatten(), noise[1].flatten()]))[0, 1])) < 0.15


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
    plain = objective_of(view={"kind": "dropout"}).represent(encoder, inputs)
    reps = objective_of(view=view).represent(encoder, inputs)
    assert torch.equal(reps.anchor, plain.anchor)
    changed = (reps.positive - plain.positive).abs().amax(dim=1)
    assert (changed > 1e-4).all()


def test_fgsm_steps_up_the_contrastive_loss(encoder: SentenceEncoder, sentences: list[str]) -> None:
    """Each number by epsilon, with the sign of the loss's slope, found by central differences."""
    encoder.eval()
    epsilon = 1e-3
    inputs = step(encoder, sentences)
    objective, plain = (
        objective_of(view={"kind": "input_fgsm", "epsilon": epsilon}),
        objective_of(view={"kind": "dropout"}),
    )
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
    plain = objective_of(view={"kind": "dropout"}).represent(other, inputs)
    reps = objective_of(view={"kind": "input_gaussian", "sd": 0.0}).represent(other, inputs)
    assert torch.allclose(reps.positive, plain.positive, atol=1e-6)
    moved = objective_of(view={"kind": "input_gaussian", "sd": 0.5}).represent(other, inputs)
    assert (moved.positive - plain.positive).abs().max() > 1e-3


@pytest.mark.parametrize("view", ["input_gaussian", "input_fgsm"])
def test_means_of_texts_as_they_are_do_not_go_with_changed_ones(view: str) -> None:
    for means in (
        {"positive": {"of": {"kind": "mean"}}},
        {"negatives": [{"kind": "in_batch", "of": {"kind": "mean"}}]},
    ):
        with pytest.raises(UserError, match=f"means over dropout draws .* the view {view} changes"):
            objective_of(view={"kind": view}, **means)


SIX, D = 6, 40
KINDS_OUTPUT: list[dict[str, Any]] = [
    {"kind": "output_gaussian"},
    {"kind": "output_bernoulli"},
    {"kind": "output_mask", "features": "smallest"},
    {"kind": "output_mask", "features": "largest"},
    {"kind": "output_fgsm"},
]


def anchors() -> Tensor:
    scale = torch.linspace(0.1, 5.0, D, dtype=torch.float64)
    return scale * torch.randn(SIX, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 2.0


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def anchors_alone(encoder: SentenceEncoder, sentences: list[str]) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:SIX]))
    return StepInputs(tokens, SIX, torch.arange(SIX).unsqueeze(1).repeat(1, 2), noise_seed=5)


def test_gaussian_noise_has_the_batch_s_spread() -> None:
    vectors, view, noise = anchors(), OutputGaussian(OutputGaussian.Settings(scale=0.5)), generator()
    draws = torch.stack([(view.derive(vectors, noise) - vectors) / spread(vectors) for _ in range(4000)])
    assert draws.mean(dim=0).abs().max() < 0.5 * 5 / 4000**0.5
    assert torch.allclose(draws.std(dim=0), torch.tensor(0.5, dtype=torch.float64), atol=0.5 * 5 / 8000**0.5)
    assert not torch.equal(draws[0], draws[1])


@pytest.mark.parametrize("view", KINDS_OUTPUT, ids=str)
def test_one_forward_of_the_anchors_and_gradient_through_both_sides(
    view: dict[str, Any], encoder: SentenceEncoder, sentences: list[str]
) -> None:
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    objective = objective_of(view=view)
    reps = objective.represent(encoder, anchors_alone(encoder, sentences))
    assert rows == [SIX]
    assert reps.positive.shape == reps.anchor.shape == (SIX, 32)
    assert not torch.equal(reps.positive, reps.anchor)
    (through,) = torch.autograd.grad(reps.positive.sum(), reps.anchor, retain_graph=True)
    if view["kind"] in ("output_gaussian", "output_fgsm"):
        assert torch.equal(through, torch.ones_like(through)), "statistics and directions take no gradient"
    else:
        assert torch.equal(through, (reps.positive != 0).float())
    torch.autograd.backward(objective(reps).total)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.backbone.parameters())


def test_fgsm_steps_along_the_sign_of_the_contrastive_gradient(encoder: SentenceEncoder, sentences: list[str]) -> None:
    """Against InfoNCE written as loops, its gradient by central differences."""
    tau, epsilon = 0.05, 0.01
    negatives: list[dict[str, Any]] = [{"kind": "in_batch"}, {"kind": "gaussian"}]
    objective = objective_of(view={"kind": "output_fgsm", "epsilon": epsilon}, temperature=tau, negatives=negatives)
    inputs = anchors_alone(encoder, sentences)
    reps = objective.represent(encoder, inputs)
    a = reps.anchor.detach().double()
    fake = objective.negatives[1]
    assert isinstance(fake, Gaussian)
    drawn = fake.generate(a.float(), SIX, inputs.noise("negatives.gaussian")).double()

    def loss(b: Tensor) -> float:
        total = 0.0
        for i in range(SIX):
            cosines = [float(torch.cosine_similarity(a[i], b[j], dim=0)) / tau for j in range(SIX)]
            cosines += [float(torch.cosine_similarity(a[i], drawn[k], dim=0)) / tau for k in range(SIX)]
            total += math.log(sum(math.exp(c) for c in cosines)) - cosines[i]
        return total / SIX

    moved = (reps.positive.detach().double() - a) / spread(a)
    assert torch.allclose(moved.abs(), torch.full_like(moved, epsilon), rtol=1e-2)
    agreed = compared = 0
    for i, d in [(i, d) for i in range(SIX) for d in range(0, 32, 5)]:
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


@pytest.mark.parametrize("view", ["input_fgsm", "output_fgsm"])
def test_a_gradient_needs_a_contrast_of_the_positives(view: str) -> None:
    with pytest.raises(UserError, match=f"the view {view} follows the gradient of a contrast, and there are no neg"):
        objective_of(view={"kind": view}, negatives=[], terms=[{"kind": "dcl"}])
    for other in ("clean", "anchors"):
        with pytest.raises(UserError, match=rf"follows .* the positives' vectors, and objective.positive.of = {other}"):
            objective_of(view={"kind": view}, positive={"of": {"kind": other}})
    assert objective_of(view={"kind": view}, positive={"of": {"kind": "noisy"}}).reads


def test_what_cannot_go_together_is_refused() -> None:
    with pytest.raises(
        UserError,
        match=r"the view output_gaussian makes the positives' vectors of the anchors', and objective\.dual_encoder has",
    ):
        objective_of(view={"kind": "output_gaussian"}, dual_encoder=True)
    with pytest.raises(UserError, match="scale: input should be greater than or equal to 0"):
        validate(OutputGaussian.Settings, {"scale": -1.0}, "test")


def view(anchor: SideChange, positive: SideChange, rate: float = 0.3) -> BothSides:
    return BothSides(BothSides.Settings(anchor=anchor, positive=positive, rate=rate))


def many_embeddings() -> torch.Tensor:
    return torch.randn(200, 20, 32, generator=torch.Generator().manual_seed(2)) + 3.0


def test_feature_cutoff_drops_a_share_of_the_dimensions_of_each_text() -> None:
    words = many_embeddings()
    changed = view("none", "feature_cutoff").disturb(words, torch.Generator().manual_seed(0))
    dropped = (changed == 0).all(dim=1)
    assert torch.equal((changed == 0), dropped.unsqueeze(1).expand_as(changed)), "in all tokens"
    assert (dropped.sum(dim=1) == int(0.3 * 32)).all()
    assert dropped.float().mean(dim=0).std() < 0.1, "any dimension"
    assert len({tuple(row) for row in dropped.tolist()}) == 200, "other ones in each text"
    assert torch.equal(changed[changed != 0], words[changed != 0])


def test_shuffled_tokens_are_the_same_tokens_between_the_special_ones() -> None:
    ids = np.arange(10, 22, dtype=np.int32)
    text = TokenisedText(ids, np.array([-1, *range(10), -1], dtype=np.int32))
    made = [view("none", "shuffle").positives([text], np.random.default_rng(seed))[0].tolist() for seed in range(20)]
    assert all(one[0] == 10 and one[-1] == 21 and sorted(one) == ids.tolist() for one in made)
    assert len(set(map(tuple, made))) == 20


@pytest.mark.parametrize(("rate", "length"), [(0.3, 8), (0.0, 12), (0.95, 1)])
def test_a_span_of_the_tokens_stays_and_the_others_are_padding(
    rate: float, length: int, encoder: SentenceEncoder
) -> None:
    ids = np.arange(10, 22, dtype=np.int32)
    texts = [TokenisedText(ids, np.array([-1, *range(10), -1], dtype=np.int32))] * 60
    changes = view("none", "span", rate)
    changes.begin(encoder, batch_size=N, seed=0)
    padding, starts = encoder.tokenizer.hf.pad_token_id, set()
    for one in changes.positives(texts, np.random.default_rng(0)):
        (places,) = np.nonzero(one != padding)
        assert places.tolist() == list(range(places[0], places[0] + length))
        assert one[places].tolist() == ids[places].tolist()
        assert one.dtype == ids.dtype
        starts.add(int(places[0]))
    assert starts == set(range(12 - length + 1)), "every place that it fits in"
    assert changes.changed_anchors(texts, np.random.default_rng(0))[0] is ids


def test_a_span_of_a_text_in_a_template_is_refused(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, template='"{text}" is {mask}.', pooling="mask", device="cpu")
    objective = Objective(view("none", "span", 0.3), negatives=[InBatch()])
    with pytest.raises(UserError, match="view both_sides: a span would leave out the encoder's template"):
        objective.check_encoder(encoder)
    for anchor, positive in (("token_cutoff", "shuffle"), ("none", "feature_cutoff")):
        allowed = Objective(view(anchor, positive), negatives=[InBatch()])  # type: ignore[arg-type]
        allowed.check_encoder(encoder)


@pytest.mark.parametrize(("side", "change"), [("anchor", "token_cutoff"), ("positive", "feature_cutoff")])
def test_each_side_has_its_own_change(
    change: SideChange, side: str, encoder: SentenceEncoder, sentences: list[str]
) -> None:
    encoder.eval()
    inputs = step(encoder, sentences)

    def vectors(anchor: SideChange, positive: SideChange) -> dict[str, torch.Tensor]:
        reps = Objective(view(anchor, positive), negatives=[InBatch()]).represent(encoder, inputs)
        return {"anchor": reps.anchor, "positive": reps.positive}

    plain = vectors("none", "none")
    changed = vectors(change, "none") if side == "anchor" else vectors("none", change)
    other = "positive" if side == "anchor" else "anchor"
    assert torch.equal(changed[other], plain[other])
    assert ((changed[side] - plain[side]).abs().amax(dim=1) > 1e-4).all()
