"""Loads the masked-language-model head that is stored with a backbone."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from opencse.errors import UserError, reason
from opencse.model_folder.backbone import load_config, quiet_transformers
from opencse.model_folder.reading import transformer_folder
from opencse.modules.masked_lm import MaskedLMHead


def load_masked_lm_head(
    folder: Path,
    word_embeddings: nn.Embedding,
    *,
    tied: bool = True,
    trust_remote_code: bool = False,
    instead: str = "drop the mlm term",
) -> MaskedLMHead:
    """The masked-LM head stored with the backbone in ``folder``.

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
    return MaskedLMHead(model, word_embeddings, tied=tied)
