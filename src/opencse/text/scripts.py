"""Splits text of any script into words (runs of letters, or characters where there are no spaces) and sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

_THAI = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # and Lao, at a distance of 128
_BURMESE = "\u1000-\u103f\u1050-\u108f\u109a-\u109d"
_KHMER = "\u1780-\u17d3\u17d7\u17dc\u17dd"
_KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANGUL = "\uac00-\ud7a3"
_UNSPACED = _THAI + _BURMESE + _KHMER + _KANA + _HAN
"""Letters and marks of the scripts that put no spaces between words."""
_SEARCHED_BY_CHARACTERS = _UNSPACED + _HANGUL
"""Korean has spaces, but endings and particles are written together with their word."""
_CHARACTER = (  # with the marks, vowels and subjoined letters that belong to it, and zero width spaces after it
    "(?:[\u0e40-\u0e44\u0ec0-\u0ec4]?[\u0e01-\u0e2e\u0e81-\u0eae\u0edc-\u0edf]"  # Thai, Lao: the vowel before it
    "[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebd\u0ec8-\u0ece]*"
    "|[\u1000-\u102a\u103f\u1050-\u1055\u106e-\u1070\u1075-\u1081]"  # Burmese: final consonants, which have the asat
    "(?:\u1039[\u1000-\u102a]|[\u102b-\u1038\u103a-\u103e\u1056-\u1059]|[\u1000-\u102a](?=\u1037?\u103a))*"
    "|[\u1780-\u17b3](?:\u17d2[\u1780-\u17b3]|[\u17b4-\u17d1\u17d3\u17dd])*"  # Khmer
    f"|[{_UNSPACED}][\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef]*)\u200b*"  # voiced marks, variants of a glyph
)
_MARKS = (  # marks on letters, which \w leaves out
    "\u0300-\u036f\u0483-\u0487"  # accents of Latin, Greek, Cyrillic
    "\u0591-\u05bd\u064b-\u065f\u0670"  # vowels of Hebrew, Arabic
    "\u0711\u0730-\u074a\u07a6-\u07b0"  # Syriac, Thaana
    "\u0900-\u0963\u0966-\u0dff"  # the scripts of India, full stops apart
    "\u0f39\u0f71-\u0f84\u0f8d-\u0fbc"  # Tibetan
)
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
_ANY_SEARCHED_BY_CHARACTERS = re.compile(f"[{_SEARCHED_BY_CHARACTERS}]")
_WORD = re.compile(rf"[\w{_MARKS}]+")
_WORD_OR_RUN = re.compile(
    rf"[{_SEARCHED_BY_CHARACTERS}]+|(?:\.(?<![\w.)\]].)(?=[^\W\d_]))?"
    rf"(?:(?![{_SEARCHED_BY_CHARACTERS}])[\w{_MARKS}])+(?:(?<=[^\W\d_])(?:\+\+(?!\+)|#(?![\w#])))?"
)
_SIGN = re.compile(r"\+(?<=\+\+)|#|\.(?<![\w.)\]].)(?=[^\W\d_])")  # of C++, C#, .NET
_UPPER = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f"
_LOWER = "a-z\u00df-\u00f6\u00f8-\u00ff\u03b1-\u03c9\u0430-\u044f"
_PART = re.compile(  # begins at the second letter of these: _n, rN, PSer
    rf"[{_UPPER}_](?:(?<=_)|(?<=[{_LOWER}].)|(?<=[{_UPPER}\d].)(?=[{_LOWER}]{{2}}))"
)
_RUN = re.compile(rf"(?:[^\W{_SEARCHED_BY_CHARACTERS}]|[{_MARKS}])+")
_JOINED = re.compile(r"[0-9]++(?:[-.,:/][0-9]++)+")
_NUMBER = re.compile(r"[1-9](?<!\w.)[0-9]{0,2}([,'\u2019_. ])[0-9]{3}(?:\1[0-9]{3})*(?![0-9])")
_SEARCHED_CHARACTER = re.compile(f"{_CHARACTER}|[{_HANGUL}]")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_SPACED = re.compile(r"\S+")
_PIECE = re.compile(rf"{_CHARACTER}|(?:(?![{_UNSPACED}])\S)+")

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


def normalised(text: str) -> str:
    """The words of a text in lower case, without punctuation; a text without words is unchanged.

    >>> normalised("Fill it: slowly!")
    'fill it slowly'
    """
    return " ".join(re.findall(r"\w+", text.casefold())) or text


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

    In Chinese, Japanese, Thai, Lao, Khmer and Burmese, which put no spaces between words, each character is a word,
    together with the vowels and marks that are written around it.
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


def search_words(text: str, *, pairs: bool = True) -> list[str]:
    """Splits a text into words for search: runs of letters and digits of its normal form (`folded`).

    In Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese they are all characters (with their vowels and marks) and
    all pairs of neighbouring ones, as of Lucene's analyzer for Chinese, Japanese and Korean with ``outputUnigrams``. So
    a query of one character is answered too. Digits of all scripts are the same words.

    An identifier (``user_name``, ``userName``) is a word, and so is each of its parts. ``c++``, ``c#`` and ``.net``
    keep their signs; where more than one letter is left without them, that is a word too. ``1,000`` is ``1000``;
    ``1.000`` and ``1 000``, which may be two numbers, are these as well. Dates and versions (``2024-03-05``,
    ``1.10``) are words next to their parts.

    Args:
        text: in any script or several.
        pairs: False: the characters alone, which counts them once, and no parts.

    Example:
        >>> search_words("The Valve leaks!")
        ['the', 'valve', 'leaks']
        >>> search_words("BERT\u306e\u5b66\u7fd2") == ["bert", *"\u306e\u5b66\u7fd2", "\u306e\u5b66", "\u5b66\u7fd2"]
        True
        >>> search_words("C++: openPort(1,000)")
        ['c++', 'openport', '1000', 'open', 'port']
    """
    parts: list[str] = []

    def number(match: re.Match[str]) -> str:
        digits = match[0].replace(match[1], "")
        if match[1] not in ". ":
            return digits
        parts.append(digits)
        return match[0]

    if pairs and _PART.search(text):
        runs = (run for chunk in text.split() if _PART.search(chunk) for run in _RUN.findall(chunk))
        parts = [
            part for run in runs if _PART.search(run) for part in _PART.sub(r" \g<0>", run).replace("_", " ").split()
        ]
    text = folded(text)
    if not text.isascii():
        text = _OTHER_DIGIT.sub(lambda digit: str(int(digit[0])), text)
    text = _NUMBER.sub(number, text)
    if not _SIGN.search(text) and (text.isascii() or not _ANY_SEARCHED_BY_CHARACTERS.search(text)):
        words = _WORD.findall(text)
    else:
        words = []
        for run in _WORD_OR_RUN.findall(text):
            if not _ANY_SEARCHED_BY_CHARACTERS.match(run):
                words.append(run)
                if len(bare := run.strip(".+#")) > 1 and bare != run:
                    parts.append(bare)
                continue
            characters = _SEARCHED_CHARACTER.findall(run)
            words += characters
            if pairs:
                words += [first + second for first, second in pairwise(characters)]
    return [*words, *_WORD.findall(folded(" ".join(parts))), *_JOINED.findall(text)] if pairs else words


def is_unicode(text: str) -> bool:
    """Whether ``text`` can be encoded: it holds no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# The escapes: question mark and full stop of Arabic and Urdu, full stops of the scripts of India and of Amharic; full
