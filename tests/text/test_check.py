"""What a look at a text finds, and what it advises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opencse
from helpers import Run
from opencse.cli.check import lines_of_check
from opencse.encoder.encoder import SentenceEncoder
from opencse.text import sample
from opencse.text.check import check_corpus, script_shares
from opencse.text.documents import read_documents
from opencse.text.readers import Texts
from opencse.text.text_to_check import read_to_check
from opencse.text.tokenizer import Tokenizer

PLAIN = [f"Sentence number {number} tells something plain about the weather." for number in range(1200)]


def texts(rows: list[str], documents: list[int] | None = None) -> Texts:
    return Texts([(row,) for row in rows], documents, "text.txt")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return SentenceEncoder.load(device="cpu").tokenizer


@pytest.mark.slow
def test_nothing_stands_out(tokenizer: Tokenizer) -> None:
    found = check_corpus(texts(PLAIN), tokenizer)
    assert found.advice == []
    assert found.duplicates == 0
    assert found.near_empty == 0
    assert found.words["0.5"] == 9
    assert found.scripts == {"LATIN": 1.0}
    assert found.cut == 0
    assert found.tokens_per_word is not None
    assert 1 < found.tokens_per_word < 2


def test_duplicates_are_counted_without_case_and_spacing() -> None:
    rows = [*PLAIN, *(["The same  line."] * 60), *(["the SAME line."] * 40)]
    found = check_corpus(texts(rows))
    assert found.duplicates == pytest.approx(99 / 1300)
    assert found.most_repeated == [("the same line.", 100)]
    assert "leave them out: opencse " in found.advice[0]
    assert found.advice[0].endswith(" --set data.near_duplicates=1")
    few = check_corpus(texts([*PLAIN, *PLAIN[:10]]))
    assert few.duplicates == pytest.approx(10 / 1210)
    assert "not each other's negatives" in few.advice[0]


def test_a_question_with_several_answers_is_no_repeated_line() -> None:
    questions: list[tuple[str, ...]] = [
        (f"What is thing {number // 3}?", f"An answer that tells {number}.") for number in range(1_200)
    ]
    found = check_corpus(Texts(questions, None, "pairs"))
    assert found.duplicates > 0.3
    assert found.duplicate_rows == 0
    assert not any("drop" in line for line in found.advice)
    assert any("of the texts repeat another one; in a batch they are not" in line for line in found.advice)
    copied = check_corpus(Texts([*questions, *questions[:400]], None, "pairs"))
    assert copied.duplicate_rows == pytest.approx(400 / 1600)
    assert any(line.startswith("25.0% of the rows repeat another one, and crowd out") for line in copied.advice)


def test_near_empty_and_wordless_lines() -> None:
    found = check_corpus(texts([*PLAIN, *(f"Chapter {n}" for n in range(80)), *(f"{n} -- {n + 1}" for n in range(20))]))
    assert found.near_empty == pytest.approx(80 / 1300)
    assert found.without_letters == pytest.approx(20 / 1300)
    assert any("fewer than 3 words" in line for line in found.advice)
    assert any("hold no letter" in line for line in found.advice)


def test_long_texts_are_truncated(tokenizer: Tokenizer) -> None:
    rows = [*PLAIN, *(f"{n} " + "word " * 40 for n in range(300))]
    found = check_corpus(texts(rows), tokenizer, max_length=32)
    assert found.cut == pytest.approx(300 / 1500)
    assert any("longer than 32 tokens" in line and "data.max_length=64" in line for line in found.advice)
    assert check_corpus(texts(rows), tokenizer, max_length=64).cut == 0


ENGLISH = "The function returns the rows of the table that the caller asks for, in their order."


def test_scripts() -> None:
    shares = script_shares(["abcdef", "абв", "漢"])
    assert list(shares) == ["LATIN", "CYRILLIC", "CJK"]
    assert shares["LATIN"] == pytest.approx(0.6)
    assert script_shares(["123", "..."]) == {}
    mixed = check_corpus(texts([*PLAIN[:600], *(f"Предложение номер {n} о погоде." for n in range(600))]))
    assert any("several scripts (Latin" in line for line in mixed.advice)


def test_lines_say_what_they_count() -> None:
    latin = "Greek letters such as those are rare here. " * 40
    lines = lines_of_check(check_corpus(texts([f"{latin} alpha \u03b1", f"{latin} \u4f60\u597d " * 2])), "a model")
    assert "text        text.txt: 2 rows of 1 text" in lines
    (words,) = (line for line in lines if line.startswith("words"))
    assert words == "words       at most 325 in 1% of the texts, 402 in 25%, 483 in 50%, 564 in 75%, 641 in 99%"
    (scripts,) = (line for line in lines if line.startswith("scripts"))
    assert scripts == "scripts     Latin 99.9%, CJK 0.1%"


@pytest.mark.slow
def test_the_command(opencse: Run, tmp_path: Path) -> None:
    code, stdout, stderr = opencse("check", sample.TRAIN, "--json", tmp_path / "check.json")
    assert code == 0, stderr
    assert "3,421 rows of 1 text" in stdout
    assert "advice      running text" in stdout
    assert json.loads((tmp_path / "check.json").read_text())["rows"] == 3421
    code, _, stderr = opencse("check", tmp_path / "nothing.txt")
    assert code == 2
    assert "no such file" in stderr


def test_tokens_a_word_are_those_of_whole_texts(tokenizer: Tokenizer) -> None:
    """A long text is not tokenised to its end, so its words do not count."""
    found = check_corpus(texts(["the cat sleeps", "the cat " * 2_000]), tokenizer, max_length=32)
    assert found.tokens_per_word == pytest.approx(1.0, abs=0.34)
    assert found.cut == 0.5


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
    for code in ("if (rows[i] > best[j]) { best[j] = rows[i]; }", "the \u03b1 of the \u03b2 sheet { } [ ] is high"):
        found = check_corpus(texts([row for n in range(600) for row in (f"{n} {ENGLISH}", f"{code} {n}")]), tokenizer)
        assert found.unknown is not None
        assert found.unknown > 0.02, "the test would show nothing"
        assert found.unknown_words == 0
        assert not any("of this language" in line for line in found.advice)
        (line,) = [line for line in found.advice if "most of them signs" in line]
        assert found.unknown_signs[0] in code
        assert found.unknown_signs[0] in line
    for line in ("Это предложение { x[0] > y }", "你好，世界。"):
        found = check_corpus(texts([f"{line} {n}" for n in range(1200)]), tokenizer)
        assert found.unknown_words is not None
        assert found.unknown_words > 0.3
        assert "start from a model of this language" in found.advice[0]
        assert not any("most of them signs" in each for each in found.advice)


def test_documents_are_running_text_and_the_sample_says_its_size() -> None:
    found = check_corpus(texts(PLAIN[:100], [n // 10 for n in range(100)]))
    assert found.documents == 10
    assert any("--recipe next-sentence" in line for line in found.advice)
    assert any("100 examples are few" in line for line in found.advice)
    assert not any("next-sentence" in line for line in check_corpus(texts(PLAIN[:100], list(range(100)))).advice)
    lines = lines_of_check(check_corpus(texts(PLAIN[:3]), read_as=["read as one text per line, UTF-8"]), "a model")
    assert any("no blank lines, so adapt takes each line as a document" in line for line in lines)
    many = check_corpus(texts([f"{n} words here" for n in range(25_000)]))
    assert (many.sampled, many.rows) == (20_000, 25_000)


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


@pytest.mark.parametrize(
    ("name", "content", "scored"),
    [
        ("a.tsv", "4\tThe pump leaks\tThe pump drips\n0\tThe pump leaks\tIt rains\n", True),
        ("a.csv", "sentence1,sentence2,score\nThe pump leaks.,The pump drips.,4\nThe pump leaks.,It rains.,0\n", True),
        ("a.csv", "premise,hypothesis,label\nThe pump leaks.,Water drips.,0\nThe pump leaks.,It rains.,2\n", False),
        ("a.csv", "anchor,positive\nThe pump leaks.,Water drips.\nA cat.,A kitten.\n", False),
    ],
)
def test_pairs_with_a_score_are_rows_for_a_recipe_of_scores(
    name: str, content: str, scored: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    read = read_to_check(str(tmp_path / name))
    assert ("--recipe cosent" in read.command) == scored
    if scored:
        assert (read.texts.width, len(read.texts.rows)) == (2, 2)
        assert "pairs with a score" in read.read_as[0]
