"""Documents of a corpus in files or in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.corpus_documents import documents_of


def test_of_a_file_what_was_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"headline": "Kettles", "body": "Fill it. Switch it on."}\n')
    lines: list[str] = []
    documents, source = documents_of(path, ["headline", "body"], say=lines.append)
    assert [(one.title, one.sentences) for one in documents] == [("Kettles", ("Fill it.", "Switch it on."))]
    assert source == str(path)
    assert any(line.startswith("read as") for line in lines)


def test_options_of_files_are_refused_for_a_list() -> None:
    with pytest.raises(UserError, match=r"fields, keep_code, quoted, \.\.\. apply to files"):
        documents_of(["A text."], ["title"], say=print)
