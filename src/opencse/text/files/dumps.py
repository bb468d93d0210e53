"""Reads e-mail, subtitles, and XML: Wikipedia dumps as articles, other files as records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.text.files.lines import File, detect_encoding, open_plain, open_text, read_bytes, read_lines
from opencse.text.files.markup import text_of_html
from opencse.text.files.prose import Section, join_lines

if TYPE_CHECKING:
    from email.message import EmailMessage

_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_CUE = re.compile(rf"\s*({_TIME})\s+-->\s+({_TIME})")
_TAG = re.compile(r"<[^<>]*>|\{\\[^{}]*\}|\{[^{}\s]{0,3}:[^{}]*\}")
_SOUND = re.compile(r"[\[(♪♫#][^\])]*[\])♪♫#]|[♪♫]+")
_DASH = re.compile(r"\s*[-–—]\s+")
_PAUSE = 4.0
"""Seconds without speech after which a new paragraph begins."""
_QUOTE = re.compile(r"\s*(?:>|[A-Z]{1,4}>)")
_SAYS = re.compile(r".*\b(?:wrote|writes|schrieb|a écrit|escribió|ha scritto|schreef|skrev)\b.*:\s*$", re.IGNORECASE)
_BEGINS = re.compile(r"(?:On|Am|Le|El|Il|Op|Den)\b[^.!?]*$")
_OLDER = re.compile(
    r"\s*(?:-{2,}\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht)\s*-{2,}|_{20,})\s*|--\s?",
    re.IGNORECASE,
)
"""A line after which older messages follow, or a signature."""
_TABLE = re.compile(r"\{\|(?:(?!\{\|).)*?\|\}", flags=re.DOTALL)
_MEDIA = re.compile(r"\[\[(?:[A-Za-zÀ-ÿ]{4,12}|\w{2,3}):[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]")
_DROPPED = re.compile(
    r"<!--.*?-->|<ref\b[^>]*/>|<ref\b.*?</ref>|<(gallery|math|timeline|syntaxhighlight|source|pre|score)\b.*?</\1>|__[A-Z]+__",
    flags=re.DOTALL | re.IGNORECASE,
)


def _elements(file: File) -> Iterator[ElementTree.Element]:
    """The elements directly inside the root, one at a time."""
    parser: ElementTree.XMLPullParser[ElementTree.Element] = ElementTree.XMLPullParser(("start", "end"))
    opened: list[ElementTree.Element] = []
    with open_text(file) as text:
        try:
            for block in iter(lambda: text.read(1 << 16), ""):
                parser.feed(block)
                events: Iterator[Any] = parser.read_events()
                for event, element in events:
                    if event == "start":
                        opened.append(element)
                        continue
                    opened.pop()
                    if len(opened) == 1:
                        yield element
                        opened[0].clear()
            parser.close()
        except ElementTree.ParseError as error:
            raise UserError(
                f"{file}, line {error.position[0]}: not well-formed XML ({str(error).partition(':')[0]}); correct it, "
                "or write it again"
            ) from None


def _plain(name: str) -> str:
    """The name without its namespace."""
    return name.rpartition("}")[2]


def read_xml(file: File) -> Iterator[tuple[int, dict[str, object]]]:
    """Reads the elements directly inside the root as records, as ``row`` in ``<posts><row .../><row .../></posts>``.

    An attribute is named by its name, an inner element by its own, a nested one with dots; the text directly in a
    record's element is ``text``. In a dump of Stack Exchange ``Title`` and ``Body`` become ``title`` and ``text``.

    Raises:
        UserError: for XML that is not well-formed, naming the line, or that has no records.
    """
    number = 0
    for number, element in enumerate(_elements(file), start=1):
        record: dict[str, list[str]] = {}
        _add(record, element, "")
        if "Body" in record and "PostTypeId" in record:
            renamed = {"Body": "text", "Title": "title", "Id": "_id"}
            record = {renamed.get(name, name): values for name, values in record.items()}
        yield number, {name: "\n".join(values) for name, values in record.items()}
    if not number:
        raise UserError(f"{file}: no records in it (no element inside another one)")


def _add(record: dict[str, list[str]], element: ElementTree.Element, before: str) -> None:
    for name, value in element.attrib.items():
        record.setdefault(before + _plain(name), []).append(value)
    text = "".join((element.text or "", *(inner.tail or "" for inner in element))).strip()
    if text:
        record.setdefault(before[:-1] or "text", []).append(text)
    for inner in element:
        _add(record, inner, f"{before}{_plain(inner.tag)}.")


def wikipedia_sections(file: File) -> Iterator[Section]:
    """Reads the articles of a Wikipedia dump as plain paragraphs, without redirects and talk pages.

    Raises:
        UserError: if the library that reads wikitext is missing, or as `read_xml`.
    """
    require_packages(f"{file}: a Wikipedia dump", "files", "mwparserfromhell")
    import mwparserfromhell

    for element in _elements(file):
        page = {_plain(one.tag): one for one in element.iter()}
        fields = {name: (page[name].text or "").strip() if name in page else "" for name in ("title", "text", "ns")}
        if "redirect" in page or fields["ns"] not in ("", "0") or not fields["text"]:
            continue
        source = _DROPPED.sub("", fields["text"])
        while (shorter := _TABLE.sub("", source)) != source:
            source = shorter
        code = mwparserfromhell.parse(_MEDIA.sub("", source))
        lines = str(code.strip_code(normalize=True, collapse=True)).split("\n")
        paragraphs = tuple(filter(None, (" ".join(line.strip("*#:; \t").split()) for line in lines)))
        number = next((one.text for one in element if _plain(one.tag) == "id" and one.text), fields["title"])
        if paragraphs:
            yield Section(number, fields["title"], paragraphs)


def subtitle_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the spoken text as one document; lines and cues are joined, a pause of four seconds begins a paragraph.

    Cues that repeat the one before (rolling captions) count once; sounds in brackets and notes are left out.

    Raises:
        UserError: for a file without any time line.
    """
    paragraphs: list[list[str]] = []
    last_end, spoken, before = 0.0, False, ""
    for _, line in read_lines(file, records=True):
        if match := _CUE.match(line):
            start, last, last_end = _seconds(match[1]), last_end, _seconds(match[2])
            if not paragraphs or start - last >= _PAUSE:
                paragraphs.append([])
            spoken = True
        elif not line.strip():
            spoken = False
        elif spoken:
            text = " ".join(unescape(_TAG.sub("", line)).split())
            text = _DASH.sub("", text, count=1) if _DASH.match(text) else text
            if not _SOUND.fullmatch(text) and text != before:
                paragraphs[-1].append(text)
            before = text
    if not paragraphs:
        raise UserError(f"{file}: no line such as 00:00:01,000 --> 00:00:02,000 in it, so these are no subtitles")
    texts = tuple(filter(None, (" ".join(filter(None, lines)) for lines in paragraphs)))
    if texts:
        yield Section(name, "", texts)


