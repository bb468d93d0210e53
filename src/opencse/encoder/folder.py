"""The folder of an encoder, read: sentence-transformers' layout and plain transformers folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from opencse.encoder.adapters import Adapters, read_adapters
from opencse.encoder.backbone import dropout_rates, load_backbone, position_limit
from opencse.encoder.head import Dense
from opencse.encoder.layout import (
    ACTIVATION_PATHS,
    POOLING_FLAGS,
    POOLING_MODES,
    entry,
    read_config,
    read_json,
    read_weights,
)
from opencse.encoder.locate import locate
from opencse.encoder.pooling import Pooling
from opencse.encoder.token_weights import MODULE as TOKEN_WEIGHTS
from opencse.encoder.token_weights import TokenWeights
from opencse.errors import UserError, nearest
from opencse.foreign import own_code
from opencse.text.tokenizer import Tokenizer, require_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from opencse.encoder.encoder import SentenceEncoder

E = TypeVar("E", bound="SentenceEncoder")

_MODULES = ("Transformer", "WeightedLayerPooling", TOKEN_WEIGHTS, "Pooling", "Dense", "Normalize")
# The Transformer module's configuration; the later names are those of releases before 1.0.
_SENTENCE_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
)
# What the number of layers is called in the configurations of transformers' encoders.
_DEPTH_KEYS = ("num_hidden_layers", "n_layers")
_NO_LIMIT = 2**31 - 1
_MOST_FEATURES = 65_536  # of a Dense module; a broken number must not ask for all memory


@dataclass(frozen=True)
class SentenceConfig:
    """What sentence-transformers' configuration of the Transformer module says.

    Attributes:
        max_length: longest text in ids, or None.
        lower_case: whether its tokenizer lower-cases.
    """

    max_length: int | None = None
    lower_case: bool = False


@dataclass(frozen=True)
class _Modules:
    """What modules.json lists; of a table of word vectors ``transformer`` is the table's folder."""

    transformer: Path
    pooling: Path
    weighted_layers: Path | None
    token_weights: Path | None
    dense: tuple[Path, ...]
    normalize: Path | None
    table: bool = False


@dataclass(frozen=True)
class _Found:
    """Where the parts of an encoder are.

    Attributes:
        folder: that says how text is read (prompt) and which modules there are.
        modules: those; None for a plain transformers folder.
        transformer: folder of the backbone.
        text: folder of the tokenizer and the Transformer module's configuration.
        adapters: for the backbone, if there are any; the backbone is then another folder's.
    """

    folder: Path
    modules: _Modules | None
    transformer: Path
    text: Path
    adapters: Adapters | None = None


def parse_pooling(name: str) -> Pooling:
    """The pooling called ``name``; a ``UserError`` lists them if there is none."""
    try:
        return Pooling(name)
    except ValueError:
        known = [p.value for p in Pooling]
        raise UserError(f"unknown pooling {name!r}{nearest(name, known)}; known: {', '.join(known)}") from None


def read_folder(
    cls: type[E],
    model: str | Path,
    *,
    pooling: str | Pooling | None,
    max_length: int | None,
    dropout: float | None,
    layers: int | None = None,
    trust_remote_code: bool = False,
) -> E:
    """See `SentenceEncoder.load`."""
    chosen = None if pooling is None else parse_pooling(pooling)
    found = _find(locate(model, code=trust_remote_code))
    folder, modules, transformer = found.folder, found.modules, found.transformer
    if modules is not None and modules.table:
        return _read_table(cls, model, folder, modules, chosen, max_length, dropout, layers)
    if found.adapters is not None:
        trust_remote_code = False  # it was given for the adapters' folder, not for that of their model
        if layers is not None:
            raise UserError(f"{model}: layers cannot be cut off below adapters; merge them first (opencse merge)")
    sentence = sentence_config(found.text)
    require_tokenizer(found.text)
    backbone = load_backbone(transformer, dropout=dropout, layers=layers, trust_remote_code=trust_remote_code)
    if found.adapters is not None:
        found.adapters.merge_into(backbone)
    tokenizer = Tokenizer.load(found.text, trust_remote_code=trust_remote_code)
    _require_rows(transformer, tokenizer, backbone)
    prompt = _default_prompt(folder)
    dense = [_read_dense(path) for path in modules.dense] if modules else []
    _require_chain(folder, int(backbone.config.hidden_size), dense)
    if chosen is None:
        chosen = _read_pooling(modules, backbone.config.to_dict(), prompt) if modules else Pooling.MEAN
    depth = int(backbone.config.num_hidden_layers)
    if not 0 <= chosen.layers(depth)[0] <= depth:
        others = "mean or cls" if depth else "mean"
        raise UserError(f"{model}: pooling {chosen} needs more layers than the model has ({depth}); choose {others}")
    if modules and modules.normalize:
        _require_sentence_names(modules.normalize)
    encoder = cls(
        backbone,
        tokenizer,
        pooling=chosen,
        max_length=_length(model, max_length, sentence.max_length, tokenizer, backbone),
        dense=dense,
        normalize=modules is not None and modules.normalize is not None,
        prompt=prompt,
        lower_case=sentence.lower_case,
    )
    if modules and modules.token_weights and chosen.is_mean:
        encoder.token_weights = TokenWeights.read(modules.token_weights, tokenizer.vocabulary_size)
    stated = read_config(transformer / "config.json")
    encoder.own_code = own_code(transformer) if trust_remote_code else ()
    encoder.own_dropout = {key: stated[key] for key in dropout_rates(backbone.config) if key in stated}
    return encoder


