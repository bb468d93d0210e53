"""Folders that commands write, and models, are recognised, and are neither read as text nor taken for each other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helpers import Run
from opencse.errors import UserError
from opencse.folder_kinds import kind_of_folder
from opencse.model_folder.locate import builtin_folder, locate
from opencse.search.database import current_database
from opencse.text.documents import Collection
from opencse.text.folders import ReadingNotes, files_in

TEXT = "The kettle boils in the morning.\n\nThe late train leaves at ten.\n"


@pytest.fixture
def folders(opencse: Run, tmp_path: Path) -> dict[str, Path]:
    """A folder of each kind, as commands write them, by kind."""
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    vectors, index, run = tmp_path / "vectors", tmp_path / "index", tmp_path / "run"
    assert opencse("index", "build", index, "opencse-mini", text)[0] == 0
    lines = tmp_path / "lines.txt"
    lines.write_text(TEXT.replace("\n\n", "\n"))
    assert opencse("encode", "opencse-mini", lines, "--out", vectors)[0] == 0
    settings = ("-s", "training.max_steps=1", "-s", "training.batch_size=2")
    assert opencse("train", lines, "--recipe", "simcse", "--dev", "none", "--out", run, *settings)[0] == 0
    return {
        "an index": index,
        "a folder of vectors": vectors,
        "a run of training": run,
        "a model": shutil.copytree(builtin_folder(), tmp_path / "model"),
    }


def test_folders_are_recognised_and_refused_as_what_they_are_not(folders: dict[str, Path], tmp_path: Path) -> None:
    assert {kind_of_folder(folder) for folder in folders.values()} == set(folders)
    assert kind_of_folder(tmp_path) is None
    for kind, folder in folders.items():
        with pytest.raises(UserError, match=f"is {kind}, not text"):
            list(Collection(str(folder)).documents())
        if kind in ("an index", "a folder of vectors"):
            with pytest.raises(UserError, match=f"is {kind}, not a model"):
                locate(folder)
        if kind != "an index":
            with pytest.raises(UserError, match=f"is {kind}, not an index"):
                current_database(folder)


def test_documents_of_a_folder_leave_out_models_and_indexes_in_it(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "lines.txt").unlink()
    notes = ReadingNotes()
    assert [document.sentences[0] for document in Collection(str(tmp_path)).documents(notes)] == [
        "The kettle boils in the morning."
    ]
    assert {f"left out   1 folder that is {kind} ({folder.name})" for kind, folder in folders.items()} <= {
        *notes.lines()
    }


@pytest.mark.parametrize("name", ["index.json", "config.json", "run.json"])
def test_documents_that_are_called_like_parts_of_such_folders_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('[{"title": "Kettles", "text": "They boil."}]')
    assert kind_of_folder(tmp_path) is None
    assert files_in(tmp_path).files == [tmp_path / name]
