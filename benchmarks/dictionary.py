"""A collection that anybody on Debian has: a dictionary of computing (FOLDOC), as queries and documents (BEIR).

    apt-get download dict-foldoc && dpkg-deb -x dict-foldoc_*.deb foldoc
    python benchmarks/dictionary.py foldoc/usr/share/dictd/foldoc.dict.dz OUT   # then: benchmarks/adapt.py

A query is the first sentence of an entry, its document the rest, its title the word that is explained. Some of the
entries that ask no query are judged for training (``train``).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

from collection import Asked, command, write

_MARKS = re.compile(r"[{}]|<[^>]*>|\(\d{4}-\d\d-\d\d\)")


def entries(text: str) -> Iterator[tuple[str, str]]:
    """(word, explanation): the words stand at the line's beginning, what explains them is indented."""
    word, lines = "", list[str]()
    for line in [*text.splitlines(), "end"]:
        if line and not line.startswith(" "):
            if word and lines and not word.startswith("00"):
                yield word, re.sub(r"\s+", " ", _MARKS.sub("", " ".join(lines))).strip()
            word, lines = line.strip(), []
        elif line.strip():
            lines.append(line.strip())


def collect(text: str) -> Iterator[Asked]:
    """A question and its document for every entry of some length."""
    seen: set[str] = set()
    for word, explanation in entries(text):
        parts = re.match(r"(?:1\. )?(.{20,}?[.?!]) (.*)", explanation)
        if parts is None or not 5 <= len(parts[1].split()) <= 40 or len(parts[2].split()) < 20:
            continue
        if parts[1] in seen or parts[2] in seen:
            continue
        seen |= {parts[1], parts[2]}
        yield Asked(parts[1], " ".join(parts[2].split()[:300]), word)


def main() -> None:
    """Writes the collection."""
    parser = command(__doc__, "dictionary")
    given = parser.parse_args()
    found = [*collect(gzip.decompress(given.dictionary.read_bytes()).decode("utf-8", "replace"))]
    print(f"{given.out}: {write(given.out, found, queries=given.queries, pairs=given.pairs)}")


if __name__ == "__main__":
    main()
