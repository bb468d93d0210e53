"""The folder of an encoder, written: sentence-transformers' layout, of stock modules only."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from opencse.encoder.card import plain_card
from opencse.errors import UserError, reason
from opencse.model_folder.adapters import merge_adapters, write_adapters
from opencse.model_folder.layout import (
    ACTIVATION_PATHS,
    POOLING_FLAGS,
    POOLING_MODES,
    SENTENCE_CONFIG,
    TABLE,
    WRITTEN_BY,
    read_config,
    write_json,
)
from opencse.model_folder.quiet import quiet_transformers
from opencse.model_folder.table import write_table
from opencse.modules.dense import Dense, as_dense
from opencse.modules.pooling import Pooling
from opencse.modules.similarity import KEY
from opencse.modules.token_weights import MODULE as TOKEN_WEIGHTS
from opencse.outputs import moving_in
from opencse.version import __version__

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


OPENING = ("config.json", "modules.json", "adapter_config.json", "adapter_model.safetensors")
"""Files of which one at least is needed to open a folder; adapters come before a model of the same folder."""
RUN = "run.json"
"""The record of a training run, in its folder."""
ADAPTER = "adapter"
"""Folder of the adapters alone, in that of the encoder they were merged into."""


def write_folder(
    encoder: SentenceEncoder, folder: Path, *, card: str, dtype: torch.dtype, masked_lm: bool = False
) -> None:
    """See `SentenceEncoder.save`. Written inside the target first and moved in, what opens a folder last.

    Without that nothing opens it, so it is never taken for another model than it will be.
    """
    from safetensors import SafetensorError

    try:
        with moving_in(folder, last=OPENING) as work:
            if encoder.adapted:
                _write_adapted(encoder, work / ADAPTER, card)
                encoder = _merged(encoder)
            _write(encoder, work, card, dtype, masked_lm)
            _require_own(folder, work)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder}: the model cannot be written ({reason(error)})") from error


def _require_own(folder: Path, work: Path) -> None:
    """Refuses to replace files that another program, or the user, wrote."""
    taken = sorted(path.name for path in work.iterdir() if os.path.lexists(folder / path.name))
    if taken and not is_ours(folder) and not (folder / RUN).is_file():
        raise UserError(
            f"{folder}: holds {taken[0]} and no encoder that opencse wrote, so it is not replaced; choose a new folder"
        )


def is_ours(folder: Path) -> bool:
    """Whether ``folder`` holds an encoder that `write_folder` wrote."""
    try:
        versions = read_config(folder / SENTENCE_CONFIG).get("__version__")
    except UserError:
        return False
    return isinstance(versions, dict) and WRITTEN_BY in versions


def _merged(encoder: SentenceEncoder) -> SentenceEncoder:
    """A copy with the adapters in the weights."""
    merged = encoder.twin()
    merge_adapters(merged.backbone)
    merged.adapted = False
    return merged


def _write_adapted(encoder: SentenceEncoder, folder: Path, card: str) -> None:
    """The adapters alone, with all but the backbone beside them.

    A mean over several layers is said in the backbone's configuration, so of it there are the adapters only.
    """
    folder.mkdir()
    write_adapters(encoder.backbone, folder)
    if len(encoder.pooling.layers(encoder.depth)) == 1:
        _write(encoder, folder, card, torch.float32, masked_lm=False)


def _write(encoder: SentenceEncoder, folder: Path, card: str, dtype: torch.dtype, masked_lm: bool) -> None:
    table = encoder.backbone.config.model_type == TABLE
    modules = [("StaticEmbedding" if table else "Transformer", "")]

    def place(module: str) -> Path:
        modules.append((module, f"{len(modules)}_{module}"))
        path = folder / modules[-1][1]
        path.mkdir()
        return path

    if table:
        write_table(encoder, folder, dtype)
    elif encoder.adapted:
        _write_text(encoder, folder)
    else:
        _write_transformer(encoder, folder, dtype)
    if masked_lm:
        _add_masked_lm_head(encoder, folder, dtype)
    if len(encoder.pooling.layers(encoder.depth)) > 1:
        _write_layer_weights(encoder, place("WeightedLayerPooling"))
    if encoder.token_weights is not None and not table:  # a table's leave out its unknown token alone
        encoder.token_weights.write(place(TOKEN_WEIGHTS), encoder.tokenizer)
    if not table:
        _write_pooling(encoder, place("Pooling"))
    for layer in as_dense(encoder.dense):
        _write_dense(layer, place("Dense"), dtype)
    if encoder.normalize:
        place("Normalize")
    _write_sentence_config(encoder, folder)
    (folder / "README.md").write_text(card or plain_card(encoder), encoding="utf-8")
    listing = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{module}"}
        for i, (module, path) in enumerate(modules)
    ]
    write_json(folder / "modules.json", listing)
    for file in folder.rglob("*.safetensors"):  # safetensors makes files that only their owner can read
        shutil.copymode(folder / "modules.json", file)


def _write_transformer(encoder: SentenceEncoder, folder: Path, dtype: torch.dtype) -> None:
    state = {name: _stored(tensor, dtype) for name, tensor in encoder.backbone.state_dict().items()}
    with quiet_transformers():
        encoder.backbone.save_pretrained(folder, state_dict=state)
    # Half-precision weights still compute in float32 wherever the folder is opened.
    config = read_config(folder / "config.json") | encoder.own_dropout | {"dtype": "float32"}
    config.pop("output_hidden_states", None)
    if len(encoder.pooling.layers(encoder.depth)) > 1:
        config["output_hidden_states"] = True
    write_json(folder / "config.json", config)
    _write_text(encoder, folder)


def _write_text(encoder: SentenceEncoder, folder: Path) -> None:
    """How text becomes ids."""
    with quiet_transformers():
        _write_tokenizer(encoder, folder)
    sentence = {"max_seq_length": encoder.max_length, "do_lower_case": encoder.lower_case}
    write_json(folder / "sentence_bert_config.json", sentence)


def _add_masked_lm_head(encoder: SentenceEncoder, folder: Path, dtype: torch.dtype) -> None:
    """Writes the weights anew as those of transformers' masked-LM class, which `AutoModel` reads as well."""
    from safetensors.torch import save_file

    head = encoder.lm_head
    if head is None:
        raise RuntimeError("the encoder has no masked-LM head to save")
    embeddings = cast(nn.Embedding, encoder.backbone.get_input_embeddings()).weight.data_ptr()
    state = {f"{head.prefix}.{name}": _stored(t, dtype) for name, t in encoder.backbone.state_dict().items()}
    own = head.lm.state_dict()
    state |= {name: _stored(t, dtype).clone() for name, t in own.items() if t.data_ptr() != embeddings}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = read_config(folder / "config.json") | {"architectures": [type(head.lm).__name__]}
    if not head.tied:
        config["tie_word_embeddings"] = False
    write_json(folder / "config.json", config)


