"""Writes the folder of an encoder: sentence-transformers' layout, of stock modules only; and reads its template.

A template is in ``tokenizer.json``, as the step that puts special tokens around a text: whatever reads the file puts
texts into the template, and truncates a long text in the slot. Pooling ``mask`` is a mean over tokens (``Pooling``) of
which all but one count 0 (``WordWeights``). That one is the template's last mask token. It has an id of its own, after
all others, with a copy of the mask token's embedding: a mask token before it, in the template or in a text, counts
nothing. So sentence-transformers gives the same vectors without any code of this package. Reading the folder undoes all
this.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from opencse.errors import UserError, explaining, reason
from opencse.files import moving_in, write_new_json
from opencse.home import in_home
from opencse.model_folder.adapters import write_adapters
from opencse.model_folder.backbone import quiet_transformers
from opencse.model_folder.description import SavedTemplate, hybrid_entry
from opencse.model_folder.layout import (
    ADAPTER,
    LAYER_NORM_PREFIX,
    POOLING_FLAGS,
    POOLING_MODES,
    SENTENCE_CONFIG,
    SIMILARITY,
    TEMPLATE,
    TOKEN_WEIGHTS,
    TOKEN_WEIGHTS_TENSOR,
    WRITTEN_BY,
    read_config,
)
from opencse.model_folder.table import write_table
from opencse.modules.dense import ACTIVATION_PATHS, Dense, SavedLayer, UnitLength
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.token_modules import MaskedLMHead, TokenWeights
from opencse.text.tokenizer import Tokenizer
from opencse.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_GENERIC = "PreTrainedTokenizerFast"
"""The tokenizer class that uses ``tokenizer.json`` as it is; others write their own special tokens over it."""


def restore(saved: SavedTemplate, tokenizer: Tokenizer, backbone: PreTrainedModel) -> None:
    """Undoes in a loaded tokenizer and backbone what `write_template` and `extended` did to their files."""
    backend = tokenizer.hf.backend_tokenizer
    described = json.loads(backend.to_str()) | {"post_processor": saved.processor}
    backend.post_processor = type(backend).from_str(json.dumps(described)).post_processor
    if saved.pools_mask:
        words = cast(nn.Embedding, backbone.get_input_embeddings())
        rows = words.num_embeddings - 1
        words.weight = nn.Parameter(words.weight.detach()[:rows].clone(), words.weight.requires_grad)
        words.num_embeddings = backbone.config.vocab_size = rows


def mask_weights(parts: Parts) -> TokenWeights:
    """The token weights that stand for pooling ``mask``: 1 for the template's last mask token, 0 for all others."""
    weights = torch.zeros(_rows(parts) + 1)
    weights[-1] = 1.0
    return TokenWeights(weights)


