"""Reads the folder of an encoder: sentence-transformers' layout, model2vec's, adapters, plain transformers folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from opencse.errors import UserError, nearest, reason
from opencse.foreign import MASKED_LM, own_code
from opencse.model_folder.adapters import Adapters, read_adapters
from opencse.model_folder.backbone import (
    dropout_rates,
    load_backbone,
    load_config,
    position_limit,
    quiet_transformers,
    require_repeats,
    require_sizes,
    takes_token_types,
)
from opencse.model_folder.description import (
    Modules,
    list_modules,
    pools_prompt,
    read_hybrid_weight,
    read_layer,
    read_pooling,
    read_prompts,
    read_sentence_config,
    read_similarity,
    read_token_weights,
    require_chain,
    require_sentence_names,
    require_sentence_vectors,
)
from opencse.model_folder.layout import read_config
from opencse.model_folder.locate import locate
from opencse.model_folder.writing import read_template, restore
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.similarity import Similarity
from opencse.modules.token_modules import MaskedLMHead
from opencse.numerals import number_of
from opencse.text.template import Template
from opencse.text.tokenizer import Tokenizer, require_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class _Sources:
    """The folders that the parts of an encoder are read from.

    Attributes:
        folder: with the prompts and the list of modules.
        modules: the modules; None for a plain transformers folder.
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
    """The pooling called ``name``; for an unknown name a ``UserError`` lists the known ones."""
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
    template: str | None = None,
    trust_remote_code: bool = False,
) -> Parts:
    """Reads the parts of the encoder in a folder; the arguments are those of `SentenceEncoder`."""
    mode = None if pooling is None else parse_pooling(pooling)
    sources = _find(locate(model, code=trust_remote_code))
    folder, modules, transformer = sources.folder, sources.modules, sources.transformer
    if modules is not None and modules.table:
        if template is not None:
            raise UserError(f"{model}: a table of word vectors has no template; leave it out")
        return _read_table(model, folder, modules, mode, max_length, dropout, layers)
    if sources.adapters is not None:
        trust_remote_code = False  # it was given for the adapters' folder, not for that of their model
        if layers is not None:
            raise UserError(f"{model}: layers cannot be removed below adapters; merge them first (opencse merge)")
    sentence = read_sentence_config(sources.text)
    require_tokenizer(sources.text)
    backbone = load_backbone(transformer, dropout=dropout, layers=layers, trust_remote_code=trust_remote_code)
    if sources.adapters is not None:
        sources.adapters.merge_into(backbone)
    tokenizer = Tokenizer.load(sources.text, trust_remote_code=trust_remote_code)
    _require_rows(transformer, tokenizer, backbone)
    _require_one_type(sources.text, tokenizer, backbone)
    saved = read_template(folder)
    if saved is not None:
        restore(saved, tokenizer, backbone, folder)
    wrapped = saved.template if template is None and saved is not None else None
    wrapped = wrapped if template is None else Template(template)
    tokenizer = Tokenizer(tokenizer.hf, template=wrapped) if saved or wrapped else tokenizer
    require_sentence_vectors(folder)
    prompts = read_prompts(folder)
    dense = [read_layer(layer) for layer in modules.layers] if modules else []
    require_chain(folder, int(backbone.config.hidden_size), dense)
    if mode is None:
        mode = read_pooling(modules, backbone.config.to_dict()) if modules else Pooling.MEAN
        mode = Pooling.MASK if saved is not None and saved.pools_mask else mode
    pool_prompt = modules is None or not mode.may_leave_out_prompt or pools_prompt(modules)
    depth = int(backbone.config.num_hidden_layers)
    if not 0 <= mode.layers(depth)[0] <= depth:
        others = "mean or cls" if depth else "mean"
        raise UserError(f"{model}: pooling {mode} needs more layers than the model has ({depth}); choose {others}")
    if modules and modules.normalize:
        require_sentence_names(modules.normalize)
    weights = None
    fits = pooling is None or mode.is_mean  # the folder's weights are for its own pooling, or another mean
    if modules and modules.token_weights and fits and not (saved and saved.pools_mask):
        if not pool_prompt:
            raise UserError(
                f"{modules.pooling}: include_prompt is false: pooling that leaves out the prompt and weighs tokens "
                f"({modules.token_weights.name}) is not supported here; choose a pooling that is no mean with --pooling"
            )
        weights = read_token_weights(modules.token_weights, tokenizer.vocabulary_size)
    stated = read_config(transformer / "config.json")
    return Parts(
        backbone,
        tokenizer,
        pooling=mode,
        max_length=_length(model, max_length, sentence.max_length, tokenizer, backbone),
        dense=dense,
        normalize=modules is not None and modules.normalize is not None,
        prompts=prompts,
        similarity_fn_name=read_similarity(folder),
        hybrid_weight=read_hybrid_weight(folder),
        pool_prompt=pool_prompt,
        lower_case=sentence.lower_case,
        token_weights=weights,
        own_code=own_code(transformer, MASKED_LM) if trust_remote_code else (),
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
    require_sentence_vectors(folder)
    if modules.normalize is not None:
        require_sentence_names(modules.normalize)
    read = read_table(folder, modules.transformer, dropout=dropout)
    dense = [read_layer(layer) for layer in modules.layers]
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
        hybrid_weight=read_hybrid_weight(folder),
        token_weights=read.token_weights,
    )


