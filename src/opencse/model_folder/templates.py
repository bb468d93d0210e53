"""Saves and reads a template, and pooling at its mask token, with stock modules of sentence-transformers alone.

The template is in ``tokenizer.json``, as the step that puts special tokens around a text: whatever reads the file puts
texts into the template, and truncates a long text in the slot. Pooling ``mask`` is a mean over tokens (``Pooling``) of
which all but one count 0 (``WordWeights``). That one is the template's last mask token. It has an id of its own, after
all others, with a copy of the mask token's embedding: a mask token before it, in the template or in a text, counts
nothing. So sentence-transformers gives the same vectors without any code of this package. Reading the folder undoes all
this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from opencse import io
from opencse.errors import UserError
from opencse.model_folder.layout import SENTENCE_CONFIG, TEMPLATE, entry, read_config
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.token_weights import TokenWeights
from opencse.text.template import Template
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_GENERIC = "PreTrainedTokenizerFast"
"""The tokenizer class that uses ``tokenizer.json`` as it is; others write their own special tokens over it."""


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


def read_template(folder: Path) -> SavedTemplate | None:
    """The template that a model's folder names; None for a folder without one.

    Raises:
        UserError: for an entry that is not a template, naming file and key.
    """
    path = folder / SENTENCE_CONFIG
    stated = entry(path, read_config(path), TEMPLATE, dict, {})
    if not stated:
        return None
    try:
        template = Template(entry(path, stated, "text", str, ""))
    except UserError as error:
        raise UserError(f"{path}: {TEMPLATE}: {error}") from None
    processor = entry(path, stated, "replaced_processor", dict, {})
    return SavedTemplate(template, entry(path, stated, "pools_mask", bool, False), processor or None)


def restore(saved: SavedTemplate, tokenizer: Tokenizer, backbone: PreTrainedModel, folder: Path) -> None:
    """Undoes in a loaded tokenizer and backbone what `write_template` and `extended` did to their files.

    Raises:
        UserError: where the files are not as they were written.
    """
    if not tokenizer.hf.is_fast:
        raise UserError(f"{folder}: its template needs tokenizer.json; save the model again")
    backend = tokenizer.hf.backend_tokenizer
    described = json.loads(backend.to_str()) | {"post_processor": saved.processor}
    try:
        backend.post_processor = type(backend).from_str(json.dumps(described)).post_processor
    except Exception as error:  # of the tokenizers library, without a class of its own
        raise UserError(
            f"{folder / SENTENCE_CONFIG}: {TEMPLATE}: replaced_processor cannot be read ({error})"
        ) from None
    if saved.pools_mask:
        words = backbone.get_input_embeddings()
        if not isinstance(words, nn.Embedding) or words.num_embeddings < 2:
            raise UserError(f"{folder}: a {backbone.config.model_type} model has no token embeddings")
        rows = words.num_embeddings - 1
        words.weight = nn.Parameter(words.weight.detach()[:rows].clone(), words.weight.requires_grad)
        words.num_embeddings = backbone.config.vocab_size = rows


def mask_weights(parts: Parts) -> TokenWeights:
    """The token weights that stand for pooling ``mask``: 1 for the template's last mask token, 0 for all others."""
    weights = torch.zeros(_rows(parts) + 1)
    weights[-1] = 1.0
    return TokenWeights(weights)


def extended(parts: Parts, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A backbone's weights with one more token embedding, a copy of the mask token's; for pooling ``mask``."""
    words = parts.backbone.get_input_embeddings()
    name = next(name for name, module in parts.backbone.named_modules() if module is words) + ".weight"
    table = state[name]
    return state | {name: torch.cat([table, table[parts.tokenizer.hf.mask_token_id].unsqueeze(0)])}


def write_template(parts: Parts, folder: Path) -> None:
    """Puts the template into the tokenizer's files in ``folder``."""
    tokenizer = parts.tokenizer
    if tokenizer.frame is None:
        return
    backend = type(tokenizer.hf.backend_tokenizer).from_str(tokenizer.hf.backend_tokenizer.to_str())
    frame = tokenizer.frame
    if parts.pooling is Pooling.MASK:
        frame = frame.replacing(int(tokenizer.hf.mask_token_id), _rows(parts))
    tokenizer.put_template(backend, frame)
    backend.save(str(folder / "tokenizer.json"))
    path = folder / "tokenizer_config.json"
    io.write_new_json(path, read_config(path) | {"tokenizer_class": _GENERIC})


def template_entry(parts: Parts) -> dict[str, Any]:
    """What ``SENTENCE_CONFIG`` says of the template; empty without one."""
    tokenizer = parts.tokenizer
    if tokenizer.template is None:
        return {}
    processor = json.loads(tokenizer.hf.backend_tokenizer.to_str())["post_processor"]
    return {
        TEMPLATE: {
            "text": tokenizer.template.text,
            "pools_mask": parts.pooling is Pooling.MASK,
            "replaced_processor": processor,
        }
    }


def _rows(parts: Parts) -> int:
    """Rows of the backbone's token embeddings, of which the last mask token of a saved template is the next one."""
    words: Any = parts.backbone.get_input_embeddings()
    return int(words.num_embeddings)
