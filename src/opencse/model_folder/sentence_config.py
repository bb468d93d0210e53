"""Reads sentence-transformers' configuration files: length, lower-casing, prompts, similarity function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from opencse.errors import UserError, nearest
from opencse.model_folder.layout import SENTENCE_CONFIG, SIMILARITY, entry, read_config
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import Similarity
from opencse.text.scripts import is_unicode

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
