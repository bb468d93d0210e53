"""The packed and the padded forward are transformers' own, states and gradients; masks are those of dropout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from devices import DEVICE
from helpers import Stopped, resumed_is_whole
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels import cpu
from opencse.kernels.gpu import MULTIPLE, padded_states
from opencse.kernels.packed import InferenceForward, Masks, pack
from opencse.kernels.states import ON_GPU, inference_computation
from opencse.runs.run import Run
from opencse.runs.start import choose_forward
from opencse.text import sample
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokens

SHAPE: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 170,
}


def backbone(family: str, dropout: float = 0.1, noise: float = 0.2) -> Any:
    import transformers

    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(
        **SHAPE, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, pad_token_id=1
    )
    made = getattr(transformers, f"{family}Model")(config, add_pooling_layer=False)
    with torch.no_grad():
        for weights in made.parameters():
            weights.add_(noise * torch.randn_like(weights))
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

    def noted(*given: Any) -> list[cpu.Group] | None:
        found = cpu.grouped(*given)
        seen.append(0 if found is None else len(found))
        return found

    monkeypatch.setattr("opencse.kernels.cpu._SHORT", 4)
    monkeypatch.setattr("opencse.kernels.cpu._WORTH", 1.0)
    monkeypatch.setattr("opencse.kernels.packed.grouped", noted)
    return seen


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("spare", [0, 36])  # of 36 places of padding
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
@pytest.mark.parametrize("lengths", [[15, 15, 15], [16, 16], [33, 16, 2]])
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


def test_other_backbones_and_devices_are_refused(encoder: SentenceEncoder) -> None:
    import transformers

    shape = {key: value for key, value in SHAPE.items() if key != "intermediate_size"}
    other = transformers.ElectraModel(transformers.ElectraConfig(**shape))
    with pytest.raises(UserError, match=r"training\.packed: electra is not of BERT's shape"):
        pack(other)
    changed = backbone("Bert")
    changed.encoder.layer[1].attention.self.query = torch.nn.Sequential()
    with pytest.raises(UserError, match="not plain linear maps"):
        pack(changed)
    with pytest.raises(UserError, match=r"training\.packed needs a CPU"):
        choose_forward(encoder.twin().to("meta"), True)


def job(model: Path, recipe: str = "simcse", *settings: str) -> Run:
    short = ("training.max_steps=12", "training.batch_size=8", "training.checkpoint_every=4", "training.packed=true")
    return Run(text=Source(str(sample.TRAIN)), recipe=recipe, model=str(model), settings=(*short, *settings), dev=None)


@pytest.mark.slow
def test_a_packed_run_is_resumed_bit_for_bit(tiny_folder: Path, tmp_path: Path) -> None:
    resumed_is_whole(job(tiny_folder), tmp_path, Stopped(6))


@pytest.mark.slow
def test_without_dropout_a_packed_run_is_the_plain_one(tiny_folder: Path, tmp_path: Path) -> None:
    same = ("encoder.dropout=0", "training.precision=float32", "training.learning_rate=1e-4")
    job(tiny_folder, "simcse", *same).train(tmp_path / "packed")
    job(tiny_folder, "simcse", *same, "training.packed=false").train(tmp_path / "plain")
    packed, plain = (load_file(tmp_path / name / "model.safetensors") for name in ("packed", "plain"))
    start = SentenceEncoder.load(tiny_folder).backbone.state_dict()
    for name in plain:
        moved = (plain[name] - start[name]).abs().mean() if name in start else torch.ones(())
        assert (packed[name] - plain[name]).abs().mean() <= 0.02 * moved + 1e-7, name


def other_folder(tiny_folder: Path, folder: Path) -> Path:
    """A small random model of another shape than BERT's, with the tiny model's tokenizer."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_folder)
    more = {"num_key_value_heads": 2, "attention_dropout": 0.1, "bos_token_id": None, "eos_token_id": None}
    config = transformers.Qwen2Config(**SHAPE | {"vocab_size": len(tokenizer) + 8, "pad_token_id": 0} | more)
    transformers.Qwen2Model(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_other_backbones_take_the_plain_way(tiny_folder: Path, tmp_path: Path) -> None:
    folder = other_folder(tiny_folder, tmp_path / "model")
    settings = ("training.packed=auto", "encoder.pooling=last_token", "training.max_steps=3")
    result = job(folder, "simcse", *settings).train(tmp_path / "run")
    (compute,) = (line for line in result.plan if line.startswith("compute "))
    assert compute.endswith("of BERT's shape (bert, roberta, xlm-roberta, mpnet, with gelu))")
    encoder = SentenceEncoder.load(tmp_path / "run", device="cpu")
    texts = ["one small text", "another text that is rather longer than the first"]
    for text, vector in zip(texts, encoder.encode(texts), strict=True):
        ids = torch.from_numpy(encoder.tokenize([text])[0].astype(np.int64))[None]
        with torch.no_grad():
            expected = encoder.backbone(input_ids=ids).last_hidden_state[0, -1]
        np.testing.assert_allclose(vector, expected.numpy(), rtol=0, atol=1e-5)


ROWS, HIDDEN = 5, 32


def padded_backbone(family: str = "Bert") -> Any:
    return backbone(family, noise=0).to(DEVICE).eval()


def padded_batch(model: Any, length: int) -> tuple[Tensor, Tensor]:
    mask = (
        torch.arange(length, device=DEVICE) < torch.tensor([length, 3, length // 2, length, 4], device=DEVICE)[:, None]
    )
    ids = torch.randint(5, 60, (ROWS, length), device=DEVICE)
    return ids.masked_fill(~mask, model.config.pad_token_id), mask.long()


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "MPNet"])
@pytest.mark.parametrize("length", [16, 13, 150])
def test_states_and_gradients_are_those_of_transformers(kind: str, length: int) -> None:
    model = padded_backbone(kind)
    ids, mask = padded_batch(model, length)
    theirs = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    ours = padded_states(model, ids, mask, [0, 2, 3])
    real = mask.bool()
    for layer, states in ours.items():
        assert states.shape == (ROWS, length, HIDDEN)
        torch.testing.assert_close(states[real], theirs[layer][real], atol=2e-5, rtol=0)
    (first,) = padded_states(model, ids, mask, [3], first_only=True).values()
    torch.testing.assert_close(first, theirs[3][:, :1], atol=2e-5, rtol=0)
    weights = [p for p in model.parameters() if p.requires_grad]
    of_ours = torch.autograd.grad(first.pow(3).sum(), weights, allow_unused=True)
    of_theirs = torch.autograd.grad(theirs[3][:, :1].pow(3).sum(), weights, allow_unused=True)
    for a, b in zip(of_ours, of_theirs, strict=True):
        assert (a is None) is (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("length", [40, 150])
def test_bf16_is_near_float32(length: int) -> None:
    """Torch's fused attention, which takes over for long texts, misreads a mask of another type than the vectors."""
    model = padded_backbone()
    ids, mask = padded_batch(model, length)
    exact, near = (padded_states(model, ids, mask, [3], dtype=dtype)[3] for dtype in (torch.float32, torch.bfloat16))
    assert near.dtype == torch.bfloat16
    assert (exact - near.float())[mask.bool()].abs().max() < 0.1


def test_inputs_that_are_changed_or_replaced() -> None:
    model = padded_backbone()
    ids, mask = padded_batch(model, 13)
    shift, leading = (
        torch.randn(ROWS, 13, HIDDEN, device=DEVICE),
        torch.randn(ROWS, HIDDEN, device=DEVICE),
    )
    (states,) = padded_states(model, ids, mask, [3], disturb=lambda words: words + shift).values()
    words = model.embeddings.word_embeddings(ids) + shift
    expected = model(inputs_embeds=words, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(states[mask.bool()], expected[mask.bool()], atol=2e-5, rtol=0)
    (replaced,) = padded_states(model, ids, mask, [0], leading=leading).values()
    assert torch.equal(replaced[:, 0], leading)


def test_dropout_is_drawn_at_the_models_rates_and_again_each_time() -> None:
    model = padded_backbone()
    ids, mask = padded_batch(model, 13)
    torch.manual_seed(3)
    one, other = (padded_states(model, ids, mask, [3], dropout=True)[3] for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(padded_states(model, ids, mask, [3], dropout=True)[3], one)
    assert (one - other).abs().max() > 0.1
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.0
    plain = padded_states(model, ids, mask, [3])[3]
    assert torch.equal(padded_states(model, ids, mask, [3], dropout=True)[3], plain)
    many = torch.full((400, MULTIPLE), 7, device=DEVICE)
    model.config.hidden_dropout_prob = 0.25
    (dropped,) = padded_states(model, many, torch.ones_like(many), [0], dropout=True).values()
    assert 0.24 < float((dropped == 0).float().mean()) < 0.26


TEXTS = ["A dog runs.", "The cat sleeps on the mat in the sun."]


def test_without_a_gpu_or_bf16_transformers_computes_what_the_fast_forward_does_not(encoder: SentenceEncoder) -> None:
    with torch.no_grad():
        assert inference_computation(encoder.backbone, bf16=True) == "transformers"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("pooling", ["cls", "mean", "first_last_0", "max"])
def test_a_gpu_encodes_in_bf16_as_in_float32(tiny_folder: Path, pooling: str) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cuda", pooling=pooling)
    with torch.no_grad():
        assert inference_computation(encoder.backbone, bf16=True) in ON_GPU
        assert inference_computation(encoder.backbone, bf16=False) == "transformers"
    assert inference_computation(encoder.backbone, bf16=True) == "transformers", "with gradients"
    texts = [*TEXTS, "dog " * 150, "dog", "The cat sleeps. " * 9]
    exact = encoder.encode(texts, normalize_embeddings=True)
    rounded = encoder.encode(texts, normalize_embeddings=True, precision="bf16")
    cosines = (exact * rounded).sum(axis=1)
    assert cosines.min() > 0.999
    assert not np.array_equal(exact, rounded)
