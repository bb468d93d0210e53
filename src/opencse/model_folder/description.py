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
from opencse.errors import UserError, nearest, reason
from opencse.model_folder.layout import (
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
    module_folder,
    read_arrays,
    read_config,
    read_json,
    read_weights,
    refuse_others,
)
from opencse.model_folder.locate import locate
from opencse.model_folder.table import is_model2vec_folder
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import HybridWeight, Similarity
from opencse.text.template import Template

if TYPE_CHECKING:
    from torch import nn

    from opencse.model_folder.adapters import Adapters
    from opencse.modules.dense import SavedLayer

_MODULES = re.compile(
    f"(Transformer( WeightedLayerPooling)?( {TOKEN_WEIGHTS})? Pooling|StaticEmbedding)"
    "( Dense| LayerNorm| Dropout| Normalize)*"
)
"""The modules that are read, in their order: from text to one vector, then what changes the vector."""
_AFTER = ("Dense", "LayerNorm", "Dropout", "Normalize")
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
# By the task of the Transformer module: the network's output that it reads, and the name under which it passes it on.
_OUTPUTS = {
    "feature-extraction": ("last_hidden_state", "token_embeddings"),
    "sequence-classification": ("logits", "scores"),
}
_HYBRID = "hybrid_search"
# The keys of the number of layers in the configurations of transformers' encoders.
_DEPTH_KEYS = ("num_hidden_layers", "n_layers")


@dataclass(frozen=True)
class Module:
    """A module in a model's folder.

    Attributes:
        name: in sentence-transformers.
        folder: of the module.
    """

    name: str
    folder: Path

    @property
    def file(self) -> Path:
        """Its configuration."""
        return self.folder / "config.json"

    @cached_property
    def config(self) -> dict[str, Any]:
        """What its configuration says."""
        return read_config(self.file)


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
class Stated:
    """What ``config_sentence_transformers.json`` says.

    Attributes:
        folder: of the model.
    """

    folder: Path

    @property
    def file(self) -> Path:
        """The file itself."""
        return self.folder / SENTENCE_CONFIG

    @cached_property
    def entries(self) -> dict[str, Any]:
        """Its entries."""
        return read_config(self.file)

    @property
    def prompts(self) -> Prompts:
        """The prompts.

        Raises:
            UserError: for a prompt that is not text or a default that is not there, naming file and key.
        """
        texts = entry(self.file, self.entries, "prompts", dict, {})
        default = entry(self.file, self.entries, "default_prompt_name", str, "") or None
        try:
            return Prompts({name: entry(self.file, texts, name, str, "") for name in texts}, default)
        except UserError as error:
            raise UserError(f"{self.file}: prompts: {error}") from None

    @property
    def similarity(self) -> Similarity:
        """The function that vectors are compared by; ``cosine`` where none is named, as in sentence-transformers.

        Raises:
            UserError: for another name, with the file and the key.
        """
        name = entry(self.file, self.entries, SIMILARITY, str, Similarity.COSINE.value)
        known = [similarity.value for similarity in Similarity]
        if name not in known:
            raise UserError(f"{self.file}: {SIMILARITY} is {name!r}{nearest(name, known)}; known: {', '.join(known)}")
        return Similarity(name)

    @property
    def hybrid_weight(self) -> HybridWeight | None:
        """The weight of the vectors in a hybrid search, where the folder names one.

        Raises:
            UserError: for a weight outside [0, 1], with the file and the key.
        """
        stated = entry(self.file, self.entries, _HYBRID, dict, {})
        if not stated:
            return None
        weight = stated.get("weight")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
            raise UserError(
                f"{self.file}: {_HYBRID}: the weight of the vectors is a number from 0 to 1, not {weight!r}"
            )
        return HybridWeight(float(weight), entry(self.file, stated, "source", str, "from the model's folder"))

    @cached_property
    def template(self) -> SavedTemplate | None:
        """The template that the folder names; None for a folder without one."""
        stated = entry(self.file, self.entries, TEMPLATE, dict, {})
        if not stated:
            return None
        return SavedTemplate(
            Template(entry(self.file, stated, "text", str, "")),
            entry(self.file, stated, "pools_mask", bool, False),
            entry(self.file, stated, "replaced_processor", dict, {}) or None,
        )

    @property
    def common(self) -> dict[str, Any]:
        """What every encoder made of the folder has: its prompts, and how vectors are compared."""
        return {
            "prompts": self.prompts,
            "similarity_fn_name": self.similarity,
            "hybrid_weight": self.hybrid_weight,
        }


