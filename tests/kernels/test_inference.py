"""Inference by packed weights gives transformers' vectors by every kernel, and sees each change of the weights."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels import inference
from opencse.kernels.attention import inferred_attention
from opencse.kernels.linear import Kernel, float32_kernel, kernel_of
from opencse.kernels.packed import PackedRows
from opencse.text import sample

TEXTS = [*filled(sample.TRAIN)[:40], "a", ""]


def plain(encoder: SentenceEncoder, texts: list[str]) -> NDArray[np.float32]:
    """transformers' own forward, a text at a time."""
    rows = []
    for text in texts:
        tokens = encoder.tokenizer.pad(encoder.tokenize([text]))
        with torch.enable_grad():  # what needs no gradient takes the packed forward
            rows.append(encoder.embed(tokens)[0].detach().numpy())
    return np.stack(rows)


@pytest.mark.parametrize("kernel", ["torch", "onednn"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "first_last_0", "top2", "max"])
def test_float32_is_transformers_own(
    kernel: Kernel, pooling: str, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling=pooling, device="cpu")
    monkeypatch.setattr(inference, "float32_kernel", lambda: kernel)
    vectors = encoder.encode(TEXTS)
    assert encoder.fast._prepared, "the packed forward was taken"
    np.testing.assert_allclose(vectors, plain(encoder, TEXTS), rtol=0, atol=1e-5)