# stops of Burmese and Khmer, closing quotation marks and bracket of Chinese and Japanese.
_SENTENCE_END = re.compile(
    r"""(?<=[.!?…\u061f\u06d4\u0964\u0965\u1362])(?P<close>["'”’»)\]]*)\s+"""
    r"""|(?:(?<=[。！？\u104b\u17d4\u17d5])|(?<=[。！？][\u300d\u300f\uff09”]))(?![\u300d\u300f\uff09”])\s*"""
)
_ABBREVIATIONS = (
    "e\\.g|i\\.e|cf|vs|al|etc|ca|no|nos|vol|pp|fig|figs|eq|eqs|dr|mr|mrs|ms|prof|st|approx",
    "nr|bzw|usw|vgl|abb|bd|kap|evtl|ggf|inkl|sog|geb|hrsg|aufl|z\\.b|d\\.h|u\\.a",  # German
    "mme|mlle|p\\.ex|sr|sra|srta|dra|pág|núm|uds|p\\.ej|sig|dott|pag|ecc|bijv|blz",  # Romance languages, Dutch
)
_SHORT = re.compile(rf"(?:^|[\s(])(?:[A-Za-zÀ-ÖØ-öø-ÿ]|{'|'.join(_ABBREVIATIONS)})\.$", re.IGNORECASE)
_LETTER = re.compile(r"\w")
_ABBREVIATION = 10
"""Number of last characters that are examined for an abbreviation: longer than the longest with its full stop."""


def split_sentences(text: str) -> list[str]:
    """Splits a text after ``.``, ``!``, ``?`` and similar marks, but not after initials and abbreviations.

    White space is collapsed; nothing else is changed, and the sentences joined by spaces are the text again. Marks
    without a letter or digit between them (``. . .``, the dots in a table of contents) end the sentence before them.

    Example:
        >>> split_sentences("Ask Dr. Gray. She knows!")
        ['Ask Dr. Gray.', 'She knows!']
        >>> split_sentences("Preface . . . . 3 Index")
        ['Preface . . . .', '3 Index']
    """
    joined = " ".join(text.split())
    ranges: list[tuple[int, int]] = []
    start = 0

    def add(end: int) -> None:
        if ranges and _LETTER.search(joined, start, end) is None:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))

    for match in _SENTENCE_END.finditer(joined):
        end = match.start() + len(match["close"] or "")
        if end == start or (joined[end - 1] == "." and _SHORT.search(joined[max(start, end - _ABBREVIATION) : end])):
            continue
        if not ranges and _LETTER.search(joined, start, end) is None:
            continue  # marks before the first word
        add(end)
        start = match.end()
    if start < len(joined):
        add(len(joined))
    return [joined[first:last] for first, last in ranges]
