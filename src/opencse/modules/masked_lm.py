"""The masked-language-model head of a backbone, applied to the masked positions only."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class _ReplacedBackbone(nn.Module):
    """Replaces the backbone of a masked-LM model and returns the hidden states that it receives."""

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> Any:  # noqa: ANN401 - transformers' call
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedLMHead(nn.Module):
    """Hidden states (M, H) of masked positions -> logits (M, vocabulary).

    The head is the one of transformers' own masked-LM class for the architecture, with its backbone
    taken out; so it works for any of them and runs over the masked positions alone. The decoder
    shares the backbone's token embeddings where the configuration ties them, unless ``tied`` is False: then it
    starts from a copy of them and is trained separately.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> model = BertForMaskedLM(BertConfig(vocab_size=20, **sizes))
        >>> head = MaskedLMHead(model, model.get_input_embeddings())
        >>> head(torch.zeros(3, 8)).shape
        torch.Size([3, 20])
    """

    def __init__(self, masked_lm: nn.Module, word_embeddings: nn.Embedding, *, tied: bool = True) -> None:
        super().__init__()
        lm: Any = masked_lm
        self.prefix = str(lm.base_model_prefix)
        setattr(lm, lm.base_model_prefix, _ReplacedBackbone())
        self.tied = tied and bool(lm.config.tie_word_embeddings)
        if self.tied:
            lm.get_output_embeddings().weight = word_embeddings.weight
        elif lm.config.tie_word_embeddings:
            lm.get_output_embeddings().weight = nn.Parameter(word_embeddings.weight.detach().clone())
        self.lm = lm

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of each position."""
        logits: Tensor = self.lm(inputs_embeds=hidden.unsqueeze(0)).logits
        return logits.squeeze(0)
