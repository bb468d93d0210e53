"""Reads and writes tables of word vectors: sentence-transformers' StaticEmbedding and model2vec folders.

Such a model has no layers and no positions: a text's vector is the mean of its tokens' rows, without special
tokens. It is an encoder like any other here, so it is trained by the same recipes.

The two kinds of folder differ in two ways, and each is read as its own library reads it:

- model2vec's (a config.json, and rows called ``embeddings``) leave unknown tokens out of the mean, so a text without a
  known token has the zero vector, and truncate at ``max_length`` (512) ids and at that many times the median length of
  a token in characters;
- sentence-transformers' StaticEmbedding counts unknown tokens like all others and truncates only where its
  tokenizer.json does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from opencse import io
from opencse.folder_kinds import TABLE
from opencse.model_folder.layout import read_weights
from opencse.model_folder.table_rows import (
    MODEL2VEC,
    UNLIMITED,
    BareTokenizer,
    bare,
    characters_per_id,
    table_rows,
)
from opencse.modules.parts import Parts
from opencse.modules.token_weights import TokenWeights
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

    from opencse.modules.table_model import Table


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


def read_table(folder: Path, where: Path, *, dropout: float | None = None) -> TableParts:
    """Reads the table in ``where``, a part of ``folder``, as model2vec or sentence-transformers reads it.

    Raises:
        UserError: if a file is missing or broken.
    """
    weights = read_weights(where).items()
    wide = {name: (tensor.float() if tensor.is_floating_point() else tensor) for name, tensor in weights}
    read = table_rows(folder, where, {name: tensor.numpy() for name, tensor in wide.items()})
    rows, tokenizer = torch.from_numpy(read.rows), _with_padding(read.tokenizer)
    return TableParts(
        table=new_table(rows, dropout=dropout),
        tokenizer=tokenizer,
        max_length=read.max_length,
        normalize=read.normalize,
        token_weights=without_unknown(tokenizer, len(rows)) if read.leaves_out_unknown else None,
    )


def without_unknown(tokenizer: Tokenizer, rows: int) -> TokenWeights | None:
    """Weights that leave the unknown token out of a mean, as model2vec does; None where the vocabulary has none."""
    unknown = tokenizer.hf.unk_token_id
    if unknown is None:
        return None
    weights = torch.ones(rows)
    weights[unknown] = 0
    return TokenWeights(weights)


def model2vec_tokenizer(backend: Backend) -> Tokenizer:
    """The tokenizer of ``backend`` as model2vec uses it: per id it reads the median length of a token in characters."""
    return bare_tokenizer(backend, model2vec=True)


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

    words = cast(nn.Embedding, parts.backbone.get_input_embeddings())
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
    io.write_new_json(folder / "config.json", config)
