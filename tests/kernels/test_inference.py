"""Inference by packed weights, word means and numpy gives transformers' vectors by every kernel."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional
from transformers import BertConfig, BertModel

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels import numpy_models, packed
from opencse.kernels.cpu import Kernel, linear
from opencse.kernels.numpy_models import EmbeddingNorm, NumpyBert, WordMeans
from opencse.kernels.precision import choose_precision
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
    monkeypatch.setattr(packed, "float32_kernel", lambda: kernel)
    vectors = encoder.encode(TEXTS)
    assert encoder.fast._prepared, "the packed forward was taken"
    np.testing.assert_allclose(vectors, plain(encoder, TEXTS), rtol=0, atol=1e-5)


def _in_place(encoder: SentenceEncoder) -> None:
    with torch.no_grad():
        _matrix(encoder).mul_(1.5)


def _loaded(encoder: SentenceEncoder) -> None:
    encoder.load_state_dict({name: t * 1.1 for name, t in encoder.state_dict().items()})


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
    _loaded,
    _trained_in_evaluation_mode,
    _trained_between_encodings,
]


@pytest.mark.parametrize("kernel", ["torch", "onednn"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_weights_is_seen(
    change: Callable[[SentenceEncoder], None], kernel: Kernel, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "float32_kernel", lambda: kernel)
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


@pytest.fixture(params=["torch", "onednn"])
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes float32 products, on whatever processor."""
    if request.param == "onednn" and not torch._C._has_mkldnn:
        pytest.skip("torch without oneDNN")
    monkeypatch.setattr("opencse.kernels.cpu.float32_kernel", lambda: request.param)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_states_of_all_layers(dtype: torch.dtype) -> None:
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=20, layer_norm_eps=1e-3, initializer_range=0.4,
    )  # fmt: skip
    torch.manual_seed(0)
    network = BertModel(config)
    for part in network.modules():
        if isinstance(part, torch.nn.Linear | torch.nn.LayerNorm):
            torch.nn.init.normal_(part.bias, std=0.5)
    state = {name: tensor.to(dtype) for name, tensor in network.state_dict().items()}
    network.load_state_dict(state)
    network.train(mode=False)
    numpy_network = NumpyBert({name: tensor.numpy() for name, tensor in state.items()}, 3, 4, 1e-3)
    rows = [np.array(ids, dtype=np.int32) for ids in ([4, 9, 2], [7], [1, 49, 3, 3, 8, 6])]
    made = numpy_network.states(rows, [0, 2, 3])
    borders = np.cumsum([len(row) for row in rows])[:-1]
    with torch.no_grad():
        for number, row in enumerate(rows):
            states = network(torch.from_numpy(row).long()[None], output_hidden_states=True).hidden_states
            for layer, state_of_all in zip((0, 2, 3), made, strict=True):
                mine = np.split(state_of_all, borders)[number]
                np.testing.assert_allclose(mine, states[layer][0].numpy(), rtol=0, atol=1e-5)
    assert numpy_network.dimension == 32
    assert numpy_network.id_count == 50
    assert numpy_network.nbytes == sum(tensor.nbytes for tensor in state.values())


TEXTS_WORD_MEANS = [*filled(sample.TRAIN)[:200], "", "a", "word " * 300]


def plain_of_word_means(encoder: SentenceEncoder) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    with torch.enable_grad():  # what may need a gradient takes the plain forward
        ids = encoder.tokenize(TEXTS_WORD_MEANS)
        return np.stack([encoder.embed(encoder.tokenizer.pad([row]))[0].detach().numpy() for row in ids])