def test_bf16_is_near(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    exact, near = encoder.encode(TEXTS), encoder.encode(TEXTS, precision="bf16")
    assert np.abs(exact - near).max() > 1e-5, "it was computed in bf16"
    cosines = (exact * near).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(near, axis=1)
    assert cosines.min() > 0.9999


@pytest.mark.parametrize("length", [3, 16, 40])
@pytest.mark.parametrize("asked", ["the first tokens", "all"])
@pytest.mark.parametrize("scores", [0, 2**25])
def test_attention_in_bf16_is_near(length: int, asked: str, scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With padding, for whole rows and for queries of the first tokens alone, by products or by torch's kernel."""
    if kernel_of(torch.zeros(1, dtype=torch.bfloat16)) != "onednn":
        pytest.skip("oneDNN computes no bf16 here")
    monkeypatch.setattr("opencse.kernels.attention._SCORES", scores)
    torch.manual_seed(0)
    rows, heads, hidden = 5, 4, 32
    counts = torch.tensor([length, 1, length, 2, 3])
    mask = (torch.arange(length) < counts.view(-1, 1)).long()
    packed_rows = PackedRows.of(mask, torch.float32)
    first = asked == "the first tokens"
    joined = torch.randn(len(packed_rows.positions), (2 if first else 3) * hidden)
    query = torch.randn(rows, hidden) if first else None
    made = {}
    for dtype in (torch.float32, torch.bfloat16):
        near = PackedRows.of(mask, dtype)
        asked_of = None if query is None else query.to(dtype)
        mixed = inferred_attention(joined.to(dtype), asked_of, near.shape, near.positions, heads, near.blocked)
        made[dtype] = mixed.float()
    tokens = rows if first else packed_rows.tokens
    exact, found = (made[dtype][:tokens] for dtype in (torch.float32, torch.bfloat16))
    assert found.isfinite().all()
    assert 0 < float((found - exact).norm() / exact.norm()) < 0.02


def _in_place(encoder: SentenceEncoder) -> None:
    with torch.no_grad():
        _matrix(encoder).mul_(1.5)


def _past_the_count(encoder: SentenceEncoder) -> None:
    _matrix(encoder).data[3].mul_(1.5)
    encoder.eval()


def _another_tensor(encoder: SentenceEncoder) -> None:
    _matrix(encoder).data = _matrix(encoder).data * 1.5


def _loaded(encoder: SentenceEncoder) -> None:
    encoder.load_state_dict({name: t * 1.1 for name, t in encoder.state_dict().items()})


def _trained(encoder: SentenceEncoder) -> None:
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=0.05, fused=True)
    encoder.train()
    vectors = encoder(encoder.tokenizer.pad(encoder.tokenize(TEXTS[:4]))).sentence
    torch.autograd.backward(vectors.square().sum())
    optimizer.step()
    encoder.eval()


def _trained_in_evaluation_mode(encoder: SentenceEncoder) -> None:
    """By a fused optimizer, which does not raise torch's own count."""
    matrix = _matrix(encoder)
    vectors = encoder(encoder.tokenizer.pad(encoder.tokenize(TEXTS[:4]))).sentence
    torch.autograd.backward(vectors.square().sum())
    count = matrix._version
    torch.optim.AdamW([matrix], lr=0.05, fused=True).step()
    assert matrix._version == count


def _trained_between_encodings(encoder: SentenceEncoder) -> None:
    """In training mode, in which encoding between forward and step keeps nothing."""
    encoder.train()
    vectors = encoder(encoder.tokenizer.pad(encoder.tokenize(TEXTS[:4]))).sentence
    encoder.encode(TEXTS)
    torch.autograd.backward(vectors.square().sum())
    torch.optim.AdamW(encoder.parameters(), lr=0.05, fused=True).step()


def _matrix(encoder: SentenceEncoder) -> torch.nn.Parameter:
    return encoder.backbone.get_parameter("encoder.layer.1.attention.self.value.weight")


CHANGES = [
    _in_place,
    _past_the_count,
    _another_tensor,
    _loaded,
    _trained,
    _trained_in_evaluation_mode,
    _trained_between_encodings,
]


@pytest.mark.parametrize("kernel", ["torch", "onednn"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_weights_is_seen(
    change: Callable[[SentenceEncoder], None], kernel: Kernel, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "float32_kernel", lambda: kernel)
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    before = encoder.encode(TEXTS)
    change(encoder)
    after = encoder.encode(TEXTS)
    encoder.eval()  # for the plain forward, which draws dropout in training mode
    assert np.abs(after - before).max() > 1e-6
    np.testing.assert_allclose(after, plain(encoder, TEXTS), rtol=0, atol=1e-5)


def test_prepared_weights_are_used_again_and_what_torch_does_not_record_needs_eval(encoder: SentenceEncoder) -> None:
    before = encoder.encode(TEXTS, precision="bf16")
    prepared = encoder.fast._prepared
    assert prepared is not None
    _matrix(encoder).data.mul_(1.5)
    np.testing.assert_array_equal(encoder.encode(TEXTS, precision="bf16"), before)
    assert encoder.fast._prepared is prepared, "no weight is read to find out whether it changed"
    assert np.abs(encoder.eval().encode(TEXTS, precision="bf16") - before).max() > 1e-3
    encoder.train()
    assert encoder.fast._prepared is None


def test_copies_leave_the_prepared_weights_out(encoder: SentenceEncoder) -> None:
    encoder.encode(TEXTS, precision="bf16")
    assert encoder.fast._prepared
    for other in (encoder.twin(), copy.deepcopy(encoder.fast), pickle.loads(pickle.dumps(encoder.fast))):
        fast = other.fast if isinstance(other, SentenceEncoder) else other
        assert not fast._prepared
    assert not any("fast" in name for name in encoder.state_dict())


@pytest.mark.parametrize(
    ("maker", "wide", "expected"),
    [("AuthenticAMD", True, "onednn"), ("AuthenticAMD", False, "torch"), ("GenuineIntel", True, "torch")],
)
def test_the_kernel_is_a_function_of_the_processor(
    maker: str, wide: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (torch._C._has_mkldnn and torch._C.has_mkl):
        pytest.skip("torch without oneDNN or MKL")
    monkeypatch.setattr("opencse.kernels.linear.maker", lambda: maker)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": wide})
    assert float32_kernel.__wrapped__() == expected