@dataclass(frozen=True, kw_only=True)
class Description(Stated):
    """What a model's folder says; `describe` finds it. Settings are read when they are asked for, each file once.

    Example:
        >>> about = describe("opencse-mini")
        >>> about.pooling.value, about.has_layers, about.sentence.max_length
        ('mean', False, 128)

    Attributes:
        backbone: the module of the backbone; the table's for a table of word vectors.
        text: folder of the tokenizer and of the Transformer module's configuration.
        modules: each module from text to one vector, by name; empty for a plain transformers folder.
        layers: what changes the pooled vector, in order, without a Normalize at the end.
        normalize: whether there is a Normalize at the end.
        table: whether the backbone is a table of word vectors.
        adapters: for the backbone, if there are any; the backbone is then another folder's.
    """

    backbone: Module
    text: Path
    modules: Mapping[str, Module] = field(default_factory=dict)
    layers: tuple[Module, ...] = ()
    normalize: bool = False
    table: bool = False
    adapters: Adapters | None = None

    @property
    def transformer(self) -> Path:
        """The folder of the backbone."""
        return self.backbone.folder

    @property
    def config(self) -> dict[str, Any]:
        """Transformers' configuration of the backbone."""
        return self.backbone.config

    @property
    def has_layers(self) -> bool:
        """Whether the encoder has layers that relate tokens to each other, and is more than word vectors."""
        return not self.table and self.config.get("num_hidden_layers") != 0

    @cached_property
    def sentence(self) -> SentenceConfig:
        """The settings of the Transformer module."""
        return read_sentence_config(self.text)

    @property
    def pool_prompt(self) -> bool:
        """Whether the folder's pooling counts the tokens of the prompt too."""
        pooling = self.modules.get("Pooling")
        return pooling is None or entry(pooling.file, pooling.config, "include_prompt", bool, True)

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
        module = self.modules["Pooling"]
        mode = module.config.get("pooling_mode") or [
            name for flag, name in POOLING_FLAGS.items() if module.config.get(flag)
        ]
        modes = mode if isinstance(mode, list) else [mode]
        pooling = POOLING_MODES.get(" + ".join(map(str, modes)))
        if pooling is None or not (self.pool_prompt or pooling.may_leave_out_prompt):
            names = " + ".join(map(str, modes)) or "none"
            how = "" if self.pool_prompt else " that leaves out the prompt (include_prompt is false)"
            raise UserError(f"{module.file}: pooling {names}{how} is not supported here; choose one with --pooling")
        # Without the hidden states of all layers sentence-transformers ignores the weighting, and so do we.
        weighted = self.modules.get("WeightedLayerPooling")
        if weighted is None or not self.config.get("output_hidden_states"):
            return pooling
        depth = next((int(self.config[key]) for key in _DEPTH_KEYS if key in self.config), 0)
        return _weighted(weighted, pooling, depth)

    def saved_layers(self, features: int) -> list[SavedLayer]:
        """The layers after the pooling, which gives vectors of ``features`` dimensions.

        Raises:
            UserError: where a layer takes vectors of another length, or cannot be read.
        """
        for module in self.layers:
            takes = module.config.get("in_features", module.config.get("dimension", features))
            if takes != features:
                raise UserError(f"{module.file}: {module.name} takes {takes} features but is given {features}")
            features = module.config.get("out_features", features)
        return [read_layer(module) for module in self.layers]


