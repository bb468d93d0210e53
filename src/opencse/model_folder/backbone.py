"""Loads the backbone of a model folder: any encoder that transformers' `AutoModel` opens, with all its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from opencse.errors import UserError, reason
from opencse.foreign import checks_trust, not_trusted, own_code, refuse_foreign
from opencse.model_folder.padding_check import require_padding_unseen
from opencse.model_folder.weight_files import require_repeats, require_sizes
from opencse.modules.dense import Dense

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# The keys of dropout rates in the configurations of transformers' encoders.
_DROPOUT_KEYS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keeps transformers' own bars and load reports off the terminal within the block."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@checks_trust
def load_config(folder: Path, *, trust_remote_code: bool = False) -> PretrainedConfig:
    """Transformers' configuration in ``folder``; every model is opened through it.

    Args:
        folder: transformers' folder.
        trust_remote_code: run the code that the folder names, where it names any.

    Raises:
        UserError: if there is none, or it asks for code that is not trusted or is never run here.
    """
    from transformers import AutoConfig

    refuse_foreign(folder)
    try:
        with quiet_transformers():
            config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise cannot_load(folder, error, trust_remote_code) from error
    return config


def cannot_load(folder: Path, error: Exception, trust_remote_code: bool) -> UserError:
    """The message for an ``error`` while opening the model in ``folder``."""
    # Where transformers has a class of its own for the model, it leaves the folder's code alone and fails otherwise.
    if not trust_remote_code and own_code(folder) and "custom code" in str(error):
        return not_trusted(folder)
    return UserError(f"{folder}: no transformers model can be loaded from it ({reason(error)})")


def load_backbone(
    folder: Path, *, dropout: float | None = None, layers: int | None = None, trust_remote_code: bool = False
) -> PreTrainedModel:
    """The bare encoder of ``folder`` in float32, without pooler.

    Args:
        folder: transformers' folder.
        dropout: rate of every dropout of the network, 0 <= rate < 1; None keeps the configuration's.
        layers: how many layers are kept, from the first on; 0 keeps the embeddings alone, None all.
        trust_remote_code: run the code that the folder names, where it names any.

    Raises:
        UserError: if the folder holds no encoder, has fewer layers, or lacks weights that would then be random; or if
            padding changes the vectors.
    """
    from transformers import AutoModel

    stored_bytes = require_repeats(folder)
    config = load_config(folder, trust_remote_code=trust_remote_code)
    if config.is_encoder_decoder or _of_encoder_and_decoder(config):
        raise UserError(
            f"{folder}: a {config.model_type} model has an encoder and a decoder; only encoders are supported, and "
            "none that was taken out of such a model"
        )
    for key in ("hidden_size", "num_hidden_layers"):
        if not isinstance(getattr(config, key, None), int):
            raise UserError(f"{folder}: a {config.model_type} configuration has no {key}; give a text encoder")
    try:
        with quiet_transformers():
            require_sizes(folder, config, stored_bytes, trust_remote_code=trust_remote_code)
    except UserError:
        raise
    except Exception as error:
        raise cannot_load(folder, error, trust_remote_code) from error
    if dropout is not None:
        _set_dropout(config, dropout, folder)
    if layers is not None:
        _keep_layers(config, layers, folder)
    network = load_all_weights(AutoModel.from_pretrained, folder, config, trust_remote_code, unused=("pooler.",))
    require_padding_unseen(backbone := drop_pooler(network), folder)
    return backbone


def _of_encoder_and_decoder(config: PretrainedConfig) -> bool:
    """Whether transformers has a class for the encoder alone, as of T5; the folder may hold that one."""
    from transformers import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    return encoder is not None and encoder is not MODEL_MAPPING.get(type(config), None)


def load_all_weights(
    from_pretrained: Callable[..., Any],
    folder: Path,
    config: PretrainedConfig,
    trust_remote_code: bool,
    *,
    unused: tuple[str, ...] = (),
) -> PreTrainedModel:
    """Opens the network of ``folder`` in float32, and refuses one of which a weight would be random.

    Args:
        from_pretrained: of transformers' class that opens it.
        folder: transformers' folder.
        config: its configuration.
        trust_remote_code: run the code that the folder names, where it names any.
        unused: beginnings of the names of weights that are not used here and may be missing.

    Raises:
        UserError: if it cannot be opened, or a weight is missing or of another shape.
    """
    try:
        with quiet_transformers():
            # Weights of another shape are reported rather than raised, so that they can be named below.
            model, report = from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                trust_remote_code=trust_remote_code,
                weights_only=True,
            )
    except Exception as error:
        raise cannot_load(folder, error, trust_remote_code) from error
    wrong = [key if isinstance(key, str) else key[0] for key in (*report["missing_keys"], *report["mismatched_keys"])]
    wrong = sorted(key for key in wrong if not key.startswith(unused))
    if wrong:
        raise UserError(
            f"{folder}: {len(wrong)} weights of {type(model).__name__} are missing or of another shape "
            f"(first: {wrong[0]}); they would be random, so the model is not loaded"
        )
    network: PreTrainedModel = model
    return network


def load_pooler(folder: Path) -> Dense:
    """BERT's pooler, a linear layer and tanh, from the weights of ``folder``; `load_backbone` leaves it out.

    Raises:
        UserError: if the folder has none.
    """
    from transformers import AutoModel

    network = load_all_weights(AutoModel.from_pretrained, folder, load_config(folder), False)
    stored = getattr(getattr(network, "pooler", None), "dense", None)
    if not isinstance(stored, nn.Linear):
        raise UserError(
            f"{folder}: a {network.config.model_type} model has no pooler of BERT's shape; leave pooler out"
        )
    pooler = Dense(stored.in_features, stored.out_features)
    pooler.linear = stored
    return pooler


def drop_pooler(model: PreTrainedModel) -> PreTrainedModel:
    """Removes the pooler layer, which is not used here; in many checkpoints it is missing and would be random."""
    if isinstance(getattr(model, "pooler", None), nn.Module):
        model.register_module("pooler", None)
    return model


def _set_dropout(config: PretrainedConfig, rate: float, where: Path) -> None:
    if not 0 <= rate < 1:
        raise UserError(f"dropout is a rate from 0 to below 1, not {rate}")
    present = dropout_rates(config)
    if not present:
        raise UserError(f"{where}: a {config.model_type} configuration has no dropout rate that could be set")
    for key in present:
        setattr(config, key, rate)


def _keep_layers(config: PretrainedConfig, layers: int, where: Path) -> None:
    depth = getattr(config, "num_hidden_layers", None)
    if not isinstance(depth, int):
        raise UserError(f"{where}: a {config.model_type} configuration has no number of layers that could be set")
    if not 0 <= layers <= depth:
        raise UserError(f"{where}: {layers} layers cannot be kept of a model that has {depth}")
    config.num_hidden_layers = layers
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        config.layer_types = kinds[:layers]


def dropout_rates(config: PretrainedConfig) -> dict[str, float]:
    """The dropout rates a configuration names."""
    values = vars(config)
    return {key: float(values[key]) for key in _DROPOUT_KEYS if isinstance(values.get(key), float | int)}


@contextmanager
def dropout_at(model: PreTrainedModel, rate: float) -> Iterator[None]:
    """Sets every dropout rate of a model within the block, in its configuration and its modules."""
    config, before = model.config, dropout_rates(model.config)
    names = {"p", *before}
    modules = [
        (module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if type(value) in (int, float) and name in (names if isinstance(module, nn.Dropout) else before)
    ]
    owners: list[tuple[Any, str, float]] = [*((config, key, value) for key, value in before.items()), *modules]
    for owner, name, _ in owners:
        setattr(owner, name, rate)
    try:
        yield
    finally:
        for owner, name, value in owners:
            setattr(owner, name, value)


def position_limit(model: PreTrainedModel, tokenizer_limit: int) -> int:
    """The longest input in ids that the position table and the tokenizer allow.

    A position table with a padding index (RoBERTa's) starts counting after it: 514 rows hold 512 positions.
    """
    limits = [tokenizer_limit]
    stated = getattr(model.config, "max_position_embeddings", None)
    if isinstance(stated, int) and stated > 0:
        limits.append(stated)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - offset)
    return min(limits)
