"""Splits text of any script into words: runs of letters, or single characters where words have no spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_MARKS = (  # marks on letters, which \w leaves out
    "\u0300-\u036f\u0483-\u0487"  # accents of Latin, Greek, Cyrillic
    "\u0591-\u05bd\u064b-\u065f\u0670"  # vowels of Hebrew, Arabic
    "\u0900-\u0963\u0966-\u0dff"  # the scripts of India, full stops apart
)
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
_WORD = re.compile(rf"[\w{_MARKS}]+")
_WORD_OR_RUN = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_MARKS}])+")
_SPACED = re.compile(r"\S+")
_PIECE = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\S)+")


_INVISIBLE = re.compile(
    "["
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, grapheme joiner, empty letters
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # zero width, direction of writing, word joiner, byte order mark
    "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variants of a glyph
    "\u0640"  # Arabic letters drawn longer
    "]"
)
_OPTIONAL = re.compile(  # marks that the same word is written with and without
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # points of Hebrew
    "\u0610-\u061a\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed]"  # vowels of Arabic
    "|(?<=[\u03b1-\u03c9])[\u0300\u0301\u0342]+|(?<=[\u03b1-\u03c9]\u0308)\u0301+"  # Greek accents
    "|(?<=[\u0430\u0435\u0438\u043e\u0443\u044b\u044d\u044e\u044f\u0456])[\u0300\u0301]+"  # stress of Cyrillic vowels
    "|(?<=i)\u0307+"  # of the Turkish capital I with a dot
)
_SIGNS = str.maketrans({"\u2122": " ", "\u2120": " ", "\u0153": "oe", "\u0152": "oe"})  # TM, SM; the French oe


def folded(text: str) -> str:
    """Converts all ways of writing a text to one form, with single spaces, for search by words.

    It is Unicode's NFKC with case folding (ligatures, full width, presentation forms of Arabic, ß as ss, combining
    marks joined with their letters), without invisible characters (soft hyphens, zero width) and without marks that
    a word is written with or without: points of Hebrew and Arabic, Greek accents, Cyrillic stress. Accents that make
    another letter stay: résumé is not resume.

    Example:
        >>> folded("\ufb01n\u00adal  STRASSE"), folded("\uff26inal Stra\u00dfe")
        ('final strasse', 'final strasse')
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).casefold().translate(_SIGNS)
        letters = _INVISIBLE.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFKC", _OPTIONAL.sub("", letters))
    return " ".join(text.casefold().split())


def pieces_of(text: str) -> list[tuple[int, int]]:
    """The start and end of each word of a text: a run without white space.

    In Chinese, Japanese, Thai, Lao, Khmer and Burmese, which put no spaces between words, each character is a word.
    """
    pattern = _PIECE if _ANY_UNSPACED.search(text) else _SPACED
    return [match.span() for match in pattern.finditer(text)]


def count_words(text: str) -> int:
    """Counts the words of a text; see `pieces_of`.

    >>> count_words("three short words"), count_words("\u4f60\u597d")
    (3, 2)
    """
    return len(pieces_of(text)) if _ANY_UNSPACED.search(text) else len(text.split())


def joined(text: str, pieces: Sequence[tuple[int, int]]) -> str:
    """Joins some words of a text in their order, with a space where white space or other words were between them."""
    parts: list[str] = []
    last = None
    for start, end in pieces:
        if last is not None and last != start:
            parts.append(" ")
        parts.append(text[start:end])
        last = end
    return "".join(parts)


def first_words(text: str, count: int) -> str:
    """Truncates a text to its first ``count`` words, with single spaces; a shorter text stays unchanged."""
    pieces = pieces_of(text)
    return text if len(pieces) <= count else joined(text, pieces[:count])


def search_words(text: str) -> list[str]:
    """Splits a text into words for search: runs of letters and digits of its normal form (`folded`).

    In scripts without spaces they are all pairs of neighbouring characters, as in Lucene's analyzer for Chinese and
    Japanese.

    Example:
        >>> search_words("The Valve leaks!")
        ['the', 'valve', 'leaks']
    """
    text = folded(text)
    if not _ANY_UNSPACED.search(text):
        return _WORD.findall(text)
    words: list[str] = []
    for match in _WORD_OR_RUN.finditer(text):
        run = match.group()
        pairs = len(run) > 1 and _ANY_UNSPACED.match(run)
        words += [run[start : start + 2] for start in range(len(run) - 1)] if pairs else [run]
    return words


def is_unicode(text: str) -> bool:
    """Whether ``text`` can be encoded: it holds no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