def describe(model: str | Path, *, code: bool = False) -> Description:
    """What the folder of ``model`` says.

    Args:
        model: a built-in encoder's name, a folder or a Hub id.
        code: fetch the model's own Python files too; see `locate`.

    Raises:
        UserError: if there is no such model, or it has modules or adapters that are not opened here.
    """
    about = list_modules(locate(model, code=code))
    local = about.transformer
    if not (local / ADAPTER_CONFIG).is_file():
        return about
    from opencse.model_folder.adapters import read_adapters

    adapters = read_adapters(local)
    try:
        below = list_modules(locate(adapters.base))
    except UserError as error:
        raise UserError(
            f"{adapters.folder}: holds adapters alone, and their model cannot be opened ({error}); bring it back, or "
            f"name where it is now as base_model_name_or_path in {ADAPTER_CONFIG}"
        ) from None
    text = local if (local / "tokenizer_config.json").is_file() else below.transformer
    return replace(about if about.modules else below, backbone=below.backbone, text=text, adapters=adapters)


def list_modules(folder: Path) -> Description:
    """The modules of the encoder in ``folder``; adapters are left alone."""
    about = _listed(folder)
    stated = {key: about.entries.get(key) for key in ("truncate_dim", "model_type")}
    refuse_others(about.file, stated, {"model_type": "SentenceTransformer"})
    return about


def _listed(folder: Path) -> Description:
    listing = folder / "modules.json"
    if not listing.is_file():
        unlisted = sorted(one.name for one in folder.iterdir() if _MODULE_FOLDER.fullmatch(one.name) and one.is_dir())
        if unlisted:
            raise UserError(
                f"{folder}: modules.json is missing, which says how {', '.join(unlisted)} is used; copy modules.json "
                "from the model that this folder was made of, or delete the folders of modules to read the transformer "
                "alone"
            )
        backbone = Module("Transformer", folder)
        table = is_model2vec_folder(folder, backbone.config)
        return Description(folder, backbone=backbone, text=folder, table=table, modules={"": backbone} if table else {})
    try:
        modules = [Module(_name(one["type"]), module_folder(listing, one["path"])) for one in read_json(listing)]
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{listing}: a list of objects with type and path was expected") from None
    names = " ".join(module.name for module in modules)
    if not _MODULES.fullmatch(names):
        raise UserError(
            f"{listing}: modules {names or 'none'} are not supported here; supported: Transformer, "
            f"WeightedLayerPooling, {TOKEN_WEIGHTS}, Pooling, {', '.join(_AFTER)}, in this order (a cross-encoder "
            "re-ranks, by --rerank)"
        )
    for module in modules:
        if module.name != "Normalize" and not module.folder.is_dir():  # a Normalize is empty, and git stores no folder
            raise UserError(
                f"{listing}: names the {module.name} module in {module.folder.name}, but there is no such folder; copy "
                "it from the model that this folder was made of"
            )
    layers = [module for module in modules if module.name in _AFTER]
    for module in layers:
        keys = "module_input_name", "module_output_name"
        refuse_others(
            module.file, {key: module.config.get(key) for key in keys}, dict.fromkeys(keys, "sentence_embedding")
        )
    normalize = bool(layers) and layers[-1].name == "Normalize"
    first = modules[0]
    return Description(
        folder,
        backbone=first,
        text=first.folder,
        modules={module.name: module for module in modules if module.name not in _AFTER},
        layers=tuple(layers[:-1] if normalize else layers),
        normalize=normalize,
        table=first.name == "StaticEmbedding",
    )


def _name(kind: str) -> str:
    """The name of one of sentence-transformers' own modules; the whole type for others."""
    return kind.rpartition(".")[2] if kind.split(".")[0] == "sentence_transformers" else kind


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
    path = next((path for name in _SENTENCE_CONFIGS if (path := transformer / name).is_file()), transformer)
    config = read_config(path)
    output, passed_on = _OUTPUTS[task]
    plain = {"method": "forward", "method_output_name": output}
    modalities = config.get("modality_config") or {"text": plain}
    if modalities.get("text") != plain or "message" in modalities:
        raise UserError(f"{transformer}: only text as it is, without a chat template, is supported here")
    stated = {key: value for key, value in config.items() if key not in (*_READ, *_ARGUMENTS)}
    for key in _ARGUMENTS:
        arguments = entry(path, config, key, dict, {})
        stated |= {f"{key}: {name}": value for name, value in arguments.items() if name not in _SAME_VECTORS}
    refuse_others(path, stated, {"transformer_task": task, "module_output_name": passed_on})
    length = entry(path, config, "max_seq_length", int, 1)
    if length < 1:
        raise UserError(f"{path}: max_seq_length is {length}; a whole number from 1 on was expected")
    return SentenceConfig(config.get("max_seq_length"), entry(path, config, "do_lower_case", bool, False))


