"""Loads the masked-language-model head that is stored with a backbone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from opencse.errors import UserError, reason
from opencse.model_folder.backbone import load_config, quiet_transformers
from opencse.model_folder.reading import transformer_folder
from opencse.model_folder.weight_files import require_repeats, require_sizes
from opencse.modules.masked_lm import MaskedLMHead

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
    model, missing = open_masked_lm(folder, trust_remote_code=trust_remote_code, instead=instead)
    if missing:
        raise UserError(
            f"{folder}: the model has no masked-language-model head (missing {min(missing)}); take a checkpoint that "
            f"has one, make one with opencse pretrain --model, or {instead}"
        )
    return MaskedLMHead(model, word_embeddings, tied=tied)


def open_masked_lm(
    folder: Path,
    *,
    tied: bool | None = None,
    trust_remote_code: bool = False,
    instead: str = "take a checkpoint of an encoder",
) -> tuple[PreTrainedModel, list[str]]:
    """The masked language model in ``folder``, and the names of its weights that are missing there.

    Missing weights are drawn from torch's random state.

    Args:
        folder: a model's folder, of either layout.
        tied: whether the decoder is the token embeddings; None: as the configuration says.
        trust_remote_code: run the code that the folder names, where it names any.
        instead: what to do where there is none, for the message.

    Raises:
        UserError: if transformers has no masked language model for it.
    """
    from transformers import AutoModel, AutoModelForMaskedLM

    try:
        transformer = transformer_folder(folder)
        stored_bytes = require_repeats(transformer)
        with quiet_transformers():
            config = load_config(transformer, trust_remote_code=trust_remote_code)
            require_sizes(transformer, AutoModel, config, stored_bytes, trust_remote_code=trust_remote_code)
            if tied is not None:
                config.tie_word_embeddings = tied
            report: dict[str, Any]
            model, report = AutoModelForMaskedLM.from_pretrained(
                transformer,
                config=config,
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
    return model, sorted(report["missing_keys"])
