"""What the readers of folders that need no torch share; see `opencse.model_folder.bert_folder` and `static_folder`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.model_folder.hybrid_weight import read_hybrid_weight
from opencse.model_folder.layout import SENTENCE_CONFIG, TEMPLATE, read_config
from opencse.model_folder.listing import Modules
from opencse.model_folder.mapped_tensors import map_tensors
from opencse.model_folder.module_folders import require_sentence_names
from opencse.model_folder.sentence_config import read_prompts, read_similarity, require_sentence_vectors
from opencse.modules.hybrid_weight import HybridWeight
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import Similarity
from opencse.text.rust_tokenizer import RustTokenizer

_UNUSUAL = (
    "add_cross_attention",
    "auto_map",
    "is_decoder",
    "is_encoder_decoder",
    "quantization_config",
    "transformers_weights",
)


@dataclass(frozen=True, eq=False)
class TorchlessParts:
    """Lists the parts that every encoder without torch has, whatever computes its vectors.

    Attributes:
        tokenizer: makes the ids.
        max_length: longest text in ids, special tokens included; longer ones are truncated.
        normalize: whether vectors are L2-normalised.
        prompts: what is put before texts, by what they are for.
        similarity_fn_name: the function that vectors are compared by.
        hybrid_weight: of the vectors in a hybrid search, where one was fitted for them.
    """

    tokenizer: RustTokenizer
    max_length: int
    normalize: bool
    prompts: Prompts
    similarity_fn_name: Similarity
    hybrid_weight: HybridWeight | None = None

    @classmethod
    def read(cls, folder: Path, tokenizer: RustTokenizer, max_length: int, *, normalize: bool) -> Self:
        """The parts of a model, of which ``folder`` names the prompts, the similarity and the weight.

        Raises:
            UserError: for a value that is not supported, naming file and key.
        """
        return cls(
            tokenizer, max_length, normalize, read_prompts(folder), read_similarity(folder), read_hybrid_weight(folder)
        )


def needs_complete_reader(folder: Path, modules: Modules | None) -> bool:
    """Whether a folder has modules or settings that only `opencse.model_folder.reading` opens.

    Args:
        folder: of the model.
        modules: in it; None for a plain transformers folder.

    Raises:
        UserError: for settings that no reader opens.
    """
    require_sentence_vectors(folder)
    transformer = folder
    if modules is not None:
        transformer = modules.transformer
        if modules.layers:
            return True
        if modules.normalize is not None:
            require_sentence_names(modules.normalize)
    adapted = any((one / "adapter_config.json").is_file() for one in (folder, transformer))
    return adapted or TEMPLATE in read_config(folder / SENTENCE_CONFIG)


def is_plain_bert(config: dict[str, Any]) -> bool:
    """Whether config.json describes a BERT with absolute positions, and nothing that transformers adds to one."""
    usual = config.get("model_type") == "bert" and not any(config.get(key) for key in _UNUSUAL)
    return usual and config.get("position_embedding_type", "absolute") == "absolute"


def bert_tensors(transformer: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a BERT by their names in transformers, without the prefix ``bert.``.

    Raises:
        UserError: if they cannot be read, or one is there with and without the prefix.
    """
    stored = map_tensors(transformer / "model.safetensors")
    tensors = {name.removeprefix("bert."): array for name, array in stored.items()}
    if len(tensors) < len(stored):
        raise UserError(f"{transformer}: model.safetensors holds a tensor both with and without the prefix 'bert.'")
    return tensors
