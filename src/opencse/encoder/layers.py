"""Computes the hidden states of each layer of an encoder, and the sentence vectors pooled from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opencse.arrays import Embeddings
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.text_encoder import require_texts, token_batches
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.progress import Count, uncounted
from opencse.text.tokenizer import Ids, Tokens
from opencse.text.values import as_list

BUDGET = 2_048
"""Number of ids in a batch, padding included."""


def vectors_by_layer(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    layers: Collection[int],
    *,
    role: Role = Role.PLAIN,
    token_budget: int = BUDGET,
    progress: Count = uncounted,
) -> dict[int, Embeddings]:
    """Pools sentence vectors from layers, without dense layers, in one forward pass; for probing layer by layer.

    If the encoder pools the last layer alone and has no dense layers, layer L gives the vectors of ``encoder.encode``.

    Args:
        encoder: any encoder of at least one layer; dropout is off, and no gradient is kept.
        texts: n texts, truncated at the encoder's maximum length.
        layers: from 0 (output of the embedding layer) to L.
        role: what the texts are for, which decides their prompt.
        token_budget: largest number of ids in a batch, padding included.
        progress: called with (texts done, texts in all) after each batch.

    Returns:
        Of each layer (n, hidden) float32; zeros for a text without a token, as in ``encode``.

    Raises:
        UserError: for an encoder without layers or hidden states, a layer that it does not have, or a text that is no
            string.
    """
    for layer in layers:
        require_layer(encoder, layer)
    prompt = encoder.prompts.of(role)
    ids = token_ids(encoder, texts, prompt)
    shape = (len(ids), int(encoder.backbone.config.hidden_size))
    vectors = {layer: np.zeros(shape, dtype=np.float32) for layer in layers}
    done = 0
    for batch in layer_states(encoder, ids, token_budget, unpooled=encoder.unpooled(prompt)):
        for layer, layer_rows in vectors.items():
            layer_rows[batch.rows] = encoder.pool([batch.states[layer]], batch.tokens).float().cpu().numpy()
        done += len(batch.rows)
        progress(done, len(ids))
    return vectors


@dataclass(frozen=True)
class LayerStates:
    """The hidden states of a batch of texts.

    Attributes:
        rows: numbers of the texts.
        states: one (rows, length, hidden) per layer, from the embedding layer's output on.
        tokens: of the texts.
    """

    rows: NDArray[np.int64]
    states: tuple[Tensor, ...]
    tokens: Tokens

    @property
    def mask(self) -> Tensor:
        """(rows, length), 1 for real tokens."""
        return self.tokens.attention_mask


def layer_states(
    encoder: SentenceEncoder, ids: Sequence[Ids], budget: int = BUDGET, *, unpooled: int = 0
) -> Iterator[LayerStates]:
    """The hidden states of every layer, batch by batch; texts without a token are skipped.

    Args:
        encoder: any encoder of at least one layer; dropout is off, and no gradient is kept.
        ids: of each text.
        budget: largest number of ids in a batch, padding included.
        unpooled: how many first tokens of each text pooling leaves out.

    Raises:
        UserError: for a backbone that gives no hidden states.
    """
    lengths = [len(row) for row in ids]
    for indices in token_batches(lengths, budget):
        rows = indices[[lengths[i] > 0 for i in indices]]
        if not len(rows):
            continue
        tokens = encoder.tokenizer.pad([ids[i] for i in rows]).leaving_out(unpooled).to(encoder.device)
        with torch.inference_mode(), encoder.without_dropout():
            output = encoder.backbone(
                input_ids=tokens.input_ids, attention_mask=tokens.attention_mask, output_hidden_states=True
            )
        if output.hidden_states is None:
            raise UserError(f"{type(encoder.backbone).__name__} gives no hidden states; choose another model")
        yield LayerStates(rows, tuple(output.hidden_states), tokens)


def token_ids(encoder: SentenceEncoder, texts: Sequence[str], prompt: str) -> list[Ids]:
    """The ids of each text with ``prompt`` before it, truncated at the encoder's maximum length.

    Raises:
        UserError: for an encoder without layers, or a text that is not a string.
    """
    require_layer(encoder, None)
    rows = as_list(texts)
    require_texts(rows)
    return encoder.tokenize(rows, prompt)


def require_layer(encoder: SentenceEncoder, layer: int | None) -> None:
    """Refuses an encoder without layers, and a layer that it does not have.

    Raises:
        UserError: naming the layers it has.
    """
    if encoder.depth == 0:
        raise UserError("this encoder has no layers, only embeddings; choose one with at least 1 layer")
    if layer is not None and not 0 <= layer <= encoder.depth:
        raise UserError(f"this encoder has layers 0 (output of the embeddings) to {encoder.depth}, not {layer}")
