"""The cache of vectors next to a corpus: only in a new folder, or in its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.search.corpus_cache import cache_folder
from opencse.text.readers import Source


@pytest.mark.parametrize(
    ("there", "own"),
    [
        ((), True),
        (("corpus.txt.index/0123456789abcdef/index.json",), True),
        (("corpus.txt.index/notes.md",), False),
        (("corpus.txt.index/mine/index.json",), False),
        (("corpus.txt.index/0123456789abcdef/index.json", "corpus.txt.index/notes.md"), False),
        (("corpus.txt.index",), False),
    ],
)
def test_a_folder_with_other_files_is_not_used(tmp_path: Path, there: tuple[str, ...], own: bool) -> None:
    text = tmp_path / "corpus.txt"
    text.write_text("One.")
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert cache_folder(Source(str(text))) == (tmp_path / "corpus.txt.index" if own else None)
