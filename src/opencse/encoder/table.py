"""Tables of word vectors: sentence-transformers' StaticEmbedding and model2vec folders, read and written.

Such a model has no layers and no positions: a text's vector is the mean of its tokens' rows, no special tokens
counted. It is an encoder like any other here, so it is trained by the same recipes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from opencse.encoder.layout import TABLE, entry, read_config, read_json, write_json
from opencse.errors import UserError, reason
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

    from opencse.encoder.encoder import SentenceEncoder
    from opencse.encoder.table_model import Table

_MODEL2VEC = "model2vec"
_PADDINGS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")
_LENGTH = 512


def new_table(rows: Tensor, *, dropout: float | None = None) -> Table:
    """A table of ``rows`` (vocabulary, d)."""
    from opencse.encoder.table_model import DROPOUT, Table, TableConfig

    with torch.random.fork_rng(devices=[]):  # the rows that are drawn are replaced
        table = Table(TableConfig(len(rows), rows.shape[1], DROPOUT if dropout is None else dropout))
    with torch.no_grad():
        table.embedding.weight.copy_(rows)
    table.eval()  # type: ignore[no-untyped-call]
    return table


def table_folder(folder: Path) -> Path | None:
    """Where in ``folder`` the table is; None where it holds another kind of model."""
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


def read_table(folder: Path, where: Path, *, dropout: float | None = None) -> tuple[Table, Tokenizer, int]:
    """The table in ``where``, a part of ``folder``; its tokenizer, without special tokens; the longest text in ids.

    Of model2vec's folders the row of the unknown token is zero, since it leaves such tokens out.

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
    length = entry(folder / "config.json", {k: v for k, v in config.items() if v is not None}, "max_length", int, 0)
    tokenizer = bare_tokenizer(backend)
    if tokenizer.pad_id >= len(rows):  # the vocabulary has no padding, so one was added
        rows = torch.cat([rows, rows.new_zeros(1 + tokenizer.pad_id - len(rows), rows.shape[1])])
    if config.get("model_type") == _MODEL2VEC:
        unknown = tokenizer.hf.unk_token_id
        rows[[] if unknown is None else [unknown]] = 0
    return new_table(rows, dropout=dropout), tokenizer, max(length, 0) or _LENGTH


def _folded(where: Path, weights: dict[str, Tensor]) -> Tensor:
    """One row an id; model2vec keeps fewer rows, a mapping to them and a factor for each id, if asked to."""
    rows = weights.get("embedding.weight", weights.get("embeddings"))
    if rows is None:
        raise UserError(f"{where / 'model.safetensors'}: holds neither embedding.weight nor embeddings")
    if "mapping" in weights:
        places = weights["mapping"].long()
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < len(rows):
            raise UserError(f"{where / 'model.safetensors'}: mapping names rows that are not there")
        rows = rows[places]
    if "weights" in weights:
        rows = rows.float() * weights["weights"].float()[:, None]
    return rows


def bare_tokenizer(backend: Backend) -> Tokenizer:
    """The tokenizer of ``backend`` that adds no special tokens; one for padding is added where it has none."""
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerFast

    stated = json.loads(backend.to_str())
    stated |= {"post_processor": None, "truncation": None, "padding": None}
    own = Backend.from_str(json.dumps(stated))
    known = own.get_vocab()
    padding = next((token for token in _PADDINGS if token in known), _PADDINGS[0])
    model = stated.get("model", {})
    unknown = model.get("unk_token")
    if unknown is None and isinstance(model.get("unk_id"), int):  # of Unigram
        unknown = model["vocab"][model["unk_id"]][0]
    names = {"pad_token": padding} | ({"unk_token": unknown} if unknown in known else {})
    return Tokenizer(
        PreTrainedTokenizerFast(tokenizer_object=own, clean_up_tokenization_spaces=False, **names)  # type: ignore[no-untyped-call]
    )


def write_table(encoder: SentenceEncoder, folder: Path, dtype: torch.dtype) -> None:
    """Writes what sentence-transformers' StaticEmbedding, model2vec and `read_table` all read; ``folder`` is there.

    model2vec knows no Dense layers: where there are some, it reads the vectors before them. It leaves out unknown
    tokens, so the folder says that it is one of its kind only where their row is zero.
    """
    from safetensors.torch import save_file

    words = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
    rows = words.weight.detach().to(dtype).contiguous().cpu()
    save_file({"embeddings": rows}, folder / "model.safetensors", metadata={"format": "pt"})
    encoder.tokenizer.hf.backend_tokenizer.save(str(folder / "tokenizer.json"))
    unknown = encoder.tokenizer.hf.unk_token_id
    left_out = unknown is None or not rows[unknown].any()
    config = {
        "model_type": _MODEL2VEC if left_out else TABLE,
        "architectures": ["StaticModel"],
        "normalize": encoder.normalize,
        "max_length": encoder.max_length,
        "hidden_dim": rows.shape[1],
    }
    write_json(folder / "config.json", config)
