"""The packed forward is transformers' own, states and gradients; its masks are those of dropout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from helpers import Stopped
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError
from opencse.kernels import groups
from opencse.kernels.inference import InferenceForward
from opencse.kernels.packed import Masks, pack, round_count
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokens

SHAPE: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}


def backbone(family: str, dropout: float = 0.1) -> Any:
    import transformers

    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(
        **SHAPE, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, pad_token_id=1
    )
    made = getattr(transformers, f"{family}Model")(config, add_pooling_layer=False)
    with torch.no_grad():
        for weights in made.parameters():
            weights.add_(0.2 * torch.randn_like(weights))
    return made


def batch() -> tuple[Tensor, Tensor]:
    """Seven texts of different lengths, padded with 1."""
    lengths = [9, 4, 12, 1, 7, 12, 3]
    mask = (torch.arange(12) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(1))
    return torch.where(mask == 1, ids, 1), mask


FAMILIES = ("Bert", "Roberta", "XLMRoberta", "MPNet")


def fill(monkeypatch: pytest.MonkeyPatch, spare: int) -> None:
    """So many packed rows are padding."""
    monkeypatch.setattr("opencse.kernels.packed.round_count", lambda tokens: tokens + spare)


def group(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Texts of 1 to 4, to 8, to 16 ids are groups of their own; how many groups each batch had."""
    seen: list[int] = []

    def noted(*given: Any) -> list[groups.Group] | None:
        found = groups.grouped(*given)
        seen.append(0 if found is None else len(found))
        return found

    monkeypatch.setattr("opencse.kernels.groups._SHORT", 4)
    monkeypatch.setattr("opencse.kernels.groups._WORTH", 1.0)
    monkeypatch.setattr("opencse.kernels.packed.grouped", noted)
    return seen


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("spare", [0, 5, 36])  # of 36 places of padding
@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_are_transformers_own(
    family: str, spare: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch, spare)
    seen = group(monkeypatch) if apart else [0]
    model, (ids, mask) = backbone(family).double().eval(), batch()
    there = mask.bool()
    plain = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    ours = pack(model).states(ids, mask, range(4))
    for layer in range(4):
        torch.testing.assert_close(ours[layer][there], plain[layer][there], rtol=0, atol=1e-10)
        assert not ours[layer][~there].any()
    weights = torch.randn(7, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    torch.autograd.backward((plain[3][:, 0] * weights).sum())
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert len(expected) > 30
    for first in (False, True):
        model.zero_grad()
        ours = pack(model).states(ids, mask, [3], first_only=first)
        torch.autograd.backward((ours[3][:, 0] * weights).sum())
        for name, p in model.named_parameters():
            if name in expected:
                torch.testing.assert_close(p.grad, expected[name], rtol=0, atol=1e-9)
    assert {*seen} == {3 if apart else 0}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_padding_token_that_stands_in_a_text(family: str) -> None:
    """RoBERTa's kind counts no position for it."""
    model, (ids, mask) = backbone(family).double().eval(), batch()
    ids[:, 2] = model.config.pad_token_id
    plain = model(input_ids=ids, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(
        pack(model).states(ids, mask, [3])[3][mask.bool()], plain[mask.bool()], rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_gradients_under_dropout_are_those_of_finite_differences(
    first: bool, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch, 5)
    if apart:
        group(monkeypatch)
    model, (ids, mask) = backbone("Bert").double(), batch()
    weights = torch.randn(7, 1 if first else 12, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def value() -> Tensor:
        return (pack(model).states(ids, mask, [3], first_only=first, seed=4)[3] * weights).sum()

    torch.autograd.backward(value())
    moved = [p for p in model.parameters() if p.grad is not None]
    assert len(moved) > 30
    towards = [torch.randn_like(p) for p in moved]
    expected = sum(float((p.grad * d).sum()) for p, d in zip(moved, towards, strict=True) if p.grad is not None)
    ends = []
    for side in (1e-6, -2e-6):
        with torch.no_grad():
            for p, d in zip(moved, towards, strict=True):
                p.add_(side * d)
            ends.append(float(value()))
    assert abs((ends[0] - ends[1]) / 2e-6 - expected) < 1e-4 * abs(expected)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("family", ["Bert", "MPNet"])
@pytest.mark.parametrize("lengths", [[15, 15, 15], [16, 16], [17, 17], [32, 9, 31], [33, 16, 2]])
def test_inference_is_transformers_own(family: str, lengths: list[int], first: bool) -> None:
    """Numbers of keys at, below and above the multiples that its attention reads, with padding and without."""
    model = backbone(family).eval()
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.where(mask == 1, torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(1)), 1)
    tokens = Tokens(ids, mask)
    with torch.inference_mode():
        own = model(input_ids=ids, attention_mask=mask).last_hidden_state
        found = InferenceForward().states(model, tokens, [3], first=first)[0]
        near = InferenceForward().states(model, tokens, [3], first=first, bf16=True)[0]
    expected = own[:, :1] if first else own * mask[:, :, None]
    assert torch.allclose(found, expected, atol=1e-5)
    assert found.shape == expected.shape
    assert (
        float(functional.cosine_similarity(near.float(), expected, dim=-1)[mask[:, : near.shape[1]] == 1].min()) > 0.999
    )


def test_packed_batches_have_few_sizes() -> None:
    """A run whose batches have ever new sizes would grow: each has kernels of its own, and leaves holes in the heap."""
    sizes = {count: round_count(count) for count in range(1, 10_000)}
    assert all(count <= size <= count * (1 + 1 / 32) for count, size in sizes.items())
    assert all(round_count(size) == size for size in sizes.values())
    assert len({size for count, size in sizes.items() if count >= 1000}) < 120


def test_input_embeddings_can_be_changed() -> None:
    model, (ids, mask) = backbone("Bert").eval(), batch()
    words = model.get_input_embeddings()(ids) * 1.5
    plain = model(inputs_embeds=words, attention_mask=mask).last_hidden_state
    ours = pack(model).states(ids, mask, [3], disturb=lambda e: e * 1.5)[3]
    torch.testing.assert_close(ours[mask.bool()], plain[mask.bool()], rtol=0, atol=1e-5)


def test_bf16_is_near() -> None:
    model, (ids, mask) = backbone("Bert").eval(), batch()
    plain = model(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]
    with torch.autocast("cpu", torch.bfloat16):
        ours = pack(model).states(ids, mask, [3], first_only=True)[3][:, 0]
    assert ours.dtype == torch.bfloat16
    assert torch.nn.functional.cosine_similarity(ours.float(), plain).min() > 0.999


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_masks_are_those_of_dropout(dtype: torch.dtype) -> None:
    like = torch.zeros(1, dtype=dtype)
    drawn = Masks(5)
    first, second = drawn((300, 401), 0.1, like), drawn((300, 401), 0.1, like)
    assert first.dtype == dtype
    assert set(first.flatten().tolist()) == {0.0, 1.0}
    sd = np.sqrt(0.09 / first.numel())
    for mask in (first, second):
        assert abs(float(mask.float().mean()) - 0.9) < 5 * sd
    together = float((first * second).float().mean())
    assert abs(together - 0.81) < 6 * sd, "independent of each other"
    assert torch.equal(Masks(5)((300, 401), 0.1, like), first)
    assert not torch.equal(Masks(6)((300, 401), 0.1, like), first)


def test_dropout_keeps_the_mean() -> None:
    """Averaged over many masks, a layer's output before its norm is that without dropout, up to the softmax's bend."""
    model, (ids, mask) = backbone("Bert", 0.1), batch()
    packed = pack(model)
    exact = packed.states(ids, mask, [0])[0]
    drawn = torch.stack([packed.states(ids, mask, [0], seed=seed)[0] for seed in range(800)])
    error = (drawn.mean(dim=0) - exact).abs().max()
    assert error < 6 * drawn.std(dim=0).max() / 800**0.5
    assert drawn.std(dim=0).max() > 0.1


def test_other_backbones_are_refused() -> None:
    import transformers

    shape = {key: value for key, value in SHAPE.items() if key != "intermediate_size"}
    other = transformers.ElectraModel(transformers.ElectraConfig(**shape))
    with pytest.raises(UserError, match=r"training\.packed: electra is not of BERT's shape"):
        pack(other)
    changed = backbone("Bert")
    changed.encoder.layer[1].attention.self.query = torch.nn.Sequential()
    with pytest.raises(UserError, match="not plain linear maps"):
        pack(changed)


def job(model: Path, recipe: str = "simcse", *settings: str) -> TrainJob:
    short = ("training.max_steps=12", "training.batch_size=8", "training.checkpoint_every=4", "training.packed=true")
    return TrainJob(
        text=Source(str(sample.TRAIN)), recipe=recipe, model=str(model), settings=(*short, *settings), dev=None
    )


def test_a_packed_run_is_resumed_bit_for_bit(tiny_folder: Path, tmp_path: Path) -> None:
    job(tiny_folder).run(tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        job(tiny_folder).run(tmp_path / "broken", progress=Stopped(6))
    job(tiny_folder).run(tmp_path / "broken", resume=True)
    whole, broken = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


def test_without_dropout_a_packed_run_is_the_plain_one(tiny_folder: Path, tmp_path: Path) -> None:
    same = ("encoder.dropout=0", "training.precision=float32", "training.learning_rate=1e-4")
    job(tiny_folder, "simcse", *same).run(tmp_path / "packed")
    job(tiny_folder, "simcse", *same, "training.packed=false").run(tmp_path / "plain")
    packed, plain = (load_file(tmp_path / name / "model.safetensors") for name in ("packed", "plain"))
    start = SentenceEncoder.load(tiny_folder).backbone.state_dict()
    for name in plain:
        moved = (plain[name] - start[name]).abs().mean() if name in start else torch.ones(())
        assert (packed[name] - plain[name]).abs().mean() <= 0.02 * moved + 1e-7, name


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["simcse", "esimcse++", "sscl-progressive"])  # all: training/test_every_recipe.py
def test_recipes_train_packed(recipe: str, tiny_folder: Path, tmp_path: Path) -> None:
    result = job(tiny_folder, recipe, "training.max_steps=3").run(tmp_path / "run")
    assert result.kept == "last"
    assert result.plan is not None
    assert result.plan.attention == "packed, no padding"


def other_folder(family: str, tiny_folder: Path, folder: Path) -> Path:
    """A small random model of another shape than BERT's, with the tiny model's tokenizer."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_folder)
    shape = SHAPE | {"vocab_size": len(tokenizer) + 8, "pad_token_id": 0, "attention_dropout": 0.1}
    torch.manual_seed(3)
    if family == "ModernBert":
        shape |= {"local_attention": 8, "global_attn_every_n_layers": 2, "embedding_dropout": 0.1, "mlp_dropout": 0.1}
        special = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": None, "eos_token_id": None}
    else:
        shape |= {"num_key_value_heads": 2}
        special = {"bos_token_id": None, "eos_token_id": None}
    config = getattr(transformers, f"{family}Config")(**shape, **special)
    getattr(transformers, f"{family}Model")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("family", "pooling"), [("ModernBert", "mean"), ("Qwen2", "last_token"), ("Llama", "mean")])
def test_other_backbones_take_the_plain_way(family: str, pooling: str, tiny_folder: Path, tmp_path: Path) -> None:
    folder = other_folder(family, tiny_folder, tmp_path / "model")
    settings = ("training.packed=auto", f"encoder.pooling={pooling}", "training.max_steps=3")
    result = job(folder, "simcse", *settings).run(tmp_path / "run")
    assert result.plan is not None
    assert result.plan.attention.endswith("of BERT's shape (bert, roberta, xlm-roberta, mpnet, with gelu))")
    encoder = SentenceEncoder.load(tmp_path / "run", device="cpu")
    texts = ["one small text", "another text that is rather longer than the first", "third"]
    before = SentenceEncoder.load(folder, pooling=pooling, device="cpu").encode(texts)
    assert np.abs(encoder.encode(texts) - before).max() > 1e-5, "it was trained"
    for text, vector in zip(texts, encoder.encode(texts), strict=True):
        ids = torch.from_numpy(encoder.tokenize([text])[0].astype(np.int64))[None]
        with torch.no_grad():
            states = encoder.backbone(input_ids=ids).last_hidden_state[0]
        expected = states[-1] if pooling == "last_token" else states.mean(dim=0)
        np.testing.assert_allclose(vector, expected.numpy(), rtol=0, atol=1e-5)


def test_where_it_is_not_asked_for_packed_is_chosen(tiny_folder: Path, tmp_path: Path) -> None:
    auto = job(tiny_folder, "simcse", "training.packed=auto").prepare(Stopped(0))
    assert auto.encoder.computation == "packed"
    assert "attention packed, no padding" in "\n".join(auto.plan.lines())
    refused = job(tiny_folder, "simcse", "training.packed=false").prepare(Stopped(0))
    assert refused.encoder.computation == "transformers"
    assert refused.plan.attention == "sdpa (padded: training.packed = false)"


def test_a_fixed_mask_is_the_same_for_both_copies(tiny_folder: Path) -> None:
    """With one mask for both copies they have one vector, though dropout moves it; else they differ."""
    fixed = ("encoder.dropout=0.2", "training.precision=float32")
    for shared in (True, False):
        view = f'objective.view={{kind="dropout",shared_mask={str(shared).lower()}}}'
        made = job(tiny_folder, "simcse", *fixed, view).prepare(Stopped(0))
        assert made.encoder.computation == "packed"
        made.encoder.train()
        reps = made.objective.represent(made.encoder, made.inputs.build(made.batches.batch(0), 0))
        apart = float((reps.anchor - reps.positive).detach().abs().max())
        assert (apart == 0) if shared else (apart > 1e-3)
        again = made.objective.represent(made.encoder, made.inputs.build(made.batches.batch(0), 0))
        assert float((reps.anchor - again.anchor).detach().abs().max()) > 1e-3, "the next step draws others"
