"""Finds the files of documents in a folder, and the corpus of a folder in BEIR's layout."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from opencse.errors import UserError
from opencse.io import is_folder
from opencse.text.files.kinds import SECTIONED, SUFFIXES, KindName, how_to_convert, is_known, recognise
from opencse.text.files.lines import COMPRESSED, suffix_of

PROSE: tuple[KindName, ...] = (*sorted(SECTIONED), "text")
"""Kinds of files of a folder whose text is read as documents."""
_CORPUS = "corpus.jsonl"
_WORD = re.compile("[a-z]+")
_TRAINING = {"train", "training"}
_EVALUATION = {"test", "testing", "eval", "evaluation", "dev", "valid", "val", "validation"}


def files_in(folder: Path) -> list[Path]:
    """All files in a folder and its subfolders, sorted by name, without hidden ones."""
    visible = (
        path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    return sorted(path for path in visible if path.is_file())


def tables_in(folder: Path) -> list[Path]:
    """The files with columns in a folder (tables, JSON, Parquet, XML), sorted by name, without empty ones."""
    known = (file for file in files_in(folder) if is_known(suffix_of(file)) and not how_to_convert(suffix_of(file)))
    return [file for file in known if file.stat().st_size and recognise(file).name not in PROSE]


def are_splits(tables: Iterable[Path], folder: Path) -> bool:
    """Whether the tables of a folder are the splits of a data set: one is for training, another for evaluation.

    As `datasets` has it, a word of a file's name or of its folder's says so: ``train.csv``, ``my-test-00.parquet``,
    ``dev/a.jsonl``.
    """
    words = {word for file in tables for word in _WORD.findall(str(file.relative_to(folder)).casefold())}
    return bool(words & _TRAINING) and bool(words & _EVALUATION)


def find_corpus(location: str | Path) -> Path:
    """The path to read: the ``corpus.jsonl`` of a folder in BEIR's layout, else ``location`` itself.

    Raises:
        UserError: for an empty one, which would mean the current folder.
    """
    if not str(location).strip():
        raise UserError("no documents are named: the argument is empty; give a file or a folder")
    path = Path(location)
    if is_folder(path):
        for suffix in ("", *COMPRESSED):
            if (path / f"{_CORPUS}{suffix}").is_file():
                return path / f"{_CORPUS}{suffix}"
    return path


def holds_prose(location: str | Path) -> bool:
    """Whether ``location`` is a folder with text, Markdown or other prose, and not in BEIR's layout."""
    path = Path(location)
    if not is_folder(path) or find_corpus(path) != path:
        return False
    prose = {suffix for suffix, kind in SUFFIXES.items() if kind in PROSE}
    return any(suffix_of(file) in prose and file.stat().st_size for file in files_in(path))


def holds_documents(location: str | Path) -> bool:
    """Whether ``location`` is a folder in BEIR's layout, or a folder with files of prose."""
    return is_folder(location) and (find_corpus(location) != Path(location) or holds_prose(location))
