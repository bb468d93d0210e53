"""Finds the files of documents in a folder, and the corpus of a folder in BEIR's layout."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from opencse.errors import UserError, reason
from opencse.files import is_folder
from opencse.folder_kinds import folders_without_text
from opencse.text.files.kinds import SECTIONED, SUFFIXES, KindName, how_to_convert, is_known, recognise
from opencse.text.files.lines import COMPRESSED, suffix_of

PROSE: tuple[KindName, ...] = (*sorted(SECTIONED), "text")
"""Kinds of files of a folder whose text is read as documents."""
_CORPUS = "corpus.jsonl"
_WORD = re.compile("[a-z]+")
_TRAINING = {"train", "training"}
_EVALUATION = {"test", "testing", "eval", "evaluation", "dev", "valid", "val", "validation"}


class FolderFiles(NamedTuple):
    """The files of a folder and its subfolders.

    Attributes:
        files: sorted by name, without hidden ones and those of models, indexes and other folders without text.
        without_text: such folders in it, each with its kind.
        unreachable: what is neither read nor searched (broken links, links to folders, pipes, folders without
            permission), by what it is and why.
    """

    files: list[Path]
    without_text: dict[Path, str]
    unreachable: dict[tuple[str, str], list[Path]]


def files_in(folder: Path) -> FolderFiles:
    """Finds the files in a folder and its subfolders.

    Raises:
        UserError: where it cannot be searched, or is itself a model, an index or another folder that commands write.
    """
    try:
        found = list(folder.rglob("*"))
    except OSError as error:  # a file system such as /proc
        raise UserError(f"{folder}: cannot be searched ({reason(error)}); give a folder of documents") from None
    visible = [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    files = sorted(path for path in visible if os.path.isfile(path))  # noqa: PTH113 - False where a link leads nowhere
    unreachable: dict[tuple[str, str], list[Path]] = {}
    for path in sorted({*visible} - {*files}):
        if (fault := _fault(path)) is not None:
            unreachable.setdefault(fault, []).append(path)
    without_text = folders_without_text(files)
    if folder in without_text:
        raise UserError(f"{folder}: is {without_text[folder]}, not text; give a file or a folder of documents")
    if without_text:
        files = [file for file in files if without_text.keys().isdisjoint(file.parents)]
    outermost = {one: kind for one, kind in without_text.items() if without_text.keys().isdisjoint(one.parents)}
    return FolderFiles(files, outermost, unreachable)


def _fault(path: Path) -> tuple[str, str] | None:
    """What a path that is no file is, and why it is left out; None for a folder that is searched."""
    if not os.path.isdir(path):  # noqa: PTH112 - False where a link leads into a closed folder
        return ("link", "to a file that does not exist") if path.is_symlink() else ("file", "that is a pipe or device")
    if path.is_symlink():
        return "folder", "that is a link to a folder; links to folders are not followed"
    return None if os.access(path, os.R_OK | os.X_OK) else ("folder", "that may not be read")


def tables_in(folder: Path) -> list[Path]:
    """The files with columns in a folder (tables, JSON, Parquet, XML), sorted by name, without empty ones."""
    known = (
        file for file in files_in(folder).files if is_known(suffix_of(file)) and not how_to_convert(suffix_of(file))
    )
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
    return any(suffix_of(file) in prose and file.stat().st_size for file in files_in(path).files)


def holds_documents(location: str | Path) -> bool:
    """Whether ``location`` is a folder in BEIR's layout, or a folder with files of prose."""
    return is_folder(location) and (find_corpus(location) != Path(location) or holds_prose(location))
