"""Similarity of adjacent layers' sentence vectors, and of the token vectors within each layer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from pydantic import FiniteFloat
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import BUDGET, layer_states, require_layer, token_ids
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.settings import Settings


class LayerSimilarities(Settings):
    """Mean similarities over sentences; layer 0 is the output of the embedding layer, L the last.

    Attributes:
        depth: L.
        pooling: how a layer's token vectors became a sentence vector.
        n: sentences.
        set_sim: cosine of the sentence vectors of layers l and l + 1, l from 0 to L - 1.
        tok_sim: mean cosine of two tokens of a sentence, by layer from 0 to L; None if no sentence has two tokens.
        tok_n: sentences of at least two tokens, which alone have the latter.
    """

    depth: int
    pooling: str
    n: int
    set_sim: list[FiniteFloat]
    tok_sim: list[FiniteFloat] | None
    tok_n: int


class TokenSimilarities(Settings):
    """Cosines of the token vectors of one sentence (SSCL, Fig. 5).

    Attributes:
        layer: from 0 (output of the embedding layer) to L.
        tokens: as the vocabulary has them, special ones included.
        cosines: of token u with token v, one row per token u, in [-1, 1]; 1 on the diagonal.
        tok_sim: mean over all u != v; None for a single token.
    """

    layer: int
    tokens: list[str]
    cosines: list[list[FiniteFloat]]
    tok_sim: FiniteFloat | None


def layer_similarities(
    encoder: SentenceEncoder, texts: Sequence[str], *, token_budget: int = BUDGET
) -> LayerSimilarities:
    r"""Computes SetSim between adjacent layers and TokSim within each (SSCL, section 2.1).

    With :math:`x^l_u` the vector of token u of m in layer l, and :math:`s^l` the sentence's,

    .. math:: \text{TokSim}_l = \frac{1}{m(m-1)} \sum_{u \neq v} \frac{x^{l\top}_u x^l_v}{\|x^l_u\| \|x^l_v\|}
              \quad (1), \qquad
              \text{SetSim}_l = \frac{s^{l\top} s^{l+1}}{\|s^l\| \|s^{l+1}\|} \quad (2)

    each averaged over the sentences; SSCL takes the STS-B test set (Fig. 1 and 4). The paper does not say
    how layers were pooled for the figures: here with the encoder's own pooling of each layer (the mean, where that
    averages two layers), without dense layers. Nor whether special tokens count: here they do, as in the mean.

    Args:
        encoder: any encoder of at least one layer; dropout is off, and no gradient is kept.
        texts: sentences, truncated at the encoder's maximum length.
        token_budget: ids in a batch, padding counted.

    Raises:
        UserError: for an encoder without layers or hidden states, or a text without a token.
    """
    prompt = encoder.prompts.of(Role.PLAIN)
    ids = token_ids(encoder, texts, prompt)
    empty = next((number for number, row in enumerate(ids, start=1) if not len(row)), None)
    if empty is not None:
        raise UserError(f"text {empty} of {len(ids)} has no token for this model; leave it out")
    set_sims, tok_sims, tok_n = torch.zeros(0), torch.zeros(0), 0
    for batch in layer_states(encoder, ids, token_budget, unpooled=encoder.unpooled(prompt)):
        sentences = [encoder.pool([state], batch.tokens) for state in batch.states]
        similarities = torch.stack([_total(torch.cosine_similarity(*pair, dim=-1)) for pair in pairwise(sentences)])
        several = batch.mask.sum(dim=1) > 1
        within = torch.stack([_total(token_similarity(state, batch.mask)[several]) for state in batch.states])
        first = not len(set_sims)
        set_sims = similarities if first else set_sims + similarities
        tok_sims = within if first else tok_sims + within
        tok_n += int(several.sum())
    return LayerSimilarities(
        depth=len(set_sims),
        pooling=str(encoder.pooling),
        n=len(ids),
        set_sim=(set_sims / len(ids)).tolist(),
        tok_sim=(tok_sims / tok_n).tolist() if tok_n else None,
        tok_n=tok_n,
    )


def token_similarity(states: Tensor, mask: Tensor) -> Tensor:
    """Computes TokSim (SSCL, eq. 1) of each sentence: the squared length of the sum of unit vectors, less m.

    Args:
        states: (rows, length, hidden) token vectors.
        mask: (rows, length), 1 for real tokens.

    Returns:
        (rows,), in [-1/(m-1), 1]; NaN for a sentence of one token.

    Example:
        >>> states = torch.tensor([[[1.0, 0.0], [0.6, 0.8], [9.0, 9.0]]])
        >>> round(token_similarity(states, torch.tensor([[1, 1, 0]])).item(), 3)
        0.6
    """
    units = torch.nn.functional.normalize(states.float(), dim=-1) * mask.unsqueeze(-1)
    m = mask.sum(dim=1).to(units.dtype)
    # A vector of zeros has length 0, not 1, so the terms of u = v are subtracted as they are.
    diagonal = units.square().sum(dim=(1, 2))
    return (units.sum(dim=1).square().sum(dim=-1) - diagonal) / (m * (m - 1))


def token_similarities(encoder: SentenceEncoder, text: str, layer: int | None = None) -> TokenSimilarities:
    """Computes the cosine of every token of a sentence with every other in one layer (SSCL, Fig. 5).

    Args:
        encoder: any encoder of at least one layer; dropout is off, and no gradient is kept.
        text: the sentence, truncated at the encoder's maximum length.
        layer: from 0 (output of the embedding layer) to L; by default the last, as in the figure.

    Raises:
        UserError: for an encoder without layers or hidden states, a layer it does not have, or a text without a token.
    """
    require_layer(encoder, layer)
    ids = token_ids(encoder, [text], encoder.prompts.of(Role.PLAIN))
    if not len(ids[0]):
        raise UserError("the sentence has no token for this model; give another")
    (batch,) = layer_states(encoder, ids, BUDGET)
    number = len(batch.states) - 1 if layer is None else layer
    vectors = torch.nn.functional.normalize(batch.states[number][0].to("cpu", torch.float64), dim=-1)
    cosines = (vectors @ vectors.T).clamp(-1, 1).fill_diagonal_(1)
    m = len(vectors)
    return TokenSimilarities(
        layer=number,
        tokens=[str(token) for token in encoder.tokenizer.hf.convert_ids_to_tokens(ids[0].tolist())],
        cosines=cosines.tolist(),
        tok_sim=(float(cosines.sum()) - m) / (m * (m - 1)) if m > 1 else None,
    )


def _total(values: Tensor) -> Tensor:
    """Sums over sentences, in float64 on the CPU."""
    return values.cpu().double().sum()
