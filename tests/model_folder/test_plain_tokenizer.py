"""Tokenizers that are read without transformers make the ids that transformers makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import json_in, write_tiny_bert
from layout_folders import write
from layouts import READ
from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.description import list_modules
from opencse.model_folder.without_torch import longest_input, read_plain_tokenizer
from opencse.text.tokenizer import Tokenizer

TEXTS = ["A dog barks.", "", "w1 W2 w3", "\U0001f642 日本", "[MASK] [CLS]"]


def test_ids_and_length(tmp_path: Path) -> None:
    folder = write(READ["all-MiniLM"], tmp_path / "model")
    tokenizer, full = read_plain_tokenizer(folder), SentenceEncoder.load(folder, device="cpu")
    assert tokenizer is not None
    assert [row.tolist() for row in tokenizer.encode(TEXTS, 9)] == [
        row.tolist() for row in full.tokenizer.encode(TEXTS, 9)
    ]
    words = range(full.id_count)
    assert longest_input(list_modules(folder), tokenizer, words, range(500)) == full.max_length
    assert longest_input(list_modules(folder), tokenizer, words, range(7)) == 7
    assert longest_input(list_modules(folder), tokenizer, words, range(2)) is None  # no room next to the special tokens
    assert longest_input(list_modules(folder), tokenizer, range(3), range(500)) is None  # ids without a word vector


@pytest.fixture(scope="module", params=["BertTokenizer", "PreTrainedTokenizerFast"])
def stock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT as transformers saves it: the class of its tokenizer builds it again, or uses tokenizer.json as it is."""
    folder = write_tiny_bert(tmp_path_factory.mktemp("stock"))
    edit(folder / "tokenizer_config.json", lambda config: config.update(tokenizer_class=request.param))
    return folder


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json_in(path)
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def without(token: str) -> Callable[[dict[str, Any]], object]:
    def change(described: dict[str, Any]) -> None:
        parts = described["post_processor"]["single"]
        parts[:] = [part for part in parts if part.get("SpecialToken", {}).get("id") != token]

    return change


JSON: dict[str, Callable[[dict[str, Any]], object]] = {
    "nothing": lambda described: None,
    "no first token": without("[CLS]"),
    "another type": lambda described: described["post_processor"]["single"][1]["Sequence"].update(type_id=1),
    "another number": lambda described: described["post_processor"]["special_tokens"]["[CLS]"].update(ids=[7]),
    "accents kept": lambda described: described["normalizer"].update(strip_accents=False),
    "split at spaces": lambda described: described.update(pre_tokenizer={"type": "WhitespaceSplit"}),
    "a word as a token": lambda described: described["added_tokens"].append(
        {**described["added_tokens"][0], "id": described["model"]["vocab"]["dog"], "content": "dog"}
    ),
    "a limit": lambda described: described.update(
        truncation={"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0}
    ),
}
CONFIG: dict[str, dict[str, Any]] = {
    "case": {"do_lower_case": False},
    "ends exchanged": {"cls_token": "[SEP]", "sep_token": "[CLS]"},
    "begin and end": {"bos_token": "[CLS]", "eos_token": "[SEP]"},
    "an added begin": {"add_bos_token": True},
    "left": {"truncation_side": "left"},
    "words never split": {"never_split": ["dog"], "do_basic_tokenize": False},
}
OPENED = {"nothing", "a limit", "begin and end", "left", "words never split"}


@pytest.mark.parametrize("change", [*JSON, *CONFIG])
def test_a_tokenizer_makes_the_ids_of_transformers_or_is_left_to_it(change: str, stock: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((stock / name).read_bytes())
    if change in JSON:
        edit(folder / "tokenizer.json", JSON[change])
    else:
        edit(folder / "tokenizer_config.json", lambda config: config.update(CONFIG[change]))
    plain = read_plain_tokenizer(folder)
    assert plain is not None or change not in OPENED
    if plain is not None:
        texts = [*TEXTS, "Caf\u00e9 \u00c0 dog[MASK]dog dog", "\x00\x1c a\tdog \u200b", "the dog " * 20, "x" * 150]
        expected = Tokenizer.load(folder).encode(texts, 12)
        assert [row.tolist() for row in plain.encode(texts, 12)] == [row.tolist() for row in expected]
