"""The folder of an index: which files belong to it; other files stay."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.building import BuildSettings
from opencse.search.database import current_database, require_own
from opencse.search.index import Index

TEXTS = ["one cat", "two dogs", "three trains", "four nights"]
HOW = BuildSettings(cut=False)
MINE = (
    "words-good.txt", "words-2024/a.txt", "vectors-a.f32", "rows-1.sqlite", "engine-1.faiss", "notes.md", "files.txt",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, mini: SentenceEncoder) -> Path:
    """An index with files and folders of somebody else in it, under the names of its own."""
    Index.build(tmp_path / "ix", TEXTS, mini, how=HOW).close()
    for name in MINE:
        (tmp_path / "ix" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "ix" / name).write_text("Mine.")
    return tmp_path / "ix"


def test_only_files_of_the_index_are_deleted(folder: Path, mini: SentenceEncoder) -> None:
    with Index.open(folder, encoder=mini) as index:
        index.search(["cat"], hybrid=True)
        index.add(["five cats"])
        index.search(["cat"], hybrid=True)
        index.delete(["0", "1", "2"])  # so many that the vectors are written anew
    Index.build(folder, TEXTS[:2], mini, how=HOW, overwrite=True).close()
    assert {(folder / name).read_text() for name in MINE} == {"Mine."}
    own = {path.name for path in folder.iterdir()} - {name.split("/")[0] for name in MINE}
    assert {".lock", "index.json"} < own
    assert len([name for name in own if name.startswith(("rows-", "vectors-"))]) == 2, "what was its own is gone"


@pytest.mark.parametrize("content", ["index.json", "building.json", "files.txt", "words-a", "manifest.json"])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / content).write_text('{"name": "a web site"}')
    with pytest.raises(UserError, match="is not empty"):
        require_own(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [content]


def test_no_change_of_an_index_writes_into_what_readers_have_mapped(tmp_path: Path, mini: SentenceEncoder) -> None:
    folder, links = tmp_path / "ix", tmp_path / "links"
    links.mkdir()

    def changed(change: Callable[[], object]) -> None:
        before = {path.name: path.read_bytes() for path in folder.glob("*.f32")}
        for name in before:
            (links / name).unlink(missing_ok=True)
            os.link(folder / name, links / name)
        change()
        assert before
        for name, content in before.items():
            assert (links / name).read_bytes().startswith(content), "rows are only appended"

    Index.build(folder, TEXTS, mini, how=HOW).close()
    with Index.open(folder, encoder=mini) as index:
        changed(lambda: index.add(["five cats"]))
        changed(lambda: index.delete(["0", "1", "2"]))  # the vectors are written to a new file
        changed(lambda: index.add(["six cats"]))
    changed(lambda: Index.build(folder, TEXTS[:2], mini, how=HOW, overwrite=True).close())


def test_an_index_of_another_format_says_how_to_rebuild_it(tmp_path: Path) -> None:
    folder = tmp_path / "my index"
    folder.mkdir()
    (folder / "index.json").write_text(json.dumps({"format": 0, "rows": "rows.sqlite"}))
    with pytest.raises(UserError, match=r"format 0.*rebuild it with: opencse index build '.*my index' MODEL TEXT"):
        current_database(folder)
