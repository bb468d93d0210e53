"""Masked copies: which tokens are hidden, and what they become."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from opencse.errors import UserError
from opencse.kernels.outputs import MaskedTokens
from opencse.objective.vectors.masking import mask_tokens
from opencse.text.tokenizer import Tokenizer, Tokens


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


def padded(tokenizer: Tokenizer, texts: list[str]) -> Tokens:
    return tokenizer.pad(tokenizer.encode(texts, 24))


def draw(tokens: Tokens, tokenizer: Tokenizer, rate: float, seed: int = 0) -> tuple[MaskedTokens, Tensor]:
    copy = mask_tokens(tokens, tokenizer, rate, np.random.default_rng(seed))
    return copy.masked, copy.labels


def test_special_and_padding_tokens_are_never_masked(tokenizer: Tokenizer, sentences: list[str]) -> None:
    tokens = padded(tokenizer, [*sentences[:10], "a", "a man"])
    ids = tokens.input_ids
    ids[0, 2], ids[1, 3] = tokenizer.hf.unk_token_id, tokenizer.hf.mask_token_id
    before = ids.clone()
    special = torch.isin(ids, torch.tensor(tokenizer.hf.all_special_ids))
    assert (special & (tokens.attention_mask == 1)).sum() == 2 * 12 + 2
    assert (tokens.attention_mask == 0).any()
    for seed in range(50):
        masked, labels = draw(tokens, tokenizer, 0.9, seed)
        assert not (masked.positions & special).any()
        assert torch.equal(masked.tokens.input_ids[special], before[special])
        assert torch.equal(masked.tokens.attention_mask, tokens.attention_mask)
        assert torch.equal(labels, before[masked.positions])
        assert torch.equal(masked.tokens.input_ids[~masked.positions], before[~masked.positions])
        assert masked.positions.sum() > 0.5 * (~special).sum()
    assert torch.equal(tokens.input_ids, before)  # a copy was masked


def test_the_attention_mask_not_the_id_marks_padding(tokenizer: Tokenizer) -> None:
    ids = torch.full((1, 200), 50)
    mask = (torch.arange(200) < 100).long().unsqueeze(0)
    masked, labels = draw(Tokens(ids, mask), tokenizer, 0.9)
    assert not masked.positions[0, 100:].any()
    assert len(labels) == masked.positions[0, :100].sum() > 50


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_rate_and_fates_over_many_draws(tokenizer: Tokenizer, sentences: list[str], rate: float) -> None:
    tokens = padded(tokenizer, sentences[:100])
    special = torch.tensor(tokenizer.hf.all_special_ids)
    usable = ~torch.isin(tokens.input_ids, special)
    draws, fates, random_ids = 120, torch.zeros(3), []
    frequency = torch.zeros(tokens.input_ids.shape)
    for seed in range(draws):
        masked, labels = draw(tokens, tokenizer, rate, seed)
        new = masked.tokens.input_ids[masked.positions]
        to_mask, kept = new == tokenizer.hf.mask_token_id, new == labels
        fates += torch.stack([to_mask.sum(), (~to_mask & ~kept).sum(), kept.sum()])
        random_ids.append(new[~to_mask & ~kept])
        frequency += masked.positions
    chosen = int(fates.sum())
    trials = draws * int(usable.sum())
    assert trials > 50_000
    assert chosen / trials == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / trials))
    for count, share in zip(fates.tolist(), (0.8, 0.1, 0.1), strict=True):
        # A random id is the old one once in some 800 draws.
        assert count / chosen == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / chosen) + 0.1 / 500)
    every = torch.cat(random_ids)
    assert not torch.isin(every, special).any()
    ordinary = tokenizer.vocabulary_size - len(special)
    counts = torch.bincount(every, minlength=tokenizer.vocabulary_size)
    assert (counts > 0).sum() > 0.6 * ordinary
    assert counts.max() < 6 * len(every) / ordinary + 10  # no id is favoured
    # Every position is as likely as any other.
    shares = frequency[usable] / draws
    spread = 6 * math.sqrt(rate * (1 - rate) / draws)
    assert shares.min() > rate - spread
    assert shares.max() < rate + spread


def test_the_same_generator_gives_the_same_masks(tokenizer: Tokenizer, sentences: list[str]) -> None:
    tokens = padded(tokenizer, sentences[:20])
    first, again, other = (draw(tokens, tokenizer, 0.15, seed)[0] for seed in (4, 4, 5))
    assert torch.equal(first.tokens.input_ids, again.tokens.input_ids)
    assert torch.equal(first.positions, again.positions)
    assert not torch.equal(first.positions, other.positions)


def test_nothing_to_mask(tokenizer: Tokenizer) -> None:
    cls, sep = tokenizer.hf.cls_token_id, tokenizer.hf.sep_token_id
    tokens = Tokens(torch.tensor([[cls, sep]] * 3), torch.ones(3, 2, dtype=torch.int64))
    masked, labels = draw(tokens, tokenizer, 0.9)
    assert labels.shape == (0,)
    assert not masked.positions.any()


def test_a_tokenizer_without_mask_is_refused(tiny_folder: Path) -> None:
    tokenizer = Tokenizer.load(tiny_folder)
    tokenizer.hf.mask_token = None
    with pytest.raises(
        UserError, match=r"the tokenizer has no mask token, which the mlm term needs; choose another recipe"
    ):
        draw(padded(tokenizer, ["a man"]), tokenizer, 0.15)