def _read_table(
    cls: type[E],
    model: str | Path,
    folder: Path,
    modules: _Modules,
    pooling: Pooling | None,
    max_length: int | None,
    dropout: float | None,
    layers: int | None,
) -> E:
    """An encoder of word vectors; see `opencse.encoder.table`."""
    from opencse.encoder.table import read_table

    if pooling not in (None, Pooling.MEAN):
        raise UserError(f"{model}: a table of word vectors has no pooling but mean; choose that one")
    if layers:
        raise UserError(f"{model}: {layers} layers cannot be kept of a model that has 0")
    if max_length is not None and max_length < 1:
        raise UserError(f"max_length {max_length} leaves no room for text")
    if dropout is not None and not 0 <= dropout < 1:
        raise UserError(f"dropout is a rate from 0 to below 1, not {dropout}")
    table, tokenizer, length = read_table(folder, modules.transformer, dropout=dropout)
    dense = [_read_dense(path) for path in modules.dense]
    _require_chain(folder, int(table.config.hidden_size), dense)
    return cls(
        table,
        tokenizer,
        pooling=Pooling.MEAN,
        max_length=max_length or length,
        dense=dense,
        normalize=modules.normalize is not None or bool(read_config(folder / "config.json").get("normalize")),
        prompt=_default_prompt(folder),
    )


def has_own_pooling(model: str | Path) -> bool:
    """Whether the folder says how to pool (sentence-transformers' and model2vec's do, plain transformers' do not)."""
    return _find(locate(model)).modules is not None


def own_pooling(model: str | Path) -> Pooling | None:
    """The pooling that the folder names; None for plain transformers folders, which name none.

    Raises:
        UserError: if there is no such model, or its pooling is not supported here.
    """
    found = _find(locate(model))
    if found.modules is None:
        return None
    if found.modules.table:
        return Pooling.MEAN
    stated = read_config(found.transformer / "config.json")
    return _read_pooling(found.modules, stated, _default_prompt(found.folder))


def find_adapters(model: str | Path) -> Adapters | None:
    """The adapters that ``model`` is made of; None for a whole model.

    Raises:
        UserError: if there is no such model, or its adapters are of a kind that is not opened.
    """
    return _find(locate(model)).adapters


def transformer_folder(folder: Path) -> Path:
    """Where in ``folder`` the transformers files are: the Transformer module's folder, or ``folder`` itself."""
    modules = _modules(folder)
    return modules.transformer if modules else folder


def _find(folder: Path) -> _Found:
    """Where everything of the encoder in ``folder`` is."""
    modules = _modules(folder)
    own = modules.transformer if modules else folder
    adapters = read_adapters(own)
    if adapters is None:
        return _Found(folder, modules, own, own)
    base = locate(adapters.base)
    below = _modules(base)
    if below is not None and below.table:
        raise UserError(f"{adapters.folder}: {adapters.base} is a table of word vectors, which has no adapters")
    transformer = below.transformer if below else base
    told = own if (own / "tokenizer_config.json").is_file() else transformer
    return _Found(folder if modules else base, modules or below, transformer, told, adapters)


