"""The folder of an encoder, read: sentence-transformers' layout and plain transformers folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from opencse.errors import UserError, nearest
from opencse.foreign import own_code
from opencse.model_folder.adapters import Adapters, read_adapters
from opencse.model_folder.backbone import dropout_rates, load_backbone, position_limit
from opencse.model_folder.layout import SENTENCE_CONFIG, entry, read_config
from opencse.model_folder.listing import Modules, list_modules
from opencse.model_folder.locate import locate
from opencse.model_folder.module_folders import (
    pools_prompt,
    read_dense,
    read_pooling,
    require_chain,
    require_sentence_names,
)
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import Similarity, read_similarity
from opencse.modules.token_weights import TokenWeights
from opencse.text.scripts import is_unicode
from opencse.text.tokenizer import Tokenizer, require_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# The Transformer module's configuration; the later names are those of releases before 1.0.
_SENTENCE_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
)
_NO_LIMIT = 2**31 - 1


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
    modules: Modules | None
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
    model: str | Path,
    *,
    pooling: str | Pooling | None,
    max_length: int | None,
    dropout: float | None,
    layers: int | None = None,
    trust_remote_code: bool = False,
) -> Parts:
    """Reads the parts of the encoder in a folder; the arguments are those of `SentenceEncoder`."""
    chosen = None if pooling is None else parse_pooling(pooling)
    found = _find(locate(model, code=trust_remote_code))
    folder, modules, transformer = found.folder, found.modules, found.transformer
    if modules is not None and modules.table:
        return _read_table(model, folder, modules, chosen, max_length, dropout, layers)
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
    _require_whole_vectors(folder)
    prompts = read_prompts(folder)
    dense = [read_dense(path) for path in modules.dense] if modules else []
    require_chain(folder, int(backbone.config.hidden_size), dense)
    if chosen is None:
        chosen = read_pooling(modules, backbone.config.to_dict()) if modules else Pooling.MEAN
    pool_prompt = modules is None or not chosen.is_mean or pools_prompt(modules)
    depth = int(backbone.config.num_hidden_layers)
    if not 0 <= chosen.layers(depth)[0] <= depth:
        others = "mean or cls" if depth else "mean"
        raise UserError(f"{model}: pooling {chosen} needs more layers than the model has ({depth}); choose {others}")
    if modules and modules.normalize:
        require_sentence_names(modules.normalize)
    weights = None
    if modules and modules.token_weights and chosen.is_mean:
        if not pool_prompt:
            raise UserError(
                f"{modules.pooling}: include_prompt is false: a mean that leaves out the prompt and weighs tokens "
                f"({modules.token_weights.name}) is not supported here; choose a pooling that is no mean with --pooling"
            )
        weights = TokenWeights.read(modules.token_weights, tokenizer.vocabulary_size)
    stated = read_config(transformer / "config.json")
    return Parts(
        backbone,
        tokenizer,
        pooling=chosen,
        max_length=_length(model, max_length, sentence.max_length, tokenizer, backbone),
        dense=dense,
        normalize=modules is not None and modules.normalize is not None,
        prompts=prompts,
        similarity_fn_name=read_similarity(folder),
        pool_prompt=pool_prompt,
        lower_case=sentence.lower_case,
        token_weights=weights,
        own_code=own_code(transformer) if trust_remote_code else (),
        own_dropout={key: stated[key] for key in dropout_rates(backbone.config) if key in stated},
    )


def _read_table(
    model: str | Path,
    folder: Path,
    modules: Modules,
    pooling: Pooling | None,
    max_length: int | None,
    dropout: float | None,
    layers: int | None,
) -> Parts:
    """The parts of an encoder of word vectors; see `opencse.model_folder.table`."""
    from opencse.model_folder.table import read_table

    if pooling not in (None, Pooling.MEAN):
        raise UserError(f"{model}: a table of word vectors has no pooling but mean; choose that one")
    if layers:
        raise UserError(f"{model}: {layers} layers cannot be kept of a model that has 0")
    if max_length is not None and max_length < 1:
        raise UserError(f"max_length {max_length} leaves no room for text")
    if dropout is not None and not 0 <= dropout < 1:
        raise UserError(f"dropout is a rate from 0 to below 1, not {dropout}")
    _require_whole_vectors(folder)
    read = read_table(folder, modules.transformer, dropout=dropout)
    dense = [read_dense(path) for path in modules.dense]
    require_chain(folder, int(read.table.config.hidden_size), dense)
    normalize = modules.normalize is not None
    return Parts(
        read.table,
        read.tokenizer,
        pooling=Pooling.MEAN,
        max_length=max_length or read.max_length,
        dense=dense,
        normalize=normalize if read.normalize is None or dense else read.normalize,
        prompts=read_prompts(folder),
        similarity_fn_name=read_similarity(folder),
        token_weights=read.token_weights,
    )


def has_own_pooling(model: str | Path) -> bool:
    """Whether the folder says how to pool (sentence-transformers' and model2vec's do, plain transformers' do not)."""
    return _find(locate(model)).modules is not None


def has_layers(model: str | Path) -> bool:
    """Whether the folder's encoder reads tokens beside one another, and is no word vectors alone."""
    found = _find(locate(model))
    table = found.modules is not None and found.modules.table
    return not table and read_config(found.transformer / "config.json").get("num_hidden_layers") != 0


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
    return read_pooling(found.modules, stated)


def own_similarity(model: str | Path) -> Similarity:
    """The function that the folder's vectors are compared by; see `read_similarity`."""
    return read_similarity(_find(locate(model)).folder)


def find_adapters(model: str | Path) -> Adapters | None:
    """The adapters that ``model`` is made of; None for a whole model.

    Raises:
        UserError: if there is no such model, or its adapters are of a kind that is not opened.
    """
    return _find(locate(model)).adapters


def transformer_folder(folder: Path) -> Path:
    """Where in ``folder`` the transformers files are: the Transformer module's folder, or ``folder`` itself."""
    modules = list_modules(folder)
    return modules.transformer if modules else folder


def _find(folder: Path) -> _Found:
    """Where everything of the encoder in ``folder`` is."""
    modules = list_modules(folder)
    own = modules.transformer if modules else folder
    adapters = read_adapters(own)
    if adapters is None:
        return _Found(folder, modules, own, own)
    base = locate(adapters.base)
    below = list_modules(base)
    if below is not None and below.table:
        raise UserError(f"{adapters.folder}: {adapters.base} is a table of word vectors, which has no adapters")
    transformer = below.transformer if below else base
    told = own if (own / "tokenizer_config.json").is_file() else transformer
    return _Found(folder if modules else base, modules or below, transformer, told, adapters)


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
    special = tokenizer.hf.num_special_tokens_to_add()
    length = int(min(table, own or tokenizer.hf.model_max_length)) if asked is None else asked
    if length <= special:
        where = f"max_length {length}" if asked is not None else f"{model}: its longest input of {length} ids"
        raise UserError(f"{where} leaves no room for text beside the {special} special tokens")
    if asked is None:
        return length
    if asked > table:
        raise UserError(f"{model}: max_length {asked} is beyond the position table ({table})")
    return asked


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


def _require_whole_vectors(folder: Path) -> None:
    path = folder / SENTENCE_CONFIG
    if read_config(path).get("truncate_dim"):
        raise UserError(f"{path}: truncate_dim is not supported here; take it out and cut the vectors yourself")
