"""Reads and writes tables of word vectors: sentence-transformers' StaticEmbedding and model2vec folders.

Such a model has no layers and no positions: a text's vector is the mean of its tokens' rows, without special
tokens. It is an encoder like any other here, so it is trained by the same recipes. Rows and tokenizer are read without
torch.

The two kinds of folder differ in two ways, and each is read as its own library reads it:

- model2vec's (a config.json, and rows called ``embeddings``) leave unknown tokens out of the mean, so a text without a
  known token has the zero vector, and truncate at ``max_length`` (512) ids and at that many times the median length of
  a token in characters;
- sentence-transformers' StaticEmbedding counts unknown tokens like all others and truncates only where its
  tokenizer.json does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from opencse import files
from opencse.errors import UserError, explaining
from opencse.folder_kinds import TABLE
from opencse.model_folder.layout import entry, read_arrays, read_config, read_weights
from opencse.text.rust_tokenizer import RustTokenizer

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer as Backend
    from torch import Tensor, nn

    from opencse.modules.parts import Parts
    from opencse.modules.table_model import Table
    from opencse.modules.token_modules import TokenWeights
    from opencse.text.tokenizer import Tokenizer


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


def is_model2vec_folder(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether a folder without modules.json, with this config.json, is a table as model2vec writes them."""
    named, stored = config.get("model_type"), folder / "model.safetensors"
    if named is None and config and stored.is_file():  # transformers names the kind of its models
        return _is_model2vec(config, read_arrays(stored))
    return bool(named == MODEL2VEC)


def _is_model2vec(config: Mapping[str, Any], tensors: Collection[str]) -> bool:
    """As model2vec decides; this library's own tables have such rows too where they count unknown tokens."""
    return bool(config) and config.get("model_type") != TABLE and "embeddings" in tensors


def read_backend(where: Path) -> Backend:
    """The tokenizer in the folder ``where``, as its file describes it.

    Raises:
        UserError: if the file is missing or broken.
    """
    from tokenizers import Tokenizer as Backend

    with explaining(
        f"{where / 'tokenizer.json'}: cannot be read", Exception
    ):  # what the tokenizers library raises has no class of its own
        return Backend.from_file(str(where / "tokenizer.json"))


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
    with explaining(f"{where}: holds no table of word vectors that can be read", KeyError, IndexError, ValueError):
        if model2vec or rows is None:  # sentence-transformers reads no mapping and no factors of its own tables
            rows = _folded(tensors)
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
    return entry(path, config, "max_length", int, _LENGTH)


def _truncated_at(backend: Backend) -> int:
    """The longest text in ids by a tokenizer.json, the only limit of sentence-transformers' StaticEmbedding."""
    return int((backend.truncation or {}).get("max_length", UNLIMITED))


def _folded(tensors: Mapping[str, NDArray[Any]]) -> NDArray[np.floating]:
    """One row per id; some model2vec folders hold fewer rows, a mapping to them and a factor for each id."""
    rows = tensors["embeddings"]
    if "mapping" in tensors:
        rows = rows[tensors["mapping"].astype(np.int64)]
    if "weights" in tensors:
        rows = rows.astype(np.float32) * tensors["weights"].astype(np.float32).reshape(len(rows), 1)
    return rows


def new_table(rows: Tensor, *, dropout: float | None = None) -> Table:
    """A new backbone whose word vectors are ``rows`` (vocabulary, d)."""
    import torch

    from opencse.modules.table_model import DROPOUT, Table, TableConfig

    with torch.random.fork_rng(devices=[]):  # the rows that are drawn are replaced
        table = Table(TableConfig(len(rows), rows.shape[1], DROPOUT if dropout is None else dropout))
    with torch.no_grad():
        table.embedding.weight.copy_(rows)
    table.eval()  # type: ignore[no-untyped-call]
    return table