def _modules(folder: Path) -> _Modules | None:
    """The modules that modules.json lists; None for a plain transformers folder."""
    from opencse.encoder.table import table_folder

    listing = folder / "modules.json"
    table = table_folder(folder)
    if not listing.is_file():
        return None if table is None else _Modules(folder, folder, None, None, (), None, table=True)
    entries = read_json(listing)
    paths: dict[str, list[Path]] = {name: [] for name in _MODULES}
    last = ""
    for module in entries if isinstance(entries, list) else [entries]:
        if not isinstance(module, dict) or not {"type", "path"} <= module.keys():
            raise UserError(f"{listing}: a list of objects with type and path was expected")
        package, _, name = str(module["type"]).rpartition(".")
        if table is not None and not last and name == "StaticEmbedding":
            paths["Transformer"].append(table)
            paths["Pooling"].append(table)
            last = "Pooling"
            continue
        if name not in _MODULES or package.split(".")[0] != "sentence_transformers":
            supported = ", ".join(_MODULES)
            raise UserError(f"{folder}: module {module['type']} is not supported here; supported: {supported}")
        before = last and _MODULES.index(name) < _MODULES.index(last)
        again = paths[name] and name != "Dense"
        if before or again:
            raise UserError(f"{folder}: modules in an order that is not supported here ({name} after {last})")
        paths[name].append(_inside(listing, module["path"]))
        last = name
    if not paths["Transformer"] or not paths["Pooling"]:
        raise UserError(f"{folder}: modules.json lacks a Transformer or a Pooling module")
    transformer = paths["Transformer"][0]
    if not transformer.is_dir():
        raise UserError(f"{folder}: modules.json names a folder that is not there ({transformer.name})")
    return _Modules(
        transformer=transformer,
        pooling=paths["Pooling"][0],
        weighted_layers=next(iter(paths["WeightedLayerPooling"]), None),
        token_weights=next(iter(paths[TOKEN_WEIGHTS]), None),
        dense=tuple(paths["Dense"]),
        normalize=next(iter(paths["Normalize"]), None),
        table=table is not None,
    )


def _inside(listing: Path, given: object) -> Path:
    """The folder of a module, which is in the model's folder or the folder itself."""
    folder = listing.parent
    if not isinstance(given, str) or Path(given).is_absolute() or ".." in Path(given).parts or "\0" in given:
        raise UserError(f"{listing}: path is {given!r}; the name of a folder inside {folder} was expected")
    return folder / given


def _require_rows(folder: Path, tokenizer: Tokenizer, backbone: PreTrainedModel) -> None:
    """Every id of the tokenizer needs a row of the embedding; a text with another one could not be encoded."""
    words = backbone.get_input_embeddings()
    if not isinstance(words, nn.Embedding):
        raise UserError(f"{folder}: a {backbone.config.model_type} model has no token embeddings; give a text encoder")
    rows = words.num_embeddings
    ids = 1 + max(tokenizer.hf.get_vocab().values(), default=0)
    if ids > rows:
        raise UserError(
            f"{folder}: the tokenizer has {ids:,} ids, the embedding {rows:,} rows; use the tokenizer that the model "
            f"was made with, or give it rows for the new tokens (model.resize_token_embeddings({ids}))"
        )


def sentence_config(transformer: Path) -> SentenceConfig:
    """Configuration of the Transformer module, after a check that it takes text to token vectors and does no more."""
    found = ((path, read_config(path)) for path in (transformer / name for name in _SENTENCE_CONFIGS))
    path, config = next(((path, config) for path, config in found if config), (transformer / _SENTENCE_CONFIGS[0], {}))
    plain = {"method": "forward", "method_output_name": "last_hidden_state"}
    expected = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
    for key, value in expected.items():
        if config.get(key, value) != value:
            raise UserError(f"{transformer}: {key} = {config[key]} is not supported here, only {value}")
    modalities = entry(path, config, "modality_config", dict, {"text": plain})
    if modalities.get("text") != plain or "message" in modalities or config.get("processing_kwargs"):
        raise UserError(f"{transformer}: only text as it is (no chat template, no processing_kwargs) is supported here")
    length = entry(path, config, "max_seq_length", int, 0)
    if length < 0 or config.get("max_seq_length") == 0:
        raise UserError(f"{path}: max_seq_length is {length}; a whole number from 1 on was expected")
    return SentenceConfig(length or None, entry(path, config, "do_lower_case", bool, False))


def _length(
    model: str | Path, asked: int | None, own: int | None, tokenizer: Tokenizer, backbone: PreTrainedModel
) -> int:
    """The longest input in ids: as asked for, else the folder's own, else what tokenizer and positions allow."""
    table = position_limit(backbone, _NO_LIMIT)
    limit: object = tokenizer.hf.model_max_length
    if asked is None and (not isinstance(limit, int | float) or limit < 1):
        raise UserError(f"{model}: tokenizer_config.json: model_max_length is {limit!r}; a whole number was expected")
    if asked is None:
        return int(min(table, own or tokenizer.hf.model_max_length))
    special = tokenizer.hf.num_special_tokens_to_add()
    if asked <= special:
        raise UserError(f"max_length {asked} leaves no room for text beside the {special} special tokens")
    if asked > table:
        raise UserError(f"{model}: max_length {asked} is beyond the position table ({table})")
    return asked


