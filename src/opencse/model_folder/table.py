"""Reads and writes tables of word vectors: sentence-transformers' StaticEmbedding and model2vec folders.

Such a model has no layers and no positions: a text's vector is the mean of its tokens' rows, without special
tokens. It is an encoder like any other here, so it is trained by the same recipes.

The two kinds of folder differ in two ways, and each is read as its own library reads it:

- model2vec's (config.json: ``model_type: model2vec``) leave unknown tokens out of the mean, so a text without a known
  token has the zero vector, and truncate at ``max_length`` (512) ids and at that many times the median length of a
  token in characters;
- sentence-transformers' StaticEmbedding counts unknown tokens like all others and truncates only where its
  tokenizer.json does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from opencse import io
from opencse.errors import UserError, reason
from opencse.model_folder.layout import entry, read_config, read_json
from opencse.modules.parts import TABLE, Parts
from opencse.modules.token_weights import TokenWeights
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

    from opencse.modules.table_model import Table

_MODEL2VEC = "model2vec"
_PADDINGS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")
_LENGTH = 512
"""Longest text in ids of model2vec folders whose config.json does not say."""
UNLIMITED = 1_000_000
"""The longest text in ids of a table that truncates nothing."""


@dataclass(frozen=True, eq=False)
class TableParts:
    """The parts that are read from a table's folder.

    Attributes:
        table: the rows.
        tokenizer: without special tokens.
        max_length: the longest text in ids.
        normalize: whether its config.json requests vectors of length 1; None if it is not model2vec's.
        token_weights: 0 for the unknown token of a model2vec folder, 1 for all others; None where all count.
    """

    table: Table
    tokenizer: Tokenizer
    max_length: int
    normalize: bool | None
    token_weights: TokenWeights | None


def new_table(rows: Tensor, *, dropout: float | None = None) -> Table:
    """A new backbone whose word vectors are ``rows`` (vocabulary, d)."""
    from opencse.modules.table_model import DROPOUT, Table, TableConfig

    with torch.random.fork_rng(devices=[]):  # the rows that are drawn are replaced
        table = Table(TableConfig(len(rows), rows.shape[1], DROPOUT if dropout is None else dropout))
    with torch.no_grad():
        table.embedding.weight.copy_(rows)
    table.eval()  # type: ignore[no-untyped-call]
    return table


def table_folder(folder: Path) -> Path | None:
    """The folder of the table inside ``folder``; None if that holds another kind of model."""
    listing = folder / "modules.json"
    if listing.is_file():
        entries = read_json(listing)
        first = entries[0] if isinstance(entries, list) and entries else {}
        kind, path = (first.get("type"), first.get("path")) if isinstance(first, dict) else (None, None)
        if str(kind).split(".")[0] == "sentence_transformers" and str(kind).endswith(".StaticEmbedding"):
            if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts:
                raise UserError(f"{listing}: path is {path!r}; the name of a folder inside {folder} was expected")
            return folder / path
        return None
    return folder if _is_model2vec(folder) else None


def _is_model2vec(folder: Path) -> bool:
    try:
        return read_config(folder / "config.json").get("model_type") == _MODEL2VEC
    except UserError:
        return False


def read_table(folder: Path, where: Path, *, dropout: float | None = None) -> TableParts:
    """Reads the table in ``where``, a part of ``folder``, as model2vec or sentence-transformers reads it.

    Raises:
        UserError: if a file is missing or broken.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from tokenizers import Tokenizer as Backend

    try:
        backend = Backend.from_file(str(where / "tokenizer.json"))
        weights = load_file(where / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise UserError(f"{where}: the table of word vectors cannot be read ({reason(error)})") from None
    except Exception as error:  # what the tokenizers library raises has no class of its own
        raise UserError(f"{where / 'tokenizer.json'}: cannot be read ({reason(error)})") from None
    rows = _folded(where, weights)
    size = 1 + max(backend.get_vocab().values(), default=-1)
    if rows.ndim != 2 or len(rows) < size:
        raise UserError(f"{where}: the tokenizer has {size:,} ids, the table is of shape {tuple(rows.shape)}")
    rows = rows.float()
    config = read_config(folder / "config.json")
    model2vec = config.get("model_type") == _MODEL2VEC
    tokenizer = model2vec_tokenizer(backend) if model2vec else bare_tokenizer(backend)
    if tokenizer.pad_id >= len(rows):  # the vocabulary has no padding, so one was added
        rows = torch.cat([rows, rows.new_zeros(1 + tokenizer.pad_id - len(rows), rows.shape[1])])
    weights_of_tokens = without_unknown(tokenizer, len(rows)) if model2vec else None
    if weights_of_tokens is not None:
        rows[weights_of_tokens.weights == 0] = 0
    return TableParts(
        table=new_table(rows, dropout=dropout),
        tokenizer=tokenizer,
        max_length=_longest(folder / "config.json", config) if model2vec else _truncated_at(backend),
        normalize=entry(folder / "config.json", config, "normalize", bool, False) if model2vec else None,
        token_weights=weights_of_tokens,
    )


def without_unknown(tokenizer: Tokenizer, rows: int) -> TokenWeights | None:
    """Weights that leave the unknown token out of a mean, as model2vec does; None where the vocabulary has none."""
    unknown = tokenizer.hf.unk_token_id
    if unknown is None:
        return None
    weights = torch.ones(rows)
    weights[unknown] = 0
    return TokenWeights(weights)


def _longest(path: Path, config: dict[str, Any]) -> int:
    """The longest text in ids of a model2vec folder, where null means that nothing is truncated."""
    if "max_length" in config and config["max_length"] is None:
        return UNLIMITED
    length = entry(path, config, "max_length", int, _LENGTH)
    if length < 1:
        raise UserError(f"{path}: max_length is {length}; a whole number from 1 on was expected, or null")
    return length


def _truncated_at(backend: Backend) -> int:
    """The longest text in ids by a tokenizer.json, the only limit of sentence-transformers' StaticEmbedding."""
    return int((backend.truncation or {}).get("max_length", UNLIMITED))


def model2vec_tokenizer(backend: Backend) -> Tokenizer:
    """The tokenizer of ``backend`` as model2vec uses it: per id it reads the median length of a token in characters."""
    return bare_tokenizer(backend, characters_per_id=int(median(map(len, backend.get_vocab()))))


def _folded(where: Path, weights: dict[str, Tensor]) -> Tensor:
    """One row per id; some model2vec folders hold fewer rows, a mapping to them and a factor for each id."""
    rows = weights.get("embedding.weight", weights.get("embeddings"))
    if rows is None:
        raise UserError(f"{where / 'model.safetensors'}: holds neither embedding.weight nor embeddings")
    if "mapping" in weights:
        mapping = weights["mapping"].long()
        if len(mapping) and not 0 <= int(mapping.min()) <= int(mapping.max()) < len(rows):
            raise UserError(f"{where / 'model.safetensors'}: mapping names rows that are not there")
        rows = rows[mapping]
    if "weights" in weights:
        rows = rows.float() * weights["weights"].float()[:, None]
    return rows


def bare_tokenizer(backend: Backend, *, characters_per_id: int | None = None) -> Tokenizer:
    """The tokenizer of ``backend`` that adds no special tokens; one for padding is added where it has none.

    Args:
        backend: stays as it is.
        characters_per_id: see `Tokenizer`.
    """
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerFast

    stated = json.loads(backend.to_str())
    stated |= {"post_processor": None, "truncation": None, "padding": None}
    bare = Backend.from_str(json.dumps(stated))
    known = bare.get_vocab()
    padding = next((token for token in _PADDINGS if token in known), _PADDINGS[0])
    model = stated.get("model", {})
    unknown = model.get("unk_token")
    if unknown is None and isinstance(model.get("unk_id"), int):  # of Unigram
        unknown = model["vocab"][model["unk_id"]][0]
    names = {"pad_token": padding} | ({"unk_token": unknown} if unknown in known else {})
    side = (backend.truncation or {}).get("direction", "right")
    hf = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bare, clean_up_tokenization_spaces=False, truncation_side=side, **names
    )
    return Tokenizer(hf, characters_per_id=characters_per_id)