def read_layer(module: Module) -> SavedLayer:
    """The module after the pooling, with its weights.

    Raises:
        UserError: where its configuration or its weights cannot be read, or do not fit each other.
    """
    import torch
    from torch import nn

    from opencse.modules.dense import ACTIVATION_PATHS, Dense, UnitLength

    config = module.config
    if module.name == "Normalize":
        return UnitLength()
    layer: nn.LayerNorm | Dense
    try:
        if module.name == "Dropout":
            return nn.Dropout(config.get("dropout", 0.2))  # sentence-transformers' own where the file names none
        weights = read_weights(module.folder)
        with torch.device("meta"):  # no memory for a size that the weights do not have
            if module.name == "LayerNorm":
                layer = nn.LayerNorm(config["dimension"])
            else:
                names = {path: name for name, path in ACTIVATION_PATHS.items()}
                layer = Dense(
                    config["in_features"],
                    config["out_features"],
                    names[config.get("activation_function", ACTIVATION_PATHS["tanh"])],
                    bias=config.get("bias", True),
                    use_residual=config.get("use_residual", False),
                )
        read = {name.removeprefix(LAYER_NORM_PREFIX): tensor.float() for name, tensor in weights.items()}
        layer.load_state_dict(read, assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        *_, last = str(error).strip().splitlines() or [reason(error)]
        raise UserError(
            f"{module.file}: not supported here, or the weights do not fit config.json ({last.strip()})"
        ) from None
    return layer


def read_token_weights(module: Module, vocabulary: int) -> NDArray[np.float32]:
    """The weights (V,) of a WordWeights module; of folders written before sentence-transformers 5, by word.

    Args:
        module: that holds them.
        vocabulary: how many ids the tokenizer has.

    Raises:
        UserError: for a folder without weights, fewer of them than ids, or one that is negative or not finite.
    """
    file, config = module.folder / "model.safetensors", module.config
    try:
        if file.is_file():
            weights = read_arrays(file)[TOKEN_WEIGHTS_TENSOR].ravel().astype(np.float32)
        else:
            by_word, unknown = config["word_weights"], config.get("unknown_word_weight", 1)
            by_id = [by_word.get(word, by_word.get(word.lower(), unknown)) for word in config["vocab"]]
            weights = np.array(by_id, dtype=np.float32)
    except (KeyError, AttributeError, TypeError, ValueError):
        weights = np.zeros(0, dtype=np.float32)
    if len(weights) < vocabulary or not np.isfinite(weights).all() or (weights < 0).any():
        raise UserError(
            f"{module.folder}: {len(weights):,} weights of tokens for {vocabulary:,} ids; each id needs one, a number "
            "from 0 on"
        )
    return weights


def _weighted(module: Module, pooling: Pooling, depth: int) -> Pooling:
    start = entry(module.file, module.config, "layer_start", int, 4)
    stored = read_weights(module.folder).get("layer_weights")
    weights = [] if stored is None else stored.flatten().tolist()
    layers = {start + i for i, weight in enumerate(weights) if weight}
    even = len(set(weights) - {0.0}) == 1
    for candidate in (Pooling.FIRST_LAST_0, Pooling.FIRST_LAST_1, Pooling.TOP2):
        if pooling is Pooling.MEAN and even and layers == set(candidate.layers(depth)):
            return candidate
    raise UserError(f"{module.file}: this weighting of layers is not supported here; choose a pooling with --pooling")


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
