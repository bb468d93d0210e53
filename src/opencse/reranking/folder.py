"""Reads the folder of a cross-encoder, as sentence-transformers or transformers writes it, and refuses other models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.errors import UserError
from opencse.foreign import CLASSIFIER, checks_trust, own_code
from opencse.model_folder.backbone import load_all_weights, load_config, position_limit, require_fitting
from opencse.model_folder.description import read_prompts, read_sentence_config
from opencse.model_folder.layout import ACTIVATION_PATHS, SENTENCE_CONFIG, entry, module_folder, read_config, read_json
from opencse.model_folder.locate import locate
from opencse.modules.prompts import Role
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_ENDING = "ForSequenceClassification"
_PATHS = {path: name for name, path in ACTIVATION_PATHS.items()}
_PATHS |= {f"torch.nn.{path.rpartition('.')[2]}": name for path, name in _PATHS.items()}


@dataclass(frozen=True)
class CrossEncoderFolder:
    """The parts of a cross-encoder.

    Attributes:
        network: transformers' model, whose ``logits`` are (n, 1).
        tokenizer: of pairs of texts.
        max_length: longest pair in ids, special tokens included.
        activation: name of the function that turns a logit into the score; see `opencse.modules.dense.ACTIVATIONS`.
        prompt: put before the first text of each pair.
        own_code: classes of the folder's own code that are run.
    """

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    activation: str
    prompt: str
    own_code: tuple[str, ...]


@checks_trust
def read_cross_encoder(model: str | Path, *, trust_remote_code: bool = False) -> CrossEncoderFolder:
    """Opens a cross-encoder in float32, on the CPU.

    Args:
        model: a folder or a Hub id.
        trust_remote_code: run the code that the folder brings.

    Raises:
        UserError: if there is no such model, it is no cross-encoder with one output, it has no tokenizer, or its folder
            asks for what is not supported.
    """
    folder = locate(model, code=trust_remote_code)
    transformer = _transformer_of(folder)
    config = load_config(transformer, trust_remote_code=trust_remote_code)
    _require_one_output(transformer, config)
    settings = read_sentence_config(transformer, "sequence-classification")
    if settings.lower_case:
        raise UserError(f"{transformer}: do_lower_case is not supported for cross-encoders; save it in the tokenizer")
    prompts = read_prompts(folder)
    activation = _activation(folder, config)
    tokenizer = Tokenizer.load(transformer, trust_remote_code=trust_remote_code).hf
    if tokenizer.chat_template is not None:
        raise UserError(f"{transformer}: puts pairs into a chat template, which is not supported for cross-encoders")
    network = _load_network(transformer, config, trust_remote_code)
    limit = position_limit(network, tokenizer.model_max_length)
    return CrossEncoderFolder(
        network,
        tokenizer,
        limit if settings.max_length is None else min(limit, settings.max_length),
        activation,
        prompts.of(Role.PLAIN),
        own_code(transformer, CLASSIFIER) if trust_remote_code else (),
    )


def _transformer_of(folder: Path) -> Path:
    """The folder of the only module."""
    path = folder / "modules.json"
    if not path.is_file():
        return folder
    listed = read_json(path)
    modules = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    kinds = [str(one.get("type")).rpartition(".")[2] for one in modules]
    if kinds != ["Transformer"]:
        raise UserError(
            f"{folder}: is no cross-encoder of a single Transformer module (modules.json lists "
            f"{', '.join(kinds) or 'none'}); give one that scores pairs of texts by sequence classification"
        )
    return module_folder(path, entry(path, modules[0], "path", str, ""))


def _require_one_output(folder: Path, config: PretrainedConfig) -> None:
    names = config.architectures or []
    if not any(name.endswith(_ENDING) for name in names):
        raise UserError(
            f"{folder}: is no cross-encoder: config.json names {', '.join(names) or 'no architecture'}, and one for "
            "sequence classification was expected"
        )
    if config.num_labels != 1:
        raise UserError(
            f"{folder}: has {config.num_labels} outputs (id2label in config.json); a cross-encoder that ranks has one"
        )


def _activation(folder: Path, config: PretrainedConfig) -> str:
    """The name of the activation; the sigmoid where the folder names none, as in sentence-transformers."""
    path = folder / SENTENCE_CONFIG
    sources = [
        (path, read_config(path).get("activation_fn")),
        (folder / "config.json", (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")),
        (folder / "config.json", getattr(config, "sbert_ce_default_activation_function", None)),
    ]
    for source, value in sources:
        if value is None:
            continue
        if value not in _PATHS:
            known = ", ".join(ACTIVATION_PATHS.values())
            raise UserError(f"{source}: the activation {value!r} is not supported here; known: {known}")
        return _PATHS[value]
    return "sigmoid"


def _load_network(folder: Path, config: PretrainedConfig, trust_remote_code: bool) -> PreTrainedModel:
    from transformers import AutoModelForSequenceClassification

    require_fitting(folder)
    network = load_all_weights(AutoModelForSequenceClassification.from_pretrained, folder, config, trust_remote_code)
    network.train(False)
    return network
