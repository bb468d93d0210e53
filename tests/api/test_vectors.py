"""`opencse.similarity`, `opencse.nearest` and `opencse.calibrate`: what they return and refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError


def test_similar_texts_come_first() -> None:
    first, second = opencse.similarity("opencse-mini", "A dog barks.", ["It rains.", "A hound bays."])
    assert (first.text, first.function, first.above) == ("A hound bays.", "cosine", None)
    assert first.score > second.score


def test_a_list_of_texts_is_expected() -> None:
    with pytest.raises(UserError, match="others: give at least one text"):
        opencse.similarity("opencse-mini", "A dog barks.", "It rains.")
    with pytest.raises(UserError, match="a text is blank"):
        opencse.similarity("opencse-mini", "A dog barks.", [" "])


def test_a_corpus_or_an_index_for_each_model() -> None:
    with pytest.raises(UserError, match="give either a corpus to search"):
        opencse.nearest("opencse-mini", None, ["water"])
    with pytest.raises(UserError, match="1 index for 2 models"):
        opencse.nearest(["opencse-mini", opencse.SentenceEncoder(device="cpu")], None, ["water"], index="ix")


def test_a_calibration_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        opencse.calibrate(tmp_path / "missing", ["One.", "Two."])


def test_a_read_only_model_is_refused_before_anything_is_measured(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    (tmp_path / "model").mkdir()  # no model in it: opening it would be another error
    read_only(tmp_path / "model")
    with pytest.raises(UserError, match=r"calibration.json: cannot be written \(.*Read-only.*\); .* copy the model"):
        opencse.calibrate(tmp_path / "model", ["One.", "Two."])
