"""Builds the collections whose questions are in users' own words, in BEIR's layout, and checks their judgements.

    python benchmarks/user_queries.py OUT
    python benchmarks/user_queries.py OUT gnome pgadmin --packages downloaded

The corpus of each comes from packages with pinned versions (`SOURCES`), which the script gets by apt-get and pip, so
that ids are stable; ``--packages`` names a folder that has the files, or that keeps them for the next time. Queries and
judgements are `queries/NAME.queries.jsonl` and `queries/NAME.qrels.tsv` next to this script; they were written before
any model was run on the text, by somebody who knew it through `grep` and skimming. queries/README.md says more.

For each collection the script prints the counts, and the share of a query's words (without function words, in lower
case, as they stand) that occur in the documents that answer it: the mean over those documents, and of the one that has
most of them; then the mean over queries. A judged id that the corpus lacks ends it, and so does a corpus that differs
from the one that was judged.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree

from opencse.objective.views.words import FUNCTION_WORDS

QUERIES = Path(__file__).parent / "queries"
FEWEST_WORDS = 15
"""Sections with fewer words (an empty chapter, a list of links) are left out."""
_TICKET_WORDS = 4
_FROM_SOURCE = {"wagtail"}  # its wheel has no change log
_SKIPPED_TAGS = {"script", "style", "head", "nav"}
_SKIPPED_CLASSES = {"navheader", "navfooter", "toc", "docnav", "legalnotice", "revhistory"}
_SKIPPED_IDS = {"banner", "title"}
_VOID = {"img", "br", "hr", "meta", "link", "input", "col", "area", "base", "embed", "source", "track", "wbr"}
_BLOCKS = {"p", "div", "li", "dt", "dd", "td", "th", "tr", "pre", "br", "table", "ul", "ol", "dl", "title", "item"}
_CREDIT = re.compile(r"\s*\((?:[^()]|\([^()]*\))*\)$")
_ISSUE = re.compile(r"(?m)^\s*\| `\w+ #(\d+) <[^>]*>`_ *-+ *(.*)$")
_NUMBER = re.compile(r"^\s*(?:Chapter|Appendix|Part)?\s*(?:[\dA-Z]+\.)+(?:\d+\.?)*\s+")


class Document(NamedTuple):
    """A document of a collection."""

    name: str
    title: str
    text: str


class Source(NamedTuple):
    """The pinned packages that a collection is made from, and what it is used for."""

    packages: tuple[str, ...]
    role: str
    digest: str
    """The beginning of the SHA-256 of corpus.jsonl."""


SOURCES = {
    "gnome": Source(
        (
            "gnome-user-docs=43.0-2",
            "evolution-common=3.46.4-2+deb12u1",
            "evince-common=43.1-2+deb12u1",
            "gedit-common=44.2-1",
            "gnome-terminal-data=3.46.8-1",
            "orca=43.1-1",
            "shotwell-common=0.30.17-1",
            "totem-common=43.0-2",
            "cheese-common=43.0-1",
        ),
        "choosing",
        "c53c0e33cdb10bc7",
    ),
    "wagtail": Source(("wagtail==6.3",), "choosing", "67e287fe5663b6ae"),
    "admin": Source(("debian-handbook=11.20220922", "debian-reference-en=2.100"), "choosing", "547e58773b5fb8dd"),
    "gimp": Source(("gimp-help-en=2.10.34-2",), "reporting", "f6b07c02fe1520d6"),
    "pgadmin": Source(("pgadmin4==8.12",), "reporting", "ad24c5b24ca86f22"),
    "accounts": Source(("gnucash-docs=4.13-1",), "reporting", "d5656d84b2532ef6"),
}


def fetch(package: str, folder: Path, kept: Path) -> None:
    """Unpacks a package of Debian (NAME=VERSION) or PyPI (NAME==VERSION); downloads it if ``kept`` lacks it."""
    name, version = re.split("==?", package)
    pattern = f"{name}[-_]{version}[-._]*"
    if not list(kept.glob(pattern)) and "==" in package:
        source = ["--no-binary", name] if name in _FROM_SOURCE else []
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(kept), *source]
        subprocess.run([*pip, package], check=True)
    elif not list(kept.glob(pattern)):
        subprocess.run(["apt-get", "--quiet", "download", package], cwd=kept, check=True)
    file = next(kept.glob(pattern))
    if file.suffix == ".deb":
        subprocess.run(["dpkg-deb", "--extract", str(file), str(folder)], check=True)
    else:
        shutil.unpack_archive(file, folder, format="zip" if file.suffix == ".whl" else None)


def squeezed(text: str) -> str:
    """Text with one space for any run of white space."""
    return re.sub(r"\s+", " ", text).strip()


class Page(HTMLParser):
    """Reads the sections of an HTML page: a heading begins one, and navigation is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[tuple[int, str, list[str]]] = []
        self._open: list[tuple[str, bool]] = []
        self._heading: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a section at a heading, and skips what is no text."""
        if tag in _BLOCKS:
            self.handle_data(" ")
        if tag in _VOID:
            return
        known = dict(attrs)
        skipped = tag in _SKIPPED_TAGS or bool(_SKIPPED_CLASSES & set((known.get("class") or "").split()))
        skipped = skipped or known.get("id") in _SKIPPED_IDS or self._skipping
        self._open.append((tag, skipped))
        if re.fullmatch("h[1-6]", tag) and not skipped:
            self._heading = []

    def handle_endtag(self, tag: str) -> None:
        """Ends what is open, back to this tag."""
        if tag in _VOID or tag not in [name for name, _ in self._open]:
            return
        while self._open.pop()[0] != tag:
            pass
        if re.fullmatch("h[1-6]", tag) and self._heading is not None:
            title = _NUMBER.sub("", squeezed("".join(self._heading)))
            self.sections.append((int(tag[1]), title, []))
            self._heading = None
        elif tag in _BLOCKS:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        """Adds text to the heading or the section."""
        if self._skipping:
            return
        if self._heading is not None:
            self._heading.append(data)
        elif self.sections:
            self.sections[-1][2].append(data)

    @property
    def _skipping(self) -> bool:
        return bool(self._open) and self._open[-1][1]


def html_documents(folder: Path, prefix: str = "", left_out: str = "^$") -> Iterator[Document]:
    """A document for each section of each page; its title is the page's and its own."""
    for file in sorted(folder.glob("*.html")):
        if re.search(left_out, file.stem):
            continue
        page = Page()
        page.feed(file.read_text(encoding="utf-8"))
        for number, (_, title, texts) in enumerate(page.sections):
            first = page.sections[0][1]
            name = prefix + file.stem + (f"#{number}" if number else "")
            yield Document(name, title if title == first else f"{first}: {title}", squeezed("".join(texts)))


