"""Notes on how documents were read: kinds of files, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from opencse.errors import MissingColumnError, shortened
from opencse.numerals import number_of
from opencse.text.files.kinds import how_to_convert
from opencse.text.files.paragraphs import Section, without_lines

_EMPTY = ("document", "without a title and a text")
_NO_TEXT = ("file", "with nothing but tags, code or blank lines")
_COPY = ("message", "read before (the same Message-ID and text)")
_MOST_KINDS = 8


@dataclass
class ReadingNotes:
    """Notes on how documents were read, for messages: kinds of files, and what was left out.

    Example:
        >>> notes = ReadingNotes()
        >>> for suffix in (".svg", ".py", ".svg"):
        ...     notes.leave_out_kind(suffix)
        >>> notes.lines()
        ['left out   3 files of kinds that are not read (2 .svg, 1 .py)']

    Attributes:
        taken_for: what each kind of file was recognised as, with the fields that were read, and the number of files.
        left_out: what was left out (``document``, ``empty file``) and why, and how many.
        unread_kinds: by suffix, the number of files of a kind that is not read.
        without_fields: of each file without the fields that are read, what it has instead.
        only_titles: documents with a title and no text.
    """

    taken_for: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    unread_kinds: Counter[str] = field(default_factory=Counter)
    without_fields: list[str] = field(default_factory=list)
    only_titles: int = 0
    _messages: set[int] = field(default_factory=set)

    def leave_out_empty(self) -> None:
        """Counts a document without a title and a text."""
        self.left_out[_EMPTY] += 1

    def leave_out_folder(self, name: str, kind: str) -> None:
        """Counts a folder in the folder that holds no text, such as a model."""
        self.left_out["folder", f"that is {kind} ({name})"] += 1

    def leave_out_unreachable(self, folder: Path, unreachable: Mapping[tuple[str, str], Sequence[Path]]) -> None:
        """Counts what cannot be read in ``folder`` by what it is and why; the first of each is named."""
        for (noun, why), paths in unreachable.items():
            first = f"{'the first: ' if len(paths) > 1 else ''}{paths[0].relative_to(folder).as_posix()}"
            self.left_out[noun, f"{why} ({first})"] += len(paths)

    def leave_out_file_without_text(self) -> None:
        """Counts a file of prose in which nothing is text, such as a page that a script fills in a browser."""
        self.left_out[_NO_TEXT] += 1

    def is_copy(self, message: object) -> bool:
        """Whether an equal message was read before; counts it then."""
        if is_copy := hash(message) in self._messages:
            self.left_out[_COPY] += 1
        self._messages.add(hash(message))
        return is_copy

    def without_repeated(self, page: Iterable[Section], lines: Set[str]) -> list[Section]:
        """The sections of a page without lines that most pages have, which are counted; see `without_lines`."""
        page = list(page)
        left = without_lines(page, lines)
        before, after = (sum(len(section.paragraphs) for section in part) for part in (page, left))
        if before > after:
            example = shortened(repr(min(lines)))
            self.left_out["line", f"that most pages have, such as {example} (--keep-repeated keeps them)"] += (
                before - after
            )
        if len(page) > len(left):
            self.left_out["part", "of a page with nothing but such lines"] += len(page) - len(left)
        return left

    def leave_out_kind(self, suffix: str) -> None:
        """Counts a file of a kind that is not read."""
        self.unread_kinds[suffix] += 1

    def leave_out_file(self, error: MissingColumnError) -> None:
        """Counts a file that lacks the fields to read; ``error`` names those that it has."""
        self.without_fields.append(str(error))

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
        left_out = [f"{number_of(n, noun)} {why}".rstrip() for (noun, why), n in self.left_out.items()]
        left_out += self._unread()
        if self.without_fields:
            first = f"{'the first: ' if len(self.without_fields) > 1 else ''}{self.without_fields[0]}"
            left_out.append(f"{number_of(len(self.without_fields), 'file')} without such fields ({first})")
        return left_out

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
