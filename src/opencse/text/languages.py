"""Names the language of texts: by letters where a script belongs to one language, else by function words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from opencse.text.stems import language_of

_LETTERS = {
    "japanese": "\u3041-\u3096\u30a1-\u30fa", "korean": "\uac00-\ud7a3", "thai": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "lao": "\u0e81-\u0ece\u0edc-\u0edf", "burmese": "\u1000-\u103f", "khmer": "\u1780-\u17d3",
    "greek": "\u0370-\u03ff\u1f00-\u1fff", "armenian": "\u0531-\u0587", "georgian": "\u10a0-\u10ff\u1c90-\u1cbf",
    "hebrew": "\u05d0-\u05ea", "amharic": "\u1200-\u137f", "tamil": "\u0b80-\u0bff", "telugu": "\u0c00-\u0c7f",
    "kannada": "\u0c80-\u0cff", "malayalam": "\u0d00-\u0d7f", "sinhala": "\u0d80-\u0dff", "gujarati": "\u0a80-\u0aff",
    "punjabi": "\u0a00-\u0a7f", "bengali": "\u0980-\u09ff", "tibetan": "\u0f00-\u0fff",
}  # fmt: skip
"""The letters of scripts that (nearly) all texts in use write one language with."""
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")
_ANY = {language: re.compile(f"[{letters}]") for language, letters in _LETTERS.items()}
_KANA = 0.1
"""Smallest share of Kana among Kana and Han of Japanese; it is about a half in running text."""
_SHARE = 0.4
"""Smallest share of a script's letters: Japanese or Thai text on technical matters has many Latin words."""


def language_of_texts(texts: Sequence[str]) -> str | None:
    """Detects the language of texts; None if it is not clear.

    The scripts of Japanese, Chinese, Korean, Thai, Greek, Hebrew and others name the language; of Latin and Cyrillic
    text the function words do (`opencse.text.stems.language_of`).

    Example:
        >>> language_of_texts(["Das ist der Kessel, und er ist mit dem Wasser auf dem Herd."])
        'german'
        >>> language_of_texts(["\u6c34\u3092\u6cb8\u304b\u3059\u65b9\u6cd5"])
        'japanese'
    """
    return _language_of_script(texts) or language_of(texts)


def _language_of_script(texts: Iterable[str]) -> str | None:
    counts: Counter[str] = Counter()
    han = total = 0
    for text in texts:
        total += sum(map(str.isalpha, text))
        if not text.isascii():
            han += len(_HAN.findall(text))
            counts.update({language: len(letters.findall(text)) for language, letters in _ANY.items()})
    if han:
        counts["japanese" if counts["japanese"] >= _KANA * (han + counts["japanese"]) else "chinese"] += han
    language, count = counts.most_common(1)[0] if counts else ("", 0)
    return language if count and count >= _SHARE * total else None
