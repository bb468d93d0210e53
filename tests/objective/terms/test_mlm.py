"""The masked-language-model term: which tokens are masked, and the loss over them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.outputs import MaskedTokens
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.losses import masked_lm
from opencse.objective.registry import build as build_part
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.masking import MaskedCopy, mask_tokens
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import LmHead, Masked, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.text.tokenizer import Tokenizer, Tokens


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder, tiny_folder: Path) -> SentenceEncoder:
    """The tiny model with a masked-LM head."""
    encoder = tiny_encoder.twin()
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    return encoder


def draw(tokens: Tokens, tokenizer: Tokenizer, rate: float, seed: int = 0) -> tuple[MaskedTokens, Tensor]:
    copy = mask_tokens(tokens, tokenizer, rate, np.random.default_rng(seed))
    return copy.masked, copy.labels


def test_the_loss_against_loops() -> None:
    random = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(7, 11, generator=random, dtype=torch.float64)
    labels = torch.randint(11, (7,), generator=random)
    expected = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        expected += -math.log(math.exp(row[label]) / sum(math.exp(x) for x in row)) / 7
    losses = masked_lm(logits, labels)
    assert losses.shape == (7,)
    assert losses.mean().item() == pytest.approx(expected, rel=1e-12)
    none = torch.zeros(0, 0, 0)
    reps = Representations(none, none, none, none, {Masked(0.15): losses})
    assert build_part(MaskedLM.Settings(weight=5.0)).loss(reps).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_loss_of_half_precision_logits_is_float32(dtype: torch.dtype) -> None:
    logits = torch.randn(5, 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    labels = torch.arange(5)
    assert masked_lm(logits, labels).dtype == torch.float32
    assert torch.equal(masked_lm(logits, labels), masked_lm(logits.float(), labels))
    assert masked_lm(logits[:0], labels[:0]).shape == (0,)


def test_the_term_says_what_it_reads() -> None:
    term = build_part(MaskedLM.Settings(weight=0.3, rate=0.2))
    assert isinstance(term, MaskedLM)
    assert term.reads == {Masked(0.2), LmHead()}
    assert term.weight == 0.3
    none = torch.zeros(0, 0, 0)
    with pytest.raises(RuntimeError, match=r"no part of the objective reads Masked\(rate=0\.2,"):
        term.loss(Representations(none, none, none, none))


def inputs_of(encoder: SentenceEncoder, texts: list[str], rate: float = 0.3) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(texts))
    masked, labels = draw(tokens, encoder.tokenizer, rate)
    n = len(texts) // 2
    assert len(labels) > n
    copies: dict[Request[Any], MaskedCopy] = {Masked(rate): MaskedCopy(masked, labels)}
    return StepInputs(tokens, n, torch.arange(2 * n).reshape(2, n).T, copies)


def test_losses_are_those_of_transformers(encoder: SentenceEncoder, tiny_folder: Path, sentences: list[str]) -> None:
    from transformers import BertForMaskedLM

    inputs = inputs_of(encoder, sentences[:12])
    copy: MaskedCopy = inputs.prepared[Masked(0.3)]
    reference = BertForMaskedLM.from_pretrained(tiny_folder)  # in eval mode
    assert not reference.training
    with torch.no_grad():
        reps = represent(encoder, inputs, {Sentences(), Masked(0.3)})
        every = reference(
            input_ids=copy.masked.tokens.input_ids, attention_mask=copy.masked.tokens.attention_mask
        ).logits
    logits = every[copy.masked.positions]
    assert logits.shape == (len(copy.labels), encoder.tokenizer.vocabulary_size)
    expected = -logits.log_softmax(dim=1)[torch.arange(len(logits)), copy.labels]
    assert torch.allclose(reps[Masked(0.3)], expected, atol=1e-5)
    assert torch.pdist(logits).min() > 1e-3
    assert expected.diff().abs().median() > 1e-3  # positions in another order would be seen
    # The contrastive vectors are those of the unmasked texts.
    own = torch.from_numpy(encoder.encode(sentences[:12]))
    assert torch.allclose(torch.cat([reps.anchor, reps.positive]), own, atol=1e-5)


def test_gradient_reaches_the_word_embeddings(encoder: SentenceEncoder, sentences: list[str]) -> None:
    inputs = inputs_of(encoder, sentences[:8])
    copy: MaskedCopy = inputs.prepared[Masked(0.3)]
    reps = represent(encoder, inputs, {Masked(0.3), LmHead()})
    torch.autograd.backward(build_part(MaskedLM.Settings(rate=0.3)).loss(reps))
    table = encoder.backbone.get_input_embeddings().weight
    assert isinstance(table, Tensor)
    assert table.grad is not None
    assert torch.isfinite(table.grad).all()
    rows = table.grad.abs().amax(dim=1)
    read = torch.zeros(len(rows), dtype=torch.bool)
    read[copy.masked.tokens.input_ids] = True
    assert 50 < read.sum() < 400
    assert (rows[read] > 0).float().mean() > 0.95  # all but the padding
    assert (rows[~read] > 0).float().mean() > 0.9  # through the decoder, which shares the table
