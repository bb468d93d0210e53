"""Loads the backbone of a model folder: any encoder that transformers' `AutoModel` opens, with all its weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from opencse.errors import UserError, reason
from opencse.foreign import checks_trust, not_trusted, own_code, refuse_foreign
from opencse.kernels.packed import why_not_packed
from opencse.model_folder.layout import MORE_THAN_TENSORS, SINGLE
from opencse.modules.dense import Dense

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


_LEAST_LAYER = 1_024
"""Bytes of weights that a layer has at least."""
_LENGTH, _PADDED = 5, 12
_MOST = 1e-3
"""Largest change that is rounding, relative to the largest value."""


def require_padding_unseen(backbone: PreTrainedModel, folder: Path) -> None:
    """Refuses a backbone that computes other states of a text where it is padded, or none at all.

    Networks with convolutions over tokens (ConvBERT, MobileBERT) or Fourier transforms (FNet) read the padding,
    whatever the attention mask says: a text would have another vector in each batch. Backbones of BERT's shape do not.

    Args:
        backbone: as it was loaded, on a CPU.
        folder: where it was loaded from, for the message.

    Raises:
        UserError: in one line.
    """
    if why_not_packed(backbone) is None or not backbone.config.num_hidden_layers:
        return
    count = len(torch.as_tensor(backbone.get_input_embeddings().weight))
    pad = getattr(backbone.config, "pad_token_id", None)
    pad = pad if isinstance(pad, int) and 0 <= pad < count else 0
    ids = torch.tensor([[(pad + 1 + number) % count for number in range(_LENGTH)]])
    padded = torch.nn.functional.pad(ids, (0, _PADDED - _LENGTH), value=pad)
    training = backbone.training
    backbone.train(False)
    try:
        alone, among_padding = _states(backbone, ids), _states(backbone, padded)[:, :_LENGTH]
    except Exception as error:  # transformers' own code, or a folder's, may raise anything
        kind = backbone.config.model_type
        raise UserError(f"{folder}: this {kind} model cannot encode a short text here ({reason(error)})") from error
    finally:
        backbone.train(training)
    change = float((alone - among_padding).abs().max())
    if change > _MOST * float(alone.abs().max()):
        raise UserError(
            f"{folder}: in this {backbone.config.model_type} model padding changes the vector of a text (by "
            f"{change:.2g}), "
            "so that it would depend on the other texts of a batch; such models are not supported"
        )


@torch.no_grad()
def _states(backbone: Any, ids: Tensor) -> Tensor:  # noqa: ANN401 - any transformers encoder
    mask = (torch.arange(ids.shape[1]) < _LENGTH).long().unsqueeze(0)
    states: Tensor = backbone(input_ids=ids, attention_mask=mask).last_hidden_state
    return states


# The keys of dropout rates in the configurations of transformers' encoders.
_DROPOUT_KEYS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "dropout_rate",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)
_TYPES = "token_type_ids"


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
    layers = getattr(config, "num_hidden_layers", 0)
    stored = sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".safetensors", ".bin"))
    if isinstance(layers, int) and layers > max(256, stored // _LEAST_LAYER):  # to build them would take hours
        raise UserError(
            f"{folder / 'config.json'}: names {layers:,} layers, but the weight files have {stored:,} bytes; take "
            "config.json and weights from the same model"
        )
    return config


def cannot_load(folder: Path, error: Exception, trust_remote_code: bool) -> UserError:
    """The message for an ``error`` while opening the model in ``folder``."""
    # Where transformers has a class of its own for the model, it leaves the folder's code alone and fails otherwise.
    if not trust_remote_code and own_code(folder) and "custom code" in str(error):
        return not_trusted(folder)
    if "Weights only load failed" in str(error):  # torch advises to run the file's code
        return UserError(f"{folder / SINGLE[1]}: {MORE_THAN_TENSORS}")
    return UserError(f"{folder}: no transformers model can be loaded from it ({reason(error)})")


def load_backbone(
    folder: Path, *, dropout: float | None, layers: int | None, trust_remote_code: bool
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
    config = load_config(folder, trust_remote_code=trust_remote_code)
    opener = _opener(config)
    if opener is None:
        raise UserError(
            f"{folder}: a {config.model_type} model has an encoder and a decoder; of such models only T5's encoders "
            "(t5, mt5, umt5) are supported"
        )
    for key in ("hidden_size", "num_hidden_layers"):
        if not isinstance(getattr(config, key, None), int):
            raise UserError(f"{folder}: a {config.model_type} configuration has no {key}; give a text encoder")
    if dropout is not None:
        _set_dropout(config, dropout, folder)
    if layers is not None:
        _keep_layers(config, layers, folder)
    network = load_all_weights(opener, folder, config, trust_remote_code, unused=("pooler.",))
    _require_token_embeddings(network, folder)
    require_padding_unseen(backbone := drop_pooler(network), folder)
    return backbone


def _require_token_embeddings(model: PreTrainedModel, folder: Path) -> None:
    """Refuses networks of pictures and sound, and those that hash characters (CANINE)."""
    try:
        weight = getattr(model.get_input_embeddings(), "weight", None)
    except NotImplementedError:
        weight = None
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        raise UserError(
            f"{folder}: a {model.config.model_type} model has no table of token embeddings; choose a text encoder that "
            "has one"
        )


def _opener(config: PretrainedConfig) -> Any:  # noqa: ANN401 - a class of transformers that opens models
    """What opens the encoder: of T5's kind transformers' class for the encoder alone; None where there is none."""
    from transformers import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING, AutoModel, AutoModelForTextEncoding

    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    if encoder not in (None, MODEL_MAPPING.get(type(config), None)):
        return AutoModelForTextEncoding
    return None if config.is_encoder_decoder else AutoModel


def open_network(
    opener: Any,  # noqa: ANN401 - a class of transformers
    folder: Path,
    config: PretrainedConfig,
    trust_remote_code: bool,
) -> tuple[PreTrainedModel, list[str]]:
    """The network of ``folder`` in float32, and the names of its weights that are missing there or of another shape.

    Those are drawn from torch's random state.

    Args:
        opener: transformers' class that opens it.
        folder: transformers' folder.
        config: its configuration.
        trust_remote_code: run the code that the folder names, where it names any.

    Raises:
        UserError: if it cannot be opened.
    """
    try:
        with quiet_transformers():
            # Weights of another shape are reported rather than raised, so that they can be named.
            model, report = opener.from_pretrained(
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
    wrong = (*report["missing_keys"], *report["mismatched_keys"])
    return model, sorted(key if isinstance(key, str) else key[0] for key in wrong)


def load_all_weights(
    opener: Any,  # noqa: ANN401 - a class of transformers
    folder: Path,
    config: PretrainedConfig,
    trust_remote_code: bool = False,
    *,
    unused: tuple[str, ...] = (),
) -> PreTrainedModel:
    """`open_network`, of which no weight is random but those whose names begin as ``unused`` says.

    Raises:
        UserError: if it cannot be opened, or a weight is missing or of another shape.
    """
    model, absent = open_network(opener, folder, config, trust_remote_code)
    wrong = [key for key in absent if not key.startswith(unused)]
    if wrong:
        raise UserError(
            f"{folder}: {len(wrong)} weights of {type(model).__name__} are missing or of another shape "
            f"(first: {wrong[0]}); they would be random, so the model is not loaded"
        )
    return model


def load_pooler(folder: Path) -> Dense:
    """BERT's pooler, a linear layer and tanh, from the weights of ``folder``; `load_backbone` leaves it out.

    Raises:
        UserError: if the folder has none.
    """
    from transformers import AutoModel

    network = load_all_weights(AutoModel, folder, load_config(folder))
    stored = getattr(getattr(network, "pooler", None), "dense", None)
    if not isinstance(stored, nn.Linear):
        raise UserError(
            f"{folder}: a {network.config.model_type} model has no pooler of BERT's shape; leave pooler out"
        )
    pooler = Dense(stored.in_features, stored.out_features)
    pooler.linear = stored
    return pooler


class _NoPooler(nn.Module):
    """Stands where some networks (SqueezeBERT's, LayoutLM's) call a pooler without asking whether there is one."""

    def forward(self, states: Tensor, *more: object) -> Tensor:
        del more
        return states


def drop_pooler(model: PreTrainedModel) -> PreTrainedModel:
    """Removes the pooler's weights, which are not used here; in many checkpoints they are missing."""
    if isinstance(getattr(model, "pooler", None), nn.Module):
        model.register_module("pooler", _NoPooler())
    return model


def takes_token_types(backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether sentence-transformers gives the types of tokens to the network: what the tokenizer makes and it takes."""
    takes = signature(backbone.forward).parameters
    return _TYPES in tokenizer.model_input_names and (
        _TYPES in takes or any(one.kind is Parameter.VAR_KEYWORD for one in takes.values())
    )


def with_type_0(backbone: PreTrainedModel, args: tuple[Tensor, ...], inputs: dict[str, Any]) -> Any:  # noqa: ANN401
    """A hook before the forward that gives all tokens the type 0; GPT-2 and XLM embed it as the word of that id."""
    del backbone
    given = next(one for one in (*args, inputs.get("input_ids"), inputs.get("inputs_embeds")) if one is not None)
    zeros = torch.zeros(given.shape[:2], dtype=torch.int64, device=given.device)
    return args, {_TYPES: zeros, **inputs}


def _set_dropout(config: PretrainedConfig, rate: float, where: Path) -> None:
    present = dropout_rates(config)
    if not present:
        raise UserError(f"{where}: a {config.model_type} configuration has no dropout rate that could be set")
    for key in present:
        setattr(config, key, rate)


def _keep_layers(config: PretrainedConfig, layers: int, where: Path) -> None:
    depth = config.num_hidden_layers
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
