"""A hash of all that makes an encoder's vectors, to tell whether something was made for this very model."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import torch

from opencse.encoder.backbone import dropout_rates

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

# What a configuration says beside what makes the vectors; a saved folder may tell these otherwise.
_SAY_NOTHING = ("_name_or_path", "transformers_version", "architectures", "dtype", "output_hidden_states")


def fingerprint(encoder: SentenceEncoder) -> str:
    """A hash, 16 hexadecimal digits, of all that makes the vectors: weights, vocabulary, pooling and settings.

    Rates of dropout are not among them, since vectors are made without it; an encoder and what is loaded from where it
    was saved in float32 have one hash.
    """
    digest = hashlib.sha256()
    config = encoder.backbone.config
    silent = {*_SAY_NOTHING, *dropout_rates(config)}
    told = {key: value for key, value in config.to_dict().items() if key not in silent}
    settings = (
        json.dumps(told, sort_keys=True, default=str),
        encoder.tokenizer.fingerprint(),
        encoder.pooling,
        encoder.dense,
        encoder.normalize,
        encoder.max_length,
        encoder.prompt,
        encoder.lower_case,
    )
    digest.update("\n".join(str(value) for value in settings).encode())
    for part in (encoder.backbone, encoder.dense):
        for key, tensor in part.state_dict().items():
            digest.update(f"\n{key} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
