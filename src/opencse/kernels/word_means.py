"""Mean-pooled vectors of a BERT without layers, as one weighted sum of word vectors per text.

Such a BERT (opencse-mini) is its embedding layer: h_t = LayerNorm(w_t + p_t), of token and position. With both centred,
c_t = w_t - mean(w_t) and q_t = p_t - mean(p_t) over the d coordinates, the norm needs three numbers per token,

    r_t = (var(w_t) + var(p_t) + 2 cov(w_t, p_t) + eps)^(-1/2),   mean_t h_t = g (sum_t r_t c_t + sum_t r_t q_t) / n + b

so no row of d numbers is written for a token, and each is read once. The same up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from opencse.text.tokenizer import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LARGEST = 2**24
"""Most numbers in the table of covariances: 64 MiB."""


@dataclass(frozen=True)
class WordMeans:
    """The tables that vectors are looked up in.

    Attributes:
        words: (V, d) centred word vectors, the token type's added.
        positions: (P, d) centred position vectors.
        spread: (V, P) var(w) + var(p) + 2 cov(w, p) + eps.
        weight: (d,) g.
        bias: (d,) b.
    """

    words: Tensor
    positions: Tensor
    spread: Tensor
    weight: Tensor
    bias: Tensor

    @staticmethod
    def fits(backbone: PreTrainedModel) -> bool:
        """Whether ``backbone`` is a BERT of embeddings alone, of a size that a table can be made of."""
        from transformers import BertModel

        config = backbone.config
        return (
            type(backbone) is BertModel
            and config.num_hidden_layers == 0
            and config.vocab_size * config.max_position_embeddings <= _LARGEST
        )

    @staticmethod
    def reads(backbone: PreTrainedModel) -> Sequence[Tensor]:
        """The weights that the tables are computed from."""
        of: Any = backbone.embeddings
        tables = (of.word_embeddings, of.position_embeddings, of.token_type_embeddings, of.LayerNorm)
        return [*(table.weight for table in tables), of.LayerNorm.bias]

    @classmethod
    def of(cls, backbone: PreTrainedModel) -> WordMeans:
        """The tables for the current weights."""
        words, positions, types, weight, bias = (tensor.detach() for tensor in cls.reads(backbone))
        of: Any = backbone.embeddings
        words = words + types[0]
        words = words - words.mean(dim=1, keepdim=True)
        positions = positions - positions.mean(dim=1, keepdim=True)
        both = words @ positions.T * 2 + words.square().sum(1, keepdim=True) + positions.square().sum(1)
        return cls(words, positions, both / words.shape[1] + of.LayerNorm.eps, weight, bias)

    def __call__(self, tokens: Tokens) -> Tensor:
        """(rows, d): the mean over each text's tokens."""
        ids, mask = tokens.input_ids, tokens.attention_mask
        length = ids.shape[1]
        r = self.spread[ids, torch.arange(length)].rsqrt() * mask
        total = functional.embedding_bag(ids, self.words, mode="sum", per_sample_weights=r)
        total = torch.addmm(total, r, self.positions[:length])
        return torch.addcmul(self.bias, total / mask.sum(dim=1, keepdim=True), self.weight)
