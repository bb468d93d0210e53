"""Given margins: both losses by loops, the data they need, and a run from a file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.objective import Objective
from opencse.objective.terms.margin import Margin
from opencse.objective.vectors.row_labels import Margins
from opencse.objective.vectors.step import Representations
from opencse.objective.views.pair import Pair
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text.readers import Source

N, D = 4, 3


def term(**data: Any) -> Margin:
    return Margin(validate(Margin.Settings, {"kind": "margin", **data}, "test"))


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("loss", ["mse", "kl"])
def test_the_losses_by_loops(loss: str, similarity: str) -> None:
    random = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(N, D, generator=random, dtype=torch.float64) for _ in range(3))
    margins = torch.tensor([1.5, -0.5, 0.0, 2.0])
    reps = replace(Representations.of(a, b, c.unsqueeze(1)), answers={Margins(): margins})
    made = term(loss=loss, similarity=similarity, factor=2.0, temperature=0.5)
    total, gap = 0.0, 0.0
    for i in range(N):
        scores = []
        for other in (b[i], c[i]):
            dot = float(a[i] @ other)
            scores.append(2 * (dot if similarity == "dot" else dot / (float(a[i].norm()) * float(other.norm()))))
        margin = scores[0] - scores[1]
        gap += abs(margin - float(margins[i])) / N
        if loss == "mse":
            total += (margin - float(margins[i])) ** 2 / N
        else:
            p, q = (1 / (1 + math.exp(-value / 0.5)) for value in (margin, float(margins[i])))
            total += 0.25 * (q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))) / N
    assert float(made.loss(reps)) == pytest.approx(total, rel=1e-10)
    assert float(made.diagnose(reps)["margin_gap"]) == pytest.approx(gap, rel=1e-10)


def test_rows_without_one_hard_negative_are_refused() -> None:
    objective = Objective(Pair(), terms=[Margin()])
    assert objective.label == "margin"
    for hard in (0, 2):
        with pytest.raises(UserError, match="needs one hard negative in each row"):
            objective.check(Context(objective, hard=hard, source="x.tsv", label="margin"))


def test_a_file_of_triples_and_margins_is_learned_from(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    rows = [[*sentences[i : i + 60 : 20], str((i % 5) - 1.5)] for i in range(20)]
    lines = ["\t".join(row) for row in [["query", "positive", "negative", "margin"], *rows]]
    (tmp_path / "margins.tsv").write_text("\n".join(lines))
    settings = ("training.max_steps=3", "training.batch_size=4", "data.max_length=32", "training.log_every=1")
    TrainJob(
        text=Source(str(tmp_path / "margins.tsv")),
        recipe="margin-mse",
        model=str(tiny_folder),
        settings=settings,
        dev=None,
    ).run(tmp_path / "run")
    assert "margin_gap" in (tmp_path / "run" / "metrics.jsonl").read_text()
