"""The evaluation of a suite: texts are encoded once, or task by task, and every step is reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.evaluation import TASKS, EmbeddingModel, ScoredPairs, Sts, StsData, TaskPairs
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.score import Retrieval


def pairs(name: str) -> TaskPairs:
    return TaskPairs(TASKS[name], (ScoredPairs(name, np.array([1.0, 5.0]), ["a", name], ["b", name]),))


@pytest.mark.parametrize(("apart", "calls"), [(False, 1), (True, 2)])
def test_texts_are_encoded_together_or_apart(apart: bool, calls: int) -> None:
    encoded: list[list[str]] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float64]:
        encoded.append(list(texts))
        return np.array([[len(text), text.count("a") + 1.0] for text in texts])

    data = StsData("here", "unknown", {"stsb": pairs("stsb"), "sickr": pairs("sickr")}, absent=("sts12",))
    lines: list[str] = []
    evaluation = Sts().evaluate(EmbeddingModel("m", encode, device="cpu"), data, lines.append, apart=apart)
    assert len(encoded) == calls
    assert encoded[0][:3] == ["a", "stsb", "b"]
    assert lines[:2] == ["STS: m on stsb, sickr from here, text unknown", "STS: sts12 not in here"]
    assert any("distinct texts encoded in" in line for line in lines)
    record = evaluation.record
    assert (record.model, record.data.source, list(record.data.sha256)) == ("m", "here", ["stsb", "sickr"])
    assert evaluation.arrays["stsb.gold"].tolist() == [1.0, 5.0]


def test_the_names_of_scores_are_known_before_anything_is_scored() -> None:
    model = EmbeddingModel("m", lambda texts: np.array([[len(text), text.count("a") + 1.0] for text in texts]))
    few = StsData("here", "unknown", {"stsb": pairs("stsb"), "sickr": pairs("sickr")})
    every = StsData("here", "unknown", {name: pairs(name) for name in TASKS})
    for data in (few, every):
        names = Sts().score_names(data)
        assert names == list(Sts().evaluate(model, data).record.values())
        assert ("sts.average" in names) is (data is every)
    task = RetrievalTask("toy", ["a", "b"], ["cat", "the dog"], ["q"], ["a cat"], [{0: 1}], 0)
    found = RetrievalData("here", "raw", {"toy": task})
    assert Retrieval().score_names(found) == list(Retrieval().evaluate(model, found).record.values())
