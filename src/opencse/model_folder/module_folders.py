"""Reads the modules that follow the transformer: pooling, weighted layers, token weights, dense layers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.model_folder.layout import (
    ACTIVATION_PATHS,
    LAYER_NORM_PREFIX,
    POOLING_FLAGS,
    POOLING_MODES,
    TOKEN_WEIGHTS_TENSOR,
    entry,
    read_config,
    read_weights,
)
from opencse.model_folder.listing import LayerFolder, Modules
from opencse.modules.pooling import Pooling

if TYPE_CHECKING:
    from torch import Tensor, nn

    from opencse.modules.dense import Dense, SavedLayer
    from opencse.modules.token_weights import TokenWeights

# The keys of the number of layers in the configurations of transformers' encoders.
_DEPTH_KEYS = ("num_hidden_layers", "n_layers")
_MOST_FEATURES = 65_536  # of a Dense module; a broken number must not ask for all memory


def read_pooling(modules: Modules, backbone: Mapping[str, Any]) -> Pooling:
    """The pooling that the modules define together; ``backbone`` is transformers' configuration."""
    where = modules.pooling
    config = read_config(where / "config.json")
    path = where / "config.json"
    flagged = [name for flag, name in POOLING_FLAGS.items() if entry(path, config, flag, bool, False)]
    mode = config.get("pooling_mode") or flagged
    modes = mode if isinstance(mode, list) else [mode]
    if not all(isinstance(one, str) for one in modes):
        raise UserError(f"{path}: pooling_mode is {mode!r}; a string was expected, such as 'mean'")
    if len(modes) != 1 or modes[0] not in POOLING_MODES:
        names = " + ".join(modes) or "none"
        raise UserError(f"{where}: pooling {names} is not supported here; choose one with --pooling")
    pooling = POOLING_MODES[modes[0]]
    if not pools_prompt(modules) and not pooling.may_leave_out_prompt:
        raise UserError(
            f"{path}: include_prompt is false: pooling {pooling} that leaves out the prompt is not supported here; "
            "choose a pooling with --pooling"
        )
    # Without the hidden states of all layers sentence-transformers ignores the weighting, and so do we.
    if modules.weighted_layers is None or not backbone.get("output_hidden_states"):
        return pooling
    depth = next((int(backbone[key]) for key in _DEPTH_KEYS if key in backbone), 0)
    return _weighted(modules.weighted_layers, pooling, depth)


def pools_prompt(modules: Modules) -> bool:
    """Whether the folder's pooling counts the tokens of the prompt too."""
    path = modules.pooling / "config.json"
    return entry(path, read_config(path), "include_prompt", bool, True)


def read_layer(layer: LayerFolder) -> SavedLayer:
    """The module after the pooling in a folder, with its weights.

    Raises:
        UserError: where its configuration or its weights cannot be read, or do not fit each other.
    """
    from torch import nn

    from opencse.modules.dense import UnitLength

    require_sentence_names(layer.folder)
    if layer.name == "Dense":
        return _read_dense(layer.folder)
    if layer.name == "LayerNorm":
        return _read_layer_norm(layer.folder)
    return UnitLength() if layer.name == "Normalize" else nn.Dropout(_dropout_rate(layer.folder / "config.json"))


def _read_dense(path: Path) -> Dense:
    from opencse.modules.dense import Dense

    file = path / "config.json"
    config = read_config(file)
    names = {activation: name for name, activation in ACTIVATION_PATHS.items()}
    activation = entry(file, config, "activation_function", str, ACTIVATION_PATHS["tanh"])
    if activation not in names:
        raise UserError(f"{path}: a Dense module with {activation} is not supported here")
    residual = entry(file, config, "use_residual", bool, False)
    weights = read_weights(path)
    sizes = {key: _size(file, config, key) for key in ("in_features", "out_features")}
    dense = Dense(
        **sizes, activation=names[activation], bias=entry(file, config, "bias", bool, True), use_residual=residual
    )
    _load_weights(path, dense, weights)
    return dense


def _read_layer_norm(path: Path) -> nn.LayerNorm:
    from torch import nn

    file = path / "config.json"
    config = read_config(file)
    weights = read_weights(path)
    norm = nn.LayerNorm(_size(file, config, "dimension"))
    _load_weights(path, norm, {name.removeprefix(LAYER_NORM_PREFIX): tensor for name, tensor in weights.items()})
    return norm


def _dropout_rate(file: Path) -> float:
    """The rate of a Dropout module; sentence-transformers' own where the file names none."""
    rate = read_config(file).get("dropout", 0.2)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
        raise UserError(f"{file}: dropout is {rate!r}; a number from 0 to below 1 was expected")
    return float(rate)


