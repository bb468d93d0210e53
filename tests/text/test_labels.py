"""Scores and classes of rows: which columns they are in, how they become numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.text.corpus import tokenise
from opencse.text.given import LabelledTexts, open_texts, with_labels
from opencse.text.labels import MOST_CLASSES, LabelKind, number_labels
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer

ROWS = [("A cat.", "A kitten.", 4.0), ("Rain.", "A train.", 0.0), ("Tea.", "Milk.", 2.0)]


def numbers(values: list[object], kind: LabelKind, scale: float | None = None) -> Any:
    lines = [(f"a.tsv, line {number}", value) for number, value in enumerate(values, start=1)]
    return number_labels(lines, kind, "a.tsv", scale=scale)


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
    with pytest.raises(UserError, match=r"line 1: the margin 'much' is not a number; name the column of margins last"):
        number_labels([("line 1", "much")], "margin", "mine")
    path.write_text("a,b,c,d\n1,2,3,4\n")
    with pytest.raises(
        UserError, match=r"no columns for triples with a margin \(such as anchor, positive, negative, m"
    ):
        _ = LabelledTexts(Source(str(path)), "margin").columns


def test_scores_are_divided_and_classes_numbered_in_order() -> None:
    for values, scale, expected, divisor in (
        (["5", "2.5", "0"], None, [1.0, 0.5, 0.0], 5.0),
        ([0.5, 0.25], None, [0.5, 0.25], 1.0),
        ([" 4 ", 1], 5.0, [0.8, 0.2], 5.0),
    ):
        made = numbers(list(values), "score", scale)
        assert (made.values.tolist(), made.scale, made.classes) == (expected, divisor, ())
    for classes, names, order in (
        (["neutral", "entailment", "neutral"], ("entailment", "neutral"), [1, 0, 1]),
        (["10", "9", "-1", "10"], ("-1", "9", "10"), [2, 1, 0, 2]),
        ([True, False], ("False", "True"), [1, 0]),
    ):
        made = numbers(list(classes), "class")
        assert (made.values.tolist(), made.scale, made.classes) == (order, None, names)


@pytest.mark.parametrize(
    ("values", "kind", "scale", "message"),
    [
        (["1", "-0.5"], "score", None, r"^a\.tsv, line 2: the score -0\.5 is below 0"),
        (["1", "6"], "score", 5.0, r"^a\.tsv, line 2: the score 6 is above data\.scale = 5"),
        (["1", "A cat."], "score", None, r"^a\.tsv, line 2: the score 'A cat\.' is not a number; name the column"),
        (["3", "3"], "score", None, r"^a\.tsv: all 2 scores are equal"),
        (["a", "a"], "class", None, r"^a\.tsv: all rows have the class 'a'"),
        ([f"{n}." for n in range(MOST_CLASSES + 1)], "class", None, r"line 1001: more than 1,000 different classes"),
    ],
)
def test_nonsense_is_refused(values: list[object], kind: LabelKind, scale: float | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        numbers(values, kind, scale)


@pytest.mark.parametrize(
    ("name", "content", "columns", "kind"),
    [
        ("a.csv", "label,Anchor,Positive\n4,A cat.,A kitten.\n0,Rain.,A train.\n", None, "score"),
        ("a.tsv", "A cat.\t4\tA kitten.\nRain.\t0\tA train.\n", ("1", "3", "2"), "score"),
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
    made = texts.row_labels()
    assert made.values.tolist() == [1.0, 0.0]
    assert made.classes == (("0", "4") if kind == "class" else ())


def test_texts_without_the_labels_of_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,text\nOne,Two words.\n")
    cases: list[tuple[Any, LabelKind | None, str]] = [
        (open_texts(ROWS, labels=True), None, "the rows end with a number, and the recipe learns from texts"),
        (open_texts(["a", "b"]), "class", r"give it last: \(text, text, class\)"),
        (open_texts(str(path), fields=["text"]), "class", "documents have none"),
    ]
    for text, kind, message in cases:
        with pytest.raises(UserError, match=message):
            with_labels(text, kind)
    with pytest.raises(UserError, match="columns there: title, text; name yours with --columns, that of the score"):
        LabelledTexts(Source(str(path)), "score").read()
