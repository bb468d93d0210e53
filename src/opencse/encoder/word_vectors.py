"""Views the weights of a backbone that is word vectors alone as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from opencse.folder_kinds import TABLE
from opencse.kernels.word_means import MOST_FACTORS, EmbeddingNorm, WordMeans
from opencse.modules.token_weights import TokenWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedModel


def words_of(backbone: PreTrainedModel, weights: TokenWeights | None = None) -> WordMeans | None:
    """The word vectors whose mean is a text's vector; None for networks that have layers.

    Args:
        backbone: a table, or a BERT without layers, of a size that a table can be made of.
        weights: how much each token counts in the mean; only tables have some here.

    Example:
        >>> from opencse import SentenceEncoder
        >>> words_of(SentenceEncoder("opencse-mini", device="cpu").backbone).dimension
        448
    """
    config = backbone.config
    if config.num_hidden_layers:
        return None
    if config.model_type == TABLE:
        table: Any = backbone
        by_token = None if weights is None else _numpy(weights.weights)
        return WordMeans(_numpy(table.embedding.weight), token_weights=by_token)
    from transformers import BertModel

    if type(backbone) is not BertModel or weights is not None:
        return None
    of: Any = backbone.embeddings
    if (
        type(of.word_embeddings) is not nn.Embedding
        or config.vocab_size * config.max_position_embeddings > MOST_FACTORS
    ):
        return None
    norm = EmbeddingNorm(
        positions=_numpy(of.position_embeddings.weight),
        token_type=_numpy(of.token_type_embeddings.weight)[0],
        weight=_numpy(of.LayerNorm.weight),
        bias=_numpy(of.LayerNorm.bias),
        eps=float(of.LayerNorm.eps),
    )
    return WordMeans(_numpy(of.word_embeddings.weight), norm)


def _numpy(weights: Any) -> NDArray[Any]:  # noqa: ANN401 - a tensor or a parameter
    array: NDArray[Any] = weights.detach().float().cpu().numpy()
    return array