def _seconds(time: str) -> float:
    parts = time.replace(",", ".").split(":")
    return sum(float(part) * (1.0, 60.0, 3_600.0)[power] for power, part in enumerate(reversed(parts)))


def mail_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the message in a file (``.eml``): the subject is the title, the body the text.

    Quoted replies, signatures and attachments are left out.
    """
    yield from _section(read_bytes(file), file, 1, name)


def mailbox_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the messages of a mailbox (``.mbox``); errors name the line of the message."""
    start = count = 0
    message: list[bytes] = []
    blank = True
    with open_plain(file) as stream:
        for number, line in enumerate(stream, start=1):
            if blank and line.startswith(b"From "):
                if message:
                    count += 1
                    yield from _section(b"".join(message), file, start, f"{name}#{count}")
                message, start = [], number
            elif start:
                message.append(line)
            elif line.strip():
                raise UserError(f"{file}, line {number}: a mailbox begins with a line 'From ADDRESS DATE'")
            blank = not line.strip()
    if message:
        yield from _section(b"".join(message), file, start, f"{name}#{count + 1}")


def _section(content: bytes, file: File, line: int, name: str) -> Iterator[Section]:
    from email import message_from_bytes, policy  # a tenth of the time of a command that reads no mail
    from email.errors import MessageError

    try:
        message = message_from_bytes(content, policy=policy.default)
        subject = " ".join(str(message.get("subject", "")).split())
        message_id = str(message.get("message-id", "")).strip().strip("<>")
        lines = _body(message).replace("\r\n", "\n").split("\n")
    except (MessageError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        raise UserError(f"{file}, line {line}: this message cannot be decoded; delete or repair it") from None
    paragraphs = tuple(join_lines(_own_lines(lines)))
    if subject or paragraphs:
        yield Section(message_id or name, subject, paragraphs)


def _body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    content = None if part is None else part.get_payload(decode=True)
    if part is None or not isinstance(content, bytes):
        return ""
    try:
        text = content.decode(part.get_content_charset("utf-8"))
    except (LookupError, UnicodeDecodeError):
        text = content.decode(detect_encoding([content]), errors="replace")
    return text_of_html(text) if part.get_content_subtype() == "html" else text


def _own_lines(lines: Iterable[str]) -> list[str]:
    """The lines that the sender wrote, without quotations and signature."""
    written: list[str] = []
    for line in lines:
        if _OLDER.fullmatch(line):
            break
        if not _QUOTE.match(line):
            written.append(line)
            continue
        while written and not written[-1].strip():
            written.pop()
        broken = len(written) > 1 and _BEGINS.match(written[-2])  # 'On Monday, A. Person wrote:' in two lines
        count = 2 if broken else 1
        if written and _SAYS.fullmatch(" ".join(written[-count:])):
            del written[-count:]
        written.append("")
    return written
