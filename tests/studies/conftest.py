"""A small comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import write_lines
from opencse.studies.running import run_study
from opencse.studies.study import Study, StudyRecord, SuiteChoice
from opencse.text.readers import Source

QUICK = ("training.max_steps=3", "training.batch_size=8", "training.evaluate_every=2", "training.learning_rate=1e-3")


def small_study(folder: Path, small_sts: Path, start: Path, sentences: list[str]) -> Study:
    """Two recipes with two seeds each, in a new folder."""
    text = folder / "text.txt"
    write_lines(text, sentences[:40])
    return Study(
        text=Source(str(text)),
        out=folder / "study",
        recipes=["simcse", "esimcse-repetition"],
        starts=[str(start)],
        seeds=[1, 2],
        suites=[SuiteChoice("sts", small_sts)],
        settings=(*QUICK, "encoder.layers=1", "encoder.pooling=mean"),
        judge="kept",
    )


@pytest.fixture
def study(small_sts: Path, tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> Study:
    return small_study(tmp_path, small_sts, tiny_folder, sentences)


@pytest.fixture(scope="session")
def finished(
    small_sts: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory, sentences: list[str]
) -> tuple[Study, list[StudyRecord]]:
    """The same, once it has run; no test changes it."""
    study = small_study(tmp_path_factory.mktemp("finished"), small_sts, tiny_folder, sentences)
    return study, run_study(study)