def _read_pooling(modules: _Modules, backbone: Mapping[str, Any], prompt: str) -> Pooling:
    """The pooling that the modules make together; ``backbone`` is transformers' configuration."""
    where = modules.pooling
    config = read_config(where / "config.json")
    path = where / "config.json"
    flagged = [name for flag, name in POOLING_FLAGS.items() if entry(path, config, flag, bool, False)]
    mode = config.get("pooling_mode") or flagged
    modes = mode if isinstance(mode, list) else [mode]
    if not all(isinstance(one, str) for one in modes):
        raise UserError(f"{path}: pooling_mode is {mode!r}; a string was expected, such as 'mean'")
    if len(modes) != 1 or modes[0] not in POOLING_MODES:
        named = " + ".join(modes) or "none"
        raise UserError(f"{where}: pooling {named} is not supported here; choose one with --pooling")
    if not entry(path, config, "include_prompt", bool, True) and prompt:
        raise UserError(f"{where}: pooling that leaves out the prompt is not supported here; choose one with --pooling")
    pooling = POOLING_MODES[modes[0]]
    # Without the hidden states of all layers sentence-transformers leaves the weighting out, and so do we.
    if modules.weighted_layers is None or not backbone.get("output_hidden_states"):
        return pooling
    depth = next((int(backbone[key]) for key in _DEPTH_KEYS if key in backbone), 0)
    return _weighted(modules.weighted_layers, pooling, depth)


def _weighted(path: Path, pooling: Pooling, depth: int) -> Pooling:
    file = path / "config.json"
    start = entry(file, read_config(file), "layer_start", int, 4)
    weights = read_weights(path).get("layer_weights", torch.zeros(0)).flatten().tolist()
    chosen = {start + i for i, weight in enumerate(weights) if weight}
    even = len(set(weights) - {0.0}) == 1
    for candidate in (Pooling.FIRST_LAST_0, Pooling.FIRST_LAST_1, Pooling.TOP2):
        if pooling is Pooling.MEAN and even and chosen == set(candidate.layers(depth)):
            return candidate
    raise UserError(f"{path}: this weighting of layers is not supported here; choose a pooling with --pooling")


def _read_dense(path: Path) -> Dense:
    file = path / "config.json"
    config = read_config(file)
    _require_sentence_names(path)
    names = {activation: name for name, activation in ACTIVATION_PATHS.items()}
    activation = entry(file, config, "activation_function", str, ACTIVATION_PATHS["tanh"])
    if activation not in names or config.get("use_residual"):
        extra = " and a residual" if config.get("use_residual") else ""
        raise UserError(f"{path}: a Dense module with {activation}{extra} is not supported here")
    sizes = {key: entry(file, config, key, int, 0) for key in ("in_features", "out_features")}
    weights = read_weights(path)
    for key, size in sizes.items():
        if key not in config:
            raise UserError(f"{path}: config.json lacks {key}")
        if not 1 <= size <= _MOST_FEATURES:
            raise UserError(f"{file}: {key} is {size}; a whole number from 1 to {_MOST_FEATURES:,} was expected")
    dense = Dense(**sizes, activation=names[activation], bias=entry(file, config, "bias", bool, True))
    try:
        dense.load_state_dict({k: v.float() for k, v in weights.items()})
    except RuntimeError as error:
        raise UserError(f"{path}: the weights do not fit config.json ({_last_line(error)})") from None
    return dense


def _last_line(error: RuntimeError) -> str:
    return str(error).strip().splitlines()[-1].strip()


def _require_sentence_names(path: Path) -> None:
    """A Dense or Normalize module works on the sentence vector, not on token vectors."""
    config = read_config(path / "config.json")
    for key in ("module_input_name", "module_output_name"):
        if (config.get(key) or "sentence_embedding") != "sentence_embedding":
            raise UserError(f"{path}: {key} = {config[key]} is not supported here, only sentence_embedding")


def _require_chain(folder: Path, size: int, dense: list[Dense]) -> None:
    for layer in dense:
        if layer.linear.in_features != size:
            raise UserError(f"{folder}: a Dense module takes {layer.linear.in_features} features but is given {size}")
        size = layer.linear.out_features


def _default_prompt(folder: Path) -> str:
    path = folder / "config_sentence_transformers.json"
    config = read_config(path)
    if config.get("truncate_dim"):
        raise UserError(f"{path}: truncate_dim is not supported here; take it out and cut the vectors yourself")
    name = entry(path, config, "default_prompt_name", str, "") or None
    prompts = entry(path, config, "prompts", dict, {})
    if name is not None and name not in prompts:
        raise UserError(f"{path}: the default prompt {name!r} is not among the prompts")
    return "" if name is None else entry(path, prompts, name, str, "")