def has_own_pooling(model: str | Path) -> bool:
    """Whether the folder says how to pool (sentence-transformers' and model2vec's do, plain transformers' do not)."""
    return _find(locate(model)).modules is not None


def has_layers(model: str | Path) -> bool:
    """Whether the encoder has layers that relate tokens to each other, and is more than word vectors."""
    sources = _find(locate(model))
    table = sources.modules is not None and sources.modules.table
    return not table and read_config(sources.transformer / "config.json").get("num_hidden_layers") != 0


def own_pooling(model: str | Path) -> Pooling | None:
    """The pooling that the folder names; None for plain transformers folders, which name none.

    Raises:
        UserError: if there is no such model, or its pooling is not supported here.
    """
    sources = _find(locate(model))
    if sources.modules is None:
        return None
    if sources.modules.table:
        return Pooling.MEAN
    saved = read_template(sources.folder)
    if saved is not None and saved.pools_mask:
        return Pooling.MASK
    stated = read_config(sources.transformer / "config.json")
    return read_pooling(sources.modules, stated)


def own_template(model: str | Path) -> str | None:
    """The template that the folder names, that of `SentenceEncoder`; None if it has none."""
    saved = read_template(_find(locate(model)).folder)
    return None if saved is None else saved.template.text


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
    """The folder with the transformers files: the Transformer module's, or ``folder`` itself."""
    modules = list_modules(folder)
    return modules.transformer if modules else folder


def _find(folder: Path) -> _Sources:
    """Finds the folders of all parts of the encoder in ``folder``."""
    modules = list_modules(folder)
    local = modules.transformer if modules else folder
    adapters = read_adapters(local)
    if adapters is None:
        return _Sources(folder, modules, local, local)
    try:
        base = locate(adapters.base)
    except UserError as error:
        raise UserError(
            f"{adapters.folder}: holds adapters alone, and their model cannot be opened ({error}); bring it back, or "
            "name where it is now as base_model_name_or_path in adapter_config.json"
        ) from None
    below = list_modules(base)
    if below is not None and below.table:
        raise UserError(f"{adapters.folder}: {adapters.base} is a table of word vectors, which has no adapters")
    transformer = below.transformer if below else base
    text = local if (local / "tokenizer_config.json").is_file() else transformer
    return _Sources(folder if modules else base, modules or below, transformer, text, adapters)


def _require_rows(folder: Path, tokenizer: Tokenizer, backbone: PreTrainedModel) -> None:
    """Refuses a tokenizer with more ids than the embedding has rows; some texts could not be encoded."""
    rows = len(cast(nn.Embedding, backbone.get_input_embeddings()).weight)
    ids = 1 + max(tokenizer.hf.get_vocab().values(), default=0)
    if ids > rows:
        raise UserError(
            f"{folder}: the tokenizer has {ids:,} ids, the embedding {number_of(rows, 'row')}; use the tokenizer that "
            f"the model was made with, or give it rows for the new tokens (model.resize_token_embeddings({ids}))"
        )


