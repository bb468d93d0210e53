"""Reads the folder of an encoder: sentence-transformers' layout, model2vec's, adapters, plain transformers folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from opencse.errors import UserError, nearest
from opencse.foreign import MASKED_LM, own_code
from opencse.model_folder.backbone import (
    dropout_rates,
    load_backbone,
    load_config,
    open_network,
    position_limit,
    takes_token_types,
)
from opencse.model_folder.description import (
    Description,
    list_modules,
    read_token_weights,
)
from opencse.model_folder.layout import TOKEN_WEIGHTS
from opencse.model_folder.table import read_table
from opencse.model_folder.writing import restore
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.token_modules import MaskedLMHead, TokenWeights
from opencse.numerals import number_of
from opencse.text.template import Template
from opencse.text.tokenizer import Tokenizer, require_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_NO_LIMIT = 2**31 - 1


def parse_pooling(name: str) -> Pooling:
    """The pooling called ``name``; for an unknown name a ``UserError`` lists the known ones."""
    try:
        return Pooling(name)
    except ValueError:
        known = [p.value for p in Pooling]
        raise UserError(f"unknown pooling {name!r}{nearest(name, known)}; known: {', '.join(known)}") from None


def read_folder(
    model: str | Path,
    about: Description,
    *,
    pooling: str | Pooling | None,
    max_length: int | None,
    dropout: float | None,
    layers: int | None = None,
    template: str | None = None,
    trust_remote_code: bool = False,
) -> Parts:
    """Reads the parts of the encoder in the folder of ``model``; for the others see `SentenceEncoder`."""
    mode = None if pooling is None else parse_pooling(pooling)
    if dropout is not None and not 0 <= dropout < 1:
        raise UserError(f"dropout is a rate from 0 to below 1, not {dropout}")
    if max_length is not None and max_length < 1:
        raise UserError(f"max_length {max_length} leaves no room for text")
    if about.table:
        for name, value in {"template": template, "layers": layers, "pooling": mode}.items():
            if value not in (None, 0, Pooling.MEAN):
                raise UserError(f"{model}: a table of word vectors has no {name} that could be chosen; leave it out")
        return _read_table(about, max_length, dropout)
    modules, transformer = about.modules, about.transformer
    if about.adapters is not None:
        trust_remote_code = False  # it was given for the adapters' folder, not for that of their model
        if layers is not None:
            raise UserError(f"{model}: layers cannot be removed below adapters; merge them first (opencse merge)")
    sentence = about.sentence
    require_tokenizer(about.text)
    backbone = load_backbone(transformer, dropout=dropout, layers=layers, trust_remote_code=trust_remote_code)
    if about.adapters is not None:
        about.adapters.merge_into(backbone)
    tokenizer = Tokenizer.load(about.text, trust_remote_code=trust_remote_code)
    _require_rows(transformer, tokenizer, backbone)
    _require_one_type(about.text, tokenizer, backbone)
    saved = about.template
    if saved is not None:
        restore(saved, tokenizer, backbone)
    wrapped = saved.template if template is None and saved is not None else None
    wrapped = wrapped if template is None else Template(template)
    tokenizer = Tokenizer(tokenizer.hf, template=wrapped) if saved or wrapped else tokenizer
    if mode is None:
        mode = about.pooling or Pooling.MEAN
    pool_prompt = not mode.may_leave_out_prompt or about.pool_prompt
    depth = int(backbone.config.num_hidden_layers)
    if not 0 <= mode.layers(depth)[0] <= depth:
        others = "mean or cls" if depth else "mean"
        raise UserError(f"{model}: pooling {mode} needs more layers than the model has ({depth}); choose {others}")
    weights = None
    weighing = modules.get(TOKEN_WEIGHTS)
    fits = pooling is None or mode.is_mean  # the folder's weights are for its own pooling, or another mean
    if weighing and fits and not (saved and saved.pools_mask):
        if not pool_prompt:
            raise UserError(
                f"{weighing.folder}: tokens are weighed in a mean that leaves out the prompt (include_prompt is "
                "false), which is not supported here; choose a pooling that is no mean with --pooling"
            )
        weights = TokenWeights(torch.from_numpy(read_token_weights(weighing, tokenizer.vocabulary_size)))
    return Parts(
        backbone,
        tokenizer,
        pooling=mode,
        max_length=_length(model, max_length, sentence.max_length, tokenizer, backbone),
        dense=about.saved_layers(int(backbone.config.hidden_size)),
        normalize=about.normalize,
        **about.common,
        pool_prompt=pool_prompt,
        lower_case=sentence.lower_case,
        token_weights=weights,
        own_code=own_code(transformer, MASKED_LM) if trust_remote_code else (),
        own_dropout={key: about.config[key] for key in dropout_rates(backbone.config) if key in about.config},
    )


def _read_table(about: Description, max_length: int | None, dropout: float | None) -> Parts:
    """The parts of an encoder of word vectors; see `opencse.model_folder.table`."""
    read, parts = read_table(about.folder, about.transformer, dropout=dropout)
    dense = about.saved_layers(int(parts.backbone.config.hidden_size))
    normalize = about.normalize if read.normalize is None or dense else read.normalize
    length = max_length or read.max_length
    return replace(parts, max_length=length, dense=dense, normalize=normalize, **about.common)


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
    if requested is not None and requested > table:
        raise UserError(f"{model}: max_length {requested} is beyond the position table ({table})")
    length = requested or int(min(table, stated or tokenizer.hf.model_max_length))
    special = tokenizer.special_count
    if length <= special:
        raise UserError(
            f"{model}: its longest input of {length} ids leaves no room for text next to the {special} special tokens"
        )
    return length


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
    trust_remote_code: bool,
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
    from transformers import AutoModelForMaskedLM

    transformer = list_modules(folder).transformer
    config = load_config(transformer, trust_remote_code=trust_remote_code)
    if tied is not None:
        config.tie_word_embeddings = tied
    try:
        return open_network(AutoModelForMaskedLM, transformer, config, trust_remote_code)
    except UserError as error:
        raise UserError(f"{error}; {instead}") from error
