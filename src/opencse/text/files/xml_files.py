"""Reads XML: one record per repeated element, with its attributes and inner elements; and Wikipedia dumps."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from xml.parsers import expat

from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.text.files.lines import MAX_RECORD_CHARACTERS, File, read_blocks
from opencse.text.files.paragraphs import Section

_HEAD = 4_000_000
"""Number of characters at the beginning from which the element of a record is determined."""
_DEEPEST, _MOST_NAMES = 200, 1_000
"""Largest number of elements inside each other, and of attributes and inner elements of different names in a record."""
Path = tuple[str, ...]
XmlRecord = dict[str, object]


class _Records:
    """Collects the elements at one path as records.

    Args:
        path: names of the elements from the root to a record.
        where: names the file and the line in errors.
    """

    def __init__(self, path: Path, where: Callable[[], str]) -> None:
        self.done: list[tuple[int, XmlRecord]] = []
        self._path = path
        self._where = where
        self._open: list[str] = []
        self._text: list[list[str]] = []
        self._record: dict[str, list[str]] = {}
        self._size = 0
        self._line = 0

    def start(self, name: str, attributes: Mapping[str, str], line: int) -> None:
        self._open.append(name)
        if len(self._open) > _DEEPEST:
            raise UserError(f"{self._where()}: elements more than {_DEEPEST} deep; flatten the file")
        depth = len(self._path)
        if tuple(self._open[:depth]) != self._path:
            return
        if len(self._open) == depth:
            self._record, self._size, self._line = {}, 0, line
        self._text.append([])
        inner = self._open[depth:]
        for key, value in attributes.items():
            self._add(".".join((*inner, key)), value)

    def end(self) -> None:
        if self._text:
            text = "".join(self._text.pop()).strip()
            inner = self._open[len(self._path) :]
            if text:
                self._add(".".join(inner) or "text", text)
            if not inner:
                self.done.append((self._line, {name: "\n".join(values) for name, values in self._record.items()}))
        self._open.pop()

    def text(self, data: str) -> None:
        if self._text:
            self._size += len(data)
            if self._size > MAX_RECORD_CHARACTERS:
                raise UserError(
                    f"{self._where()}: more than {MAX_RECORD_CHARACTERS:,} characters in one record; split it"
                )
            self._text[-1].append(data)

    def _add(self, name: str, value: str) -> None:
        self._record.setdefault(name, []).append(value)
        if len(self._record) > _MOST_NAMES:
            raise UserError(
                f"{self._where()}: more than {_MOST_NAMES:,} attributes and elements of different names in one record; "
                "write them as text, or give a record an element of its own"
            )


def read_xml(file: File) -> Iterator[tuple[int, XmlRecord]]:
    """Reads the records of an XML file with their line numbers.

    The records are the elements that repeat nearest to the root, as ``row`` in ``<posts><row .../><row .../></posts>``
    or ``item`` in ``<rss><channel><item>``. An attribute is named by its name, an inner element by its own, a nested
    one with dots (``revision.text``); the text directly in a record's element is ``text``. In a dump of Stack Exchange
    ``Title`` and ``Body`` become ``title`` and ``text``.

    Raises:
        UserError: for XML that is not well-formed, or declares entities (which can fill any memory), naming the line.
    """
    yield from _read(file, _record_path(file))


def _read(file: File, path: Path) -> Iterator[tuple[int, XmlRecord]]:
    parser = _parser(file)
    records = _Records(path, lambda: f"{file}, line {parser.CurrentLineNumber}")
    parser.StartElementHandler = lambda name, attributes: records.start(
        _plain(name), {_plain(key): value for key, value in attributes.items()}, parser.CurrentLineNumber
    )
    parser.EndElementHandler = lambda name: records.end()
    parser.CharacterDataHandler = records.text
    empty = False
    for _ in _parsed(file, parser):
        for line, record in records.done:
            empty = True
            yield line, _stack_exchange(record)
        records.done.clear()
    if not empty:
        raise UserError(f"{file}: no records in it (no element with text in it)")


def _stack_exchange(record: XmlRecord) -> XmlRecord:
    """Renames ``Title`` and ``Body`` of a Stack Exchange post to ``title`` and ``text``."""
    if "Body" in record and "PostTypeId" in record:
        renamed = {"Body": "text", "Title": "title", "Id": "_id"}
        return {renamed.get(name, name): value for name, value in record.items()}
    return record


def _parser(file: File) -> expat.XMLParserType:
    parser = expat.ParserCreate("utf-8")  # whatever the declaration says: lines are decoded already
    parser.buffer_text = True

    def refuse(*declaration: object) -> None:
        raise UserError(
            f"{file}, line {parser.CurrentLineNumber}: declares XML entities, which are not expanded; write the file "
            "without a document type"
        )

    parser.EntityDeclHandler = refuse
    return parser


def _parsed(file: File, parser: expat.XMLParserType, most: int | None = None) -> Iterator[None]:
    """Parses a file block by block; with ``most``, only that number of characters."""
    characters = read = 0
    try:
        for block in read_blocks(file):
            read += len(block.encode())
            parser.Parse(block.encode(), False)
            if read - parser.CurrentByteIndex > MAX_RECORD_CHARACTERS:  # and each block is compared with all of it
                raise UserError(
                    f"{file}, line {parser.CurrentLineNumber}: a tag or comment of more than {MAX_RECORD_CHARACTERS:,} "
                    "bytes; close it, or write text between tags"
                )
            characters += len(block)
            yield
            if most is not None and characters > most:
                return
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UserError(
            f"{file}, line {error.lineno}: not well-formed XML ({expat.ErrorString(error.code)}); correct it, or write "
            "it again"
        ) from None
    yield


def _record_path(file: File) -> Path:
    """The path of the elements that repeat nearest to the root; of several, the ones with the most text."""
    parser = _parser(file)
    opened: list[str] = []
    counts: Counter[Path] = Counter()
    characters: defaultdict[Path, int] = defaultdict(int)

    def start(name: str, attributes: Mapping[str, str]) -> None:
        opened.append(_plain(name))
        counts[tuple(opened[:_DEEPEST])] += 1
        add(sum(map(len, attributes.values())))

    def add(size: int) -> None:
        for depth in range(1, min(len(opened), 6) + 1):
            characters[tuple(opened[:depth])] += size

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: opened.pop() and None
    parser.CharacterDataHandler = lambda data: add(len(data.strip()))
    for _ in _parsed(file, parser, _HEAD):
        pass
    if not counts:
        raise UserError(f"{file}: no element in its first {_HEAD:,} characters; write it without the document type")
    total = sum(size for path, size in characters.items() if len(path) == 1)
    repeated = [path for path, count in counts.items() if count > 1 and 1 < len(path) < 6]
    large = [path for path in repeated if 2 * characters[path] >= total] or repeated
    if large:
        return min(large, key=lambda path: (len(path), -characters[path]))
    inner = [path for path in counts if len(path) == 2]
    return inner[0] if len(inner) == 1 and any(len(path) > 2 for path in counts) else next(iter(counts))[:1]


def _plain(name: str) -> str:
    """The name without the prefix of its namespace."""
    return name.rpartition(":")[2]


def wikipedia_sections(file: File) -> Iterator[Section]:
    """Reads the articles of a Wikipedia dump as plain paragraphs, without redirects and talk pages.

    Raises:
        UserError: if the library that reads wikitext is missing; see also `read_xml`.
    """
    require_packages(f"{file}: a Wikipedia dump", "files", "mwparserfromhell")
    for _, page in _read(file, ("mediawiki", "page")):
        text = page.get("revision.text")
        if page.get("ns", "0") != "0" or "redirect.title" in page or not isinstance(text, str):
            continue
        if paragraphs := tuple(_plain_wikitext(text)):
            yield Section(str(page.get("id", page.get("title", ""))), str(page.get("title", "")), paragraphs)


_TABLE = re.compile(r"\{\|(?:(?!\{\|).)*?\|\}", flags=re.DOTALL)
_MEDIA = re.compile(r"\[\[(?:[A-Za-zÀ-ÿ]{4,12}|\w{2,3}):[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]")
_DROPPED = re.compile(
    r"<!--.*?-->|<ref\b[^>]*/>|<ref\b.*?</ref>|<(gallery|math|timeline|syntaxhighlight|source|pre|score)\b.*?</\1>|__[A-Z]+__",
    flags=re.DOTALL | re.IGNORECASE,
)


def _plain_wikitext(source: str) -> Iterator[str]:
    import mwparserfromhell

    source = _DROPPED.sub("", source)
    while (shorter := _TABLE.sub("", source)) != source:
        source = shorter
    source = _MEDIA.sub("", source)
    text = str(mwparserfromhell.parse(source).strip_code(normalize=True, collapse=True))
    for line in text.split("\n"):
        if line := " ".join(line.strip("*#:; \t").split()):
            yield line
