"""Reads what a model's folder says, once: its modules, their settings and weights, the template, the prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from opencse import files
from opencse.errors import UserError, nearest
from opencse.model_folder.layout import (
    ACTIVATION_PATHS,
    ADAPTER_CONFIG,
    LAYER_NORM_PREFIX,
    POOLING_FLAGS,
    POOLING_MODES,
    SENTENCE_CONFIG,
    SIMILARITY,
    TEMPLATE,
    TOKEN_WEIGHTS,
    TOKEN_WEIGHTS_TENSOR,
    entry,
    map_tensors,
    module_folder,
    read_config,
    read_json,
    read_weights,
)
from opencse.model_folder.locate import locate
from opencse.model_folder.table import table_folder
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import HybridWeight, Similarity
from opencse.text.scripts import is_unicode
from opencse.text.template import Template

if TYPE_CHECKING:
    from torch import nn

    from opencse.model_folder.adapters import Adapters
    from opencse.modules.dense import SavedLayer

_ORDER = ("Transformer", "WeightedLayerPooling", TOKEN_WEIGHTS, "Pooling")
"""The modules from text to one vector, in this order, each once."""
_AFTER = ("Dense", "LayerNorm", "Dropout", "Normalize")
"""The modules that change the vector, in any order."""
_MODULE_FOLDER = re.compile(r"\d+_[A-Z][A-Za-z0-9]*")
# The Transformer module's configuration; the later names are those of releases before 1.0.
_SENTENCE_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# Keys whose values are read below, or change no vector.
_READ = ("max_seq_length", "do_lower_case", "modality_config", "unpad_inputs")
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
_HYBRID = "hybrid_search"
# The keys of the number of layers in the configurations of transformers' encoders.
_DEPTH_KEYS = ("num_hidden_layers", "n_layers")
_MOST_FEATURES = 65_536  # of a Dense module; a broken number must not ask for all memory


@dataclass(frozen=True)
class LayerFolder:
    """A module after the pooling: its name in sentence-transformers, and its folder."""

    name: str
    folder: Path


@dataclass(frozen=True)
class SavedTemplate:
    """The template of a folder.

    Attributes:
        template: that texts are put into.
        pools_mask: whether pooling reads its last mask token, which then has an id of its own.
        processor: the step of the tokenizer that the template replaced, as ``tokenizer.json`` has it.
    """

    template: Template
    pools_mask: bool
    processor: dict[str, Any] | None


@dataclass(frozen=True)
class SentenceConfig:
    """Settings in sentence-transformers' configuration of the Transformer module.

    Attributes:
        max_length: longest text in ids, or None.
        lower_case: whether its tokenizer lower-cases.
    """

    max_length: int | None = None
    lower_case: bool = False


@dataclass(frozen=True)
class Description:
    """What a model's folder says; `describe` finds it. Settings are read when they are asked for.

    Example:
        >>> about = describe("opencse-mini")
        >>> about.pooling.value, about.has_layers, about.sentence.max_length
        ('mean', False, 128)

    Attributes:
        folder: names the prompts and the modules.
        transformer: folder of the backbone; the table's for a table of word vectors.
        text: folder of the tokenizer and of the Transformer module's configuration.
        modules: the folder of each module from text to one vector, by name; empty for a plain transformers folder.
        layers: what changes the pooled vector, in order, without a Normalize at the end.
        normalize: the folder of the Normalize at the end, if there is one.
        table: whether the backbone is a table of word vectors.
        adapters: for the backbone, if there are any; the backbone is then another folder's.
    """

    folder: Path
    transformer: Path
    text: Path
    modules: Mapping[str, Path] = field(default_factory=dict)
    layers: tuple[LayerFolder, ...] = ()
    normalize: Path | None = None
    table: bool = False
    adapters: Adapters | None = None

    @cached_property
    def config(self) -> dict[str, Any]:
        """Transformers' configuration of the backbone."""
        return read_config(self.transformer / "config.json")

    @property
    def has_layers(self) -> bool:
        """Whether the encoder has layers that relate tokens to each other, and is more than word vectors."""
        return not self.table and self.config.get("num_hidden_layers") != 0

    @cached_property
    def sentence(self) -> SentenceConfig:
        """The settings of the Transformer module."""
        return read_sentence_config(self.text)

    @cached_property
    def pool_prompt(self) -> bool:
        """Whether the folder's pooling counts the tokens of the prompt too."""
        if "Pooling" not in self.modules:
            return True
        path = self.modules["Pooling"] / "config.json"
        return entry(path, read_config(path), "include_prompt", bool, True)

    @cached_property
    def pooling(self) -> Pooling | None:
        """The pooling that the folder names; None for plain transformers folders, which name none.

        Raises:
            UserError: for one that is not supported here.
        """
        if not self.modules or self.table:
            return Pooling.MEAN if self.table else None
        if self.template is not None and self.template.pools_mask:
            return Pooling.MASK
        where = self.modules["Pooling"]
        path = where / "config.json"
        config = read_config(path)
        mode = config.get("pooling_mode") or [
            name for flag, name in POOLING_FLAGS.items() if entry(path, config, flag, bool, False)
        ]
        modes = mode if isinstance(mode, list) else [mode]
        if len(modes) != 1 or modes[0] not in POOLING_MODES:
            names = " + ".join(map(str, modes)) or "none"
            raise UserError(f"{where}: pooling {names} is not supported here; choose one with --pooling")
        pooling = POOLING_MODES[modes[0]]
        if not self.pool_prompt and not pooling.may_leave_out_prompt:
            raise UserError(
                f"{path}: include_prompt is false: pooling {pooling} that leaves out the prompt is not supported here; "
                "choose a pooling with --pooling"
            )
        # Without the hidden states of all layers sentence-transformers ignores the weighting, and so do we.
        weighted = self.modules.get("WeightedLayerPooling")
        if weighted is None or not self.config.get("output_hidden_states"):
            return pooling
        return _weighted(
            weighted, pooling, next((int(self.config[key]) for key in _DEPTH_KEYS if key in self.config), 0)
        )

    @cached_property
    def template(self) -> SavedTemplate | None:
        """The template that the folder names; None for a folder without one."""
        path = self.folder / SENTENCE_CONFIG
        stated = entry(path, read_config(path), TEMPLATE, dict, {})
        if not stated:
            return None
        try:
            template = Template(entry(path, stated, "text", str, ""))
        except UserError as error:
            raise UserError(f"{path}: {TEMPLATE}: {error}") from None
        processor = entry(path, stated, "replaced_processor", dict, {})
        return SavedTemplate(template, entry(path, stated, "pools_mask", bool, False), processor or None)

    @property
    def common(self) -> dict[str, Any]:
        """What every encoder made of the folder has: its prompts, and how vectors are compared."""
        return {
            "prompts": read_prompts(self.folder),
            "similarity_fn_name": read_similarity(self.folder),
            "hybrid_weight": read_hybrid_weight(self.folder),
        }

    def saved_layers(self, features: int) -> list[SavedLayer]:
        """The layers after the pooling, which gives vectors of ``features`` dimensions."""
        layers = [read_layer(layer) for layer in self.layers]
        require_chain(self.folder, features, layers)
        return layers


