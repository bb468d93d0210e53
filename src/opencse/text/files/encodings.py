"""Detects the encoding of a text file from its bytes: byte-order mark, UTF-8, UTF-16, or a legacy code page."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

UTF_8 = "utf-8"
_MARKS = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]")
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9._:-]{2,40})""", re.IGNORECASE)
_CODE_PAGES = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r",
    "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr", "mac_roman", "cp437", "cp850", "cp866",
)  # fmt: skip
_USUAL = {
    **dict.fromkeys(("Czech", "Slovak", "Polish", "Hungarian", "Croatian", "Slovene", "Romanian"), "cp1250"),
    **dict.fromkeys(("Lithuanian", "Latvian", "Estonian"), "cp1257"),
    "Turkish": "cp1254",
}
_TELLING = 40
"""Number of bytes outside ASCII from which the detected language decides, instead of the most common code page."""
_ODD = re.compile(r"\w[¿³¹£¥¼¾]|[³¹£¥¼¾]\w|[^\W\d_a-zA-Z]{3}")
_PUNCTUATION = frozenset("–—‘’“”„‚…•€§°«»·£©®™²³½ ")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT = 1 << 16
"""Number of bytes, of lines with letters outside ASCII, from which a code page is detected."""


def detect_encoding(blocks: Iterable[bytes]) -> str:
    r"""Detects the encoding of a text from blocks of its bytes; reads on until a byte outside ASCII decides.

    A file that is mostly UTF-8 counts as UTF-8, so that its damaged line is reported and not guessed. The result is
    ``utf-8`` also for bytes that are not text.

    Example:
        >>> detect_encoding(["Zündung".encode()]), detect_encoding([b"\xff\xfeZ\0"])
        ('utf-8', 'utf-16')
        >>> detect_encoding(["Die Zündung läuft nicht – Größe, Nässe".encode("cp1252")])
        'cp1252'
    """
    sample, first = b"", b""
    for block in blocks:
        if not first:
            first = block
            for mark, encoding in _MARKS:
                if block.startswith(mark):
                    return encoding
            if b"\0" in block:
                return _without_mark(block)
        if sample or not block.isascii():
            sample += block
            if len(sample) >= 2 * _LOOKED_AT:
                break
    if not sample:
        return UTF_8
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(sample)
    except UnicodeDecodeError:
        pass
    else:
        return UTF_8
    if 2 * sum(map(len, _MULTIBYTE.findall(sample))) >= len(_HIGH.findall(sample)):
        return UTF_8
    return _declared(first[:2_048], sample) or _code_page(sample)


def _without_mark(block: bytes) -> str:
    """The encoding of bytes with NULs: UTF-16 without a byte-order mark has them at every second byte."""
    even, odd = block[::2].count(0), block[1::2].count(0)
    if even + odd < len(block) / 5:
        return UTF_8
    if odd > 9 * even:
        return "utf-16-le"
    return "utf-16-be" if even > 9 * odd else UTF_8


def _declared(head: bytes, sample: bytes) -> str:
    """The encoding that an HTML or XML file declares in its first lines, if its bytes can be decoded with it."""
    if head.lstrip()[:1] == b"<" and (match := _DECLARED.search(head)):
        try:
            name = codecs.lookup(match[1].decode("ascii")).name
            sample[: sample.rfind(b"\n") + 1 or None].decode(name)
        except (LookupError, UnicodeDecodeError):
            return ""
        return "cp1252" if name == "iso8859-1" else name
    return ""


def _code_page(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    lines = b"\n".join(line for line in sample.split(b"\n") if not line.isascii())[:_LOOKED_AT]
    if len(_CONTROL.findall(lines)) > len(lines) / 100:  # not text
        return UTF_8
    matches = from_bytes(lines, cp_isolation=list(_CODE_PAGES))
    best = matches.best()
    if best is None:
        return UTF_8
    usual = _USUAL.get(best.language, "cp1252")  # if the letters fit several code pages
    tolerance = 0.03 if len(_HIGH.findall(lines)) >= _TELLING else 1.0
    for match in matches:
        near = match.chaos - best.chaos < 0.01 and best.coherence - match.coherence < tolerance
        if near and usual in match.could_be_from_charset and not (usual == "cp1252" and _ODD.search(str(match))):
            best = match
            break
    text = str(best)
    words = re.findall(r"[^\W\d_]{2,}", text)
    others = {letter for letter in text if not letter.isascii()}
    if all(word.isascii() for word in words) and not others <= _PUNCTUATION:  # a single odd byte is no evidence
        return UTF_8
    return usual if usual in best.could_be_from_charset else str(best.encoding)
