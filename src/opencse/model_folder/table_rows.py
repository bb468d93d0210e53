"""Reads tables of word vectors without torch: the rows, the tokenizer and the length of the longest text.

See `opencse.model_folder.table` for the two kinds of folder.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, reason
from opencse.folder_kinds import TABLE
from opencse.model_folder.layout import entry, read_config, read_json
from opencse.model_folder.mapped_tensors import map_tensors
from opencse.numerals import number_of
from opencse.text.rust_tokenizer import RustTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

MODEL2VEC = "model2vec"
"""``model_type`` in the config.json of model2vec's folders."""
UNLIMITED = 1_000_000
"""The longest text in ids of a table that truncates nothing."""
_PADDINGS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")
_LENGTH = 512
"""Longest text in ids of model2vec folders whose config.json does not say."""


@dataclass(frozen=True, eq=False)
class BareTokenizer:
    """A tokenizer that adds no special tokens.

    Attributes:
        backend: of the tokenizers library; makes the ids.
        padded: the same with special tokens for padding and the unknown token, as transformers needs them.
        padding: name of the padding token.
        unknown: name of the unknown token; None if the vocabulary has none.
        truncation_side: where longer texts lose tokens.
        characters_per_id: see `opencse.text.rust_tokenizer`; None for folders that are not model2vec's.
    """

    backend: Backend
    padded: Backend
    padding: str
    unknown: str | None
    truncation_side: str
    characters_per_id: int | None

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown token."""
        return None if self.unknown is None else self.backend.token_to_id(self.unknown)

    @property
    def rust(self) -> RustTokenizer:
        """Makes the ids."""
        return RustTokenizer(
            self.backend,
            truncation_side=self.truncation_side,
            characters_per_id=self.characters_per_id,
            unknown=self.unknown,
        )


@dataclass(frozen=True, eq=False)
class TableRows:
    """A table of word vectors as its folder holds it.

    Attributes:
        rows: (V, d), in any precision; may be memory-mapped.
        tokenizer: without special tokens.
        max_length: the longest text in ids.
        normalize: whether its config.json requests vectors of length 1; None if it is not model2vec's.
        leaves_out_unknown: whether unknown tokens are left out of the mean; their row is then zero.
    """

    rows: NDArray[np.floating]
    tokenizer: BareTokenizer
    max_length: int
    normalize: bool | None
    leaves_out_unknown: bool


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
    config, stored = read_config(folder / "config.json"), folder / "model.safetensors"
    named = config.get("model_type")
    if named is None and config and stored.is_file():  # transformers names the kind of its models
        return folder if _is_model2vec(config, map_tensors(stored)) else None
    return folder if named == MODEL2VEC else None


def _is_model2vec(config: Mapping[str, Any], tensors: Collection[str]) -> bool:
    """As model2vec decides; this library's own tables have such rows too where they count unknown tokens."""
    return bool(config) and config.get("model_type") != TABLE and "embeddings" in tensors


def read_backend(where: Path) -> Backend:
    """The tokenizer in the folder ``where``, as its file describes it.

    Raises:
        UserError: if the file is missing or broken.
    """
    from tokenizers import Tokenizer as Backend

    try:
        return Backend.from_file(str(where / "tokenizer.json"))
    except Exception as error:  # what the tokenizers library raises has no class of its own
        raise UserError(f"{where / 'tokenizer.json'}: cannot be read ({reason(error)})") from None


def table_rows(folder: Path, where: Path, tensors: Mapping[str, NDArray[Any]]) -> TableRows:
    """The table in ``where``, a part of ``folder``, as model2vec or sentence-transformers reads it.

    Args:
        folder: of the model.
        where: of the table.
        tensors: of its weight file; the unknown token's row is set to zero where it is left out.

    Raises:
        UserError: if a file is missing or broken.
    """
    backend = read_backend(where)
    path = folder / "config.json"
    config = read_config(path)
    model2vec = _is_model2vec(config, tensors)
    rows = tensors.get("embedding.weight")
    if model2vec or rows is None:  # sentence-transformers reads no mapping and no factors of its own tables
        rows = _folded(where, tensors)
    size = 1 + max(backend.get_vocab().values(), default=-1)
    if rows.ndim != 2 or len(rows) < size:
        raise UserError(f"{where}: the tokenizer has {size:,} ids, the table is of shape {tuple(rows.shape)}")
    tokenizer = bare(backend, characters_per_id=characters_per_id(backend) if model2vec else None)
    pad_id = tokenizer.padded.get_vocab()[tokenizer.padding]
    if pad_id >= len(rows):  # the vocabulary has no padding, so one was added
        rows = np.concatenate([rows, np.zeros((1 + pad_id - len(rows), rows.shape[1]), dtype=rows.dtype)])
    unknown = tokenizer.unknown_id if model2vec else None
    if unknown is not None:
        rows[unknown] = 0
    return TableRows(
        rows,
        tokenizer,
        max_length=_longest(path, config) if model2vec else _truncated_at(backend),
        normalize=entry(path, config, "normalize", bool, False) if model2vec else None,
        leaves_out_unknown=unknown is not None,
    )


def characters_per_id(backend: Backend) -> int:
    """The characters that model2vec reads for each id of the longest text: the median length of a token."""
    return int(median(map(len, backend.get_vocab())))


def bare(backend: Backend, *, characters_per_id: int | None = None) -> BareTokenizer:
    """The tokenizer of ``backend``, which stays as it is, without truncation, and without special tokens around texts.

    A token for padding is added for transformers where it has none; texts are split as if it were not there.
    """
    stated = json.loads(backend.to_str())
    stated |= {"post_processor": None, "truncation": None, "padding": None}
    copy, padded = (type(backend).from_str(json.dumps(stated)) for _ in range(2))
    known = copy.get_vocab()
    padding = next((token for token in _PADDINGS if token in known), _PADDINGS[0])
    model = stated.get("model", {})
    unknown = model.get("unk_token")
    if unknown is None and isinstance(model.get("unk_id"), int):  # of Unigram
        unknown = model["vocab"][model["unk_id"]][0]
    unknown = unknown if unknown in known else None
    padded.add_special_tokens([*([] if unknown is None else [unknown]), padding])  # as transformers does with both
    side = (backend.truncation or {}).get("direction", "right")
    return BareTokenizer(copy, padded, padding, unknown, side, characters_per_id)


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


def _folded(where: Path, tensors: Mapping[str, NDArray[Any]]) -> NDArray[np.floating]:
    """One row per id; some model2vec folders hold fewer rows, a mapping to them and a factor for each id."""
    rows = tensors.get("embeddings")
    if rows is None:
        raise UserError(f"{where / 'model.safetensors'}: holds neither embedding.weight nor embeddings")
    if "mapping" in tensors:
        mapping = tensors["mapping"].astype(np.int64)
        if len(mapping) and not 0 <= int(mapping.min()) <= int(mapping.max()) < len(rows):
            raise UserError(f"{where / 'model.safetensors'}: mapping names rows that are not there")
        rows = rows[mapping]
    if "weights" in tensors:
        if tensors["weights"].shape != (len(rows),):
            shape = tuple(tensors["weights"].shape)
            raise UserError(
                f"{where / 'model.safetensors'}: weights is of shape {shape} for {number_of(len(rows), 'row')}"
            )
        rows = rows.astype(np.float32) * tensors["weights"].astype(np.float32)[:, None]
    return rows