def _mallard_text(node: ElementTree.Element, *, skipped: frozenset[str]) -> str:
    tag = node.tag.rpartition("}")[2]
    if tag in skipped:
        return node.tail or ""
    between = " " if tag in _BLOCKS else ""
    inner = (node.text or "") + "".join(_mallard_text(child, skipped=skipped) for child in node)
    if tag == "guiseq":
        inner = " > ".join(squeezed("".join(child.itertext())) for child in node)
    return between + inner + between + (node.tail or "")


def mallard_documents(folder: Path, prefix: str) -> Iterator[Document]:
    """A document for each page and each section of a page of Mallard, with the page's description."""
    name = "{http://projectmallard.org/1.0/}"
    skipped = frozenset({"info", "comment", "section", "title", "links", "media"})
    for file in sorted(folder.glob("*.page")):
        root = ElementTree.parse(file).getroot()
        titles: list[str] = []
        for number, node in enumerate([root, *root.iter(name + "section")]):
            title = node.find(name + "title")
            titles.append(squeezed("".join(title.itertext())) if title is not None else "")
            description = node.find(f"{name}info/{name}desc")
            texts = ["" if description is None else "".join(description.itertext())]
            texts += [_mallard_text(child, skipped=skipped) for child in node]
            shown = titles[0] if number == 0 else f"{titles[0]}: {titles[-1]}"
            yield Document(prefix + file.stem + (f"#{number}" if number else ""), shown, squeezed(" ".join(texts)))


def changelog_documents(text: str) -> Iterator[Document]:
    """Wagtail's changes: one entry a line, without the names of their authors."""
    version, number = "", 0
    for line in text.splitlines():
        if heading := re.match(r"(\d[\w.]*)", line):
            version, number = heading[1], 0
        elif entry := re.match(r" \* (.*)", line):
            number += 1
            yield Document(f"{version}-{number}", "", _CREDIT.sub("", entry[1].strip()))


def release_documents(folder: Path) -> Iterator[Document]:
    """The changes of pgAdmin: one entry a line, by the number of its issue and its release."""
    for file in sorted(folder.glob("release_notes_*.rst")):
        for number, entry in _ISSUE.findall(file.read_text(encoding="utf-8")):
            yield Document(f"{number}@{file.stem.removeprefix('release_notes_').replace('_', '.')}", "", entry.strip())