def _size(file: Path, config: dict[str, Any], key: str) -> int:
    """A module's number of dimensions; refuses one that is missing or cannot be."""
    if key not in config:
        raise UserError(f"{file.parent}: config.json lacks {key}")
    size = entry(file, config, key, int, 0)
    if not 1 <= size <= _MOST_FEATURES:
        raise UserError(f"{file}: {key} is {size}; a whole number from 1 to {_MOST_FEATURES:,} was expected")
    return size


def _load_weights(path: Path, module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Puts the weights of a folder into the module that its configuration describes."""
    try:
        module.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except RuntimeError as error:
        raise UserError(f"{path}: the weights do not fit config.json ({_last_line(error)})") from None


def require_sentence_names(path: Path) -> None:
    """Refuses a Dense or Normalize module that works on token vectors instead of the sentence vector."""
    config = read_config(path / "config.json")
    for key in ("module_input_name", "module_output_name"):
        if (config.get(key) or "sentence_embedding") != "sentence_embedding":
            raise UserError(f"{path}: {key} = {config[key]} is not supported here, only sentence_embedding")


def require_chain(folder: Path, size: int, layers: list[SavedLayer]) -> None:
    """Refuses layers whose sizes do not fit each other; the first one takes ``size`` features."""
    from torch import nn

    from opencse.modules.dense import Dense

    for layer in layers:
        if isinstance(layer, Dense):
            takes, gives = layer.linear.in_features, layer.linear.out_features
        elif isinstance(layer, nn.LayerNorm):
            takes = gives = layer.normalized_shape[0]
        else:
            continue
        if takes != size:
            raise UserError(f"{folder}: a {type(layer).__name__} module takes {takes} features but is given {size}")
        size = gives


def read_token_weights(folder: Path, vocabulary: int) -> TokenWeights:
    """The weights of a WordWeights module; of folders written before sentence-transformers 5, by word.

    Args:
        folder: of the module.
        vocabulary: how many ids the tokenizer has.

    Raises:
        UserError: for a folder without weights, fewer of them than ids, or one that is negative or not finite.
    """
    import torch

    from opencse.modules.token_weights import TokenWeights

    if (folder / "model.safetensors").is_file():
        weights = read_weights(folder).get(TOKEN_WEIGHTS_TENSOR, torch.zeros(0)).flatten().float()
    else:
        weights = _weights_by_word(folder / "config.json")
    require_token_weights(folder, weights.numpy(), vocabulary)
    return TokenWeights(weights)


def require_token_weights(folder: Path, weights: NDArray[np.floating], vocabulary: int) -> None:
    """Refuses weights (V,) of a WordWeights module; see `read_token_weights` for the arguments and errors."""
    if len(weights) < vocabulary:
        raise UserError(f"{folder}: {len(weights):,} weights of tokens for {vocabulary:,} ids; each id needs one")
    if not bool(np.isfinite(weights).all()) or bool((weights < 0).any()):
        raise UserError(f"{folder}: a weight of a token is negative or not finite; numbers from 0 on were expected")


def _weights_by_word(file: Path) -> Tensor:
    import torch

    config = read_config(file)
    words, by_word = config.get("vocab"), entry(file, config, "word_weights", dict, {})
    unknown = config.get("unknown_word_weight", 1)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{file}: vocab is not a list of words, and there is no model.safetensors")
    weights = [by_word.get(word, by_word.get(word.lower(), unknown)) for word in words]
    if not all(isinstance(weight, int | float) for weight in weights):
        raise UserError(f"{file}: word_weights holds something that is not a number")
    return torch.tensor(weights, dtype=torch.float32)


def _weighted(path: Path, pooling: Pooling, depth: int) -> Pooling:
    file = path / "config.json"
    start = entry(file, read_config(file), "layer_start", int, 4)
    stored = read_weights(path).get("layer_weights")
    weights = [] if stored is None else stored.flatten().tolist()
    layers = {start + i for i, weight in enumerate(weights) if weight}
    even = len(set(weights) - {0.0}) == 1
    for candidate in (Pooling.FIRST_LAST_0, Pooling.FIRST_LAST_1, Pooling.TOP2):
        if pooling is Pooling.MEAN and even and layers == set(candidate.layers(depth)):
            return candidate
    raise UserError(f"{path}: this weighting of layers is not supported here; choose a pooling with --pooling")


def _last_line(error: RuntimeError) -> str:
    return str(error).strip().splitlines()[-1].strip()
