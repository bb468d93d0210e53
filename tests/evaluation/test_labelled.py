"""Labelled sentences are in SentEval's order, and give a classifier's features."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.evaluation.embedding import embed
from opencse.evaluation.labelled import Examples, Labelled, LabelledLine, listed


def line(label: str, *texts: str) -> LabelledLine:
    return LabelledLine("file, line 1", label, texts)


def test_order_is_by_words_then_class_then_position() -> None:
    lines = [line("1", "c c"), line("1", "b"), line("0", "d d"), line("0", "a"), line("0", "e")]
    examples = Examples.of(lines, {"0": 0, "1": 1}, "")
    assert examples.first == ["a", "e", "b", "d d", "c c"]
    assert examples.labels.tolist() == [0, 0, 1, 0, 1]
    assert len(examples) == 5
    assert examples.second is None


def test_an_unknown_label_is_reported_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="file, line 1: unknown label 'x'; the classes are 0, 1"):
        Examples.of([line("x", "a")], {"0": 0, "1": 1}, "the classes are 0, 1")


def test_features_of_sentences_and_pairs() -> None:
    pairs = Examples.of([line("0", "a", "ab"), line("1", "b", "b")], {"0": 0, "1": 1}, "")
    data = Labelled({"train": pairs, "test": pairs}, ("0", "1"), ("train.tsv", "test.tsv"))
    embedded = embed(
        lambda texts: np.array([[t.count("a"), t.count("b")] for t in texts], dtype=float), ["a", "ab", "b"]
    )
    assert data.features(embedded).tolist() == 2 * [[0, 1, 1, 0], [0, 0, 0, 1]]
    assert data.counts == {"train": 2, "test": 2}
    assert {name: rows.tolist() for name, rows in data.rows.items()} == {"train": [0, 1], "test": [2, 3]}
    assert data.counted() == "train 2, test 2; from train.tsv, test.tsv"
    assert listed({"train": 12_345}) == "train 12,345"
