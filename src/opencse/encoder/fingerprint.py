"""Hashes everything that determines an encoder's vectors, so that other files can name the exact model they need."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.files import hash_file
from opencse.foreign import own_code
from opencse.model_folder.layout import module_folder, read_json
from opencse.model_folder.locate import locate

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.modules.parts import Parts

# Entries of a configuration that do not change the vectors; a saved folder may have other values.
_SAY_NOTHING = ("_name_or_path", "transformers_version", "architectures", "dtype", "output_hidden_states")

# The files that a model is made of; other files of the folder (cards, logs, reports) change no vector.
_FILES = (
    "adapter_config.json",
    "adapter_model.safetensors",
    "config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
    "model*.safetensors",
    "pytorch_model*.bin",
)


def hash_model(model: str | Path) -> dict[str, str]:
    """SHA-256 of each file that ``model`` is made of, by its name in the model's folder.

    Raises:
        UserError: if there is no such model, or a file cannot be read.
    """
    folder = locate(model)
    modules = [folder, *_module_folders(folder)]
    files = {
        path
        for module in modules
        for pattern in (*_FILES, *(["*.py"] if own_code(module) else []))
        for path in module.glob(pattern)
        if path.is_file()
    }
    hashes = {path.relative_to(folder).as_posix(): hash_file(path) for path in sorted(files)}
    if not (folder / "adapter_config.json").is_file():
        return hashes
    from opencse.model_folder.adapters import read_adapters

    base = read_adapters(folder).base
    return hashes | {f"{base}/{name}": digest for name, digest in hash_model(base).items()}


def _module_folders(folder: Path) -> set[Path]:
    """The folders of sentence-transformers' modules: those with its usual names, and those that modules.json names."""
    listing = folder / "modules.json"
    entries = read_json(listing) if listing.is_file() else []
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    paths = {module_folder(listing, entry["path"]) for entry in listed if "path" in entry}
    return {path for path in (*folder.glob("[0-9]*_*"), *paths) if path.is_dir()}


def hash_files(model: str | Path) -> str:
    """One hash, hexadecimal, of all files that ``model`` is made of; see `hash_model`."""
    return hashlib.sha256(json.dumps(hash_model(model), sort_keys=True).encode()).hexdigest()


def fingerprint(encoder: TextEncoder) -> str:
    """A hash, 16 hexadecimal digits, of all that makes the vectors: weights, vocabulary, pooling and settings.

    Rates of dropout are not among them, since vectors are made without it; an encoder and what is loaded from where it
    was saved in float32 have one hash. That of models of word vectors alone is computed without torch; see
    `opencse.encoder.static`.
    """
    return encoder.fingerprint()


def hash_parts(parts: Parts) -> str:
    """The `fingerprint` of an encoder that computes with torch."""
    import torch
    from torch import nn

    from opencse.model_folder.backbone import dropout_rates

    digest = hashlib.sha256()
    config = parts.backbone.config
    silent = {*_SAY_NOTHING, *dropout_rates(config)}
    stated = {key: value for key, value in config.to_dict().items() if key not in silent}
    dense = nn.Sequential(*parts.dense)
    settings = (
        json.dumps(stated, sort_keys=True, default=str),
        parts.tokenizer.fingerprint(),
        parts.pooling,
        dense,
        parts.normalize,
        parts.max_length,
        parts.prompts.identity,
        parts.lower_case,
        *(() if parts.pool_prompt else ("without the prompt's tokens",)),
    )
    digest.update("\n".join(str(value) for value in settings).encode())
    weights = () if parts.token_weights is None else (parts.token_weights,)
    for part in (parts.backbone, dense, *weights):
        for key, tensor in part.state_dict().items():
            digest.update(f"\n{key} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