def documents(name: str, folder: Path) -> Iterator[Document]:
    """The documents of a collection whose packages are unpacked in a folder."""
    share = folder / "usr/share"
    if name == "gnome":
        for book in sorted((share / "help/C").iterdir()):
            yield from mallard_documents(book, book.name + "/")
    elif name == "wagtail":
        yield from changelog_documents((folder / "wagtail-6.3/CHANGELOG.txt").read_text(encoding="utf-8"))
    elif name == "admin":
        yield from html_documents(share / "doc/debian-handbook/html/en-US", "handbook/")
        yield from html_documents(share / "debian-reference", "reference/")
    elif name == "gimp":
        left_out = "^(gfdl|bibliography|index|glossary|gimp-help-index)"
        yield from html_documents(share / "gimp/2.0/help/en", left_out=left_out)
    elif name == "pgadmin":
        yield from release_documents(folder / "pgadmin4/docs/en_US")
    else:
        for part in ("guide", "help"):
            pages = share / f"doc/gnucash-docs/gnucash-{part}-en"
            yield from html_documents(pages, part + "/", left_out="^(fdl|index|authors|titlepage|gnc-gloss)")


def corpus(name: str, folder: Path) -> list[Document]:
    """The documents of a collection, each text once, without those of a few words."""
    fewest = _TICKET_WORDS if name in {"wagtail", "pgadmin"} else FEWEST_WORDS
    kept: dict[str, Document] = {}
    names: set[str] = set()
    for one in documents(name, folder):
        if len(one.text.split()) >= fewest and one.text not in kept and one.name not in names:
            kept[one.text] = one
            names.add(one.name)
    return list(kept.values())


def build(name: str, out: Path, kept: Path) -> None:
    """Makes a collection's corpus, and puts its queries and judgements next to it."""
    with TemporaryDirectory() as folder:
        for package in SOURCES[name].packages:
            fetch(package, Path(folder), kept)
        found = corpus(name, Path(folder))
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    with (out / "corpus.jsonl").open("w", encoding="utf-8") as stream:
        for one in found:
            stream.write(json.dumps({"_id": one.name, "title": one.title, "text": one.text}, ensure_ascii=False) + "\n")
    shutil.copy(QUERIES / f"{name}.queries.jsonl", out / "queries.jsonl")
    shutil.copy(QUERIES / f"{name}.qrels.tsv", out / "qrels/test.tsv")


def words(text: str) -> set[str]:
    """The words of a text in lower case, without function words."""
    return set(re.findall(r"[a-z0-9]+(?:['.-][a-z0-9]+)*", text.lower().replace("’", "'"))) - set(FUNCTION_WORDS)


def check(name: str, folder: Path) -> str:
    """Ends the script if a judgement names what is not there; else returns a line of the table."""
    texts = {}
    content = (folder / "corpus.jsonl").read_bytes()
    if not hashlib.sha256(content).hexdigest().startswith(SOURCES[name].digest):
        raise SystemExit(f"{folder / 'corpus.jsonl'}: not the text that was judged; see the versions in SOURCES")
    for line in content.decode().splitlines():
        one = json.loads(line)
        texts[one["_id"]] = f"{one['title']} {one['text']}".strip()
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = {one["_id"]: one["text"] for one in map(json.loads, lines)}
    judged: dict[str, list[str]] = {query: [] for query in queries}
    for number, line in enumerate((folder / "qrels/test.tsv").read_text(encoding="utf-8").splitlines()[1:], 2):
        query, document, _ = line.split("\t")
        if query not in queries or document not in texts:
            raise SystemExit(f"benchmarks/queries/{name}.qrels.tsv:{number}: no such query or document: {line}")
        judged[query].append(document)
    if without := [query for query, found in judged.items() if not found]:
        raise SystemExit(f"benchmarks/queries/{name}.qrels.tsv: no judgement of {', '.join(without)}")
    shares = []
    for query, found in judged.items():
        asked = words(queries[query])
        shares.append([len(asked & words(texts[document])) / len(asked) for document in found])
    return (
        f"| {name} | {SOURCES[name].role} | {len(texts):,} | {mean(len(text.split()) for text in texts.values()):.0f} "
        f"| {len(queries)} | {mean(len(text.split()) for text in queries.values()):.1f} "
        f"| {mean(map(len, judged.values())):.1f} | {100 * mean(map(mean, shares)):.0f}% "
        f"| {100 * mean(map(max, shares)):.0f}% |"
    )


def main() -> None:
    """Builds and checks the collections that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder NAME is made in it for each collection")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SOURCES)}; all if none is given")
    parser.add_argument("--packages", type=Path, help="folder with the downloaded packages; what it lacks is put there")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SOURCES):
        parser.error(f"no collection {', '.join(sorted(unknown))}; there are {', '.join(SOURCES)}")
    print("| collection | for | documents | words | queries | words | right | words in the right | in the best |")
    print("|---|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as temporary:
        kept = options.packages or Path(temporary)
        kept.mkdir(parents=True, exist_ok=True)
        for name in options.names or SOURCES:
            build(name, options.out / name, kept)
            print(check(name, options.out / name), flush=True)


if __name__ == "__main__":
    main()
