"""The development pairs of STS Benchmark are scored as a task of STS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.evaluation import Sts, cosine_of_rows, spearman
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.sts.dev import StsDev

PAIRS = [(1.0, "a b", "c"), (4.0, "a", "a b"), (5.0, "c c", "c"), (2.5, "a b", "a c")]


def letters(texts: object) -> np.ndarray:
    assert isinstance(texts, list)
    return np.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=np.float64)


def test_dev_is_scored_like_a_task(tmp_path: Path) -> None:
    (tmp_path / "stsb").mkdir()
    (tmp_path / "stsb" / "dev.tsv").write_text("\n".join(f"{g}\t{a}\t{b}" for g, a, b in PAIRS), encoding="utf-8")
    data = StsDev().load(tmp_path)
    evaluation = StsDev().evaluate(EmbeddingModel("letters", letters), data)
    cosines = cosine_of_rows(letters([a for _, a, _ in PAIRS]), letters([b for _, _, b in PAIRS]))
    expected = 100 * spearman(cosines, np.array([gold for gold, _, _ in PAIRS]))
    assert evaluation.record.values() == {"dev.stsb": pytest.approx(expected)}
    assert evaluation.arrays.keys() == Sts().evaluate(EmbeddingModel("letters", letters), data).arrays.keys()
    assert not evaluation.record.dev["stsb"].complete
    assert "not the published number of pairs" in str(StsDev.table({"m": evaluation.record}).caption)


def test_other_tasks_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the dev suite has no task 'sts12'"):
        StsDev().load(tmp_path, ["sts12"])
    with pytest.raises(UserError, match=r"dev.tsv: missing"):
        StsDev().load(tmp_path)
