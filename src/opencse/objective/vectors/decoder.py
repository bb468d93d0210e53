"""Networks that read a text together with one sentence vector: decoders, which reconstruct the text from it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import embedding_module
from opencse.objective.vectors.generator import seeded
from opencse.text.tokenizer import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class CopiedDecoder(nn.Module):
    """A decoder of the backbone's shape, with its weights and new cross-attention to one sentence vector (TSDAE).

    Each token is predicted from the vector and from the tokens before it (teacher forcing).

    Attributes:
        backbone: the decoder's layers.
        head: the masked-LM head, whose word embeddings are the decoder's.

    Args:
        encoder: gives the weights, and the masked-LM head.
        seed: of the cross-attention's first weights.
        tied: share the encoder's weights; false starts from a copy of them.
        reader: the part that needs it, for messages.

    Raises:
        UserError: for a backbone that transformers cannot use as a decoder.
    """

    ahead = 1
    """How many tokens after its position each state predicts."""

    def __init__(self, encoder: SentenceEncoder, seed: int, *, tied: bool, reader: str) -> None:
        super().__init__()
        head = encoder.lm_head
        assert head is not None
        if encoder.adapted and tied:
            raise UserError(
                f"the {reader} cannot share the weights of a backbone that is trained by adapters; set "
                f"{reader_key(reader)}.decoder.tied=false"
            )
        source = encoder.merged() if encoder.adapted else encoder
        backbone = source.backbone
        self.backbone = _as_decoder(backbone, seed, encoder.device, reader)
        shared = dict(backbone.named_parameters())
        if tied:
            for name, _ in list(self.backbone.named_parameters()):
                if name in shared:
                    _set_parameter(self.backbone, name, shared[name])
        words: Any = self.backbone.get_input_embeddings()
        before: Any = encoder.backbone.get_input_embeddings()
        self.head = copy.deepcopy(head, {id(before.weight): words.weight})

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length - 1, hidden) states, of which the one at t predicts the token at t + 1.

        Args:
            tokens: (rows, length), the texts to reconstruct.
            vectors: (rows, hidden), of the sentences.
        """
        read = tokens.columns(tokens.input_ids.shape[1] - 1)
        states: Tensor = self.backbone(
            input_ids=read.input_ids,
            attention_mask=read.attention_mask,
            encoder_hidden_states=vectors.unsqueeze(1),
            use_cache=False,
        ).last_hidden_state
        return states


class NewDecoder(nn.Module):
    """A new decoder that attends to one sentence vector, over the embeddings of the text (DenoSent).

    It reads the output of the backbone's embeddings, without gradient. With ``noise`` that is the embeddings under
    dropout, and every token is predicted from all of them (without a causal mask); without, each token is predicted
    from the tokens before it.

    Attributes:
        embeddings: the backbone's, whose weights it shares.
        layers: torch's decoder, newly initialised: normal of standard deviation .02, zero biases.
        head: the masked-LM head, with the encoder's word embeddings.

    Args:
        encoder: gives the embeddings and the masked-LM head.
        seed: of the first weights.
        layers: number of layers.
        heads: attention heads of a layer.
        width: of the feed-forward layers.
        dropout: of the layers.
        noise: rate of the dropout on the embeddings; 0 for teacher forcing.
        reader: the part that needs it, for messages.

    Raises:
        UserError: for a backbone without a module of embeddings, or a number of heads that does not divide its width.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        seed: int,
        *,
        layers: int,
        heads: int,
        width: int,
        dropout: float,
        noise: float,
        reader: str,
    ) -> None:
        super().__init__()
        assert encoder.lm_head is not None
        hidden = int(encoder.backbone.config.hidden_size)
        if hidden % heads:
            raise UserError(
                f"{heads} attention heads do not divide {hidden} dimensions; set {reader_key(reader)}.decoder.heads"
            )
        self.ahead = 0 if noise else 1
        weights: dict[int, Any] = {id(p): p for p in encoder.backbone.parameters()}
        self.embeddings = copy.deepcopy(embedding_module(encoder.backbone), dict(weights))
        self.head = copy.deepcopy(encoder.lm_head, dict(weights))
        self.noise = nn.Dropout(noise)
        with seeded(seed, torch.device("cpu")):
            layer = nn.TransformerDecoderLayer(hidden, heads, width, dropout, batch_first=True)
            self.layers = nn.TransformerDecoder(layer, layers)
            for module in self.layers.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=0.02)
                    nn.init.zeros_(module.bias)
                elif isinstance(module, nn.MultiheadAttention):
                    nn.init.xavier_uniform_(module.in_proj_weight)
        self.layers.to(encoder.device)

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length, hidden) states that predict the token at their position; one less, the next token.

        Args:
            tokens: (rows, length), the texts to reconstruct.
            vectors: (rows, hidden), of the sentences.
        """
        read = tokens.columns(tokens.input_ids.shape[1] - self.ahead)
        length = read.input_ids.shape[1]
        with torch.no_grad():
            embedded = self.embeddings(read.input_ids)
        causal = None
        if self.ahead:
            causal = torch.ones(length, length, dtype=torch.bool, device=embedded.device).triu(1)
        states: Tensor = self.layers(
            self.noise(embedded),
            vectors.unsqueeze(1),
            tgt_mask=causal,
            tgt_key_padding_mask=read.attention_mask == 0,
        )
        return states


def reader_key(reader: str) -> str:
    """The key of the settings of a term that is called "KIND term" in messages."""
    return f"objective.terms.{reader.removesuffix(' term')}"


def _as_decoder(backbone: PreTrainedModel, seed: int, device: torch.device, reader: str) -> PreTrainedModel:
    """A copy of ``backbone`` that attends from left to right, and to a memory with new weights."""
    config = copy.deepcopy(backbone.config)
    config.is_decoder = True
    config.add_cross_attention = True
    refusal = UserError(
        f"a {config.model_type} backbone cannot be a decoder that attends to the sentence vector, which the {reader} "
        f"needs; set {reader_key(reader)}.decoder.kind=new, or choose another model"
    )
    with seeded(seed, torch.device("cpu")):
        try:
            decoder: Any = type(backbone)(config)
        except (TypeError, ValueError, AttributeError):
            raise refusal from None
    missing, unexpected = decoder.load_state_dict(backbone.state_dict(), strict=False)
    if hasattr(decoder, "pooler"):
        decoder.pooler = None  # it reads no sentence
        missing = [name for name in missing if not name.startswith("pooler.")]
        unexpected = [name for name in unexpected if not name.startswith("pooler.")]
    if not missing or unexpected or any("crossattention" not in name for name in missing):
        raise refusal
    moved: PreTrainedModel = decoder.to(device)
    return moved


def _set_parameter(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    path, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(path), attribute, parameter)
