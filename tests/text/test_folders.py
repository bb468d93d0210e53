from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.folders import files_in, find_corpus, holds_documents, holds_prose


def test_files_of_a_folder_by_name_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.md", "a/c.txt", ".hidden/d.txt", "a/.e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in files_in(tmp_path).files] == ["a/c.txt", "b.md"]


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.jsonl.gz"])
def test_the_corpus_of_a_folder_in_beirs_layout(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.md").write_text("# Notes")
    assert find_corpus(tmp_path) == tmp_path
    assert holds_prose(tmp_path)
    (tmp_path / name).touch()
    assert find_corpus(tmp_path) == tmp_path / name
    assert not holds_prose(tmp_path)
    assert holds_documents(tmp_path)


def test_a_folder_of_tables_or_empty_files_holds_no_documents(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.md").touch()
    assert not holds_documents(tmp_path)
    assert not holds_documents(tmp_path / "a.csv")


def test_an_empty_location_is_refused() -> None:
    with pytest.raises(UserError, match="the argument is empty"):
        find_corpus(" ")
