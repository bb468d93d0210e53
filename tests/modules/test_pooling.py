"""Every pooling against a loop over tokens, and padding that does not matter."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.pooling import Pooling

DEPTH = 3
OTHERS = [kind for kind in Pooling if kind is not Pooling.MASK]
"""The poolings of any text; MASK needs one with a mask token."""
LENGTHS = (1, 2, 5, 7)


def token_vectors(kind: Pooling, states: list[Tensor], row: int, length: int) -> list[Tensor]:
    """The token vectors that ``kind`` looks at, written out by hand."""
    last = [states[DEPTH][row, t] for t in range(length)]
    if kind is Pooling.FIRST_LAST_0:
        return [(states[0][row, t] + last[t]) / 2 for t in range(length)]
    if kind is Pooling.FIRST_LAST_1:
        return [(states[1][row, t] + last[t]) / 2 for t in range(length)]
    if kind is Pooling.TOP2:
        return [(states[DEPTH - 1][row, t] + last[t]) / 2 for t in range(length)]
    return last


def naive(kind: Pooling, states: list[Tensor], row: int, length: int) -> Tensor:
    vectors = token_vectors(kind, states, row, length)
    if kind is Pooling.CLS:
        return vectors[0]
    if kind is Pooling.LAST_TOKEN:
        return vectors[length - 1]
    if kind is Pooling.MAX:
        best = vectors[0]
        for vector in vectors[1:]:
            best = torch.where(vector > best, vector, best)
        return best
    total = torch.zeros_like(vectors[0])
    for number, vector in enumerate(vectors, start=1):
        total = total + (number if kind is Pooling.WEIGHTED_MEAN else 1) * vector
    if kind is Pooling.WEIGHTED_MEAN:
        return total / (length * (length + 1) / 2)
    return total / (math.sqrt(length) if kind is Pooling.MEAN_SQRT_LEN else length)


@pytest.fixture(scope="module")
def states() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(len(LENGTHS), max(LENGTHS), 6, generator=generator) for _ in range(DEPTH + 1)]


@pytest.fixture(scope="module")
def mask() -> Tensor:
    return (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()


def pooled(kind: Pooling, states: list[Tensor], mask: Tensor) -> Tensor:
    return kind([states[layer] for layer in kind.layers(DEPTH)], mask)


@pytest.mark.parametrize("kind", OTHERS)
def test_equals_a_loop_over_tokens(kind: Pooling, states: list[Tensor], mask: Tensor) -> None:
    expected = torch.stack([naive(kind, states, row, length) for row, length in enumerate(LENGTHS)])
    torch.testing.assert_close(pooled(kind, states, mask), expected, atol=1e-6, rtol=0)


def test_the_kinds_differ(states: list[Tensor], mask: Tensor) -> None:
    for a, b in combinations(OTHERS, 2):
        assert not torch.allclose(pooled(a, states, mask), pooled(b, states, mask)), (a, b)


@pytest.mark.parametrize("kind", OTHERS)
def test_values_at_padding_are_not_read(kind: Pooling, states: list[Tensor], mask: Tensor) -> None:
    changed = [torch.where(mask.unsqueeze(-1) == 0, 1e6, state) for state in states]
    assert any(not torch.equal(a, b) for a, b in zip(changed, states, strict=True))
    torch.testing.assert_close(pooled(kind, changed, mask), pooled(kind, states, mask), atol=0, rtol=0)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_states_are_pooled_in_float32(
    kind: Pooling, dtype: torch.dtype, states: list[Tensor], mask: Tensor
) -> None:
    low = [state.to(dtype) for state in states]
    result = pooled(kind, low, mask)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, pooled(kind, [state.float() for state in low], mask), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", [Pooling.MEAN, Pooling.WEIGHTED_MEAN, Pooling.MEAN_SQRT_LEN])
def test_a_row_without_tokens_is_no_nan_of_a_mean(kind: Pooling) -> None:
    assert torch.equal(kind([torch.ones(1, 2, 3)], torch.zeros(1, 2, dtype=torch.long)), torch.zeros(1, 3))


def test_first_tokens_that_are_left_out_keep_the_others_places() -> None:
    states, mask = torch.tensor([[[5.0], [1.0], [2.0], [9.0]]]), torch.tensor([[0, 1, 1, 0]])
    assert Pooling.WEIGHTED_MEAN([states], mask).item() == pytest.approx((2 * 1 + 3 * 2) / (2 + 3))
    assert Pooling.LAST_TOKEN([states], mask).item() == 2.0


@pytest.mark.parametrize(
    ("kind", "depth", "layers"),
    [
        (Pooling.FIRST_LAST_0, 12, (0, 12)),
        (Pooling.FIRST_LAST_1, 12, (1, 12)),
        (Pooling.TOP2, 12, (11, 12)),
        (Pooling.MEAN, 12, (12,)),
        (Pooling.CLS, 3, (3,)),
    ],
)
def test_layers(kind: Pooling, depth: int, layers: tuple[int, ...]) -> None:
    assert kind.layers(depth) == layers


@pytest.mark.parametrize("kind", OTHERS)
def test_alone_equals_in_a_batch_of_longer_texts(kind: Pooling, tiny_folder: Path, sentences: list[str]) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling=kind, device="cpu")
    rows = encoder.tokenize(["A dog.", "", *sorted(sentences, key=len)[-3:]])
    batch = encoder.tokenizer.pad(rows)
    assert int(batch.attention_mask.sum(dim=1).min()) < batch.attention_mask.shape[1] // 2
    with torch.no_grad():
        together = encoder.embed(batch)
        alone = torch.cat([encoder.embed(encoder.tokenizer.pad([row])) for row in rows])
    assert not torch.allclose(alone[0], alone[1], atol=1e-3)
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)


def test_mask_reads_the_last_one() -> None:
    states = torch.arange(12.0).reshape(2, 3, 2)
    masks = torch.tensor([[1, 0, 1], [0, 1, 0]])
    assert Pooling.MASK([states], masks).tolist() == [[4.0, 5.0], [8.0, 9.0]]
