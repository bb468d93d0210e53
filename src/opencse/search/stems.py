"""Reduces words to stems by Snowball's rules, and detects the language of texts."""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import Any

from opencse.errors import UserError, nearest
from opencse.text.scripts import search_words

LANGUAGES = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
"""Languages that Snowball has rules for, by their code (ISO 639-1)."""
AUTO, NONE = "auto", "none"
_CHUNK = 200
"""Number of words that are judged together."""
_SHARE = 0.14
"""Smallest share of a language's function words among all words: 0.35 in running text, 0.17 in titles."""
_AHEAD = 1.3
"""How many times as many function words of the language there must be as of the next one."""
_MOST = 0.8
"""Smallest share of the chunks in a clear language that are in this one, which are half of all chunks at least."""
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
_SCRIPT_SHARE = 0.4
"""Smallest share of a script's letters: Japanese or Thai text on technical matters has many Latin words."""
Stems = Callable[[Sequence[str]], list[str]]
"""A function from words to their stems."""


def language_named(name: str) -> str | None:
    """Looks up a language by its English name or its code; None for ``none``.

    Raises:
        UserError: for a language without rules.
    """
    given_name = name.strip().lower()
    if given_name == NONE:
        return None
    language = LANGUAGES.get(given_name, given_name)
    if language not in LANGUAGES.values():
        known = ", ".join(f"{code} ({english})" for code, english in LANGUAGES.items())
        raise UserError(
            f"no stems for the language {name!r}{nearest(given_name, [*LANGUAGES, *LANGUAGES.values()])}; give none "
            f"(words as they are), or one of: {known}"
        )
    return language


@cache
def stems_of(language: str | None) -> Stems:
    """The function that reduces words of a language to stems; without a language, words stay unchanged."""
    if language is None:
        return list
    import snowballstemmer

    stemmer, alone = snowballstemmer.stemmer(language), Lock()

    @lru_cache(2**17)
    def stem(word: str) -> str:
        with alone:  # it keeps the word that it is at
            return str(stemmer.stemWord(word))

    return lambda words: [stem(word) for word in words]


def rules_version() -> str:
    """The version of the stemming rules, since versions may give different stems; PyStemmer's if that is installed.

    snowballstemmer calls PyStemmer if it can: the same rules in C, a hundred times as fast.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"c{version('pystemmer')}"
    except PackageNotFoundError:
        return version("snowballstemmer")


def language_of(texts: Iterable[str]) -> str | None:
    """Detects the language of texts by their function words; None if it is not clear.

    It knows twelve languages: the ones whose function words bm25s lists. Texts are judged in chunks of 200 words: a
    seventh of a chunk's words must be function words of the language, three tenths more than of the next language.
    This must be so for half of the chunks, and for four fifths of those where it is so of any language. Names, codes,
    and texts in several languages have no language.

    Example:
        >>> language_of(["Das ist der Kessel, und er ist mit dem Wasser auf dem Herd."])
        'german'
    """
    stopwords = keyword_package().stopwords

    lists = {
        "danish": stopwords.STOPWORDS_DANISH,
        "dutch": stopwords.STOPWORDS_DUTCH,
        "english": stopwords.STOPWORDS_EN_PLUS,
        "french": stopwords.STOPWORDS_FRENCH,
        "german": stopwords.STOPWORDS_GERMAN,
        "italian": stopwords.STOPWORDS_ITALIAN,
        "norwegian": stopwords.STOPWORDS_NORWEGIAN,
        "portuguese": stopwords.STOPWORDS_PORTUGUESE,
        "russian": stopwords.STOPWORDS_RUSSIAN,
        "spanish": stopwords.STOPWORDS_SPANISH,
        "swedish": stopwords.STOPWORDS_SWEDISH,
        "turkish": stopwords.STOPWORDS_TURKISH,
    }
    languages: dict[str, list[str]] = {}
    for language, words in lists.items():
        for word in {unique for text in words for unique in search_words(text, pairs=False)}:
            languages.setdefault(word, []).append(language)
    votes: Counter[str | None] = Counter()
    words_of_chunk: list[str] = []
    for text in texts:
        words_of_chunk += search_words(text, pairs=False)
        if len(words_of_chunk) >= _CHUNK:
            votes[_language_of_words(words_of_chunk, languages)] += len(words_of_chunk)
            words_of_chunk = []
    if words_of_chunk:
        votes[_language_of_words(words_of_chunk, languages)] += len(words_of_chunk)
    total, clear = votes.total(), votes.total() - votes.pop(None, 0)
    best, count = votes.most_common(1)[0] if votes else (None, 0)
    return best if count >= max(_MOST * clear, total / 2) else None


def _language_of_words(words: Sequence[str], languages: dict[str, list[str]]) -> str | None:
    counts = Counter(language for word in words for language in languages.get(word, ()))
    (first, most), (_, next_most) = [*counts.most_common(2), ("", 0), ("", 0)][:2]
    return first if most >= max(_SHARE * len(words), _AHEAD * next_most) else None


def keyword_package() -> Any:  # noqa: ANN401 - bm25s is untyped
    """The package bm25s.

    Where jax is installed, bm25s computes something with it while it is imported, and jax then takes three quarters of
    a GPU's memory. It is hidden meanwhile; bm25s then chooses its results by numpy, as on machines without jax.

    bm25s also sets its logger to DEBUG, so that any handler of the program would print a line for each index. The
    logger follows the program's own level again, unless the program imported bm25s before.
    """
    first = "bm25s" not in sys.modules
    hidden = "jax" not in sys.modules and first
    if hidden:
        sys.modules["jax"] = None  # type: ignore[assignment]  # an import of it then fails
    try:
        import bm25s
    finally:
        if hidden:
            del sys.modules["jax"]
    if first:
        logging.getLogger("bm25s").setLevel(logging.NOTSET)
    return bm25s


def language_of_texts(texts: Sequence[str]) -> str | None:
    """Detects the language of texts; None if it is not clear.

    The scripts of Japanese, Chinese, Korean, Thai, Greek, Hebrew and others name the language; of Latin and Cyrillic
    text the function words do (`language_of`).

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
    return language if count and count >= _SCRIPT_SHARE * total else None
