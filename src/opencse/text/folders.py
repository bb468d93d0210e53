"""Finds the files in a folder, and the corpus of one in BEIR's layout; notes what was read and left out."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from opencse.errors import UserError, explaining, shortened
from opencse.files import is_folder
from opencse.folder_kinds import folders_without_text
from opencse.numerals import number_of
from opencse.text.files.kinds import SECTIONED, SUFFIXES, KindName, how_to_convert
from opencse.text.files.lines import COMPRESSED, suffix_of
from opencse.text.files.prose import Section, without_lines

PROSE: tuple[KindName, ...] = (*sorted(SECTIONED), "text")
"""Kinds of files of a folder whose text is read as documents."""
_CORPUS = "corpus.jsonl"
_WORD = re.compile("[a-z]+")
_TRAINING = {"train", "training"}
_EVALUATION = {"test", "testing", "eval", "evaluation", "dev", "valid", "val", "validation"}
_MOST_KINDS = 8


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
    with explaining(
        f"{folder}: cannot be searched", OSError, fix="give a folder of documents"
    ):  # a file system such as /proc
        found = list(folder.rglob("*"))
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
        return ("link", "to a file that does not exist") if path.is_symlink() else ("file", "such as a pipe or device")
    if path.is_symlink():
        return "link", "to a folder; links to folders are not followed"
    return None if os.access(path, os.R_OK | os.X_OK) else ("folder", "that may not be read")


def tables_in(folder: Path) -> list[Path]:
    """The files with columns in a folder (tables, JSON, Parquet, XML), sorted by name, without empty ones."""
    kinds = {file: SUFFIXES.get(suffix_of(file)) for file in files_in(folder).files}
    return [file for file, kind in kinds.items() if kind and kind not in PROSE and file.stat().st_size]


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


def holds_documents(location: str | Path) -> bool:
    """Whether ``location`` is a folder in BEIR's layout, or a folder with files of prose."""
    path = Path(location)
    if not is_folder(path) or find_corpus(path) != path:
        return is_folder(path)
    prose = {suffix for suffix, kind in SUFFIXES.items() if kind in PROSE}
    return any(suffix_of(file) in prose and file.stat().st_size for file in files_in(path).files)


@dataclass
class ReadingNotes:
    """Notes on how documents were read, for messages: kinds of files, and what was left out.

    Example:
        >>> notes = ReadingNotes()
        >>> for suffix in (".svg", ".py", ".svg"):
        ...     notes.unread_kinds[suffix] += 1
        >>> notes.lines()
        ['left out   3 files of kinds that are not read (2 .svg, 1 .py)']

    Attributes:
        taken_for: what each kind of file was read as, with the fields that were read, and the number of files.
        left_out: what was left out (``document``, ``empty file``) and why, and how many.
        examples: of what was left out, the first that has a name.
        unread_kinds: by suffix, the number of files of a kind that is not read.
        only_titles: documents with a title and no text.
    """

    taken_for: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    unread_kinds: Counter[str] = field(default_factory=Counter)
    only_titles: int = 0
    _messages: set[int] = field(default_factory=set)

    def leave_out(self, noun: str, why: str, example: str = "", count: int = 1) -> None:
        """Counts what is left out."""
        if count:
            self.left_out[noun, why] += count
            self.examples.setdefault((noun, why), example)

    def leave_out_unreachable(self, folder: Path, unreachable: Mapping[tuple[str, str], Sequence[Path]]) -> None:
        """Counts what cannot be read in ``folder`` by what it is and why; the first of each is named."""
        for (noun, why), paths in unreachable.items():
            self.leave_out(noun, why, paths[0].relative_to(folder).as_posix(), len(paths))

    def add(self, other: ReadingNotes) -> None:
        """Adds what others noted of the same files."""
        self.left_out += other.left_out
        self.unread_kinds += other.unread_kinds
        self.examples = other.examples | self.examples

    def is_copy(self, message: object) -> bool:
        """Whether an equal message was read before; counts it then."""
        is_copy = hash(message) in self._messages
        self.leave_out("message", "read before (the same Message-ID and text)", count=is_copy)
        self._messages.add(hash(message))
        return is_copy

    def without_repeated(self, page: Iterable[Section], lines: Set[str]) -> list[Section]:
        """The sections of a page without lines that most pages have, which are counted; see `without_lines`."""
        page = list(page)
        left = without_lines(page, lines)
        before, after = (sum(len(section.paragraphs) for section in part) for part in (page, left))
        example = f"that most pages have, such as {shortened(repr(min(lines)))} (--keep-repeated keeps them)"
        self.leave_out("line", example, count=before - after)
        self.leave_out("part", "of a page with nothing but such lines", count=len(page) - len(left))
        return left

    def lines(self) -> list[str]:
        """One line per note; files that were left out for the same reason share a line."""
        lines = [
            f"read as    {description}" + (f" ({number_of(files, 'file')})" if files > 1 else "")
            for description, files in self.taken_for.items()
        ]
        if self.only_titles:
            documents = number_of(self.only_titles, "document has", "documents have")
            lines.append(f"titles     {documents} a title and no text: the title is their text")
        return lines + [f"left out   {line}" for line in self._left_out()]

    def nothing_message(self, where: str) -> str:
        """The message of the error for ``where`` if no document in it has any text, with what was left out."""
        return f"{where}: no document with any text in it{self.left_out_message() or '; give at least one text'}"

    def left_out_message(self) -> str:
        """The end of a message with all that was left out; empty where nothing was."""
        left_out = "; ".join(self._left_out())
        return f"; left out: {left_out}" if left_out else ""

    def _left_out(self) -> list[str]:
        lines = []
        for (noun, why), count in self.left_out.items():
            example = self.examples[noun, why]
            first = f" ({'the first: ' if count > 1 else ''}{example})" if example else ""
            lines.append(f"{number_of(count, noun)} {why}".rstrip() + first)
        return lines + self._unread()

    def _unread(self) -> list[str]:
        """Files of kinds that are not read: a line for each kind with advice, one for all others together."""
        lines, others = [], Counter[str]()
        for suffix, files in self.unread_kinds.items():
            if fix := how_to_convert(suffix):
                lines.append(f"{number_of(files, 'file')} of a kind that is not read ({suffix}; {fix})")
            else:
                others[suffix or "no suffix"] = files
        if len(others) == 1:
            [(suffix, files)] = others.items()
            lines.append(f"{number_of(files, 'file')} of a kind that is not read ({suffix})")
        elif others:
            listed = [f"{files:,} {suffix}" for suffix, files in others.most_common(_MOST_KINDS)]
            if more := others.total() - sum(files for _, files in others.most_common(_MOST_KINDS)):
                listed.append(f"{more:,} of other kinds")
            lines.append(f"{number_of(others.total(), 'file')} of kinds that are not read ({', '.join(listed)})")
        return lines
