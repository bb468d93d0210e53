"""The masked-language-model head of a backbone, applied to the masked positions only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

_BLOCK_BYTES = 2**26
"""64 MiB of logits: 549 positions of a vocabulary of 30,522."""


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

    def losses(self, hidden: Tensor, labels: Tensor, *, block_bytes: int = _BLOCK_BYTES) -> Tensor:
        """The cross-entropy at each position (M,), float32, with the logits of some positions in memory at a time.

        Logits of one block are computed again for its gradient, so that a step holds one block of logits and not all
        three arrays of (M, vocabulary) that the plain loss holds. The same losses and gradients as of all logits at
        once, up to rounding; what fits one block is computed at once.

        Args:
            hidden: (M, H) of the masked positions; M may be 0.
            labels: (M,) ids of the hidden tokens.
            block_bytes: most memory of a block's logits in float32.
        """

        def of(states: Tensor, ids: Tensor) -> Tensor:
            logits = self(states)
            return functional.cross_entropy(logits.float() if logits.itemsize < 4 else logits, ids, reduction="none")

        rows = max(1, block_bytes // (4 * len(self.lm.get_output_embeddings().weight)))
        if len(hidden) <= rows:
            return of(hidden, labels)
        starts = range(0, len(hidden), rows)
        blocks = [(hidden[start : start + rows], labels[start : start + rows]) for start in starts]
        if not torch.is_grad_enabled():
            return torch.cat([of(*block) for block in blocks])
        return torch.cat([checkpoint(of, *block, use_reentrant=False) for block in blocks])