def _write_tokenizer(encoder: SentenceEncoder, folder: Path) -> None:
    try:
        encoder.tokenizer.hf.save_pretrained(folder)
    except Exception as error:
        if type(error) is Exception:  # what the tokenizers library raises when the disk is full
            raise OSError(reason(error)) from error
        raise


def _write_layer_weights(encoder: SentenceEncoder, path: Path) -> None:
    from safetensors.torch import save_file

    layers = encoder.pooling.layers(encoder.depth)
    weights = [1.0 if layer in layers else 0.0 for layer in range(encoder.depth + 1)]
    config = {
        "word_embedding_dimension": int(encoder.backbone.config.hidden_size),
        "layer_start": 0,
        "num_hidden_layers": encoder.depth,
    }
    write_json(path / "config.json", config)
    save_file({"layer_weights": torch.tensor(weights)}, path / "model.safetensors")


def _write_pooling(encoder: SentenceEncoder, path: Path) -> None:
    several = len(encoder.pooling.layers(encoder.depth)) > 1
    mode = Pooling.MEAN if several else encoder.pooling
    flags = {flag: POOLING_MODES.get(name) is mode for flag, name in POOLING_FLAGS.items()}
    size = {"word_embedding_dimension": int(encoder.backbone.config.hidden_size)}
    prompt = {} if encoder.pool_prompt else {"include_prompt": False}
    write_json(path / "config.json", size | flags | prompt)


def _write_dense(layer: Dense, path: Path, dtype: torch.dtype) -> None:
    from safetensors.torch import save_file

    config = {
        "in_features": layer.linear.in_features,
        "out_features": layer.linear.out_features,
        "bias": layer.linear.bias is not None,
        "activation_function": ACTIVATION_PATHS[layer.activation_name],
        **({"use_residual": True} if layer.use_residual else {}),
    }
    write_json(path / "config.json", config)
    state = {name: _stored(tensor, dtype) for name, tensor in layer.state_dict().items()}
    save_file(state, path / "model.safetensors")


def _write_sentence_config(encoder: SentenceEncoder, folder: Path) -> None:
    config = {
        "__version__": {WRITTEN_BY: __version__},
        **encoder.prompts.entries,
        KEY: encoder.similarity_fn_name.value,
    }
    write_json(folder / SENTENCE_CONFIG, config)


def _stored(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.detach()
    return (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous().cpu()
