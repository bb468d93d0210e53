"""What a comparison is made of, what it refuses, and a paper's row."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.environment import Environment
from opencse.errors import UserError
from opencse.runs.record import Outcome
from opencse.studies.comparison import paper_row, reproduced
from opencse.studies.study import Study, StudyRecord, SuiteChoice
from opencse.text.readers import Source


def study(**changes: object) -> Study:
    given: dict[str, object] = {
        "text": Source("text.txt"),
        "out": Path("out"),
        "recipes": ["simcse", "esimcse:reference"],
        "starts": ["models/a", "models/b"],
        "seeds": [1, 2],
        "suites": [SuiteChoice("sts", Path("data"))],
    }
    return Study(**(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": [3, 3]}, "two seeds would share the folder '3'"),
        ({"suites": [SuiteChoice("stss", Path("data"))]}, "unknown suite 'stss' .did you mean 'sts'"),
        ({"pairs": {1: (1, 5), 2: (1, 5)}}, "data order 1 with dropout 5 is there twice; name each seed once"),
        ({"settings": ["training.seed=3"]}, "training.seed is set by the comparison"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        study(**changes)


def test_recipes_that_cannot_work_with_the_text_or_the_dev_data_are_refused(tmp_path: Path) -> None:
    lines, pairs = tmp_path / "lines.txt", tmp_path / "pairs.tsv"
    lines.write_text("Rain falls.\nA lamp is lit.\n")
    pairs.write_text("anchor\tpositive\nRain falls.\tIt rains.\nA lamp is lit.\tThe lamp is on.\n")
    for text, recipe, message in (
        (lines, "angle:in-batch", r"^angle:in-batch: .*lines\.txt: no columns for pairs with a score"),
        (lines, "simcse-supervised", r"^simcse-supervised: .*: the pair view needs two or three texts per row, not 1"),
        (pairs, "simcse", r"^simcse: .*: the dropout view reads one text per row, not 2"),
        (lines, "ct:better", r"^ct:better: objective\.saved_encoder = better needs dev data to choose by"),
    ):
        columns = ("anchor", "positive") if text is pairs else None
        comparison = study(text=Source(str(text), columns=columns), recipes=[recipe], starts=["opencse-mini"])
        with pytest.raises(UserError, match=message):
            comparison.require_fitting(None)
    study(text=Source(str(lines)), recipes=["simcse", "esimcse"], starts=["opencse-mini"]).require_fitting(None)


def test_a_backbone_row() -> None:
    row = paper_row("simcse:bert-base")
    assert row.start == row.paper_start == "google-bert/bert-base-uncased"
    assert row.expected["sts.average"] == 76.25
    assert list(row.seeds) == [42]
    told = "\n".join(row.lines("stsb/dev.tsv", 0))
    assert "Gao" in told
    assert "differs    in nothing known" in told


def test_what_has_no_published_scores() -> None:
    with pytest.raises(UserError, match=r"simcse: no published scores are known for it; name a preset.*bert-base"):
        paper_row("simcse")
    with pytest.raises(UserError, match=r"opencse-mini: no published scores .*; opencse compare compares it"):
        paper_row("opencse-mini")


@pytest.mark.slow
def test_means_over_the_seeds() -> None:
    def run(
        seed: int,
        average: float,
        dev: float,
        start: float = 50.0,
        kept: str = "best",
        step: int | None = 3,
        chosen_on: str | None = "stsb/dev.tsv",
        **scored: float,
    ) -> StudyRecord:
        return StudyRecord(
            recipe="simcse",
            start="a",
            seed=seed,
            asked={"dev": chosen_on},
            outcome=Outcome(kept=kept, verdict="", scores={0: start, 3: dev, 6: dev - 1}, steps=6, step=step),
            judged="kept",
            environment=Environment.here("cpu"),
            judge_seconds=1.0,
            results={"sts.average": average} | {name.replace("_", "."): value for name, value in scored.items()},
            data={},
        )

    found = reproduced([run(1, 60.0, 70.0), run(2, 62.0, 72.0, start=72.1)])
    assert found["sts.average"].mean == 61.0
    assert found["dev.stsb"].mean == 71.0
    assert reproduced([run(1, 60.0, 70.0, step=6)])["dev.stsb"].mean == 69.0, "a guard kept another than the best"
    assert reproduced([run(1, 60.0, 40.0, kept="start", step=0)])["dev.stsb"].mean == 50.0
    assert reproduced([run(1, 60.0, 70.0, dev_stsb=81.0)])["dev.stsb"].mean == 81.0, "what a suite scored stands"
    for unknown in (run(1, 60.0, 70.0, kept="given", step=None), run(1, 60.0, 70.0, chosen_on="sample")):
        assert "dev.stsb" not in reproduced([unknown])
    assert "dev.stsb" not in reproduced([run(1, 60.0, 70.0, chosen_on="transfer:data", step=3)])
