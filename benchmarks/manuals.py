"""A collection that anybody on Debian has: the manual pages, as queries and documents (BEIR).

    apt-get download manpages manpages-dev && for file in manpages*.deb; do dpkg-deb -x $file pages; done
    python benchmarks/manuals.py pages OUT                    # then: python benchmarks/adapt.py --collections OUT ...
    python benchmarks/manuals.py pages-de OUT --sections BEZEICHNUNG BESCHREIBUNG          # of manpages-de, -de-dev

A query is what the NAME of a page says ("check and reset stream status"), its document the DESCRIPTION, without code
and tables; the document never holds the query. Some of the pages that ask no query are judged for training (``train``).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from collection import Asked, command, write

WORDS = (25, 400)
_CHARACTERS = {
    "aq": "'", "dq": '"', "em": " - ", "en": "-", "hy": "-", "lq": '"', "rq": '"', "cq": "'", "oq": "'", "ti": "~",
    "ha": "^", ":a": "ä", ":o": "ö", ":u": "ü", ":A": "Ä", ":O": "Ö", ":U": "Ü", "ss": "ß", "'e": "é",
}  # fmt: skip
_FONT = re.compile(r"\\f(\[.*?\]|\(..|.)|\\[&|^/,:%]|\\s[-+]?\d|\\m\[.*?\]")
_CHARACTER = re.compile(r"\\\((..)|\\\[([^\]]*)\]")
_STYLED = re.compile(r"\.(B|I|BR|IR|RB|RI|BI|IB|SM|SB)\s+(.*)")


def plain(text: str) -> str:
    """A line without roff's escapes."""
    text = _CHARACTER.sub(lambda found: _CHARACTERS.get(found[1] or found[2], ""), _FONT.sub("", text))
    return text.replace("\\-", "-").replace("\\e", "\\").replace("\\ ", " ").replace("\\~", " ").strip()


def sections(page: str) -> dict[str, str]:
    """The text of each section of a page, by its heading, without code and tables."""
    found: dict[str, list[str]] = {}
    section, skipped = "", False
    for line in page.splitlines():
        if heading := re.match(r'\.S[Hh] *"?([^"]*)"?', line):
            section = plain(heading[1]).upper()
        elif re.match(r"\.(nf|EX|TS)", line):
            skipped = True
        elif re.match(r"\.(fi|EE|TE)", line):
            skipped = False
        elif not skipped:
            if styled := _STYLED.match(line):
                parts = [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', styled[2])]
                found.setdefault(section, []).append(plain((" " if len(styled[1]) == 1 else "").join(parts)))
            elif line[:1] not in {".", "'", ""}:
                found.setdefault(section, []).append(plain(line))
    return {name: re.sub(r"\s+", " ", " ".join(lines)) for name, lines in found.items()}


def collect(folder: Path, name: str, description: str) -> Iterator[Asked]:
    """A question and its document for every page that has both, page after page by its path."""
    seen: set[str] = set()
    for path in sorted(folder.rglob("man/**/*.gz")):
        if path.is_symlink():
            continue
        found = sections(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
        question = re.search(r"\s-{1,2}\s+(.*)", found.get(name, ""))
        words = found.get(description, "").split()
        body = " ".join(words[: WORDS[1]])
        if question is None or len(question[1].split()) < 3 or len(words) < WORDS[0]:
            continue
        if question[1].lower() in body.lower() or question[1] in seen or body in seen:
            continue
        seen |= {question[1], body}
        yield Asked(question[1], body)


def main() -> None:
    """Writes the collection."""
    parser = command(__doc__, "pages")
    parser.add_argument("--sections", nargs=2, default=["NAME", "DESCRIPTION"], metavar=("NAME", "DESCRIPTION"))
    given = parser.parse_args()
    found = [*collect(given.pages, *given.sections)]
    print(f"{given.out}: {write(given.out, found, queries=given.queries, pairs=given.pairs)}")


if __name__ == "__main__":
    main()
