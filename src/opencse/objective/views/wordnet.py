"""Reads synonyms from the files of WordNet's database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from opencse.errors import UserError, explaining

_PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
_FIX = (
    "install Debian's package wordnet-base, or unpack WordNet's database files "
    "(https://wordnet.princeton.edu/download/current-version) and name their folder with view.wordnet"
)

Synonyms = Mapping[str, tuple[str, ...]]


def read_synonyms(folder: Path) -> Synonyms:
    """Reads the synonyms of every word: all other lemmas of all its synsets, of any part of speech.

    Lemmas of one word of letters only ("dog", not "domestic dog" or "A-one"); the words looked up are in lower case,
    their synonyms as WordNet writes them. Inflected forms ("dogs") are not lemmas.

    Args:
        folder: holds ``data.noun``, ``data.verb``, ``data.adj`` and ``data.adv`` in the format of wndb(5).

    Raises:
        UserError: if they do not exist or have another format.
    """
    synonyms: defaultdict[str, set[str]] = defaultdict(set)
    for part in _PARTS_OF_SPEECH:
        for synset in _synsets(folder / f"data.{part}"):
            for lemma in synset:
                synonyms[lemma.lower()].update(other for other in synset if other.lower() != lemma.lower())
    return {lemma: tuple(sorted(others)) for lemma, others in synonyms.items() if others}


def _synsets(path: Path) -> Iterator[list[str]]:
    """The lemmas of each synset in the file, in its order.

    A line is ``offset lexicographer-file type count word lex-id [word lex-id ...] ...``, ``count`` in hexadecimal;
    an adjective may have a marker of its place after it, as in ``galore(ip)``. The licence's lines are indented.
    """
    with explaining(f"{path}: WordNet cannot be read", OSError, UnicodeDecodeError, fix=_FIX):
        lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith(" "):
            continue
        try:
            count, rest = line.split(" ", 4)[3:]
            size = int(count, 16)
            words = rest.split(" ", 2 * size)[: 2 * size : 2]
        except ValueError:
            words = []
        if not words:
            raise UserError(f"{path}: line {number} is not in WordNet's database format; {_FIX}")
        yield [lemma for lemma in (word.partition("(")[0] for word in words) if lemma.isalpha()]