def write_table(parts: Parts, folder: Path, dtype: torch.dtype) -> None:
    """Writes the files that sentence-transformers' StaticEmbedding, model2vec and `read_table` all read.

    model2vec knows no Dense layers: where there are some, it reads the vectors before them. It leaves out unknown
    tokens, so the folder says that it is one of its kind only where the encoder does so too. StaticEmbedding counts
    their row, which is zero: the same direction, and the same vector where vectors are normalised.
    """
    from safetensors.torch import save_file

    words = cast(nn.Embedding, parts.backbone.get_input_embeddings())
    rows = words.weight.detach().to(dtype).contiguous().cpu()
    save_file({"embeddings": rows}, folder / "model.safetensors", metadata={"format": "pt"})
    hf = parts.tokenizer.hf
    backend = type(hf.backend_tokenizer).from_str(hf.backend_tokenizer.to_str())
    if parts.max_length < UNLIMITED:  # the only length that StaticEmbedding reads
        backend.enable_truncation(parts.max_length, direction=hf.truncation_side)
    backend.save(str(folder / "tokenizer.json"))
    unknown = hf.unk_token_id
    weights = parts.token_weights
    left_out = unknown is None or (weights is not None and not weights.weights[unknown] and not rows[unknown].any())
    config = {
        "model_type": _MODEL2VEC if left_out else TABLE,
        "architectures": ["StaticModel"],
        "normalize": parts.normalize,
        "max_length": parts.max_length if parts.max_length < UNLIMITED else None,
        "hidden_dim": rows.shape[1],
    }
    io.write_new_json(folder / "config.json", config)