def extended(parts: Parts, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A backbone's weights with one more token embedding, a copy of the mask token's; for pooling ``mask``."""
    words = parts.backbone.get_input_embeddings()
    name = next(name for name, module in parts.backbone.named_modules() if module is words) + ".weight"
    table = state[name]
    return state | {name: torch.cat([table, table[parts.tokenizer.hf.mask_token_id].unsqueeze(0)])}


def write_template(parts: Parts, folder: Path) -> None:
    """Puts the template into the tokenizer's files in ``folder``."""
    tokenizer = parts.tokenizer
    if tokenizer.frame is None:
        return
    backend = type(tokenizer.hf.backend_tokenizer).from_str(tokenizer.hf.backend_tokenizer.to_str())
    frame = tokenizer.frame
    if parts.pooling is Pooling.MASK:
        frame = frame.replacing(int(tokenizer.hf.mask_token_id), _rows(parts))
    tokenizer.put_template(backend, frame)
    backend.save(str(folder / "tokenizer.json"))
    path = folder / "tokenizer_config.json"
    write_new_json(path, read_config(path) | {"tokenizer_class": _GENERIC})


def template_entry(parts: Parts) -> dict[str, Any]:
    """What ``SENTENCE_CONFIG`` says of the template; empty without one."""
    tokenizer = parts.tokenizer
    if tokenizer.template is None:
        return {}
    processor = json.loads(tokenizer.hf.backend_tokenizer.to_str())["post_processor"]
    return {
        TEMPLATE: {
            "text": tokenizer.template.text,
            "pools_mask": parts.pooling is Pooling.MASK,
            "replaced_processor": processor,
        }
    }


def _rows(parts: Parts) -> int:
    """Rows of the backbone's token embeddings, of which the last mask token of a saved template is the next one."""
    words: Any = parts.backbone.get_input_embeddings()
    return int(words.num_embeddings)


OPENING = ("config.json", "modules.json", "adapter_config.json", "adapter_model.safetensors")
"""Files of which at least one is needed to open a folder; adapters come before a model in the same folder."""
RUN = "run.json"
"""The record of a training run, in its folder."""


def write_folder(
    parts: Parts,
    folder: str | Path,
    card: str,
    *,
    dtype: torch.dtype,
    lm_head: MaskedLMHead | None,
    adapted: Parts | None,
) -> None:
    """Writes an encoder in sentence-transformers' layout; see `SentenceEncoder.save`.

    The files are written to a folder inside the target first and then moved, last of all those that make the folder a
    model. So a write that is interrupted leaves no folder that opens as a wrong or incomplete model.

    Args:
        parts: of the encoder; adapters are merged into its weights.
        folder: made if it does not exist.
        card: text of the model card (README.md).
        dtype: of the weights on disk.
        lm_head: the masked-LM head, where it is saved too.
        adapted: the same encoder with adapters on its backbone; written to the folder ``adapter``.

    Raises:
        UserError: if it cannot be written, or a file that opencse did not write would be replaced.
    """
    from safetensors import SafetensorError

    folder = Path(in_home(folder))
    cannot = f"{folder}: the model cannot be written"
    with explaining(cannot, OSError, SafetensorError), moving_in(folder, last=OPENING) as work:
        if adapted is not None:
            _write_adapted(adapted, work / ADAPTER, card)
        _write(parts, work, card, dtype, lm_head=lm_head)
        _require_own(folder, work)


def _require_own(folder: Path, work: Path) -> None:
    """Refuses to replace files that another program, or the user, wrote."""
    existing = sorted(path.name for path in work.iterdir() if os.path.lexists(folder / path.name))
    if existing and not is_ours(folder) and not (folder / RUN).is_file():
        raise UserError(
            f"{folder}: holds {existing[0]} and no encoder that opencse wrote, so it is not replaced; "
            "choose a new folder"
        )


def is_ours(folder: Path) -> bool:
    """Whether ``folder`` holds an encoder that `write_folder` wrote."""
    try:
        versions = read_config(folder / SENTENCE_CONFIG).get("__version__")
    except UserError:
        return False
    return isinstance(versions, dict) and WRITTEN_BY in versions


def _write_adapted(parts: Parts, folder: Path, card: str) -> None:
    """Writes the adapters alone, with everything but the backbone next to them.

    A mean over several layers is named in the backbone's configuration, and pooling at a template's mask adds to its
    weights, so of such an encoder only the adapters are written.
    """
    folder.mkdir()
    write_adapters(parts.backbone, folder)
    if len(parts.pooled_layers) == 1 and parts.pooling is not Pooling.MASK:
        _write(parts, folder, card, torch.float32, adapted=True)


def _write(
    parts: Parts,
    folder: Path,
    card: str,
    dtype: torch.dtype,
    *,
    lm_head: MaskedLMHead | None = None,
    adapted: bool = False,
) -> None:
    modules = [("StaticEmbedding" if parts.is_table else "Transformer", "")]

    def new_module(name: str) -> Path:
        modules.append((name, f"{len(modules)}_{name}"))
        path = folder / modules[-1][1]
        path.mkdir()
        return path

    if parts.is_table:
        write_table(parts, folder, dtype)
    elif adapted:
        _write_text(parts, folder)
    else:
        _write_transformer(parts, folder, dtype)
        if lm_head is not None:
            if parts.pooling is Pooling.MASK:
                raise UserError("the masked-LM head cannot be saved with pooling mask; set masked_lm to False")
            _add_masked_lm_head(parts.backbone, lm_head, folder, dtype)
    if len(parts.pooled_layers) > 1:
        _write_layer_weights(parts, new_module("WeightedLayerPooling"))
    if parts.token_weights is not None and not parts.is_table:  # a table's only leave out its unknown token
        _write_token_weights(parts.token_weights, parts.tokenizer, new_module(TOKEN_WEIGHTS))
    if parts.pooling is Pooling.MASK:
        _write_token_weights(mask_weights(parts), parts.tokenizer, new_module(TOKEN_WEIGHTS))
    if not parts.is_table:
        _write_pooling(parts, new_module("Pooling"))
    for layer in parts.dense:
        _write_layer(layer, new_module("Normalize" if isinstance(layer, UnitLength) else type(layer).__name__), dtype)
    if parts.normalize:
        new_module("Normalize")
    _write_sentence_config(parts, folder)
    (folder / "README.md").write_text(card, encoding="utf-8")
    listing = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (name, path) in enumerate(modules)
    ]
    write_new_json(folder / "modules.json", listing)
    for file in folder.rglob("*.safetensors"):  # safetensors makes files that only their owner can read
        shutil.copymode(folder / "modules.json", file)


def _write_transformer(parts: Parts, folder: Path, dtype: torch.dtype) -> None:
    state = {name: _stored(tensor, dtype) for name, tensor in parts.backbone.state_dict().items()}
    if parts.pooling is Pooling.MASK:
        state = extended(parts, state)
    with quiet_transformers():
        parts.backbone.save_pretrained(folder, state_dict=state)
    # Half-precision weights still compute in float32 wherever the folder is opened.
    config = read_config(folder / "config.json") | dict(parts.own_dropout) | {"dtype": "float32"}
    config.pop("output_hidden_states", None)
    if len(parts.pooled_layers) > 1:
        config["output_hidden_states"] = True
    if parts.pooling is Pooling.MASK:
        config["vocab_size"] = len(mask_weights(parts).weights)
    write_new_json(folder / "config.json", config, allow_nan=True)  # transformers' own values
    _write_text(parts, folder)


