"""The masked-language-model head of a backbone, applied to chosen positions only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from opencse.errors import UserError, reason
from opencse.model_folder.backbone import load_config
from opencse.model_folder.quiet import quiet_transformers
from opencse.model_folder.reading import transformer_folder


class _Given(nn.Module):
    """Stands where the backbone was and hands through the hidden states it is given."""

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> Any:  # noqa: ANN401 - transformers' call
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedLMHead(nn.Module):
    """Hidden states (M, H) of masked positions -> logits (M, vocabulary).

    The head is the one of transformers' own masked-LM class for the architecture, with its backbone
    taken out; so it works for any of them and runs over the masked positions alone. The decoder
    shares the backbone's token embeddings where the configuration ties them, unless ``tied`` is False: then it
    starts from a copy of them and is trained for itself.
    """

    def __init__(self, masked_lm: nn.Module, word_embeddings: nn.Embedding, *, tied: bool = True) -> None:
        super().__init__()
        lm: Any = masked_lm
        self.prefix = str(lm.base_model_prefix)
        setattr(lm, lm.base_model_prefix, _Given())
        self.tied = tied and bool(lm.config.tie_word_embeddings)
        if self.tied:
            lm.get_output_embeddings().weight = word_embeddings.weight
        elif lm.config.tie_word_embeddings:
            lm.get_output_embeddings().weight = nn.Parameter(word_embeddings.weight.detach().clone())
        self.lm = lm

    @classmethod
    def load(
        cls,
        folder: Path,
        word_embeddings: nn.Embedding,
        *,
        tied: bool = True,
        trust_remote_code: bool = False,
        instead: str = "drop the mlm term",
    ) -> MaskedLMHead:
        """The head stored with the backbone in ``folder``.

        Args:
            folder: a model's folder, of either layout.
            word_embeddings: the backbone's, shared where the configuration ties them.
            tied: False gives the decoder a copy of them.
            trust_remote_code: run the code that the folder names, where it names any.
            instead: what to do where there is none, for the message.

        Raises:
            UserError: if the folder has none (it would be random).
        """
        from transformers import AutoModelForMaskedLM

        try:
            transformer = transformer_folder(folder)
            with quiet_transformers():
                model, report = AutoModelForMaskedLM.from_pretrained(
                    transformer,
                    config=load_config(transformer, trust_remote_code=trust_remote_code),
                    dtype=torch.float32,
                    output_loading_info=True,
                    trust_remote_code=trust_remote_code,
                    weights_only=True,
                )
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"{folder}: no masked-language-model head can be loaded from it ({reason(error)}); {instead}"
            ) from error
        if report["missing_keys"]:
            raise UserError(
                f"{folder}: the model has no masked-language-model head (missing {min(report['missing_keys'])}); "
                f"take a checkpoint that has one, or {instead}"
            )
        return cls(model, word_embeddings, tied=tied)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits of each position."""
        logits: Tensor = self.lm(inputs_embeds=hidden.unsqueeze(0)).logits
        return logits.squeeze(0)
