"""Opens what a function takes as text: a file, a data set, documents, or texts in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection as AbstractCollection
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, repeat
from pathlib import Path
from typing import Unpack

from opencse.errors import UserError, names_listed
from opencse.files import is_folder
from opencse.numerals import number_of
from opencse.progress import Say
from opencse.text.documents import Collection, Document, id_after
from opencse.text.files.formats import RawRow, column_like, columns_there
from opencse.text.files.kinds import SECTIONED, HowRead
from opencse.text.files.lines import UTF_8, is_pipe, pipe_name
from opencse.text.folders import ReadingNotes, are_splits, files_in, holds_documents, tables_in
from opencse.text.labels import LabelKind, RowLabels, number_labels
from opencse.text.readers import ROLES, Source, TextRows
from opencse.text.scripts import is_unicode, split_sentences
from opencse.text.values import checked_texts, empty_column, is_missing, line_about_empty, rows_of

_PAIRS = (("anchor", "positive"), ("sentence1", "sentence2"), ("premise", "hypothesis"))
_TRIPLES = (("anchor", "positive", "negative"), ("query", "positive", "negative"))
_NAMES = {
    "score": ("score", "similarity", "label"),
    "class": ("label", "class", "gold_label"),
    "margin": ("margin", "label", "score"),
}
LIST_COLUMNS = ("query", "question", "text", "sentence", "anchor")
"""Columns of texts; the first that is there is read as a list."""


@dataclass(frozen=True)
class GivenTexts(TextRows):
    """Rows of texts in memory.

    Attributes:
        rows: M rows of C texts each, white space around them dropped; C is 1 (sentences), 2 (pairs) or 3 (triples).
        called: the name for messages; by default their number.
        documents: M document numbers of running text, else None.
        labels: M labels as they were given, else None.
        label: what the labels are; None as long as no recipe says so.
        scale: the largest possible score.
    """

    rows: tuple[tuple[str, ...], ...]
    called: str = ""
    documents: tuple[int, ...] | None = None
    labels: tuple[object, ...] | None = None
    label: LabelKind | None = None
    scale: float | None = None

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.called or f"{len(self.rows):,} given {('sentences', 'pairs', 'triples')[len(self.rows[0]) - 1]}"

    @property
    def location(self) -> str:
        """The name, which messages show in place of a path."""
        return self.name

    @property
    def is_running(self) -> bool:  # type: ignore[override]
        """Whether the rows are of documents."""
        return self.documents is not None

    def fingerprint(self) -> str:  # noqa: D102 - see TextRows
        digest = hashlib.sha256(b"given\n")
        for row in self.rows:
            digest.update(f"{row!r}\n".encode())
        if self.documents is not None:
            digest.update(f"{self.documents!r}\n".encode())
        if self.labels is not None:
            digest.update(f"{self.label} {self.scale} {self.labels!r}\n".encode())
        return digest.hexdigest()

    def examples(self) -> Iterator[tuple[RawRow, tuple[str, ...]]]:  # noqa: D102 - see TextRows
        for number, (document, texts) in enumerate(zip(self.documents or repeat(0), self.rows, strict=False), 1):
            yield RawRow(number, document, (), texts), texts

    def row_labels(self) -> RowLabels | None:  # noqa: D102 - see TextRows
        if self.labels is None or self.label is None:
            return None
        labels = ((f"text[{number}]", label) for number, label in enumerate(self.labels))
        return number_labels(labels, self.label, self.name, scale=self.scale)


@dataclass(frozen=True)
class DocumentTexts(TextRows):
    """The sentences of documents in their order.

    Attributes:
        collection: the documents.
    """

    collection: Collection
    is_running = True
    unit = "sentence"

    @property
    def name(self) -> str:
        """The name for messages."""
        location = self.collection.location
        return pipe_name(location) if is_pipe(location) else str(Path(location))

    @property
    def location(self) -> str:
        """The name, which messages show in place of a path."""
        return self.name

    def fingerprint(self) -> str:
        """A hash of the sentences and of which belong together."""
        digest = hashlib.sha256(b"documents\n")
        for document in self._read[0]:
            digest.update(f"{document.sentences!r}\n".encode())
        return digest.hexdigest()

    def examples(self) -> Iterator[tuple[RawRow, tuple[str, ...]]]:  # noqa: D102 - see TextRows
        number = 0
        for owner, document in enumerate(self._read[0]):
            for sentence in document.sentences:
                number += 1
                yield RawRow(number, owner, ("sentence",), (sentence,)), (sentence,)

    def id_of(self, record: RawRow) -> str:
        """The id of a sentence's document: its name, or its number, as in an index."""
        return self._ids[record.document]

    @property
    def notes(self) -> ReadingNotes:
        """What was read and what was left out."""
        return self._read[1]

    @cached_property
    def _ids(self) -> list[str]:
        names = [document.name for document in self._read[0]]
        numbers = count(max(map(id_after, names)))
        return [name or str(next(numbers)) for name in names]

    @cached_property
    def _read(self) -> tuple[list[Document], ReadingNotes]:
        notes = ReadingNotes()
        documents = list(self.collection.documents(notes))
        if not documents:
            raise UserError(notes.nothing_message(self.name))
        return documents, notes


