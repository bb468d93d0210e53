"""A paper's row, and what is got."""

from __future__ import annotations

import pytest

from opencse.environment import Environment
from opencse.errors import UserError
from opencse.runs.record import Outcome
from opencse.studies.record import StudyRecord
from opencse.studies.reproduction import paper_row, reproduced


def test_a_backbone_row() -> None:
    row = paper_row("simcse:bert-base")
    assert row.start == row.paper_start == "google-bert/bert-base-uncased"
    assert row.expected["sts.average"] == 76.25
    assert list(row.seeds) == [42]
    told = "\n".join(row.lines("stsb/dev.tsv", 0))
    assert "Gao" in told
    assert "differs    in nothing known" in told


def test_an_ablation_is_with_bert_base() -> None:
    row = paper_row("simcse:crop-10")
    assert row.paper_start == "google-bert/bert-base-uncased"
    assert row.expected == {"dev.stsb": 77.8}


def test_the_thesis_names_its_seeds() -> None:
    assert list(paper_row("gaussian-sampling:bert-base").seeds) == [19984, 5838, 16822, 19294, 17173]


def test_departures_are_told() -> None:
    told = "\n".join(paper_row("simcse:bert-base", "my/bert").lines("sample", 2))
    assert "the start is my/bert, the paper's google-bert/bert-base-uncased" in told
    assert "2 settings changed by --set" in told
    assert "the built-in sample, not STS-B dev" in told
    by_transfer = paper_row("simcse:bert-base").lines("transfer:data", 0)
    assert "the transfer tasks, not STS-B dev" in "\n".join(by_transfer)


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
