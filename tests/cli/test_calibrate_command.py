"""``opencse calibrate``, and what `opencse similarity` then says."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from opencse import SentenceEncoder
from opencse.text import sample

pytestmark = pytest.mark.slow


@pytest.fixture
def model(tiny_folder: Path, tmp_path: Path) -> Path:
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu").save(tmp_path / "model")
    return tmp_path / "model"


def test_a_cosine_gets_a_meaning(opencse: Run, model: Path, tmp_path: Path) -> None:
    plain = opencse("similarity", model, "The kettle is boiling.", "The kettle is boiling.", "Snow.")[1]
    assert "random pairs" not in plain
    code, stdout, stderr = opencse("calibrate", model, sample.TRAIN, "--pairs", sample.DEV, "--cut", "3.5")
    assert code == 0, stderr
    assert "random pairs   1 %:" in stdout
    assert "by best F1: precision" in stdout
    assert (model / "calibration.json").is_file()
    code, stdout, stderr = opencse("similarity", model, "The kettle is boiling.", "The kettle is boiling.", "Snow.")
    assert code == 0, stderr
    first, second = stdout.splitlines()
    assert "above 100.0 % of random pairs  similar  The kettle" in first
    assert "% of random pairs" in second


def test_a_calibration_of_another_model_is_refused(opencse: Run, model: Path, tmp_path: Path) -> None:
    assert opencse("calibrate", model, sample.TRAIN)[0] == 0
    other = SentenceEncoder.load(model, pooling="cls", device="cpu")
    other.save(model)
    code, _, stderr = opencse("similarity", model, "One.", "Two.")
    assert code == 2
    assert "calibrate again, or delete the file" in stderr


def test_mistakes(opencse: Run, model: Path, tmp_path: Path) -> None:
    code, _, stderr = opencse("calibrate", "opencse-mini", sample.TRAIN)
    assert code == 2
    assert "no such folder" in stderr
    code, _, stderr = opencse("calibrate", model, sample.TRAIN, "--pairs", sample.DEV)
    assert code == 2
    assert len([line for line in stderr.splitlines() if line.startswith("opencse:")]) == 1
