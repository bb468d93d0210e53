"""The labels of rows reach the parts that read them, with their own rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from opencse.arrays import Flags
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.inputs import InputBuilder
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.terms.cosent import Cosent
from opencse.objective.terms.softmax import Softmax
from opencse.objective.vectors.row_labels import Classes, Scores
from opencse.objective.views.pair import Pair
from opencse.text.corpus import tokenise
from opencse.text.given import open_texts, with_labels
from opencse.text.labels import LabelKind
from opencse.text.tokenizer import Tokenizer

ROWS = [(f"Text {n}.", f"Answer {n}.", n / 8) for n in range(9)]


def builder(folder: Path, kind: LabelKind | None, objective: Objective, left_out: Flags | None = None) -> InputBuilder:
    tokenizer = Tokenizer.load(folder)
    text = open_texts([row[:2] for row in ROWS]) if kind is None else with_labels(open_texts(ROWS, labels=True), kind)
    return InputBuilder(tokenise(text, tokenizer, 16), tokenizer, objective, 1, left_out)


def test_each_row_has_its_own_label(tiny_folder: Path) -> None:
    objective = Objective(Pair(), terms=[Cosent()])
    inputs = builder(tiny_folder, "score", objective).build(np.array([5, 0, 8]), 3)
    assert inputs.labels is not None
    assert inputs.labels.tolist() == [5 / 8, 0.0, 1.0]
    assert inputs.to(torch.device("cpu")).labels is not None
    answer = Scores().ask(SimpleNamespace(inputs=inputs))(None)  # type: ignore[arg-type]
    assert answer.dtype == torch.float32
    left_out = np.zeros(len(ROWS), dtype=bool)
    left_out[:4] = True
    shifted = builder(tiny_folder, "score", objective, left_out).build(np.array([0, 1]), 0)
    assert shifted.labels is not None
    assert shifted.labels.tolist() == [4 / 8, 5 / 8]


def test_classes_are_whole_numbers(tiny_folder: Path) -> None:
    inputs = builder(tiny_folder, "class", Objective(Pair(), terms=[Softmax()])).build(np.array([8, 1]), 0)
    answer = Classes().ask(SimpleNamespace(inputs=inputs))(None)  # type: ignore[arg-type]
    assert answer.dtype == torch.int64
    assert len(set(answer.tolist())) == 2


def test_an_objective_knows_what_label_it_reads() -> None:
    assert Objective(Pair(), terms=[Cosent()]).label == "score"
    assert Objective(Pair(), terms=[Softmax()]).label == "class"
    assert Objective(Pair(), negatives=[InBatch()]).label is None


def test_what_does_not_go_together(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="a row has one label; use two data sets"):
        Objective(Pair(), terms=[Cosent(), Softmax()])
    with pytest.raises(UserError, match="its rows hold no score"):
        builder(tiny_folder, None, Objective(Pair(), terms=[Cosent()]))
    with pytest.raises(UserError, match="its rows hold no class"):
        builder(tiny_folder, "score", Objective(Pair(), terms=[Softmax()]))
    objective = Objective(Pair(), terms=[Cosent()])
    objective.check(Context(objective, hard=0, label="score"))