def _require_one_type(folder: Path, tokenizer: Tokenizer, backbone: PreTrainedModel) -> None:
    """Refuses a tokenizer that gives tokens of a single text another type than 0, which all tokens have here."""
    key, hf = "token_type_ids", tokenizer.hf
    # Called as a whole, transformers' tokenizer would first compare lengths with a limit that may be no number.
    if takes_token_types(backbone, hf) and any(
        hf.backend_tokenizer.encode("a").type_ids if hf.is_fast else hf("a")[key]
    ):
        raise UserError(
            f"{folder}: the tokenizer gives tokens of a single text a type other than 0, which is not supported here; "
            f"if the model was trained without, delete {key} from model_input_names in tokenizer_config.json"
        )


def _length(
    model: str | Path, requested: int | None, stated: int | None, tokenizer: Tokenizer, backbone: PreTrainedModel
) -> int:
    """The longest input in ids: as requested, else as the folder says, else what tokenizer and positions allow."""
    table = position_limit(backbone, _NO_LIMIT)
    limit: object = tokenizer.hf.model_max_length
    if requested is None and (not isinstance(limit, int | float) or limit < 1):
        raise UserError(f"{model}: tokenizer_config.json: model_max_length is {limit!r}; a whole number was expected")
    special = tokenizer.special_count
    length = int(min(table, stated or tokenizer.hf.model_max_length)) if requested is None else requested
    if length <= special:
        where = f"max_length {length}" if requested is not None else f"{model}: its longest input of {length} ids"
        raise UserError(f"{where} leaves no room for text next to the {special} special tokens")
    if requested is None:
        return length
    if requested > table:
        raise UserError(f"{model}: max_length {requested} is beyond the position table ({table})")
    return requested


def load_masked_lm_head(
    folder: Path,
    word_embeddings: nn.Embedding,
    *,
    tied: bool = True,
    trust_remote_code: bool = False,
    instead: str = "drop the mlm term",
) -> MaskedLMHead:
    """The masked-LM head stored with the backbone in ``folder``.

    Args:
        folder: a model's folder, of either layout.
        word_embeddings: the backbone's, shared where the configuration ties them.
        tied: False gives the decoder a copy of them.
        trust_remote_code: run the code that the folder names, where it names any.
        instead: what to do where there is none, for the message.

    Raises:
        UserError: if the folder has none (it would be random).
    """
    model, missing = open_masked_lm(folder, trust_remote_code=trust_remote_code, instead=instead)
    if missing:
        raise UserError(
            f"{folder}: the model has no masked-language-model head (missing {min(missing)}); take a checkpoint that "
            f"has one, make one with opencse pretrain --model, or {instead}"
        )
    return MaskedLMHead(model, word_embeddings, tied=tied)


def open_masked_lm(
    folder: Path,
    *,
    tied: bool | None = None,
    trust_remote_code: bool = False,
    instead: str = "take a checkpoint of an encoder",
) -> tuple[PreTrainedModel, list[str]]:
    """The masked language model in ``folder``, and the names of its weights that are missing there.

    Missing weights are drawn from torch's random state.

    Args:
        folder: a model's folder, of either layout.
        tied: whether the decoder is the token embeddings; None: as the configuration says.
        trust_remote_code: run the code that the folder names, where it names any.
        instead: what to do where there is none, for the message.

    Raises:
        UserError: if transformers has no masked language model for it.
    """
    from transformers import AutoModel, AutoModelForMaskedLM

    try:
        transformer = transformer_folder(folder)
        stored_bytes = require_repeats(transformer)
        with quiet_transformers():
            config = load_config(transformer, trust_remote_code=trust_remote_code)
            require_sizes(transformer, AutoModel, config, stored_bytes, trust_remote_code=trust_remote_code)
            if tied is not None:
                config.tie_word_embeddings = tied
            report: dict[str, Any]
            model, report = AutoModelForMaskedLM.from_pretrained(
                transformer,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                trust_remote_code=trust_remote_code,
                weights_only=True,
            )
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{folder}: no masked-language-model head can be loaded from it ({reason(error)}); {instead}"
        ) from error
    return model, sorted(report["missing_keys"])
