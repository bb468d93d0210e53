"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.io import WRITING, hash_file, hash_files, require_folder, write_json, write_text, writing


def test_the_new_content_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with writing(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
        assert unfinished.name.startswith(WRITING)
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with writing(path) as unfinished:
            unfinished.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_block_that_wrote_nothing_is_an_error_and_not_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), writing(tmp_path / "a.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_hashes_go_by_content_and_name_and_not_by_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    assert hash_file(one) == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    both = hash_files(tmp_path, [one, two])
    assert both == hash_files(tmp_path, [two, one])
    one.write_text("b")
    two.write_text("a")
    assert hash_files(tmp_path, [one, two]) != both


def test_json_is_written_whole_and_without_nan(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": [1, 2.5]})
    assert path.read_text(encoding="utf-8") == '{\n  "a": [\n    1,\n    2.5\n  ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, float("nan"))
    write_json(path, float("nan"), allow_nan=True)
    assert path.read_text(encoding="utf-8") == "NaN\n"


def test_a_path_that_is_no_folder_is_refused_by_what_it_is(tmp_path: Path) -> None:
    require_folder(tmp_path, "give a folder")
    with pytest.raises(UserError, match=r"a: no such folder; give a folder$"):
        require_folder(tmp_path / "a", "give a folder")
    write_text(tmp_path / "a", "text")
    with pytest.raises(UserError, match=r"a: is a file; give a folder$"):
        require_folder(tmp_path / "a", "give a folder")
