"""`doctor` finds what is missing, too old, full or crowded."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from opencse.api import diagnosis
from opencse.api.diagnosis import Diagnosis, lacking, requirements
from opencse.environment import Environment

Usage = namedtuple("Usage", ["total", "used", "free"])


def test_what_the_package_needs_is_read_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["numpy>=2", 'faiss-cpu>=1; extra == "serve"', "pytest>=9; extra == 'dev'"]
    monkeypatch.setattr(diagnosis, "requires", lambda name: told)
    assert requirements() == (["numpy>=2"], {"serve": ["faiss-cpu>=1"]})


def test_missing_and_old_packages_are_named_with_their_mend() -> None:
    assert lacking(["numpy>=2", "torch"]) == []
    assert lacking(["no-such-package>=1"]) == ["no-such-package is not installed; pip install 'no-such-package>=1'"]
    (old,) = lacking(["numpy>=999"])
    assert ">=999 is needed; pip install 'numpy>=999'" in old


def test_a_full_disk_and_too_many_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, 5e9))
    assert diagnosis._room() == []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, 1e9))
    assert [line.split(" (")[0] for line in diagnosis._room()] == [
        "the current folder has 1.0 GB left",
        "the token cache has 1.0 GB left",
    ]
    assert diagnosis._threads(1) == []
    (crowded,) = diagnosis._threads(100_000)
    assert "100000 threads" in crowded
    assert "OMP_NUM_THREADS" in crowded


def test_folders_that_are_not_there_are_troubles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def gone() -> Path:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "cwd", gone)
    monkeypatch.setattr(diagnosis, "cache_root", gone)
    assert [line.split(" (")[0] for line in diagnosis._room()] == [
        "the current folder cannot be used",
        "the token cache cannot be used",
    ]


def test_troubles_come_last() -> None:
    made = Diagnosis(
        Environment.here(), 2, "float32", "here", 1.0, 1000.0, 448,
        extras={"serve": ["faiss-cpu is not installed"], "export": []}, troubles=["no room"],
    )  # fmt: skip
    assert made.lines()[-1] == "trouble: no room"
    assert any(line.endswith("serve (not installed), export") for line in made.lines())
