"""The guesses of a frozen masked language model, against loops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from masked_cases import N, begun, edited, encoder_with_head, rows_of, step
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.replacer import Replacer
from opencse.text.tokenizer import Tokens


@pytest.fixture
def encoder(sharp_folder: Path) -> SentenceEncoder:
    return encoder_with_head(sharp_folder)


@pytest.fixture
def tokens(encoder: SentenceEncoder, sentences: list[str]) -> Tokens:
    return rows_of(encoder, sentences, N, 2)


@torch.no_grad()
def guesses(encoder: SentenceEncoder, masked: list[int]) -> Tensor:
    """(length, vocabulary) logits of one text without padding."""
    assert encoder.lm_head is not None
    with encoder.without_dropout():
        hidden = encoder.backbone(input_ids=torch.tensor([masked])).last_hidden_state[0]
        logits: Tensor = encoder.lm_head(hidden)
    return logits.double()


@pytest.mark.parametrize("chunks", [WHOLE, Chunks(3)], ids=["whole", "chunks"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("masking", ["bert", "all"])
def test_the_best_guess_everywhere(
    masking: str, packed: bool, chunks: Chunks, encoder: SentenceEncoder, tokens: Tokens
) -> None:
    encoder.computation = "packed" if packed else "transformers"
    term = begun(encoder, masking=masking, pick="best", places="all", rate=0.5)
    inputs, reps = step(term, tokens, torch.zeros(2 * N, 32), chunks)
    ids = edited(term, inputs, reps)
    copy: MaskedCopy = next(iter(inputs.prepared.values()))
    wrong = 0
    for row, length in enumerate(tokens.attention_mask.sum(dim=1).tolist()):
        best = guesses(encoder, copy.masked.tokens.input_ids[row, :length].tolist()).argmax(dim=1)
        assert ids[row, 1:length].tolist() == best[1:].tolist()
        assert torch.equal(ids[row, length:], tokens.input_ids[row, length:])
        wrong += int((best != tokens.input_ids[row, :length]).sum())
    assert torch.equal(ids[:, 0], tokens.input_ids[:, 0])
    assert wrong > 20
    hidden = copy.masked.positions
    share = (copy.masked.tokens.input_ids == encoder.tokenizer.hf.mask_token_id)[hidden].float().mean()
    assert share == 1 if masking == "all" else 0.5 < share < 1


@pytest.mark.parametrize("chunks", [WHOLE, Chunks(3)], ids=["whole", "chunks"])
def test_draws_at_the_hidden_tokens_alone(chunks: Chunks, encoder: SentenceEncoder, tokens: Tokens) -> None:
    """A draw is the first token at which the probabilities, added up, are more than its number."""
    term = begun(encoder, rate=0.5)
    inputs, reps = step(term, tokens, torch.zeros(2 * N, 32), chunks)
    ids = edited(term, inputs, reps)
    copy: MaskedCopy = next(iter(inputs.prepared.values()))
    numbers = torch.rand(ids.shape, generator=term.noise(reps))
    drawn = 0
    for row, length in enumerate(tokens.attention_mask.sum(dim=1).tolist()):
        logits = guesses(encoder, copy.masked.tokens.input_ids[row, :length].tolist())
        logits[:, encoder.tokenizer.hf.all_special_ids] = -torch.inf
        for place in range(ids.shape[1]):
            if not copy.masked.positions[row, place]:
                assert ids[row, place] == tokens.input_ids[row, place]
                continue
            total = 0.0
            token = -1
            for probability in logits[place].softmax(dim=0).tolist():
                token += 1
                total += probability
                if total > float(numbers[row, place]):
                    break
            assert int(ids[row, place]) == token
            drawn += 1
    assert drawn > 20


def test_draws_have_the_probabilities_of_the_softmax(encoder: SentenceEncoder, tokens: Tokens) -> None:
    replacer = begun(encoder).replacer
    assert replacer is not None
    logits = torch.randn(1, len(encoder.tokenizer.hf), generator=torch.Generator().manual_seed(1)) * 2
    numbers = torch.rand(20_000, generator=torch.Generator().manual_seed(2))
    counts = Counter(replacer._sample(logits.expand(len(numbers), -1).clone(), numbers).tolist())
    logits[:, encoder.tokenizer.hf.all_special_ids] = -torch.inf
    expected = logits[0].double().softmax(dim=0).numpy() * len(numbers)
    seen = np.array([counts[token] for token in range(len(expected))])
    assert not seen[encoder.tokenizer.hf.all_special_ids].any()
    often = expected > 5
    rest = [seen[~often].sum()], [expected[~often].sum()]
    assert chisquare(np.r_[seen[often], rest[0]], np.r_[expected[often], rest[1]]).pvalue > 1e-3


def test_nothing_beyond_the_vocabulary_is_guessed(encoder: SentenceEncoder) -> None:
    size = encoder.tokenizer.vocabulary_size
    for pick in ("sample", "best"):
        replacer = begun(encoder, pick=pick).replacer
        assert replacer is not None
        logits = torch.zeros(50, size + 7)
        logits[:, size:] = 90
        assert int(replacer._sample(logits, torch.linspace(0, 0.999, 50)).max()) < size


def test_a_text_beyond_the_generator_is_refused(encoder: SentenceEncoder, tokens: Tokens) -> None:
    term = begun(encoder)
    assert isinstance(term.replacer, Replacer)
    term.replacer.model.max_length = 5
    inputs, reps = step(term, tokens, torch.zeros(2 * N, 32))
    with pytest.raises(UserError, match=r"^the generator reads 5 tokens, and a text has \d+; set data\.max_length=5$"):
        edited(term, inputs, reps)