def read_table(folder: Path, where: Path, *, dropout: float | None = None) -> tuple[TableRows, Parts]:
    """Reads the table in ``where``, a part of ``folder``, as model2vec or sentence-transformers reads it.

    Raises:
        UserError: if a file is missing or broken.
    """
    import torch

    from opencse.modules.parts import Parts

    weights = read_weights(where).items()
    wide = {name: (tensor.float() if tensor.is_floating_point() else tensor) for name, tensor in weights}
    read = table_rows(folder, where, {name: tensor.numpy() for name, tensor in wide.items()})
    tokenizer = _with_padding(read.tokenizer)
    table = new_table(torch.from_numpy(read.rows), dropout=dropout)
    left_out = without_unknown(tokenizer, len(read.rows)) if read.leaves_out_unknown else None
    return read, Parts(table, tokenizer, max_length=read.max_length, token_weights=left_out)


def without_unknown(tokenizer: Tokenizer, rows: int) -> TokenWeights | None:
    """Weights that leave the unknown token out of a mean, as model2vec does; None where the vocabulary has none."""
    import torch

    from opencse.modules.token_modules import TokenWeights

    unknown = tokenizer.hf.unk_token_id
    if unknown is None:
        return None
    weights = torch.ones(rows)
    weights[unknown] = 0
    return TokenWeights(weights)


def bare_tokenizer(backend: Backend, *, model2vec: bool = False) -> Tokenizer:
    """The tokenizer of ``backend`` that adds no special tokens; one for padding is added where it has none.

    Args:
        backend: stays as it is.
        model2vec: read as many characters of a text as model2vec does.
    """
    return _with_padding(bare(backend, characters_per_id=characters_per_id(backend) if model2vec else None))


def _with_padding(tokenizer: BareTokenizer) -> Tokenizer:
    """Transformers' tokenizer of a bare one."""
    from transformers import PreTrainedTokenizerFast

    from opencse.text.tokenizer import Tokenizer

    names = {"pad_token": tokenizer.padding} | ({} if tokenizer.unknown is None else {"unk_token": tokenizer.unknown})
    hf = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer.padded,
        clean_up_tokenization_spaces=False,
        truncation_side=tokenizer.truncation_side,
        **names,
    )
    padded = Tokenizer(hf, characters_per_id=tokenizer.characters_per_id)
    padded.rust = tokenizer.rust
    return padded


def write_table(parts: Parts, folder: Path, dtype: torch.dtype) -> None:
    """Writes the files that sentence-transformers' StaticEmbedding, model2vec and `read_table` all read.

    model2vec knows no Dense layers: where there are some, it reads the vectors before them. It leaves out unknown
    tokens, so the folder says that it is one of its kind only where the encoder does so too. StaticEmbedding counts
    their row, which is zero: the same direction, and the same vector where vectors are normalised.
    """
    from safetensors.torch import save_file

    words = cast("nn.Embedding", parts.backbone.get_input_embeddings())
    hf, rust = parts.tokenizer.hf, parts.tokenizer.rust
    makes_ids = hf.backend_tokenizer if rust is None else rust.backend
    backend = type(makes_ids).from_str(makes_ids.to_str())
    backend.no_truncation()
    ids = 1 + max(backend.get_vocab().values(), default=-1)
    added = ids == parts.tokenizer.pad_id == words.num_embeddings - 1  # for padding, see `table_rows`
    rows = words.weight.detach()[: ids if added else None].to(dtype).contiguous().cpu()
    save_file({"embeddings": rows}, folder / "model.safetensors", metadata={"format": "pt"})
    if parts.max_length < UNLIMITED:  # the only length that StaticEmbedding reads
        backend.enable_truncation(parts.max_length, direction=hf.truncation_side)
    backend.save(str(folder / "tokenizer.json"))
    unknown = hf.unk_token_id
    weights = parts.token_weights
    left_out = unknown is None or (weights is not None and not weights.weights[unknown] and not rows[unknown].any())
    config = {
        "model_type": MODEL2VEC if left_out else TABLE,
        "architectures": ["StaticModel"],
        "normalize": parts.normalize,
        "max_length": parts.max_length if parts.max_length < UNLIMITED else None,
        "hidden_dim": rows.shape[1],
    }
    files.write_new_json(folder / "config.json", config)
