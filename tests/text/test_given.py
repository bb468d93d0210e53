"""Texts given in Python: read like a file of them, told apart by their content, refused by argument and place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.corpus import tokenise
from opencse.text.given import GivenTexts, as_documents, open_texts, some_texts
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("given", "rows", "name"),
    [
        (["One.", " Two. "], [("One.",), ("Two.",)], "2 given sentences"),
        (("One.", "Two."), [("One.",), ("Two.",)], "2 given sentences"),
        ([("a", "b"), ["c", "d"]], [("a", "b"), ("c", "d")], "2 given pairs"),
        ([("a", "b", "c")], [("a", "b", "c")], "1 given triples"),
    ],
)
def test_rows(given: object, rows: list[tuple[str, ...]], name: str) -> None:
    texts = open_texts(given).read()
    assert texts.rows == rows
    assert texts.source == name
    assert texts.documents is None


def test_paths_and_sources_are_read_from_disk() -> None:
    source = Source("a.txt", columns=("x",))
    assert open_texts(source) is source
    assert open_texts("a.txt") == open_texts(Path("a.txt")) == Source("a.txt")


def test_the_fingerprint_is_of_the_content() -> None:
    def made(given: object) -> str:
        return open_texts(given).fingerprint()

    assert made(["a", "b"]) == made(("a ", "b"))
    assert len({made(["a", "b"]), made(["b", "a"]), made(["a", "b", "c"]), made([("a", "b")]), made(["a\nb"])}) == 5


def test_tokens_are_those_of_the_file(tmp_path: Path, byte_level: Tokenizer) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One text.\nAnother one.\n")
    from_file = tokenise(Source(str(path)), byte_level, 16)
    given = tokenise(GivenTexts((("One text.",), ("Another one.",))), byte_level, 16)
    assert given.ids.tolist() == from_file.ids.tolist()
    assert given.keys.tolist() == from_file.keys.tolist()
    assert given.facts.source == "2 given sentences"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "text is a path, a Hub id, a Source or a list of texts, not NoneType"),
        (5, "not int"),
        (b"abc", "not bytes"),
        ({"a": "b"}, "not dict"),
        (["a", 5], "text[1] is a text, or a tuple of two or three, not int '5'"),
        ([b"a"], "text[0] is a text"),
    ],
)
def test_other_kinds_are_refused_by_name(given: object, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        open_texts(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "text: the list is empty"),
        (["a", " \n"], "text[1] is empty"),
        (["a", ("b", "c")], "text[1] has 2 texts, but text[0] has 1"),
        ([("a", "b", "c", "d")], "text[0] has 4 texts"),
        ([()], "text[0] has 0 texts"),
        (["a", "b \ud800"], "text[1] holds half of a surrogate pair"),
    ],
)
def test_wrong_content_is_reported_with_its_position(given: object, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        open_texts(given)


def test_some_texts_of_many_are_evenly_spaced() -> None:
    source = open_texts([str(n) for n in range(100)])
    assert some_texts(source) == [str(n) for n in range(100)]
    assert some_texts(source, 100) == [str(n) for n in range(100)]
    assert some_texts(source, 99) == [str(n) for n in range(0, 100, 2)]
    assert some_texts(source, 30) == [str(n) for n in range(0, 100, 4)]


def test_records_and_texts_of_a_list_are_documents_of_their_sentences(tmp_path: Path) -> None:
    texts = ["It boils. Steam comes out.", "Snow fell. It was cold."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    (tmp_path / "a.csv").write_text("\n".join(["name,body", *(f"n,{one}" for one in texts)]))
    (tmp_path / "a.txt").write_text("\n".join(texts))
    for source in (
        open_texts(tmp_path / "a.jsonl"),
        open_texts(tmp_path / "a.csv", columns=["body"]),
        open_texts(texts),
    ):
        read = as_documents(source).read()
        assert read.documents == [0, 0, 1, 1]
        assert " ".join(row[0] for row in read.rows) == " ".join(texts)
    for unchanged in (open_texts(tmp_path / "a.txt"), open_texts(tmp_path / "a.csv", columns=["name", "body"])):
        assert as_documents(unchanged) is unchanged
