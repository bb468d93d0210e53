"""Reads e-mail: the subject is the title, the body the text; quoted replies and signatures are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opencse.errors import UserError
from opencse.text.files.lines import File, open_plain, read_bytes, reading
from opencse.text.files.markup import text_of_html
from opencse.text.files.paragraphs import Section, join_lines

if TYPE_CHECKING:
    from email.message import EmailMessage

MAX_MESSAGE = 50_000_000
"""Largest number of bytes of one message with its attachments."""
_QUOTE = re.compile(r"\s*(?:[>|]|[A-Z]{1,4}>)")
_SAYS = re.compile(r".*\b(?:wrote|writes|schrieb|a écrit|escribió|ha scritto|schreef|skrev)\b.*:\s*$", re.IGNORECASE)
_BEGINS = re.compile(r"(?:On|Am|Le|El|Il|Op|Den)\b[^.!?]*$")
_OLDER = re.compile(
    r"\s*(?:-{2,}\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht)\s*-{2,}|_{20,})\s*",
    re.IGNORECASE,
)


def mail_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the message in a file (``.eml``)."""
    yield from _section(read_bytes(file, MAX_MESSAGE), file, 1, name)


def mailbox_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the messages of a mailbox (``.mbox``); errors name the line of the message."""
    number = start = count = 0
    message: list[bytes] = []
    size = 0
    blank = True
    with reading(file, lambda: number), open_plain(file) as stream:
        for line in stream:
            number += 1
            if blank and line.startswith(b"From "):
                if message:
                    count += 1
                    yield from _section(b"".join(message), file, start, f"{name}#{count}")
                message, size, start = [], 0, number
            elif start:
                size += len(line)
                if size > MAX_MESSAGE:
                    raise UserError(f"{file}, line {start}: a message of more than {MAX_MESSAGE:,} bytes; delete it")
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
    except (MessageError, ValueError, LookupError, AttributeError, IndexError, TypeError, RecursionError):
        raise UserError(f"{file}, line {line}: this message cannot be decoded; delete or repair it") from None
    paragraphs = tuple(join_lines(_own_lines(lines)))
    if subject or paragraphs:
        yield Section(message_id or name, subject, paragraphs)


def _body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    charset = part.get_content_charset("utf-8")
    try:
        text = content.decode(charset)
    except (LookupError, UnicodeDecodeError):
        from opencse.text.files.encodings import detect_encoding

        text = content.decode(detect_encoding([content]), errors="replace")
    return text_of_html(text) if part.get_content_subtype() == "html" else text


def _own_lines(lines: list[str]) -> list[str]:
    """The lines that the sender wrote, without quotations and signature."""
    written: list[str] = []
    for line in lines:
        if line.rstrip("\r") in ("-- ", "--") or _OLDER.fullmatch(line):
            break
        if _QUOTE.match(line) and not line.lstrip().startswith("|"):
            while written and not written[-1].strip():
                written.pop()
            broken = len(written) > 1 and _BEGINS.match(written[-2])  # 'On Monday, A. Person wrote:' in two lines
            count = 2 if broken else 1
            if written and _SAYS.fullmatch(" ".join(written[-count:])):
                del written[-count:]
            written.append("")
            continue
        written.append(line)
    return written
