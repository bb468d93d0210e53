"""The cache of vectors next to a corpus: only in a new folder, or in its own."""

from __future__ import annotations

from pathlib import Path

from opencse.search.corpus_cache import cache_folder
from opencse.text.readers import Source


def test_a_folder_with_other_files_is_not_used(tmp_path: Path) -> None:
    index = "corpus.txt.index/0123456789abcdef/index.json"
    for number, (there, own) in enumerate(
        (
            ((), True),
            ((index,), True),
            (("corpus.txt.index/mine/index.json",), False),
            ((index, "corpus.txt.index/n.md"), False),
        )
    ):
        for name in ("corpus.txt", *there):
            (tmp_path / str(number) / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / str(number) / name).write_text("x")
        found = cache_folder(Source(str(tmp_path / str(number) / "corpus.txt")))
        assert found == (tmp_path / str(number) / "corpus.txt.index" if own else None)
