"""Reduces words to stems by Snowball's rules, and detects the language of a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from opencse.errors import UserError, nearest
from opencse.text.keyword_package import keyword_package
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


def stems_of(language: str | None) -> Stems:
    """The function that reduces words of a language to stems; without a language, words stay unchanged."""
    if language is None:
        return list
    import snowballstemmer

    stem = snowballstemmer.stemmer(language).stemWord
    known: dict[str, str] = {}

    def stems(words: Sequence[str]) -> list[str]:
        return [known[word] if word in known else known.setdefault(word, stem(word)) for word in words]

    return stems


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
