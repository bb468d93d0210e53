"""Reads what a sentence-transformers folder says: its modules, their settings and weights, the prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from opencse import files
from opencse.errors import UserError, nearest
from opencse.model_folder.layout import (
    ACTIVATION_PATHS,
    LAYER_NORM_PREFIX,
    POOLING_FLAGS,
    POOLING_MODES,
    SENTENCE_CONFIG,
    SIMILARITY,
    TOKEN_WEIGHTS,
    TOKEN_WEIGHTS_TENSOR,
    entry,
    read_config,
    read_json,
    read_weights,
)
from opencse.model_folder.table import table_folder
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import HybridWeight, Similarity
from opencse.text.scripts import is_unicode

if TYPE_CHECKING:
    from torch import Tensor, nn

    from opencse.modules.dense import Dense, SavedLayer
    from opencse.modules.token_modules import TokenWeights


_BEFORE = ("Transformer", "WeightedLayerPooling", TOKEN_WEIGHTS, "Pooling")
"""The modules from text to one vector, in this order, each once."""
_AFTER = ("Dense", "LayerNorm", "Dropout", "Normalize")
"""The modules that change the vector, in any order."""
_MODULE_FOLDER = re.compile(r"\d+_[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class LayerFolder:
    """A module after the pooling: its name in sentence-transformers, and its folder."""

    name: str
    folder: Path


@dataclass(frozen=True)
class Modules:
    """The folders of the modules in modules.json.

    Attributes:
        transformer: of the backbone; the table's for a table of word vectors.
        pooling: with the configuration of the pooling.
        weighted_layers: the weights of layers, if there are any.
        token_weights: the weights of tokens, if there are any.
        layers: what changes the pooled vector, in order, without a Normalize at the end.
        normalize: the Normalize at the end, if there is one.
        table: whether the backbone is a table of word vectors.
    """

    transformer: Path
    pooling: Path
    weighted_layers: Path | None
    token_weights: Path | None
    layers: tuple[LayerFolder, ...]
    normalize: Path | None
    table: bool = False


def list_modules(folder: Path) -> Modules | None:
    """The modules that modules.json lists; None for a plain transformers folder."""
    listing = folder / "modules.json"
    table = table_folder(folder)
    if not listing.is_file():
        _refuse_unlisted(folder)
        return None if table is None else Modules(folder, folder, None, None, (), None, table=True)
    entries = read_json(listing)
    folders: dict[str, Path] = {}
    layers: list[LayerFolder] = []
    last = ""
    for module in entries if isinstance(entries, list) else [entries]:
        if not isinstance(module, dict) or not {"type", "path"} <= module.keys():
            raise UserError(f"{listing}: a list of objects with type and path was expected")
        package, _, name = str(module["type"]).rpartition(".")
        if table is not None and not last and name == "StaticEmbedding":
            folders = {"Transformer": table, "Pooling": table}
            last = "Pooling"
            continue
        if name not in (*_BEFORE, *_AFTER) or package.split(".")[0] != "sentence_transformers":
            supported = ", ".join((*_BEFORE, *_AFTER))
            raise UserError(f"{folder}: module {module['type']} is not supported here; supported: {supported}")
        if not _may_follow(name, last):
            where = f"{name} after {last}" if last else f"{name} first"
            raise UserError(f"{folder}: modules in an order that is not supported here ({where})")
        path = module_folder(listing, module["path"])
        if name != "Normalize" and not path.is_dir():  # the folder of a Normalize is empty, and git stores none
            raise UserError(
                f"{listing}: names the {name} module in {path.name}, but there is no such folder; copy it from the "
                "model that this folder was made of"
            )
        if name in _AFTER:
            layers.append(LayerFolder(name, path))
        else:
            folders[name] = path
        last = name
    if "Transformer" not in folders or "Pooling" not in folders:
        raise UserError(
            f"{folder}: modules.json lacks a Transformer or a Pooling module, so this gives no vectors of texts; a "
            "cross-encoder re-ranks, by --rerank"
        )
    normalize = layers.pop().folder if layers and layers[-1].name == "Normalize" else None
    return Modules(
        transformer=folders["Transformer"],
        pooling=folders["Pooling"],
        weighted_layers=folders.get("WeightedLayerPooling"),
        token_weights=folders.get(TOKEN_WEIGHTS),
        layers=tuple(layers),
        normalize=normalize,
        table=table is not None,
    )


def _may_follow(name: str, last: str) -> bool:
    """Whether the module ``name`` may come after ``last``, which is empty for the first one."""
    if name in _AFTER:
        return last == "Pooling" or last in _AFTER
    return not last or (last in _BEFORE and _BEFORE.index(name) > _BEFORE.index(last))


def _refuse_unlisted(folder: Path) -> None:
    """Refuses folders of modules without modules.json: they would be left out silently."""
    unlisted = sorted(path.name for path in folder.iterdir() if _MODULE_FOLDER.fullmatch(path.name) and path.is_dir())
    if unlisted:
        raise UserError(
            f"{folder}: modules.json is missing, which says how {', '.join(unlisted)} is used; copy modules.json from "
            "the model that this folder was made of, or delete the folders of modules to read the transformer alone"
        )


def module_folder(listing: Path, path: object) -> Path:
    """The folder of a module, which is in the model's folder or the folder itself.

    Args:
        listing: the file modules.json.
        path: of the module, as it is written there.

    Raises:
        UserError: for a path that leads out of the model's folder.
    """
    folder = listing.parent
    if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts or "\0" in path:
        raise UserError(f"{listing}: path is {path!r}; the name of a folder inside {folder} was expected")
    return folder / path


# The Transformer module's configuration; the later names are those of releases before 1.0.
_SENTENCE_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
# Keys whose values are read below, or change no vector.
_READ = (
    "max_seq_length",
    "do_lower_case",
    "transformer_task",
    "modality_config",
    "module_output_name",
    "processing_kwargs",
    "unpad_inputs",
)
# Arguments of transformers' loaders, under the names of each release, and those of them that change no vector here.
_ARGUMENTS = ("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs")
_SAME_VECTORS = {
    "attn_implementation",
    "clean_up_tokenization_spaces",
    "dtype",
    "low_cpu_mem_usage",
    "torch_dtype",
    "use_cache",
    "use_fast",
    "use_safetensors",
}
_DENSE = "SentenceTransformer"
# By the task of the Transformer module: the network's output that it reads, and the name under which it passes it on.
_OUTPUTS = {
    "feature-extraction": ("last_hidden_state", "token_embeddings"),
    "sequence-classification": ("logits", "scores"),
}


@dataclass(frozen=True)
class SentenceConfig:
    """Settings in sentence-transformers' configuration of the Transformer module.

    Attributes:
        max_length: longest text in ids, or None.
        lower_case: whether its tokenizer lower-cases.
    """

    max_length: int | None = None
    lower_case: bool = False


def read_sentence_config(
    transformer: Path, task: Literal["feature-extraction", "sequence-classification"] = "feature-extraction"
) -> SentenceConfig:
    """Reads the configuration of the Transformer module.

    Args:
        transformer: folder of the module.
        task: what the module does: text to token vectors, or texts and pairs of texts to the scores of classes.

    Raises:
        UserError: for a module that does something else, or a wrong value, naming the key.
    """
    paths = [transformer / name for name in _SENTENCE_CONFIGS]
    path = next((path for path in paths if read_config(path)), paths[0])
    config = read_config(path)
    output, passed_on = _OUTPUTS[task]
    plain = {"method": "forward", "method_output_name": output}
    expected = {"transformer_task": task, "module_output_name": passed_on}
    for key, value in expected.items():
        if config.get(key, value) != value:
            raise UserError(f"{transformer}: {key} = {config[key]} is not supported here, only {value}")
    modalities = entry(path, config, "modality_config", dict, {"text": plain})
    if modalities.get("text") != plain or "message" in modalities or config.get("processing_kwargs"):
        raise UserError(f"{transformer}: only text as it is (no chat template, no processing_kwargs) is supported here")
    _require_no_other(path, config)
    length = entry(path, config, "max_seq_length", int, 0)
    if length < 0 or config.get("max_seq_length") == 0:
        raise UserError(f"{path}: max_seq_length is {length}; a whole number from 1 on was expected")
    return SentenceConfig(length or None, entry(path, config, "do_lower_case", bool, False))


def _require_no_other(path: Path, config: dict[str, Any]) -> None:
    """Refuses settings that change vectors and are not read here: sentence-transformers would follow them."""
    others = {key: value for key, value in config.items() if key not in (*_READ, *_ARGUMENTS)}
    for key in _ARGUMENTS:
        arguments = entry(path, config, key, dict, {})
        others |= {f"{key}: {name}": value for name, value in arguments.items() if name not in _SAME_VECTORS}
    for key, value in others.items():
        if value not in (None, {}, []):
            raise UserError(f"{path}: {key} = {value!r} is not supported here; delete it if the model works without")


def read_similarity(folder: Path) -> Similarity:
    """The function that a model's folder names; ``cosine`` where it names none, as in sentence-transformers.

    Raises:
        UserError: for another name, with the file and the key.
    """
    path = folder / SENTENCE_CONFIG
    name = entry(path, read_config(path), SIMILARITY, str, Similarity.COSINE.value)
    known = [similarity.value for similarity in Similarity]
    if name not in known:
        raise UserError(f"{path}: {SIMILARITY} is {name!r}{nearest(name, known)}; known: {', '.join(known)}")
    return Similarity(name)


def read_prompts(folder: Path) -> Prompts:
    """The prompts in a model's folder.

    Raises:
        UserError: for a prompt that is not text or a default that is not there, naming file and key.
    """
    path = folder / SENTENCE_CONFIG
    config = read_config(path)
    stated = entry(path, config, "prompts", dict, {})
    texts = {name: entry(path, stated, name, str, "") for name in stated}
    for name, text in texts.items():
        if not is_unicode(name) or not is_unicode(text):
            raise UserError(f"{path}: prompts: {name!r} holds half of a surrogate pair, which is not text")
    default = config.get("default_prompt_name")
    try:
        return Prompts(texts, None if default is None else entry(path, config, "default_prompt_name", str, ""))
    except UserError as error:
        raise UserError(f"{path}: default_prompt_name: {error}") from None


def require_sentence_vectors(folder: Path) -> None:
    """Refuses a folder that asks for truncated vectors, or whose modules are of a model that gives no single vector."""
    path = folder / SENTENCE_CONFIG
    config = read_config(path)
    if config.get("truncate_dim") is not None:
        raise UserError(f"{path}: truncate_dim is not supported here; delete the key and truncate the vectors yourself")
    kind = config.get("model_type")
    if kind not in (None, _DENSE):
        raise UserError(f"{path}: model_type is {kind!r}; only {_DENSE} is supported here, one vector per text")


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

    from opencse.modules.token_modules import TokenWeights

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


_KEY = "hybrid_search"


def read_hybrid_weight(folder: Path) -> HybridWeight | None:
    """The weight of the vectors in a hybrid search that a model's folder names, or None.

    Raises:
        UserError: for a weight outside [0, 1], with the file and the key.
    """
    path = folder / SENTENCE_CONFIG
    stated = entry(path, read_config(path), _KEY, dict, {})
    if not stated:
        return None
    weight = stated.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise UserError(f"{path}: {_KEY}: the weight of the vectors is a number from 0 to 1, not {weight!r}")
    return HybridWeight(float(weight), entry(path, stated, "source", str, "from the model's folder"))


def hybrid_entry(weight: HybridWeight | None) -> dict[str, Any]:
    """The entry for the configuration; empty for None.

    Example:
        >>> hybrid_entry(HybridWeight(0.4, "300 questions"))
        {'hybrid_search': {'weight': 0.4, 'source': '300 questions'}}
    """
    return {} if weight is None else {_KEY: {"weight": weight.value, "source": weight.source}}


def write_hybrid_weight(folder: Path, weight: HybridWeight) -> None:
    """Writes the weight into a model's folder; the other entries of its configuration stay as they are.

    Raises:
        UserError: if the folder holds no sentence-transformers model.
    """
    path = folder / SENTENCE_CONFIG
    if not (folder / "modules.json").is_file():
        raise UserError(f"{folder}: no model in sentence-transformers' layout, so a weight cannot be saved with it")
    config = {**read_config(path), **hybrid_entry(weight)}
    files.write_text(path, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
