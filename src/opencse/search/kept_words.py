"""The words of an index, kept in its folder so that they are counted once for each of its versions.

``words-DATABASE-VERSION-COUNTING-LANGUAGE`` is a folder that bm25s wrote, made by the first hybrid search of that
version and put in its place whole. Its name says what it is of: a change of the index, another way to tell words apart,
another language or version of its stems make another name, so that nothing old is ever read, and the next writer
removes it. One that is damaged, or of another number of rows, is made again.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from opencse.io import sync
from opencse.search.checksums import file_sum
from opencse.search.folder import listed, note
from opencse.search.keywords import Keywords
from opencse.text.stems import rules_version

_PREFIX = "words-"
_SIZES = "sizes.json"
_COUNTING = 4
"""Of the way words are told apart (`opencse.text.scripts.search_words`); another way makes other folders."""


def place_of(rows: str, version: int, language: str | None) -> str:
    """The name of the folder for version ``version`` of the database ``rows``, with stems of ``language``."""
    stems = "words" if language is None else f"{language}_{rules_version().replace('.', '_')}"
    return f"words-{rows.removeprefix('rows-').removesuffix('.sqlite')}-{version}-{_COUNTING}-{stems}"


def keywords_of(
    folder: Path, name: str, count: int, texts: Callable[[], Sequence[str]], language: str | None = None
) -> Keywords:
    """The words of an index: read where they are kept, else counted, and kept where the folder can be written.

    Args:
        folder: of the index.
        name: see `place_of`.
        count: of its living rows.
        texts: reads them, in their order.
        language: of their stems; None: words as they are.
    """
    with suppress(ValueError, OSError, LookupError, TypeError):
        if words_are_sound(folder / name):
            found = Keywords.read(folder / name, language)
            if found.size == count:
                return found
    made = Keywords.of(texts(), language)
    if not made.empty and os.access(folder, os.W_OK):
        _keep(made, folder, name)
    return made


def words_are_sound(folder: Path) -> bool:
    """Whether the files of kept words are as they were written."""
    try:
        return bool(json.loads((folder / _SIZES).read_text(encoding="utf-8")) == _sizes(folder))
    except (ValueError, OSError):
        return False


def _keep(made: Keywords, folder: Path, name: str) -> None:
    """Puts them in their place, whole or, where the disk is full, not at all."""
    unfinished = folder / f"words-{uuid.uuid4().hex[:12]}.tmp"
    with suppress(OSError):
        note(folder, unfinished.name, name)
        made.save(unfinished)
        (unfinished / _SIZES).write_text(json.dumps(_sizes(unfinished)), encoding="utf-8")
        for path in unfinished.iterdir():
            sync(path)
        for other in listed(folder):
            if other.startswith(_PREFIX) and other not in (unfinished.name, name):
                shutil.rmtree(folder / other, ignore_errors=True)
        shutil.rmtree(folder / name, ignore_errors=True)
        unfinished.rename(folder / name)
    shutil.rmtree(unfinished, ignore_errors=True)


def _sizes(folder: Path) -> dict[str, list[int]]:
    """Size and checksum of each file."""
    files = [path for path in sorted(folder.iterdir()) if path.name != _SIZES]
    return {path.name: [path.stat().st_size, file_sum(path)] for path in files}
