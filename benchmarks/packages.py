"""A collection that anybody has: Debian's descriptions of its packages, as queries and documents (BEIR).

    /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_main_i18n_Translation-en* > descriptions.txt
    python benchmarks/packages.py descriptions.txt OUT

A query is a package's one-line description ("real-time strategy game of ancient warfare"), its document the long one,
whose title is the package's name. Of packages that begin alike (a program, its data, its library) the first is taken.
Where apt keeps no English descriptions, `apt-get -o Acquire::Languages=en update` brings them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from collection import Asked, command, write

WORDS = (25, 400)


def descriptions(text: str) -> Iterator[Asked]:
    """One-line description, long one and name of every package that has all three."""
    seen: set[str] = set()
    for record in text.split("\n\n"):
        found = re.match(r"Package: (\S+)\n(?:.*\n)*?Description-en: (.+)\n((?: .*\n?)+)", record + "\n")
        if found is None:
            continue
        name, line, rest = found.groups()
        paragraphs = [" ".join(part.split()) for part in re.split(r"(?m)^ \.$", rest)]
        body = "\n".join(filter(None, paragraphs))
        if len(line.split()) < 4 or not WORDS[0] <= len(body.split()) <= WORDS[1]:
            continue
        if line.lower() in body.lower() or {line, paragraphs[0]} & seen:
            continue
        seen |= {line, paragraphs[0]}
        yield Asked(line, body, name)


def main() -> None:
    """Writes the collection."""
    parser = command(__doc__, "descriptions")
    parser.add_argument("--documents", type=int, default=5000, help="every so-many-th package, up to this number")
    given = parser.parse_args()
    every = list(descriptions(given.descriptions.read_text(encoding="utf-8")))
    found = every[:: max(1, len(every) // given.documents)][: given.documents]
    written = write(given.out, found, queries=given.queries, pairs=given.pairs)
    print(f"{given.out}: {written}, of {len(every):,} packages")


if __name__ == "__main__":
    main()
