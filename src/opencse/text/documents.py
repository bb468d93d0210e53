"""Reads documents, with or without titles, from files of any kind, folders of files, or memory."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Unpack

from opencse.errors import MissingColumnError, UserError
from opencse.files import is_folder
from opencse.progress import Say
from opencse.text.fields import TEXT, TITLE, choose_fields, column_exists, require_columns, suggest_fields
from opencse.text.files.formats import ABSENT, OBJECTS
from opencse.text.files.kinds import SECTIONED, HowRead, KindName, Reading, kind_named
from opencse.text.files.lines import suffix_of
from opencse.text.files.prose import Section, UniqueNames, repeated_lines
from opencse.text.folders import PROSE, ReadingNotes, files_in, find_corpus
from opencse.text.readers import NOT_OF_FOLDERS, Source
from opencse.text.scripts import normalised, split_sentences
from opencse.text.values import is_missing, require_text

_UNTYPED: tuple[KindName, ...] = ("table", "xml")
_OBJECTS: tuple[KindName, ...] = ("json", *OBJECTS)
_EMPTY = ("document", "without a title and a text")
_BROKEN = ("file", "that cannot be read to the end")
_PAGES = SECTIONED - {"mbox", "wikipedia"}
"""Kinds of which a file is one page or document."""

GivenDocument = str | tuple[str, str]
"""A document in memory: its text, or its title and its text."""


@dataclass(frozen=True)
class Document:
    """A document: its title and its sentences in reading order.

    Attributes:
        title: empty where there is none.
        sentences: in reading order; a sentence by itself is a document of one.
        name: its ``_id``, or the file and section it is from; empty if it has neither.
        only_title: it has a title and no text, so its title is its only sentence, and ``title`` is empty.
    """

    title: str
    sentences: tuple[str, ...]
    name: str = field(default="", compare=False)
    only_title: bool = field(default=False, compare=False)

    @property
    def body(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    @property
    def fingerprint(self) -> str:
        """A hash of the words of title and text: 16 hexadecimal digits."""
        return hashlib.blake2b(normalised(f"{self.title} {self.body}").encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class TitledText:
    """A document with its text as in the file, before it is split into sentences.

    Attributes:
        where: names the file and the line.
        title: empty where there is none.
        text: may be empty, if there is a title.
        name: its ``_id`` or what else names it; empty where nothing does.
        metadata: values of other columns that were requested.
        paragraphs: of the text, if the file has paragraphs; else empty.
        is_untyped: all values of ``metadata`` are texts, even numbers, as in tables and XML.
    """

    where: str
    title: str
    text: str
    name: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    paragraphs: tuple[str, ...] = ()
    is_untyped: bool = False


@dataclass(frozen=True)
class Collection(Reading):
    r"""The documents of one or several files, before they are read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "notes.md"
        >>> _ = path.write_text("# Kettles\n\nFill it. Switch it on.\n")
        >>> [(document.title, document.sentences) for document in Collection(str(path)).documents()]
        [('Kettles', ('Fill it.', 'Switch it on.'))]

    Attributes:
        location: a file of any kind, a quoted pattern, a pipe, a folder of files, a folder in BEIR's layout, or a data
            set of the Hub.
        fields: names of the columns with a document's title and text, or with the text alone; more names are further
            texts. Nested keys have dots: ``meta.title,body.text``. None: ``title`` and ``text``.
        ids: name of the column with a document's id; None: ``_id``, if there is one.
        fields_are_optional: ``fields`` and ``ids`` are of tables and objects alone, not of lines of text and prose.
        metadata: further columns to read.
        metadata_is_optional: a file may lack columns of ``metadata``; their values are then None.
        split: of a data set.
        keep_code: see `Reading`, as for ``read_as``, ``keep_repeated``, ``quoted`` and ``pages``.
        skip_lines: of one file; see `Source`.
    """

    location: str
    fields: tuple[str, ...] | None = None
    ids: str | None = None
    fields_are_optional: bool = False
    metadata: tuple[str, ...] = ()
    metadata_is_optional: bool = False
    split: str = "train"
    skip_lines: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.fields is not None and not self.fields:
            raise UserError("fields is empty; name a title and a text (--fields title,text), or a text alone")

    def titled_texts(self, notes: ReadingNotes | None = None) -> Iterator[TitledText]:
        """The documents as they are in the files, one after another; lines of text are one each.

        Documents with neither title nor text are left out and counted in ``notes``.

        Raises:
            UserError: for bad input, naming the file, the line and the fix.
        """
        notes, names = ReadingNotes() if notes is None else notes, UniqueNames(self._given_ids)
        for source, path in self._sources(notes):
            for document in self._of_source(source, path, notes, names):
                if not document.text and not document.title:
                    notes.leave_out(*_EMPTY)
                    continue
                notes.only_titles += not document.text
                yield document

    @property
    def name(self) -> str:
        """The name for messages."""
        path = find_corpus(self.location)
        return str(path) if is_folder(path) else self._source.name

    @cached_property
    def _source(self) -> Source:
        """The source, if it is not a folder; opened once, since a pipe can be read only once."""
        path = find_corpus(self.location)
        location = self.location if path == Path(self.location) else str(path)
        return Source(location, None, self.split, self.skip_lines, **self.how)

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        """The keys of the objects in all files together; one file may lack a key that others have."""
        sources = [source for source, _ in self._sources(ReadingNotes())]
        objects = [source for source in sources if source.is_file and source.kind.name in _OBJECTS]
        return tuple(dict.fromkeys(name for source in objects for name in source.present()))

    @cached_property
    def _given_ids(self) -> frozenset[str]:
        """The ids that rows of any file have, where other files have parts that the program names."""
        sources = [source for source, _ in self._sources(ReadingNotes())]
        with_ids = [one for one in sources if not (one.is_file and one.kind.name in PROSE)]
        if not 0 < len(with_ids) < len(sources):
            return frozenset()
        names, notes = UniqueNames(), ReadingNotes()
        return frozenset(one.name for source in with_ids for one in self._of_source(source, None, notes, names))

    @cached_property
    def _repeated(self) -> dict[KindName, frozenset[str]]:
        """By kind of file, the lines that are left out because most pages of the kind have them."""
        pages: dict[KindName, list[Iterator[Section]]] = {}
        for source, path in () if self.keep_repeated else self._sources(ReadingNotes()):
            if source.is_file and source.kind.name in (*_PAGES, *(("text",) if path else ())):
                pages.setdefault(source.kind.name, []).append(_sound_sections(source, path))
        return {kind: repeated_lines(of_kind) for kind, of_kind in pages.items()}

    def documents(self, notes: ReadingNotes | None = None) -> Iterator[Document]:
        """The documents, split into sentences; blank lines in a text file separate documents, if it has any.

        Raises:
            UserError: see `titled_texts`.
        """
        notes, names = ReadingNotes() if notes is None else notes, UniqueNames(self._given_ids)
        for source, path in self._sources(notes):
            if path is None and self.fields is None and source.is_file and source.kind.name == "text":
                notes.taken_for[str(source.kind)] += 1
                yield from _of_lines(source)
                continue
            for titled in self._of_source(source, path, notes, names):
                document = _document(titled)
                if not document.sentences:
                    notes.leave_out(*_EMPTY)
                    continue
                notes.only_titles += document.only_title
                yield document

    def _sources(self, notes: ReadingNotes) -> list[tuple[Source, str | None]]:
        """The files, each with its path within the folder if it is from one; notes what is left out of the folder."""
        sources, left_out = self._found
        notes.add(left_out)
        return sources

    @cached_property
    def _found(self) -> tuple[list[tuple[Source, str | None]], ReadingNotes]:
        path, notes = find_corpus(self.location), ReadingNotes()
        if not is_folder(path):
            return [(source, None) for source in self._source.files], notes
        if self.read_as is not None:
            raise UserError(NOT_OF_FOLDERS.format(path))
        files_there, without_text, unreachable = files_in(path)
        for folder, kind_of_folder in without_text.items():
            notes.leave_out("folder", f"that is {kind_of_folder} ({folder.relative_to(path).as_posix()})")
        notes.leave_out_unreachable(path, unreachable)
        files = [file for file in files_there if file.stat().st_size]
        notes.leave_out("empty file", "", count=len(files_there) - len(files))
        if not files:
            kinds = "a corpus.jsonl nor any file of a kind that is read, such as .txt, .md or .html"
            raise UserError(f"{path}: holds neither {kinds}{notes.left_out_message()}")
        sources: list[tuple[Source, str | None]] = []
        with_fields = 0
        for file in files:
            source, kind = Source(str(file), **self.how), kind_named(file, self)
            if kind is None:
                notes.unread_kinds[suffix_of(file)] += 1
                continue
            try:
                if source.kind.name not in PROSE:
                    with_fields += 1
                    choose_fields(source, self.fields, self.ids)
                    for _ in self._of_rows(source, ReadingNotes()):
                        pass
            except MissingColumnError as error:
                notes.leave_out("file", "without such fields", str(error))
            except UserError as error:
                notes.leave_out(*_BROKEN, str(error))
            else:
                sources.append((source, file.relative_to(path).as_posix()))
        if self._selects_fields and not with_fields:
            raise UserError(
                f"{path}: no file in it has fields (a table, JSON, XML); leave out --fields, --id, --metadata"
            )
        return sources, notes

    def _of_source(
        self, source: Source, path: str | None, notes: ReadingNotes, names: UniqueNames
    ) -> Iterator[TitledText]:
        """The documents of one file, or of a data set; ``path`` is its path within a folder."""
        kind = source.kind.name if source.is_file else None
        plain = not self._selects_fields
        prose = kind in PROSE if path is not None else plain and kind in SECTIONED  # only tables have fields
        if prose:
            metadata, empty = dict.fromkeys(self.metadata), True
            sections: Iterable[Section] = source.sections(path)
            if path is not None:  # a broken file of a folder is left out as a whole
                try:
                    sections = list(sections)
                except UserError as error:
                    notes.leave_out(*_BROKEN, str(error))
                    return
            description = str(source.kind).replace("one text per line", "a text file as one document")
            notes.taken_for[description if kind == "text" else str(source.kind)] += 1
            if lines := self._repeated.get(source.kind.name):
                sections = notes.without_repeated(sections, lines)
            for section in sections:
                empty = False
                if kind in ("mail", "mbox") and notes.is_copy(section):
                    continue
                where, text = f"{source.name}, {section.name}", "\n".join(section.paragraphs)
                yield TitledText(where, section.title, text, names.unique(section.name), metadata, section.paragraphs)
            if empty:
                notes.leave_out("file", "with nothing but tags, code or blank lines")
        elif kind == "text":
            if not plain:
                raise UserError(
                    f"{source.name}: has no fields (one text per line); leave out --fields, --id, --metadata, or "
                    "if it is a table add --read-as tsv"
                )
            notes.taken_for[str(source.kind)] += 1
            for record in source.records(None):
                where, text = f"{source.name}, line {record.number}", str(record.values[0]).strip()
                yield TitledText(where, "", text, metadata=dict.fromkeys(self.metadata))
        else:
            yield from self._of_rows(source, notes)

    @property
    def _selects_fields(self) -> bool:
        """Whether an option names columns, which lines of text do not have."""
        fields = (self.fields is not None or self.ids is not None) and not self.fields_are_optional
        return fields or bool(self.metadata and not self.metadata_is_optional)

    def _of_rows(self, source: Source, notes: ReadingNotes) -> Iterator[TitledText]:
        """The documents of a table, of objects, or of a data set."""
        names = choose_fields(source, self.fields, self.ids)
        present = source.present(names.every)
        if source.is_file and source.kind.name in _OBJECTS and not set(self.metadata) <= set(present):
            present = (*present, *self._keys)
        metadata_names = tuple(
            name for name in self.metadata if not self.metadata_is_optional or column_exists(name, present)
        )
        require_columns(source, metadata_names, present)
        kind = str(source.kind) if source.is_file else "a data set"
        hint = ""
        if self.fields is None and names.title is None and len(likely := suggest_fields(source)) == 2:
            hint = f" (with titles: --fields {shlex.join([','.join(likely)])})" if likely[1] in names.texts else ""
        notes.taken_for[f"{kind}; {names.described(source.present(names.every), metadata_names)}{hint}"] += 1
        columns = tuple(dict.fromkeys((*names.every, *metadata_names)))
        is_untyped = source.is_file and source.kind.name in _UNTYPED
        for record in source.records(columns, lenient=True):
            where = f"{source.name}, {source.unit} {record.number}"
            values = dict(zip(record.names, record.values, strict=True))
            title = "" if names.title is None else _text(values[names.title], names.title, where)
            texts = [_text(values[name], name, where) for name in names.texts]
            if not title and all(values[name] is ABSENT for name in names.texts):
                missing = " and ".join(f"no {name!r}" for name in (names.title, names.texts[0]) if name is not None)
                raise UserError(
                    f"{where}: {missing}; add it (null leaves the document out), delete the {source.unit}, or name "
                    "the documents' title and text with --fields"
                )
            # a column that no row of the first hundred has was refused above
            metadata = dict.fromkeys(self.metadata) | {
                name: None if values[name] is ABSENT else values[name] for name in metadata_names
            }
            if is_untyped:
                metadata = {
                    name: None if value is None else str(value).strip() or None for name, value in metadata.items()
                }
            yield TitledText(
                where,
                " ".join(title.split()),
                " ".join(text.strip() for text in texts if text.strip()),
                "" if names.id is None else _id_text(values[names.id], names.id, where, required=self.ids is not None),
                metadata,
                is_untyped=is_untyped,
            )


def _sound_sections(source: Source, path: str | None) -> Iterator[Section]:
    """The sections of a file up to where it is broken."""
    with suppress(UserError):
        yield from source.sections(path)


def id_after(name: str) -> int:
    """The next free number after an id that is a number; 0 for other ids.

    Example:
        >>> id_after("41"), id_after("a7")
        (42, 0)
    """
    return int(name) + 1 if name.isdecimal() and len(name) < 19 else 0


def _of_lines(source: Source) -> Iterator[Document]:
    """The lines of a text file as documents: separated by blank lines, or one per line if there are none."""
    running = any(record.document for record in source.records(None))
    for _, records in groupby(source.records(None), key=lambda record: record.document if running else record.number):
        yield Document("", tuple(str(record.values[0]).strip() for record in records))


def documents_in_memory(documents: Sequence[GivenDocument]) -> list[Document]:
    """Makes documents of texts, or of titles with their texts; those without any text are left out.

    Example:
        >>> documents_in_memory([("Kettles", "Fill it. Switch it on."), "A text without a title."])[0].title
        'Kettles'

    Raises:
        UserError: naming the first that is not a document; or if there is no text at all.
    """
    read = []
    for number, document in enumerate(documents, start=1):
        values: object = ("", document) if isinstance(document, str) or is_missing(document) else document
        parts = ["" if is_missing(one) else one for one in values] if isinstance(values, tuple | list) else []
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise UserError(
                f"document {number}: a text, or a title and a text, is expected, not {type(document).__name__}"
            )
        title, text = parts
        where = f"document {number}"
        read.append(_document(TitledText(where, _text(title, TITLE, where), _text(text, TEXT, where))))
    return _with_text(read, "the documents given", ReadingNotes())


def read_documents(
    path: str | Path,
    fields: Sequence[str] | None = None,
    *,
    notes: ReadingNotes | None = None,
    **how: Unpack[HowRead],
) -> list[Document]:
    """Reads all documents of a file of any kind, of a folder of files, or of several files; see `Collection`.

    A ``.txt`` file holds one sentence per line, with blank lines between documents; without blank lines each line is a
    document. Objects and tables have ``title`` and ``text``. A title that is repeated at the start of the text is
    removed there. In a folder, each text file and each section of a page is a document.

    Args:
        path: the file, the folder or a pattern.
        fields: names of the columns with title and text, or with the text alone, if they have other names.
        notes: filled with what was read and what was left out.
        **how: see `Reading`.

    Raises:
        UserError: for bad input, naming the file and the line; or if there is no text.
    """
    collection = Collection(str(path), None if fields is None else tuple(fields), **how)
    notes = ReadingNotes() if notes is None else notes
    return _with_text(collection.documents(notes), str(path), notes)


def _with_text(documents: Iterable[Document], where: str, notes: ReadingNotes) -> list[Document]:
    filled = [document for document in documents if document.sentences]
    if not filled:
        raise UserError(notes.nothing_message(where))
    return filled


def _text(value: object, name: str, where: str) -> str:
    return "" if value is None or value is ABSENT else require_text(value, repr(name), where)


def _id_text(value: object, name: str, where: str, *, required: bool) -> str:
    """The id of a document as text; of an object with one value, as MongoDB exports ids, that value."""
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    is_empty = value is None or value is ABSENT or (isinstance(value, str) and not value.strip())
    if isinstance(value, str | int) and not isinstance(value, bool) and not is_empty:
        return str(value)
    if not required and is_empty:
        return ""
    fault = "missing" if value is ABSENT else "empty" if is_empty else type(value).__name__
    raise UserError(f"{where}: the id in column {name!r} is {fault}; give a text or a whole number")


def _document(titled: TitledText) -> Document:
    title = " ".join(titled.title.split())
    if titled.paragraphs:
        return Document(
            title, tuple(sentence for part in titled.paragraphs for sentence in split_sentences(part)), titled.name
        )
    body = " ".join(titled.text.split())
    head, rest = body[: len(title)], body[len(title) :]
    if title and head.casefold() == title.casefold() and not re.match(r"\w", rest):
        body = rest.lstrip(" .:;-–—")
    if title and not body:
        return Document("", (title,), titled.name, only_title=True)
    return Document(title, tuple(split_sentences(body)), titled.name)


def documents_of(
    corpus: str | Path | Sequence[GivenDocument],
    fields: Sequence[str] | None = None,
    *,
    say: Say,
    **how: Unpack[HowRead],
) -> tuple[list[Document], str]:
    """Reads the documents; also returns the name of their source for messages.

    Example:
        >>> documents, source = documents_of(["A text.", ("A title", "Another text.")], say=print)
        >>> len(documents), source
        (2, 'a list of 2 documents')

    Args:
        corpus: a file, a folder or a pattern, or documents in memory.
        fields: names of the columns with title and text; for files only.
        say: called with what was read and what was left out.
        **how: see `opencse.text.files.kinds.Reading`; for files only.

    Raises:
        UserError: see `read_documents` and `documents_in_memory`.
    """
    if isinstance(corpus, str | Path):
        source, notes = str(find_corpus(corpus)), ReadingNotes()
        documents = read_documents(source, fields, notes=notes, **how)
        for line in notes.lines():
            say(line)
        return documents, source
    if fields is not None or any(how.values()):
        raise UserError("fields, keep_code, quoted, ... apply to files; leave them out for a list of documents")
    return documents_in_memory(corpus), f"a list of {len(corpus):,} documents"
