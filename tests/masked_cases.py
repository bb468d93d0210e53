"""Hidden tokens: an encoder with its masked-LM head, texts of several lengths, steps of the replaced_tokens term."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.reading import load_masked_lm_head
from opencse.objective.terms.tokens import ReplacedTokens
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.requests import MaskedViews
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.text.tokenizer import Tokens

N = 4


def encoder_with_head(folder: Path) -> SentenceEncoder:
    """The encoder of a transformers folder, read at [CLS], with its masked-LM head."""
    encoder = SentenceEncoder(folder, pooling="cls", device="cpu")
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, torch.nn.Embedding)
    encoder.lm_head = load_masked_lm_head(folder, words)
    return encoder.eval()


def rows_of(encoder: SentenceEncoder, sentences: list[str], n: int, times: int) -> Tokens:
    """Rows of ``n`` texts of several lengths, all of them ``times`` times."""
    ids = encoder.tokenizer.encode([" ".join(sentences[i].split()[: 2 + 2 * i]) for i in range(n)], 24)
    rows = encoder.tokenizer.pad([*ids] * times)
    assert len(set(rows.attention_mask.sum(dim=1).tolist())) > 2
    return rows


def begun(encoder: SentenceEncoder, **chosen: Any) -> ReplacedTokens:
    term = ReplacedTokens(ReplacedTokens.Settings.model_validate(chosen))
    term.name = "terms.replaced_tokens"
    term.begin(encoder, batch_size=N, seed=0)
    return term


def step(
    term: ReplacedTokens, tokens: Tokens, vectors: Tensor, chunks: Chunks = WHOLE
) -> tuple[StepInputs, Representations]:
    """A step with these vectors, whatever encoder made them."""
    (request,) = (one for one in term.reads if isinstance(one, MaskedViews))
    encoder = term.replacer.model
    copy = request.prepare(tokens, encoder.tokenizer, np.random.default_rng(0))
    keys = torch.zeros(N, 2, dtype=torch.int64)
    inputs = StepInputs(tokens, N, keys, {request: copy}, noise_seed=3, chunks=chunks)
    hard = vectors[:N].unsqueeze(1)[:, :0]
    return inputs, Representations(vectors[:N], vectors[N:], hard, keys, {request: copy}, noise_seed=3)


def edited(term: ReplacedTokens, inputs: StepInputs, reps: Representations) -> Tensor:
    (request,) = (one for one in term.reads if isinstance(one, MaskedViews))
    assert term.replacer is not None
    ids: Tensor = term.replacer(inputs.tokens, reps[request], term.noise(reps), inputs.chunks)
    return ids
