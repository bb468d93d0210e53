from __future__ import annotations

from pathlib import Path

import pytest

from opencse.text.files.kinds import SECTIONED, FileKind, KindName, recognise
from opencse.text.files.sections import read_sections

CONTENT: dict[str, str] = {
    "a.txt": "Close it slowly.\n",
    "a.md": "# Valves\n\nClose it slowly.\n",
    "a.rst": "Valves\n======\n\nClose it slowly.\n",
    "a.html": "<html><body><h1>Valves</h1><p>Close it slowly.</p></body></html>",
    "a.eml": "Subject: Valves\nFrom: a@b.c\n\nClose it slowly.\n",
    "a.mbox": "From a@b.c Mon Jan  5 2026\nSubject: Valves\n\nClose it slowly.\n",
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\nClose it slowly.\n",
}


@pytest.mark.parametrize("name", CONTENT)
def test_every_kind_of_prose_has_its_reader(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(CONTENT[name])
    (section,) = read_sections(path, recognise(path))
    assert section.paragraphs == ("Close it slowly.",)
    assert section.title == ("" if name in ("a.txt", "a.srt") else "Valves")
    assert section.name.startswith("a.")


@pytest.mark.parametrize("kind", ["table", "jsonl", "json", "parquet", "xml"])
def test_kinds_with_rows_have_no_sections(tmp_path: Path, kind: KindName) -> None:
    assert kind not in SECTIONED
    with pytest.raises(ValueError, match="files have no sections"):
        next(read_sections(tmp_path / "a", FileKind(kind)))
