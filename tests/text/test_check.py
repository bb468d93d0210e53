"""What a look at a text finds, and what it advises."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from helpers import Run, accepted, json_in, refused
from opencse.encoder.encoder import SentenceEncoder
from opencse.text import sample
from opencse.text.check import check_corpus, read_to_check
from opencse.text.documents import read_documents
from opencse.text.readers import Texts
from opencse.text.tokenizer import Tokenizer

PLAIN = [f"Sentence number {number} tells something plain about the weather." for number in range(1200)]


def texts(rows: list[str], documents: list[int] | None = None) -> Texts:
    return Texts([(row,) for row in rows], documents, "text.txt")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return SentenceEncoder.load(device="cpu").tokenizer


def test_duplicates_are_counted_without_case_and_spacing(tokenizer: Tokenizer) -> None:
    rows = [*PLAIN, *(["The same  line."] * 60), *(["the SAME line."] * 40)]
    found = check_corpus(texts(rows), tokenizer)
    assert found.duplicates == pytest.approx(99 / 1300)
    assert found.most_repeated == [("the same line.", 100)]
    assert "leave them out: opencse " in found.advice[0]
    assert found.advice[0].endswith(" --set data.near_duplicates=1")
    few = check_corpus(texts([*PLAIN, *PLAIN[:10]]), tokenizer)
    assert few.duplicates == pytest.approx(10 / 1210)
    assert "not each other's negatives" in few.advice[0]


@pytest.mark.slow
def test_long_texts_are_truncated(tokenizer: Tokenizer) -> None:
    plain = check_corpus(texts(PLAIN), tokenizer)
    assert (plain.advice, plain.duplicates, plain.near_empty, plain.cut) == ([], 0, 0, 0)
    assert (plain.words["0.5"], plain.scripts) == (9, {"LATIN": 1.0})
    rows = [*PLAIN, *(f"{n} " + "word " * 40 for n in range(300))]
    found = check_corpus(texts(rows), tokenizer, max_length=32)
    assert found.cut == pytest.approx(300 / 1500)
    assert any("longer than 32 tokens" in line and "data.max_length=64" in line for line in found.advice)


@pytest.mark.slow
def test_the_command(opencse: Run, tmp_path: Path) -> None:
    stdout, _ = accepted(opencse("check", sample.TRAIN, "--model", "opencse-mini", "--json", tmp_path / "check.json"))
    assert "3,421 rows of 1 text" in stdout
    assert "advice      running text" in stdout
    assert json_in(tmp_path / "check.json")["rows"] == 3421
    refused(opencse("check", tmp_path / "nothing.txt"), "no such file")


WRAPPED = """\
A kettle boils water for tea. It is
filled from the tap, and the lid is
closed before it is put on. Steam comes
out of the spout when it boils. Then
it is taken off the stove and the tea
is poured. A kettle that whistles is
heard in the next room. Lime grows in
it where water is hard, and vinegar
removes it.
"""


def test_unknown_signs_are_no_other_language_and_unknown_words_are(tokenizer: Tokenizer) -> None:
    code, plain = "if (rows[i] > best[j]) { best[j] = rows[i]; }", "The function returns the rows of the table."
    found = check_corpus(texts([row for n in range(600) for row in (f"{n} {plain}", f"{code} {n}")]), tokenizer)
    assert found.unknown_words == 0
    (line,) = [line for line in found.advice if "most of them signs" in line]
    assert found.unknown_signs[0] in line
    found = check_corpus(texts([f"你好，世界。 {n}" for n in range(1200)]), tokenizer)
    assert "start from a model of this language" in found.advice[0]
    assert not any("most of them signs" in each for each in found.advice)


def test_lines_broken_at_a_width_are_recognised(tmp_path: Path) -> None:
    """Each line alone would be half a sentence; in a folder, lines of a paragraph are joined."""
    file = tmp_path / "kettle.txt"
    for text, advised in (
        (WRAPPED, True),
        (WRAPPED.replace("\n", " ").replace(". ", ".\n"), False),
        (WRAPPED.lower().replace(".", ""), False),
    ):
        file.write_text(text)
        assert any("continue in the next one" in line for line in opencse.check(file).advice) == advised
        assert not any("continue in the next one" in line for line in opencse.check(tmp_path).advice)


def test_a_folder_of_tables_is_read_as_adapt_reads_it(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("Title;Text\nKettles;Fill it. Switch it on.\n")
    (tmp_path / "c.xlsx").write_text("something")
    read = read_to_check(str(tmp_path))
    assert read.texts.documents == [0, 0, 1, 1]
    assert [row[0] for row in read.texts.rows] == [one for doc in read_documents(tmp_path) for one in doc.sentences]
    assert read.command == f"opencse adapt {tmp_path} --out adapted"
    assert [line.partition(";")[0] for line in read.read_as] == [
        "read as a table (separated by semicolons), UTF-8",
        "left out 1 file of a kind that is not read (.xlsx",
    ]
