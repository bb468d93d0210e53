"""Ditto: token vectors of an untrained model, weighted by how much each token attends to itself in one head."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.modules.pooling import Pooling
from opencse.progress import Count, uncounted

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

BATCH = 32
"""Texts encoded together."""


@dataclass(frozen=True, eq=False)
class Ditto:
    r"""Encodes by the weighted mean of first and last states (Chen et al. 2023, "Ditto").

    .. math:: v = \frac{\sum_t A_{tt}\, h_t}{\sum_t A_{tt}}, \quad h_t = \tfrac12 (h_t^{(0)} + h_t^{(L)})

    with A the attention probabilities of one head; [CLS] and [SEP] count too. Nothing is trained. The authors' code
    does not divide by the sum, which leaves every cosine as it is, and counts layers and heads from 0: its layer 0,
    head 9 for BERT is layer 1, head 10 here. Prompts, dense layers and the encoder's own pooling are not used.

    These are vectors for evaluation: the probabilities are computed by the plain attention of transformers, which
    neither the packed forward nor the fast one gives, and no module of sentence-transformers expresses such weights, so
    no folder is saved.

    Attributes:
        encoder: whose backbone is read; it stays as it is.
        layer: of the attention, from 1.
        head: in that layer, from 1. The authors take layer 1, head 10 of BERT-base.
        pooling: a mean over tokens.

    Example:
        >>> from opencse import SentenceEncoder
        >>> Ditto(SentenceEncoder.load("bert-base"), layer=1, head=10).encode(["A cat sleeps."])  # doctest: +SKIP
    """

    encoder: SentenceEncoder
    layer: int = 1
    head: int = 10
    pooling: Pooling = Pooling.FIRST_LAST_0

    def __post_init__(self) -> None:
        config = self.encoder.backbone.config
        heads = int(getattr(config, "num_attention_heads", 0))
        if not (1 <= self.layer <= self.encoder.depth and 1 <= self.head <= heads):
            raise UserError(
                f"Ditto reads layer {self.layer}, head {self.head}, but this model has {self.encoder.depth} layers of "
                f"{heads} heads; choose others: ditto-LAYER-HEAD:MODEL"
            )
        if not self.pooling.is_mean:
            raise UserError(f"Ditto weights the tokens of a mean, not pooling {self.pooling}; leave --pooling out")

    def encode(self, texts: Sequence[str], progress: Count = uncounted) -> NDArray[np.float32]:
        """(n, hidden) float32 vectors of ``texts``."""
        encoder = self.encoder.twin().eval()
        encoder.backbone.set_attn_implementation("eager")
        ids = encoder.tokenize(list(texts))
        vectors = np.zeros((len(ids), int(encoder.backbone.config.hidden_size)), dtype=np.float32)
        order = [row for row in np.argsort([len(one) for one in ids], kind="stable").tolist() if len(ids[row])]
        with torch.no_grad():
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                tokens = encoder.tokenizer.pad([ids[row] for row in rows]).to(encoder.device)
                output = encoder.backbone(
                    input_ids=tokens.input_ids,
                    attention_mask=tokens.attention_mask,
                    output_hidden_states=True,
                    output_attentions=True,
                )
                attention = output.attentions[self.layer - 1][:, self.head - 1]
                weights = attention.diagonal(dim1=1, dim2=2)
                states = [output.hidden_states[layer] for layer in self.pooling.layers(encoder.depth)]
                vectors[rows] = self.pooling(states, tokens.attention_mask, weights).float().cpu().numpy()
                progress(min(start + BATCH, len(order)), len(order))
        return vectors


def parse_ditto(model: str) -> tuple[int, int, str]:
    """Reads ``ditto:MODEL`` or ``ditto-LAYER-HEAD:MODEL``: (layer, head, model).

    Example:
        >>> parse_ditto("ditto:bert"), parse_ditto("ditto-2-3:bert")
        ((1, 10, 'bert'), (2, 3, 'bert'))

    Raises:
        UserError: for a name of another form.
    """
    written = re.fullmatch(r"ditto(?:-(\d+)-(\d+))?:(.+)", model)
    if written is None:
        raise UserError(f"{model}: ditto:MODEL or ditto-LAYER-HEAD:MODEL is expected, for instance ditto-1-10:bert")
    return int(written[1] or 1), int(written[2] or 10), written[3]
