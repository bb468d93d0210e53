"""``opencse train``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_the_plan_of_a_dry_run(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The kettle boils.\nSnow fell on the hills.\nThe train is late.\nA dog barks.\n" * 3)
    code, stdout, err = opencse("train", text, "--out", tmp_path / "out", "--seed", 7, "--dev", "none", "--dry-run")
    assert code == 0, err
    assert "12 rows of 1 text" in stdout
    assert not (tmp_path / "out").exists()


def test_further_texts_with_objectives_of_their_own(opencse: Run, tmp_path: Path) -> None:
    text, graded = tmp_path / "text.txt", tmp_path / "graded=new.tsv"
    text.write_text("The kettle boils.\nSnow fell on the hills.\nThe train is late.\nA dog barks.\n" * 3)
    graded.write_text("4\tA cat.\tA kitten.\n0\tRain.\tA train.\n")
    common = ("train", text, "--out", tmp_path / "out", "--dev", "none", "--dry-run")
    code, stdout, err = opencse(*common, "--also", f"{graded}=cosent", "--also", text)
    assert code == 0, err
    lines = " ".join(stdout.split())
    assert "also graded=new: " in lines or "also graded: " in lines
    assert "objective pair + cosent" in lines
    assert "also text-2: " in lines
    code, _, err = opencse(*common, "--also", "nowhere.txt=")
    assert code == 2
    assert "FILE=RECIPE is expected" in err
    code, _, err = opencse(*common, "--also", f"{graded}=simcs")
    assert code == 2
    assert "did you mean 'simcse'" in err