@dataclass(frozen=True)
class LabelledTexts(TextRows):
    r"""A text whose rows have a label each, with the methods of a `Source`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = path.write_text("sentence1,sentence2,score\nA cat.,A kitten.,4\nRain.,A train.,0\n")
        >>> texts = LabelledTexts(Source(str(path)), "score")
        >>> texts.read().rows[0], texts.row_labels().values.tolist()
        (('A cat.', 'A kitten.'), [1.0, 0.0])

    Attributes:
        source: what is read; the last of its columns is the label, or columns are recognised.
        label: what the label is.
        scale: the largest possible score.
    """

    source: Source
    label: LabelKind
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.source.columns is not None and len(self.source.columns) < 2:
            raise UserError(
                f"{self.source.name}: the recipe learns from the {self.label} of each row, and --columns names one "
                f"column; name the texts, and the column of the {self.label} last"
            )

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.source.name

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return self.source.location

    def fingerprint(self) -> str:  # noqa: D102 - see TextRows
        how = [self.source.fingerprint(), self.label, self.scale, self.columns]
        return hashlib.sha256(repr(how).encode()).hexdigest()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the texts, then that of the label.

        Raises:
            UserError: if none are named and they cannot be recognised, naming those that are there.
        """
        if self.source.columns is not None:
            return self.source.columns
        first = self.source.files[0]
        present = first.present()
        for roles in _TRIPLES if self.label == "margin" else _PAIRS:
            texts = [column_like(name, present) for name in roles]
            label = next(filter(None, (column_like(name, present) for name in _NAMES[self.label])), None)
            if label is not None and all(texts):
                return (*(name for name in texts if name), label)
        if self.label == "score" and first.is_file and first.kind.name == "table" and _is_graded(present):
            return ("2", "3", "1")
        raise UserError(
            f"{self.name}: no columns for {self._rows} with a {self.label} (such as {', '.join(self._usual)}, "
            f"{_NAMES[self.label][0]}); {columns_there(present)}; name yours with --columns, that "
            f"of the {self.label} last (or by position, --columns 1,2,3, if the file has no header)"
        )

    @property
    def _rows(self) -> str:
        """What the texts of a row are called in messages."""
        return "triples" if self.label == "margin" else "pairs"

    @property
    def _usual(self) -> tuple[str, ...]:
        """The names of their columns in messages."""
        return _TRIPLES[0] if self.label == "margin" else _PAIRS[1]

    def examples(self) -> Iterator[tuple[RawRow, tuple[str, ...]]]:  # noqa: D102 - see TextRows
        empty = True
        for record in self._records():
            texts = record._replace(names=record.names[:-1], values=record.values[:-1])
            yield texts, checked_texts(texts, self.location, self.source.unit)
            empty = False
        if empty:
            raise UserError(f"{self.name}: no rows without an empty cell in it; give at least two")

    def row_labels(self) -> RowLabels:
        """The labels of all rows; see `number_labels`."""
        where = f"{self.location}, {self.source.unit}"
        labels = ((f"{where} {record.number}", record.values[-1]) for record in self._records())
        return number_labels(labels, self.label, self.name, scale=self.scale)

    @cached_property
    def left_out_rows(self) -> str:
        """A line about rows that are left out; see `Source.left_out_rows`."""
        return line_about_empty(self.source.records(self.columns), self.source.unit)

    def _records(self) -> Iterator[RawRow]:
        """The records without an empty cell, which may be that of the label."""
        return (record for record in self.source.records(self.columns) if empty_column(record) is None)


def graded_pairs(source: Source) -> LabelledTexts | None:
    """The pairs of a file and their scores, if its columns say that it holds such pairs; None for other files.

    A column called ``label`` may hold classes, so it is not enough.

    Raises:
        UserError: if the file cannot be read.
    """
    pairs = LabelledTexts(source, "score")
    try:
        if pairs.columns[-1].casefold() == "label":
            return None
        pairs.row_labels()
    except UserError:
        return None
    return pairs


def _is_graded(first_row: Sequence[str]) -> bool:
    """Whether the first row of a table is a score and two texts."""
    if len(first_row) != 3:
        return False
    try:
        float(first_row[0])
    except ValueError:
        return False
    return True


FileTexts = Source | DocumentTexts
"""Texts that are read from files, possibly several times."""
OpenedTexts = FileTexts | GivenTexts
TextSource = OpenedTexts | LabelledTexts
GivenRows = Sequence[str] | Sequence[tuple[str, ...]] | Sequence[tuple[str, str, float]]
Text = str | Path | Source | GivenRows
"""What functions take as text: a path or Hub id, a `Source`, or a list of texts, pairs or triples; pairs and a score or
class each for recipes that learn from them."""


def with_labels(text: TextSource, kind: LabelKind | None, *, scale: float | None = None) -> TextSource:
    """The same text with the last column of each row as its label, as the recipe needs it.

    Example:
        >>> wet, dry = ("Rain falls.", "It is wet.", "entailment"), ("Rain falls.", "It is dry.", "contradiction")
        >>> rows = open_texts([wet, dry])
        >>> labelled = with_labels(rows, "class")
        >>> labelled.read().rows[0], labelled.row_labels().classes
        (('Rain falls.', 'It is wet.'), ('contradiction', 'entailment'))

    Args:
        text: what was opened.
        kind: what the recipe learns from; None for a recipe without labels.
        scale: the largest possible score.

    Raises:
        UserError: if there are labels and the recipe does not read them, or the other way round.
    """
    if kind is None:
        if isinstance(text, GivenTexts) and text.labels is not None:
            raise UserError(
                "text: the rows end with a number, and the recipe learns from texts alone; choose one that learns from "
                "scores or classes (cosent, sbert), or leave the numbers out"
            )
        return text
    if isinstance(text, LabelledTexts):
        return text
    if isinstance(text, DocumentTexts):
        raise UserError(f"{text.name}: the recipe learns from the {kind} of each row, and documents have none")
    if isinstance(text, Source):
        return LabelledTexts(text, kind, scale)
    if text.labels is not None:
        return replace(text, label=kind, scale=scale)
    width = len(text.rows[0])
    if width < 2 or kind == "score":
        raise UserError(f"text: the recipe learns from the {kind} of each row; give it last: (text, text, {kind})")
    rows, labels = tuple(row[:-1] for row in text.rows), tuple(row[-1] for row in text.rows)
    return replace(text, rows=rows, labels=labels, label=kind)


def as_documents(text: TextSource) -> TextSource:
    """The same text with each record, or each text of a list, as a document of its sentences.

    Lines of a text file stay sentences, and rows of several texts rows.

    Example:
        >>> as_documents(open_texts(["It boils. Steam comes out.", "Snow fell."])).read().documents
        [0, 0, 1]
    """
    if isinstance(text, DocumentTexts | LabelledTexts) or len(next(iter(text.rows_with_documents()))[1]) > 1:
        return text
    if isinstance(text, GivenTexts):
        if text.documents is not None:
            return text
        parts = [split_sentences(row[0]) for row in text.rows]
        owners = tuple(number for number, sentences in enumerate(parts) for _ in sentences)
        return replace(text, rows=tuple((one,) for sentences in parts for one in sentences), documents=owners)
    if text.is_file and text.kind.name == "text":
        return text
    return DocumentTexts(
        Collection(text.location, text.columns, split=text.split or "train", keep_code=text.keep_code,
                   skip_lines=text.skip_lines)
    )  # fmt: skip


def open_texts(
    text: object,
    *,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    skip_lines: AbstractCollection[int] = (),
    fields: Sequence[str] | None = None,
    labels: bool = False,
    say: Say | None = None,
    **how: Unpack[HowRead],
) -> OpenedTexts:
    """Opens a text: a path or Hub id, a `Source`, or a list of texts, pairs or triples.

    Documents are read as running text, one sentence per row: those of a folder of text, Markdown and other files of
    prose, of a folder in BEIR's layout (its ``corpus.jsonl``), of one file of prose (Markdown, HTML, PDF, ...), and of
    any file whose ``fields`` are given. The rows of other files are the texts of their ``columns``, unchanged.

    Example:
        >>> pairs = open_texts([("A question?", "An answer."), ("Another?", "Yes.")])
        >>> pairs.name, pairs.read().width
        ('2 given pairs', 2)

    Args:
        text: the text, or where it is; a column of pandas is a list.
        columns: of a file or Hub data set: the texts of a row; see `Source`.
        split: of a Hub data set; ``train`` by default, also for a folder whose files are named as splits. Other folders
            have none: all their files are read.
        skip_lines: of a file; see `Source`.
        fields: names of the columns with a document's title and text, or with the text alone; see `Collection`.
        labels: whether rows of a list may end with a number, their label; see `with_labels`.
        say: called with the kind of file that was recognised, if it is not plain UTF-8 text.
        **how: see `opencse.text.files.kinds.Reading`.

    Raises:
        TypeError: for anything else, naming the argument and the row.
        UserError: for an empty list, rows of different widths, a text that is empty or not Unicode, or options for
            files with texts that are not read from a file.
    """
    if isinstance(columns, str):
        raise TypeError('columns is a list of names, such as ["anchor", "positive"], not a text')
    if isinstance(text, str | Path):
        return _open_location(str(text), columns, split, skip_lines, fields, say, how)
    if columns is not None or split is not None or skip_lines or fields is not None or any(how.values()):
        raise UserError(
            "columns, fields, split, skip_lines, keep_code, quoted, ... set how a file is read; leave them out with "
            "texts or a Source"
        )
    if isinstance(text, Source | DocumentTexts | GivenTexts):
        return text
    listed: Sequence[object] = rows_of(text, "text is a path, a Hub id, a Source or a list of texts")
    listed, numbers = _split_numbers(listed) if labels else (listed, None)
    rows = tuple(_row(row, f"text[{number}]") for number, row in enumerate(listed))
    if not rows:
        raise UserError("text: the list is empty; give at least two texts")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UserError(
                f"text[{number}] has {number_of(len(row), 'text')}, but text[0] has {len(rows[0])}; give all rows the "
                "same number"
            )
    return GivenTexts(rows, labels=numbers)


def _open_location(
    location: str,
    columns: Sequence[str] | None,
    split: str | None,
    skip_lines: AbstractCollection[int],
    fields: Sequence[str] | None,
    say: Say | None,
    how: HowRead,
) -> FileTexts:
    if fields is not None and columns is not None:
        raise UserError(
            "columns (--columns) name texts of a row, fields (--fields) title and text of a document; give one of them"
        )
    names = None if columns is None else tuple(columns)
    # without a split a folder is read file by file, as documents are; one without such files may be a data set
    tables = tables_in(Path(location)) if split is None and is_folder(location) else []
    of_splits = are_splits(tables, Path(location))
    by_file = bool(tables) and not of_splits
    source = Source(location, names, None if by_file else split or "train", frozenset(skip_lines), **how)
    exists = os.path.exists(location)  # noqa: PTH110 - Path's raises for names that are too long
    prose = columns is None and (holds_documents(location) or (exists and source.has_sections))
    documents = fields is not None or prose
    if documents:
        if skip_lines:
            raise UserError("skip_lines (--skip-lines) needs rows, not documents; name a column with --columns")
        field_names = None if fields is None else tuple(fields)
        texts = DocumentTexts(Collection(location, field_names, split=split or "train", **how))
        if say is not None:
            for line in texts.notes.lines():
                say(line)
        return texts
    if say is not None and by_file:
        for line in _read_of_folder(source):
            say(line)
    elif say is not None and of_splits:
        say("read as    the split train; --split names another, a pattern in quotes reads all files: 'FOLDER/*.csv'")
    elif say is not None and source.is_file and (kind := source.kind).encoding not in ("", UTF_8):
        say(f"read as    {kind}")
    return source


def _read_of_folder(source: Source) -> list[str]:
    """Lines about the files of a folder whose rows are read, and those that are left out."""
    left_out, folder, notes = source.left_out(source.columns), Path(source.location), ReadingNotes()
    for why, error in left_out:
        notes.leave_out("file", why, error)
    notes.leave_out_unreachable(folder, files_in(folder).unreachable)
    read = len(source.files) - len(left_out)
    return [f"read as    the rows of {number_of(read, 'file')}, one after the other", *notes.lines()]


def _split_numbers(rows: Sequence[object]) -> tuple[Sequence[object], tuple[object, ...] | None]:
    """Takes the last value off rows that all end with a number: their labels."""
    ends = [row[-1] if isinstance(row, tuple | list) and len(row) > 1 else None for row in rows]
    if not ends or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        return rows, None
    return [row[:-1] for row in rows if isinstance(row, tuple | list)], tuple(ends)


def _row(row: object, where: str) -> tuple[str, ...]:
    values = (row,) if isinstance(row, str) or is_missing(row) else row
    if isinstance(values, tuple | list) and any(map(is_missing, values)):
        raise UserError(f"{where} is empty; fill it or drop it (fillna or dropna of pandas)")
    if not isinstance(values, tuple | list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{where} is a text, or a tuple of two or three, not {type(row).__name__} {str(row)[:40]!r}")
    if not 1 <= len(values) <= len(ROLES):
        raise UserError(
            f"{where} has {number_of(len(values), 'text')}; give one (a sentence), two (a pair) or three (a triple)"
        )
    texts = tuple(value.strip() for value in values)
    for text in texts:
        if not text:
            raise UserError(f"{where} is empty; fill it or drop it")
        if not is_unicode(text):
            raise UserError(f"{where} holds half of a surrogate pair, which is not text")
    return texts


def texts_of(source: TextSource) -> list[str]:
    """Every text of every row, in their order."""
    return [text for row in source.read().rows for text in row]


def some_texts(source: TextSource) -> list[str]:
    """The texts of every row, in their order; of over two million rows, at least half as many, evenly spaced."""
    rows: list[tuple[str, ...]] = []
    every = 1
    for number, (_, row) in enumerate(source.rows_with_documents()):
        if number % every == 0:
            rows.append(row)
            if len(rows) > 2_000_000:
                rows = rows[::2]
                every *= 2
    return [text for row in rows for text in row]


def read_list(location: str) -> list[str]:
    r"""The texts of a list: lines of a text file, or the column of a table, JSON or Parquet that `LIST_COLUMNS` names.

    Commands that read a list have options about columns for another file or none at all, so a list needs none.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "queries.tsv"
        >>> _ = path.write_text("id\tQuery\n7\thow to boil water\n9\tlate trains\n")
        >>> read_list(str(path))
        ['how to boil water', 'late trains']

    Args:
        location: a file, or ``-`` for standard input.

    Raises:
        UserError: for a table without such a column, or any fault in the file.
    """
    source = Source(location)
    if source.is_file and source.kind.name not in (*SECTIONED, "text"):
        present = source.present()
        column = next((match for name in LIST_COLUMNS if (match := column_like(name, present))), None)
        if column is None:
            raise UserError(
                f"{source.name}: a table with the columns {names_listed(present)}, none of which is called "
                f"{', '.join(LIST_COLUMNS[:-1])} or {LIST_COLUMNS[-1]}; give the column of the texts such a name (in a "
                "first line, if the file has none), or give a file with one text per line"
            )
        source = Source(location, (column,))
        for record in source.records((column,)):
            checked_texts(record, source.name, source.unit)  # an empty one is refused: answers are in the order of rows
    return [row[0] for row in source.read().rows]


def say_left_out_rows(source: TextSource, say: Say | None) -> None:
    """Calls ``say`` with a line about the rows that are left out, if there are any; it reads all rows.

    Example:
        >>> say_left_out_rows(open_texts(["One.", "Two."]), print)
    """
    if say is not None and (line := source.left_out_rows):
        say(line)
