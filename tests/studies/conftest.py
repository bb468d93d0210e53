"""A small comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.studies.study import Study, SuiteChoice
from opencse.text.readers import Source

QUICK = ("training.max_steps=3", "training.batch_size=8", "training.evaluate_every=2", "training.learning_rate=1e-3")


@pytest.fixture
def text(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(sentences[:40]) + "\n")
    return path


@pytest.fixture
def study(small_sts: Path, text: Path, tiny_folder: Path, tmp_path: Path) -> Study:
    return Study(
        text=Source(str(text)),
        out=tmp_path / "study",
        recipes=["simcse", "esimcse-repetition"],
        starts=[str(tiny_folder)],
        seeds=[1, 2],
        suites=[SuiteChoice("sts", small_sts)],
        settings=(*QUICK, "encoder.pooling=mean"),
        judge="kept",
    )
