"""Scores and classes of rows: which columns they are in, how they become numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.text.corpus import tokenise
from opencse.text.given import TextSource, has_labels, open_texts, row_labels, with_labels
from opencse.text.labels import MOST_CLASSES, LabelKind, LabelledTexts, number_labels
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer

ROWS = [("A cat.", "A kitten.", 4.0), ("Rain.", "A train.", 0.0), ("Tea.", "Milk.", 2.0)]


def numbers(values: list[object], kind: LabelKind, scale: float | None = None) -> Any:
    lines = [(f"a.tsv, line {number}", value) for number, value in enumerate(values, start=1)]
    return number_labels(lines, kind, "a.tsv", scale=scale)


@pytest.mark.parametrize(
    ("values", "scale", "expected", "divisor"),
    [
        (["5", "2.5", "0"], None, [1.0, 0.5, 0.0], 5.0),
        ([1.0, 0.25], None, [1.0, 0.25], 1.0),
        ([0.5, 0.25], None, [0.5, 0.25], 1.0),
        (["4", "1"], 5.0, [0.8, 0.2], 5.0),
        ([" 4 ", 3], None, [1.0, 0.75], 4.0),
    ],
)
def test_scores_are_divided(values: list[object], scale: float | None, expected: list[float], divisor: float) -> None:
    made = numbers(values, "score", scale)
    assert made.values.tolist() == expected
    assert made.scale == divisor
    assert made.classes == ()


@pytest.mark.parametrize(
    ("values", "names", "expected"),
    [
        (["neutral", "entailment", "neutral"], ("entailment", "neutral"), [1, 0, 1]),
        (["10", "9", "-1", "10"], ("-1", "9", "10"), [2, 1, 0, 2]),
        ([0, 2, 1], ("0", "1", "2"), [0, 2, 1]),
        ([True, False], ("False", "True"), [1, 0]),
        (["b", "3"], ("3", "b"), [1, 0]),
    ],
)
def test_classes_are_numbered_in_order(values: list[object], names: tuple[str, ...], expected: list[int]) -> None:
    made = numbers(values, "class")
    assert made.classes == names
    assert made.values.tolist() == expected
    assert made.scale is None


@pytest.mark.parametrize(
    ("values", "kind", "scale", "message"),
    [
        (["1", "-0.5"], "score", None, r"^a\.tsv, line 2: the score -0\.5 is below 0"),
        (["1", "6"], "score", 5.0, r"^a\.tsv, line 2: the score 6 is above data\.scale = 5"),
        (["1", "nan"], "score", None, r"^a\.tsv, line 2: the score is nan"),
        (["1", float("inf")], "score", None, r"^a\.tsv, line 2: the score is inf"),
        (["1", "A cat."], "score", None, r"^a\.tsv, line 2: the score 'A cat\.' is not a number; name the column"),
        (["1", " "], "score", None, r"^a\.tsv, line 2: the score is empty"),
        ([1, None], "score", None, r"^a\.tsv, line 2: the score is empty"),
        ([1, True], "score", None, r"^a\.tsv, line 2: the score is bool"),
        (["3", "3"], "score", None, r"^a\.tsv: all 2 scores are equal"),
        (["a", ""], "class", None, r"^a\.tsv, line 2: the class is empty"),
        (["a", ["b"]], "class", None, r"^a\.tsv, line 2: the class is no name"),
        (["a", "a"], "class", None, r"^a\.tsv: all rows have the class 'a'"),
        (
            [f"text {n}" for n in range(MOST_CLASSES + 1)],
            "class",
            None,
            r"line 1001: more than 1,000 different classes",
        ),
    ],
)
def test_nonsense_is_refused(values: list[object], kind: LabelKind, scale: float | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        numbers(values, kind, scale)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "columns", "kind"),
    [
        ("a.csv", "id,sentence1,sentence2,score\n7,A cat.,A kitten.,4\n8,Rain.,A train.,0\n", None, "score"),
        ("a.csv", "label,Anchor,Positive\n4,A cat.,A kitten.\n0,Rain.,A train.\n", None, "score"),
        ("a.tsv", "4\tA cat.\tA kitten.\n0\tRain.\tA train.\n", None, "score"),
        ("a.tsv", "A cat.\t4\tA kitten.\nRain.\t0\tA train.\n", ("1", "3", "2"), "score"),
        (
            "a.jsonl",
            '{"a":"A cat.","b":"A kitten.","c":4}\n{"a":"Rain.","b":"A train.","c":0}\n',
            ("a", "b", "c"),
            "score",
        ),
        ("a.csv", "premise,hypothesis,label\nA cat.,A kitten.,4\nRain.,A train.,0\n", None, "class"),
    ],
)
def test_the_columns_of_a_file(
    tmp_path: Path, name: str, content: str, columns: tuple[str, ...] | None, kind: LabelKind
) -> None:
    (tmp_path / name).write_text(content)
    texts = with_labels(Source(str(tmp_path / name), columns), kind)
    assert isinstance(texts, LabelledTexts)
    assert texts.read().rows == [("A cat.", "A kitten."), ("Rain.", "A train.")]
    assert texts.count_rows() == 2
    made = texts.row_labels()
    assert made.values.tolist() == [1.0, 0.0]
    assert made.classes == (("0", "4") if kind == "class" else ())


def test_lines_are_skipped_with_their_labels(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("4\tA cat.\tA kitten.\n3\tTea.\tMilk.\n0\tRain.\tA train.\n")
    texts = LabelledTexts(Source(str(tmp_path / "a.tsv"), skip_lines=frozenset({2})), "score")
    assert [len(row) for row in texts.read().rows] == [2, 2]
    assert texts.row_labels().values.tolist() == [1.0, 0.0]


def test_the_label_and_how_it_is_read_are_in_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("4\tA cat.\tA kitten.\n0\tRain.\tA train.\n")
    source = Source(str(tmp_path / "a.tsv"))
    made = {LabelledTexts(source, "score").fingerprint(), LabelledTexts(source, "score", 5.0).fingerprint()}
    made.add(LabelledTexts(Source(source.location, ("2", "3", "1")), "class").fingerprint())
    (tmp_path / "a.tsv").write_text("3\tA cat.\tA kitten.\n0\tRain.\tA train.\n")
    made.add(LabelledTexts(Source(source.location), "score").fingerprint())
    assert len(made) == 4


def test_rows_in_memory() -> None:
    given = open_texts(ROWS, labels=True)
    assert given.name == "3 given pairs"
    scores, classes = with_labels(given, "score"), with_labels(given, "class")
    assert scores.read().rows == [row[:2] for row in ROWS]
    made = row_labels(scores)
    assert made is not None
    assert made.values.tolist() == [1.0, 0.0, 0.5]
    assert len({given.fingerprint(), scores.fingerprint(), classes.fingerprint()}) == 3
    assert has_labels(scores)
    assert not has_labels(open_texts(["One.", "Two."]))
    assert row_labels(open_texts(["One.", "Two."])) is None


def label_of(text: TextSource, kind: LabelKind | None) -> None:
    with_labels(text, kind)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            lambda path: open_texts(ROWS, labels=True),
            None,
            "the rows end with a number, and the recipe learns from texts",
        ),
        (lambda path: open_texts([("a", "b", "c")]), "score", r"give it last: \(text, text, score\)"),
        (lambda path: open_texts(["a", "b"]), "class", r"give it last: \(text, text, class\)"),
        (lambda path: Source(str(path), ("text",)), "score", "names one column; name the texts"),
        (lambda path: open_texts(str(path), fields=["text"]), "class", "documents have none"),
    ],
)
def test_texts_without_the_labels_of_the_recipe(
    tmp_path: Path, text: Any, kind: LabelKind | None, message: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,text\nOne,Two words.\n")
    with pytest.raises(UserError, match=message):
        label_of(text(path), kind)


def test_columns_that_cannot_be_recognised(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("one,two\nA cat.,A kitten.\n")
    with pytest.raises(UserError, match="columns there: one, two; name yours with --columns, that of the score last"):
        LabelledTexts(Source(str(tmp_path / "a.csv")), "score").read()
    with pytest.raises(TypeError, match=r"text\[0\] is a text"):
        open_texts(ROWS)  # elsewhere numbers are no labels


def test_a_corpus_keeps_the_labels(tmp_path: Path, tiny_folder: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"A {n}.\tB {n}.\t{n % 3}\n" for n in range(9)))
    tokenizer = Tokenizer.load(tiny_folder)
    source = Source(str(tmp_path / "a.tsv"), ("1", "2", "3"))
    for _ in range(2):  # the second time from the cache
        corpus = tokenise(LabelledTexts(source, "score", 4.0), tokenizer, 16, cache=tmp_path / "cache")
        assert corpus.width == 2
        assert corpus.labels is not None
        np.testing.assert_array_equal(corpus.labels, [(n % 3) / 4 for n in range(9)])
        assert (corpus.facts.scale, corpus.facts.classes) == (4.0, ())
        classes = tokenise(LabelledTexts(source, "class"), tokenizer, 16, cache=tmp_path / "cache")
        assert classes.facts.classes == ("0", "1", "2")


def test_margins_are_any_numbers_and_belong_to_triples(tmp_path: Path) -> None:
    path = tmp_path / "margins.csv"
    path.write_text("query,positive,negative,margin\nA cat?,A kitten.,A train.,7.5\nRain?,Wet.,Dry.,-2\n")
    texts = LabelledTexts(Source(str(path)), "margin")
    assert texts.read().rows[1] == ("Rain?", "Wet.", "Dry.")
    labels = texts.row_labels()
    assert (labels.values.tolist(), labels.scale, labels.classes) == ([7.5, -2.0], None, ())
    with pytest.raises(UserError, match="all 2 margins are equal"):
        number_labels([("line 1", "1"), ("line 2", 1.0)], "margin", "mine")
    with pytest.raises(UserError, match=r"line 1: the margin 'much' is not a number; name the column of margins last"):
        number_labels([("line 1", "much")], "margin", "mine")
    path.write_text("a,b,c,d\n1,2,3,4\n")
    with pytest.raises(
        UserError, match=r"no columns for triples with a margin \(such as anchor, positive, negative, m"
    ):
        _ = LabelledTexts(Source(str(path)), "margin").columns