def _write_text(parts: Parts, folder: Path) -> None:
    """Writes how text becomes ids: the tokenizer, the longest text, lower-casing."""
    with quiet_transformers():
        _write_tokenizer(parts.tokenizer, folder)
    write_template(parts, folder)
    sentence = {"max_seq_length": parts.max_length, "do_lower_case": parts.lower_case}
    write_new_json(folder / "sentence_bert_config.json", sentence)


def _add_masked_lm_head(backbone: PreTrainedModel, head: MaskedLMHead, folder: Path, dtype: torch.dtype) -> None:
    """Writes the weights again as those of transformers' masked-LM class, which `AutoModel` reads as well."""
    from safetensors.torch import save_file

    embeddings = cast(nn.Embedding, backbone.get_input_embeddings()).weight.data_ptr()
    state = {f"{head.prefix}.{name}": _stored(t, dtype) for name, t in backbone.state_dict().items()}
    head_state = head.lm.state_dict()
    state |= {name: _stored(t, dtype).clone() for name, t in head_state.items() if t.data_ptr() != embeddings}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config = read_config(folder / "config.json") | {"architectures": [type(head.lm).__name__]}
    if not head.tied:
        config["tie_word_embeddings"] = False
    write_new_json(folder / "config.json", config, allow_nan=True)


def _write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    try:
        tokenizer.hf.save_pretrained(folder)
    except Exception as error:
        if type(error) is Exception:  # what the tokenizers library raises when the disk is full
            raise OSError(reason(error)) from error
        raise


def _write_layer_weights(parts: Parts, path: Path) -> None:
    from safetensors.torch import save_file

    weights = [1.0 if layer in parts.pooled_layers else 0.0 for layer in range(parts.depth + 1)]
    config = {
        "word_embedding_dimension": int(parts.backbone.config.hidden_size),
        "layer_start": 0,
        "num_hidden_layers": parts.depth,
    }
    write_new_json(path / "config.json", config)
    save_file({"layer_weights": torch.tensor(weights)}, path / "model.safetensors")


def _write_token_weights(token_weights: TokenWeights, tokenizer: Tokenizer, path: Path) -> None:
    from safetensors.torch import save_file

    weights = token_weights.weights
    known = range(min(len(weights), tokenizer.vocabulary_size))
    tokens = [*tokenizer.hf.convert_ids_to_tokens(list(known)), *[None] * (len(weights) - len(known))]
    words = [f"[unused id {number}]" if token is None else token for number, token in enumerate(tokens)]
    by_word = dict(zip(words, weights.tolist(), strict=True))
    write_new_json(path / "config.json", {"vocab": words, "word_weights": by_word, "unknown_word_weight": 1.0})
    save_file({TOKEN_WEIGHTS_TENSOR: weights.cpu().unsqueeze(1).contiguous()}, path / "model.safetensors")


def _write_pooling(parts: Parts, path: Path) -> None:
    mean = len(parts.pooled_layers) > 1 or parts.pooling is Pooling.MASK
    mode = Pooling.MEAN if mean else parts.pooling
    flags = {flag: POOLING_MODES.get(name) is mode for flag, name in POOLING_FLAGS.items()}
    size = {"word_embedding_dimension": int(parts.backbone.config.hidden_size)}
    prompt = {} if parts.pool_prompt else {"include_prompt": False}
    write_new_json(path / "config.json", size | flags | prompt)


def _write_layer(layer: SavedLayer, path: Path, dtype: torch.dtype) -> None:
    from safetensors.torch import save_file

    if isinstance(layer, UnitLength):
        return
    write_new_json(path / "config.json", _layer_config(layer))
    prefix = LAYER_NORM_PREFIX if isinstance(layer, nn.LayerNorm) else ""
    state = {f"{prefix}{name}": _stored(tensor, dtype) for name, tensor in layer.state_dict().items()}
    if state:
        save_file(state, path / "model.safetensors")


def _layer_config(layer: Dense | nn.LayerNorm | nn.Dropout) -> dict[str, Any]:
    if isinstance(layer, nn.Dropout):
        return {"dropout": layer.p}
    if isinstance(layer, nn.LayerNorm):
        return {"dimension": layer.normalized_shape[0]}
    return {
        "in_features": layer.linear.in_features,
        "out_features": layer.linear.out_features,
        "bias": layer.linear.bias is not None,
        "activation_function": ACTIVATION_PATHS[layer.activation_name],
        **({"use_residual": True} if layer.use_residual else {}),
    }


def _write_sentence_config(parts: Parts, folder: Path) -> None:
    config = {
        "__version__": {WRITTEN_BY: __version__},
        **parts.prompts.entries,
        SIMILARITY: parts.similarity_fn_name.value,
        **hybrid_entry(parts.hybrid_weight),
        **template_entry(parts),
    }
    write_new_json(folder / SENTENCE_CONFIG, config)


def _stored(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.detach()
    return (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous().cpu()