@pytest.mark.slow
def test_the_built_in_encoder_is_the_same() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    assert encoder.static is not None
    np.testing.assert_allclose(encoder.encode(TEXTS_WORD_MEANS), plain_of_word_means(encoder), rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        encoder.encode_ids(encoder.tokenize(TEXTS_WORD_MEANS)), plain_of_word_means(encoder), rtol=0, atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_any_weights_and_every_change_of_them(pooling: str, tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, layers=0, pooling=pooling, device="cpu")
    assert (encoder.static is not None) == (pooling == "mean")
    for _ in range(3):
        with torch.no_grad():
            for weights in encoder.parameters():
                weights.add_(0.3 * torch.randn_like(weights))
        np.testing.assert_allclose(encoder.encode(TEXTS_WORD_MEANS), plain_of_word_means(encoder), rtol=0, atol=1e-5)


def test_a_table_weighs_its_tokens() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float16)
    weights = np.linspace(0, 1, 9, dtype=np.float32)
    ids = [np.array([1, 2, 2], dtype=np.int32), np.array([8], dtype=np.int32), np.array([0], dtype=np.int32)]
    wide = rows.astype(np.float64)
    expected = [*(np.average(wide[row], axis=0, weights=weights[row]) for row in ids[:2]), np.zeros(4)]
    np.testing.assert_allclose(WordMeans(rows, token_weights=weights).of(ids), expected, atol=1e-6)
    even = [wide[row].mean(axis=0) for row in ids]
    np.testing.assert_allclose(WordMeans(rows).of(ids), even, atol=1e-6)


@pytest.mark.parametrize("kind", ["table", "weighted", "norm"])
def test_long_and_many_texts_are_summed_in_blocks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    rows, most = random.standard_normal((50, 8)).astype(np.float32), 300
    norm = EmbeddingNorm(random.standard_normal((most, 8)), np.ones(8), np.ones(8), np.zeros(8), 1e-12)
    weights = random.random(50).astype(np.float32)
    words = WordMeans(rows, norm if kind == "norm" else None, weights if kind == "weighted" else None)
    ids = [random.integers(0, 50, length).astype(np.int32) for length in (1, most, 16, 17, 7, most - 1, 48)]
    expected = words.of(ids)
    monkeypatch.setattr(numpy_models, "_MOST_POSITIONS", 16)
    monkeypatch.setattr(numpy_models, "_MOST_NUMBERS", 2 * 16 * 8)
    np.testing.assert_allclose(words.of(ids), expected, atol=1e-5)


@pytest.mark.slow
def test_the_memory_of_a_text_of_millions_of_tokens_is_bounded() -> None:
    words = WordMeans(np.ones((4, 256), dtype=np.float16))
    ids = np.resize(np.arange(4, dtype=np.int32), 2**20)
    tracemalloc.start()
    vectors = words.of([ids])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27, "a gigabyte at once"
    assert vectors.tolist() == [[1.0] * 256]


CPU = torch.device("cpu")


@pytest.mark.parametrize("fast", [True, False])
def test_auto_takes_bf16_where_it_is_fast(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opencse.kernels.precision.fast_bf16", lambda: (fast, "as measured"))
    chosen = choose_precision("auto", CPU)
    assert (chosen.bf16, chosen.reason) == (fast, "auto: as measured")
    with chosen.autocast(CPU):
        assert torch.is_autocast_enabled("cpu") is fast


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("width", "outs"), [(64, [256]), (64, [32, 8, 16]), (64, [1024]), (1024, [64])])
def test_maps_and_gradients(dtype: torch.dtype, width: int, outs: list[int]) -> None:
    """Side by side in one product, several maps give what each gives alone."""
    torch.manual_seed(0)
    x, above = torch.randn(50, width).to(dtype).float(), torch.randn(50, sum(outs)).to(dtype).float()
    weights, biases = [torch.randn(out, width) for out in outs], [torch.randn(out) for out in outs]
    exact, ours = ([leaf.clone().requires_grad_() for leaf in (x, *weights, *biases)] for _ in range(2))
    ours[0] = x.to(dtype).requires_grad_()
    pairs = zip(exact[1 : 1 + len(outs)], exact[1 + len(outs) :], strict=True)
    wanted = torch.cat([functional.linear(exact[0], weight, bias) for weight, bias in pairs], dim=1)
    torch.autograd.backward((wanted * above).sum())
    made = linear(ours[0], ours[1 : 1 + len(outs)], ours[1 + len(outs) :])
    assert made.dtype == dtype
    torch.autograd.backward((made * above.to(dtype)).sum())
    rough = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(made.detach().float(), wanted.detach(), rtol=rough, atol=50 * rough)
    for one, other in zip(ours, exact, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert one.grad.dtype == one.dtype
        assert float((one.grad.float() - other.grad).norm() / other.grad.norm()) < rough
