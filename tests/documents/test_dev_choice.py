"""What ``--dev`` names becomes a selector."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse import UserError
from opencse.documents.dev_choice import Dev
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.questions import Questions
from opencse.training.selection import GradedPairSelector


def test_a_small_text_allows_no_questions(tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("".join(f"Sentence number {n} of a small text says little.\n" for n in range(90)))
    assert isinstance(Dev.of("auto").open(Source(str(few))), GradedPairSelector)
    with pytest.raises(UserError, match=r"few.txt: too small to hold a share out.*--dev"):
        Dev.of("text").open(Source(str(few)))


def test_what_dev_says(tmp_path: Path) -> None:
    text = Source(str(sample.TRAIN))
    assert Dev.of(None).open(text) is None
    assert Dev.of("none").open(text) is None
    chosen = Dev.of("auto", "mrr@5").open(text)
    assert isinstance(chosen, Questions)
    assert chosen.measure == "MRR@5 x 100"
    assert chosen.left_out is not None
    assert chosen.guard is not None
    graded = Dev.of(sample.DEV).open(text)
    assert isinstance(graded, GradedPairSelector)
    assert graded.left_out is None
    with pytest.raises(UserError, match="needs questions"):
        Dev.of("sample", "ndcg@10").open(text)


def test_missing_dev_data_is_refused_before_the_text_is_read(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("no JSON\n")
    for dev, message in (
        ("nosuch.tsv", "nosuch.tsv: no such file or folder; check its name and folder"),
        ("transfer:nosuch", "nosuch: no such folder; give a folder that holds mr, cr"),
    ):
        for command in (opencse.adapt, opencse.train):
            with pytest.raises(UserError, match=message):
                command(str(damaged), tmp_path / "out", dev=dev)
