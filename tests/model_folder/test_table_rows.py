"""Tables of word vectors as numpy arrays: the same rows from any number format, and one line for a broken file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors

from opencse.errors import UserError
from opencse.model_folder.table_rows import UNLIMITED, bare, characters_per_id, table_folder, table_rows

WORDS = {"[UNK]": 0, "tea": 1, "kettle": 2, "[PAD]": 3}
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2) + 1


def backend_of(words: dict[str, int], length: int | None = None) -> Backend:
    backend = Backend(models.WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(single="tea $A", special_tokens=[("tea", 1)])
    if length is not None:
        backend.enable_truncation(length, direction="left")
    return backend


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    backend_of(WORDS).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    return tmp_path


def test_a_model2vec_folder(folder: Path) -> None:
    read = table_rows(folder, folder, {"embeddings": ROWS.copy()})
    assert (read.max_length, read.normalize, read.leaves_out_unknown) == (512, True, True)
    assert read.rows.tolist() == [[0, 0], *ROWS[1:].tolist()]
    assert (read.tokenizer.unknown, read.tokenizer.unknown_id, read.tokenizer.padding) == ("[UNK]", 0, "[PAD]")
    assert read.tokenizer.backend.encode("tea kettle").ids == [1, 2]
    assert table_folder(folder) == folder


def test_another_folder_counts_unknown_tokens_and_truncates_as_its_tokenizer(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    read = table_rows(folder, folder, {"embedding.weight": ROWS.copy()})
    assert (read.max_length, read.normalize, read.leaves_out_unknown) == (UNLIMITED, None, False)
    assert read.rows.tolist() == ROWS.tolist()
    assert read.tokenizer.characters_per_id is None
    backend_of(WORDS, length=3).save(str(folder / "tokenizer.json"))
    read = table_rows(folder, folder, {"embedding.weight": ROWS.copy()})
    assert (read.max_length, read.tokenizer.truncation_side) == (3, "left")
    assert table_folder(folder) is None


def test_a_row_for_padding_is_added(folder: Path) -> None:
    backend_of({"[UNK]": 0, "tea": 1}).save(str(folder / "tokenizer.json"))
    read = table_rows(folder, folder, {"embeddings": ROWS[:2].astype(np.float16)})
    assert read.rows.tolist() == [[0, 0], [3, 4], [0, 0]]
    assert read.rows.dtype == np.float16
    assert read.tokenizer.padded.token_to_id("[PAD]") == 2
    assert read.tokenizer.backend.token_to_id("[PAD]") is None


@pytest.mark.parametrize("mapping", [np.int8, np.uint16, np.int64])
def test_fewer_rows_with_a_mapping_in_any_whole_numbers(folder: Path, mapping: Any) -> None:
    tensors = {"embeddings": ROWS[:2], "mapping": np.array([0, 1, 1, 0], dtype=mapping)}
    tensors["weights"] = np.array([1, 2, 0.5, 1], dtype=np.float16)
    read = table_rows(folder, folder, tensors)
    assert read.rows.tolist() == [[0, 0], [6, 8], [1.5, 2], [1, 2]]


def test_a_table_of_sentence_transformers_has_no_mapping_and_no_factors(folder: Path) -> None:
    more = {"mapping": np.array([3, 2, 1, 0]), "weights": np.full(4, 2, dtype=np.float32)}
    model2vec = table_rows(folder, folder, {"embeddings": ROWS.copy(), **more})
    assert model2vec.rows.tolist()[1:] == [[10, 12], [6, 8], [2, 4]]
    (folder / "config.json").write_text("{}")
    assert table_rows(folder, folder, {"embedding.weight": ROWS.copy(), **more}).rows.tolist() == ROWS.tolist()
    assert table_rows(folder, folder, {"embeddings": ROWS.copy(), **more}).rows.tolist() == (ROWS[::-1] * 2).tolist()


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no rows": ({}, "holds neither"),
    "too few rows": ({"embeddings": ROWS[:3]}, "has 4 ids, the table is of shape"),
    "one dimension": ({"embeddings": ROWS[:, 0]}, "the table is of shape"),
    "rows that are not there": ({"embeddings": ROWS, "mapping": np.array([0, 1, 2, 9])}, "mapping names rows"),
    "too few weights": ({"embeddings": ROWS, "weights": np.ones(3)}, r"weights is of shape \(3,\) for 4 rows"),
    "weights of two dimensions": ({"embeddings": ROWS, "weights": np.ones((4, 1))}, r"weights is of shape \(4, 1\)"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_tables_are_refused_in_a_line(broken: str, folder: Path) -> None:
    tensors, message = BROKEN[broken]
    with pytest.raises(UserError, match=message):
        table_rows(folder, folder, tensors)


@pytest.mark.parametrize("length", [0, -1, "x"])
def test_a_length_that_is_none_is_refused(length: object, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "max_length": length}))
    with pytest.raises(UserError, match="max_length"):
        table_rows(folder, folder, {"embeddings": ROWS.copy()})


def test_the_given_tokenizer_stays_as_it_is() -> None:
    backend = backend_of(WORDS, length=2)
    before = backend.to_str()
    assert characters_per_id(backend) == 5
    assert len(bare(backend).backend.encode("tea tea tea tea").ids) == 4
    assert backend.to_str() == before