def describe(model: str | Path, *, code: bool = False) -> Description:
    """What the folder of ``model`` says.

    Args:
        model: a built-in encoder's name, a folder or a Hub id.
        code: fetch the model's own Python files too; see `locate`.

    Raises:
        UserError: if there is no such model, or it has modules or adapters that are not opened here.
    """
    about = list_modules(locate(model, code=code))
    if not (about.transformer / ADAPTER_CONFIG).is_file():
        return about
    from opencse.model_folder.adapters import read_adapters

    local, adapters = about.transformer, read_adapters(about.transformer)
    if adapters is None:
        return about
    try:
        base = locate(adapters.base)
    except UserError as error:
        raise UserError(
            f"{adapters.folder}: holds adapters alone, and their model cannot be opened ({error}); bring it back, or "
            f"name where it is now as base_model_name_or_path in {ADAPTER_CONFIG}"
        ) from None
    below = list_modules(base)
    if below.table:
        raise UserError(f"{adapters.folder}: {adapters.base} is a table of word vectors, which has no adapters")
    text = local if (local / "tokenizer_config.json").is_file() else below.transformer
    return replace(about if about.modules else below, transformer=below.transformer, text=text, adapters=adapters)


def list_modules(folder: Path) -> Description:
    """The modules of the encoder in ``folder``; adapters are left alone."""
    path = folder / SENTENCE_CONFIG
    config = read_config(path)
    if config.get("truncate_dim") is not None:
        raise UserError(f"{path}: truncate_dim is not supported here; delete the key and truncate the vectors yourself")
    kind = config.get("model_type")
    if kind not in (None, _DENSE):
        raise UserError(f"{path}: model_type is {kind!r}; only {_DENSE} is supported here, one vector per text")
    listing, table = folder / "modules.json", table_folder(folder)
    if not listing.is_file():
        unlisted = sorted(one.name for one in folder.iterdir() if _MODULE_FOLDER.fullmatch(one.name) and one.is_dir())
        if unlisted:
            raise UserError(
                f"{folder}: modules.json is missing, which says how {', '.join(unlisted)} is used; copy modules.json "
                "from the model that this folder was made of, or delete the folders of modules to read the transformer "
                "alone"
            )
        return Description(folder, folder, folder, {"Transformer": folder} if table else {}, table=table is not None)
    modules: dict[str, Path] = {}
    layers: list[LayerFolder] = []
    last = ""
    entries = read_json(listing)
    for module in entries if isinstance(entries, list) else [entries]:
        if not isinstance(module, dict) or not {"type", "path"} <= module.keys():
            raise UserError(f"{listing}: a list of objects with type and path was expected")
        package, _, name = str(module["type"]).rpartition(".")
        if table is not None and not last and name == "StaticEmbedding":
            modules["Transformer"], last = table, "Pooling"
            continue
        if name not in (*_ORDER, *_AFTER) or package.split(".")[0] != "sentence_transformers":
            supported = ", ".join((*_ORDER, *_AFTER))
            raise UserError(f"{folder}: module {module['type']} is not supported here; supported: {supported}")
        place, before = (_ORDER.index(one) if one in _ORDER else len(_ORDER) if one else -1 for one in (name, last))
        if before < len(_ORDER) - 1 if name in _AFTER else place <= before:
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
            modules[name] = path
        last = name
    if "Transformer" not in modules or (table is None and "Pooling" not in modules):
        raise UserError(
            f"{folder}: modules.json lacks a Transformer or a Pooling module, so this gives no vectors of texts; a "
            "cross-encoder re-ranks, by --rerank"
        )
    normalize = layers.pop().folder if layers and layers[-1].name == "Normalize" else None
    if normalize is not None:
        _require_sentence_names(normalize)
    transformer = modules["Transformer"]
    return Description(folder, transformer, transformer, modules, tuple(layers), normalize, table is not None)


def read_sentence_config(
    transformer: Path, task: Literal["feature-extraction", "sequence-classification"] = "feature-extraction"
) -> SentenceConfig:
    """Reads the configuration of the Transformer module; what is not understood there is refused as a whole.

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
    modalities = entry(path, config, "modality_config", dict, {"text": plain})
    if modalities.get("text") != plain or "message" in modalities:
        raise UserError(f"{transformer}: only text as it is, without a chat template, is supported here")
    understood = {"transformer_task": task, "module_output_name": passed_on}
    stated = {key: value for key, value in config.items() if key not in (*_READ, *_ARGUMENTS)}
    for key in _ARGUMENTS:
        arguments = entry(path, config, key, dict, {})
        stated |= {f"{key}: {name}": value for name, value in arguments.items() if name not in _SAME_VECTORS}
    for key, value in stated.items():
        if value not in (None, {}, [], understood.get(key)):
            raise UserError(f"{path}: {key} = {value!r} is not supported here; delete it if the model works without")
    length = entry(path, config, "max_seq_length", int, 0)
    if length < 0 or config.get("max_seq_length") == 0:
        raise UserError(f"{path}: max_seq_length is {length}; a whole number from 1 on was expected")
    return SentenceConfig(length or None, entry(path, config, "do_lower_case", bool, False))


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


def read_layer(layer: LayerFolder) -> SavedLayer:
    """The module after the pooling in a folder, with its weights.

    Raises:
        UserError: where its configuration or its weights cannot be read, or do not fit each other.
    """
    from torch import nn

    from opencse.modules.dense import Dense, UnitLength

    _require_sentence_names(layer.folder)
    file = layer.folder / "config.json"
    config = read_config(file)
    if layer.name == "Normalize":
        return UnitLength()
    if layer.name == "Dropout":
        rate = config.get("dropout", 0.2)  # sentence-transformers' own where the file names none
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
            raise UserError(f"{file}: dropout is {rate!r}; a number from 0 to below 1 was expected")
        return nn.Dropout(rate)

    def size(key: str) -> int:
        features = entry(file, config, key, int, 0)
        if not 1 <= features <= _MOST_FEATURES:
            raise UserError(
                f"{file}: {key} is {config.get(key)}; a whole number from 1 to {_MOST_FEATURES:,} was expected"
            )
        return features

    weights = read_weights(layer.folder)
    module: nn.LayerNorm | Dense
    if layer.name == "LayerNorm":
        module = nn.LayerNorm(size("dimension"))
        weights = {name.removeprefix(LAYER_NORM_PREFIX): tensor for name, tensor in weights.items()}
    else:
        names = {path: name for name, path in ACTIVATION_PATHS.items()}
        activation = entry(file, config, "activation_function", str, ACTIVATION_PATHS["tanh"])
        if activation not in names:
            raise UserError(f"{layer.folder}: a Dense module with {activation} is not supported here")
        module = Dense(
            size("in_features"),
            size("out_features"),
            names[activation],
            bias=entry(file, config, "bias", bool, True),
            use_residual=entry(file, config, "use_residual", bool, False),
        )
    try:
        module.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except RuntimeError as error:
        last = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"{layer.folder}: the weights do not fit config.json ({last})") from None
    return module


def _require_sentence_names(path: Path) -> None:
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


def read_token_weights(folder: Path, vocabulary: int) -> NDArray[np.float32]:
    """The weights (V,) of a WordWeights module; of folders written before sentence-transformers 5, by word.

    Args:
        folder: of the module.
        vocabulary: how many ids the tokenizer has.

    Raises:
        UserError: for a folder without weights, fewer of them than ids, or one that is negative or not finite.
    """
    file = folder / "model.safetensors"
    if file.is_file():
        weights = map_tensors(file).get(TOKEN_WEIGHTS_TENSOR, np.zeros(0)).ravel().astype(np.float32)
    else:
        file = folder / "config.json"
        config = read_config(file)
        words, by_word = config.get("vocab"), entry(file, config, "word_weights", dict, {})
        unknown = config.get("unknown_word_weight", 1)
        try:
            weights = np.array(
                [by_word.get(word, by_word.get(word.lower(), unknown)) for word in words or ()], dtype=np.float32
            )
        except (AttributeError, TypeError, ValueError):
            raise UserError(
                f"{file}: vocab is not a list of words, or word_weights holds something that is not a number"
            ) from None
    if len(weights) < vocabulary:
        raise UserError(f"{folder}: {len(weights):,} weights of tokens for {vocabulary:,} ids; each id needs one")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise UserError(f"{folder}: a weight of a token is negative or not finite; numbers from 0 on were expected")
    return weights


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


def read_hybrid_weight(folder: Path) -> HybridWeight | None:
    """The weight of the vectors in a hybrid search that a model's folder names, or None.

    Raises:
        UserError: for a weight outside [0, 1], with the file and the key.
    """
    path = folder / SENTENCE_CONFIG
    stated = entry(path, read_config(path), _HYBRID, dict, {})
    if not stated:
        return None
    weight = stated.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise UserError(f"{path}: {_HYBRID}: the weight of the vectors is a number from 0 to 1, not {weight!r}")
    return HybridWeight(float(weight), entry(path, stated, "source", str, "from the model's folder"))


def hybrid_entry(weight: HybridWeight | None) -> dict[str, Any]:
    """The entry for the configuration; empty for None.

    Example:
        >>> hybrid_entry(HybridWeight(0.4, "300 questions"))
        {'hybrid_search': {'weight': 0.4, 'source': '300 questions'}}
    """
    return {} if weight is None else {_HYBRID: {"weight": weight.value, "source": weight.source}}


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
