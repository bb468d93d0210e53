"""Makes collections of questions with known answers, in BEIR's layout, from text that anybody can get.

    python benchmarks/make_collections.py docstrings OUT
    python benchmarks/make_collections.py packages descriptions.txt OUT
    python benchmarks/make_collections.py manuals pages OUT
    python benchmarks/make_collections.py manuals pages-de OUT --sections BEZEICHNUNG BESCHREIBUNG
    python benchmarks/make_collections.py dictionary foldoc/usr/share/dictd/foldoc.dict.dz OUT
    python benchmarks/make_collections.py pages usr/share/doc/postgresql-doc-15/html OUT --words 4000 [--detail]
    python benchmarks/make_collections.py mixed DATA/retrieval/scifact mixed.txt     # for speed.py step --length 256

Every document is in the corpus; ``--queries`` of them, evenly spread, have a test query, and ``--pairs`` of the others
are judged for training. No document contains its query, and a text that occurs twice is kept once. Then:
`python benchmarks/adapt.py --data DATA --collections docstrings ... --out study`.

docstrings: docstrings of installed packages; the query is the first sentence, the document the rest, in plain
    English, without signatures, doctests, tables and names of parameters. The versions are printed.
packages: Debian's package descriptions; the query is the one-line description, the document the long one. Of packages
    that begin with the same paragraph (a program, its data, its library) the first is kept. To get the text (with
    `apt-get -o Acquire::Languages=en update` first where apt keeps no English descriptions):
    /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_main_i18n_Translation-en* > descriptions.txt
manuals: manual pages; the query is what NAME says, the document the DESCRIPTION without code and tables:
    apt-get download manpages manpages-dev && for file in manpages*.deb; do dpkg-deb -x $file pages; done
dictionary: a dictionary of computing (FOLDOC); the query is the first sentence of an entry, the document the rest:
    apt-get download dict-foldoc && dpkg-deb -x dict-foldoc_*.deb foldoc
pages: HTML pages of a manual; the query is the first sentence of the first paragraph, the document the rest.
mixed: no collection but a text of mixed lengths, one per line: every tenth document in full, the first sentence of the
    others.

The file is not called collections.py: a script's folder comes first on Python's path, and would hide the standard
library's `collections` from every benchmark.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import importlib.util
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path
from typing import NamedTuple

from opencse.text.documents import read_documents
from opencse.text.folders import find_corpus
from opencse.text.scripts import split_sentences

PACKAGES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "torch": "torch", "matplotlib": "matplotlib"}
WORDS = [25, 400]
_CODE = re.compile(r"^\s*(>>>|\.\.\.|\.\. |:|[-=~^+|]{3,})|::\s*$")
_MARK = re.compile(r":[a-z:]+:`~?([^`<]+)(?:<[^>]*>)?`|``([^`]+)``|`([^`]+)`_?|\*\*?([^*\n]+)\*\*?")
_CHARACTERS = {
    "aq": "'", "dq": '"', "em": " - ", "en": "-", "hy": "-", "lq": '"', "rq": '"', "cq": "'", "oq": "'", "ti": "~",
    "ha": "^", ":a": "ä", ":o": "ö", ":u": "ü", ":A": "Ä", ":O": "Ö", ":U": "Ü", "ss": "ß", "'e": "é",
}  # fmt: skip
_FONT = re.compile(r"\\f(\[.*?\]|\(..|.)|\\[&|^/,:%]|\\s[-+]?\d|\\m\[.*?\]")
_CHARACTER = re.compile(r"\\\((..)|\\\[([^\]]*)\]")
_STYLED = re.compile(r"\.(B|I|BR|IR|RB|RI|BI|IB|SM|SB)\s+(.*)")
_MARKS = re.compile(r"[{}]|<[^>]*>|\(\d{4}-\d\d-\d\d\)")


class Question(NamedTuple):
    """A question, the one document that answers it, and that document's title ("" for none)."""

    question: str
    document: str
    title: str = ""


def write(out: Path, questions: Sequence[Question], *, queries: int, pairs: int) -> str:
    """Writes a collection: every document, ``queries`` test queries and ``pairs`` train judgements, evenly spread.

    Returns the counts in words.
    """
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    tested = list(range(0, len(questions), max(1, len(questions) // queries)))[:queries]
    others = sorted({*range(len(questions))} - {*tested})
    trained = others[:: max(1, len(others) // max(1, pairs))][:pairs]
    with (out / "corpus.jsonl").open("w", encoding="utf-8") as corpus:
        for number, one in enumerate(questions):
            corpus.write(json.dumps({"_id": str(number), "title": one.title, "text": one.document}) + "\n")
    with (out / "queries.jsonl").open("w", encoding="utf-8") as stream:
        for number in sorted([*tested, *trained]):
            stream.write(json.dumps({"_id": f"q{number}", "text": questions[number].question}) + "\n")
    for split, numbers in (("test", tested), ("train", trained)):
        with (out / "qrels" / f"{split}.tsv").open("w", encoding="utf-8") as qrels:
            qrels.write("query-id\tcorpus-id\tscore\n")
            qrels.writelines(f"q{number}\t{number}\t1\n" for number in numbers)
    return f"{len(questions):,} documents, {len(tested)} queries, {len(trained)} pairs"


def docstrings(folder: Path) -> Iterator[str]:
    """Yields the docstrings of public functions and classes, by file name."""
    for file in sorted(folder.rglob("*.py")):
        if "test" in str(file.relative_to(folder)):
            continue
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                text = ast.get_docstring(node)
                if text:
                    yield cleandoc(text)


def plain_paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of plain English, one line each."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if any(_CODE.search(line) for line in lines) or (len(lines) > 1 and re.match(r"\w+ ?:", lines[0])):
            continue
        plain = _MARK.sub(lambda match: next(filter(None, match.groups())), " ".join(line.strip() for line in lines))
        words = plain.split()
        if len(words) >= 6 and plain.rstrip()[-1:] in ".!?" and sum(word.isalpha() for word in words) > len(words) / 2:
            yield plain


def from_docstrings(packages: list[str]) -> Iterator[Question]:
    """A question and its document for every docstring that has both."""
    seen: set[str] = set()
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for text in docstrings(Path(spec.origin).parent):
            paragraphs = list(plain_paragraphs(text))
            if len(paragraphs) < 2:
                continue
            query, _, more = paragraphs[0].partition(". ")
            body = "\n".join(filter(None, [more, *paragraphs[1:]]))
            if len(query.split()) < 4 or not WORDS[0] <= len(body.split()) <= WORDS[1]:
                continue
            if query.lower() in body.lower() or query in seen or body in seen:
                continue
            seen |= {query, body}
            yield Question(query.rstrip(".") + ".", body)


def from_packages(text: str) -> Iterator[Question]:
    """One-line description, long one and name of every package that has all three."""
    seen: set[str] = set()
    for record in text.split("\n\n"):
        match = re.match(r"Package: (\S+)\n(?:.*\n)*?Description-en: (.+)\n((?: .*\n?)+)", record + "\n")
        if match is None:
            continue
        name, line, rest = match.groups()
        paragraphs = [" ".join(part.split()) for part in re.split(r"(?m)^ \.$", rest)]
        body = "\n".join(filter(None, paragraphs))
        if len(line.split()) < 4 or not WORDS[0] <= len(body.split()) <= WORDS[1]:
            continue
        if line.lower() in body.lower() or {line, paragraphs[0]} & seen:
            continue
        seen |= {line, paragraphs[0]}
        yield Question(line, body, name)


def without_roff(text: str) -> str:
    """Removes roff's escapes from a line."""
    text = _CHARACTER.sub(lambda match: _CHARACTERS.get(match[1] or match[2], ""), _FONT.sub("", text))
    return text.replace("\\-", "-").replace("\\e", "\\").replace("\\ ", " ").replace("\\~", " ").strip()


def sections(page: str) -> dict[str, str]:
    """The text of each section of a page, by its heading, without code and tables."""
    texts: dict[str, list[str]] = {}
    section, skipped = "", False
    for line in page.splitlines():
        if heading := re.match(r'\.S[Hh] *"?([^"]*)"?', line):
            section = without_roff(heading[1]).upper()
        elif re.match(r"\.(nf|EX|TS)", line):
            skipped = True
        elif re.match(r"\.(fi|EE|TE)", line):
            skipped = False
        elif not skipped:
            if styled := _STYLED.match(line):
                parts = [a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', styled[2])]
                texts.setdefault(section, []).append(without_roff((" " if len(styled[1]) == 1 else "").join(parts)))
            elif line[:1] not in {".", "'", ""}:
                texts.setdefault(section, []).append(without_roff(line))
    return {name: re.sub(r"\s+", " ", " ".join(lines)) for name, lines in texts.items()}


def from_manuals(folder: Path, name: str, description: str) -> Iterator[Question]:
    """A question and its document for every page that has both, page after page by its path."""
    seen: set[str] = set()
    for path in sorted(folder.rglob("man/**/*.gz")):
        if path.is_symlink():
            continue
        by_heading = sections(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
        question = re.search(r"\s-{1,2}\s+(.*)", by_heading.get(name, ""))
        words = by_heading.get(description, "").split()
        body = " ".join(words[: WORDS[1]])
        if question is None or len(question[1].split()) < 3 or len(words) < WORDS[0]:
            continue
        if question[1].lower() in body.lower() or question[1] in seen or body in seen:
            continue
        seen |= {question[1], body}
        yield Question(question[1], body)


def dictionary_entries(text: str) -> Iterator[tuple[str, str]]:
    """Yields (word, explanation): a word begins its line, its explanation is indented."""
    word, lines = "", list[str]()
    for line in [*text.splitlines(), "end"]:
        if line and not line.startswith(" "):
            if word and lines and not word.startswith("00"):
                yield word, re.sub(r"\s+", " ", _MARKS.sub("", " ".join(lines))).strip()
            word, lines = line.strip(), []
        elif line.strip():
            lines.append(line.strip())


def from_dictionary(text: str) -> Iterator[Question]:
    """A question and its document for every entry of some length."""
    seen: set[str] = set()
    for word, explanation in dictionary_entries(text):
        parts = re.match(r"(?:1\. )?(.{20,}?[.?!]) (.*)", explanation)
        if parts is None or not 5 <= len(parts[1].split()) <= 40 or len(parts[2].split()) < 20:
            continue
        if parts[1] in seen or parts[2] in seen:
            continue
        seen |= {parts[1], parts[2]}
        yield Question(parts[1], " ".join(parts[2].split()[:300]), word)


def from_pages(folder: Path) -> Iterator[Question]:
    """A question and its document for every HTML page that begins with a paragraph."""
    seen: set[str] = set()
    for path in sorted(folder.rglob("*.html")):
        page = re.sub(
            r"(?s)<(script|style|pre)\b.*?</\1>|^.*<body", " ", path.read_text(encoding="utf-8", errors="replace")
        )
        paragraph = re.search(r'(?s)<p(?: [^>]*class="paragraph"[^>]*)?>(.*?)</p>', page)
        if paragraph is None:
            continue
        parts = paragraph[1], page[: paragraph.start()], page[paragraph.end() :]
        first, before, after = (" ".join(unescape(re.sub(r"<[^>]*>?|^[^<]*>", " ", part)).split()) for part in parts)
        query, _, more = first.partition(". ")
        body = f"{before} {more} {after}"
        if 5 <= len(query.split()) <= 40 and query.lower() not in body.lower() and not {query, body} & seen:
            seen |= {query, body}
            yield Question(query, " ".join(body.split()[: WORDS[1]]), before[:80])


def about_details(questions: Iterable[Question]) -> Iterator[Question]:
    """Asks for each document by a sentence from anywhere in it, which is taken out; its own question begins it."""
    draws = random.Random(0)
    for one in questions:
        sentences = split_sentences(one.document)
        fit = [
            n for n, text in enumerate(sentences) if n and 8 <= len(text.split()) <= 30 and sentences.count(text) == 1
        ]
        if len(fit) > 1:
            number = draws.choice(fit)
            rest = [f"{one.question}.", *sentences[:number], *sentences[number + 1 :]]
            yield Question(sentences[number], " ".join(rest), one.title)


def mixed_lengths(corpus: Path, out: Path, documents: int) -> None:
    """Writes one text per line: every tenth document in full, the first sentence of the others."""
    bodies = read_documents(find_corpus(corpus))[:documents]
    texts = [one.body if number % 10 == 0 else one.sentences[0] for number, one in enumerate(bodies)]
    out.write_text("\n".join(texts) + "\n", encoding="utf-8")


def main() -> None:
    """Writes the collection that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["docstrings", "packages", "manuals", "dictionary", "pages", "mixed"])
    parser.add_argument("paths", nargs="+", type=Path, help="the source, except for docstrings; then the output")
    parser.add_argument("--queries", type=int, default=500, help="test queries")
    parser.add_argument("--pairs", type=int, default=1000, help="train judgements, of documents without a test query")
    parser.add_argument("--documents", type=int, help="packages: default 5000; mixed: default 1500")
    parser.add_argument("--words", type=int, default=WORDS[1], help="words of the longest document")
    parser.add_argument("--detail", action="store_true", help="ask by a sentence from anywhere in the document")
    parser.add_argument("--sections", nargs=2, default=["NAME", "DESCRIPTION"], metavar=("NAME", "DESCRIPTION"))
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    options = parser.parse_args()
    *sources, out = options.paths
    if len(sources) != (options.kind != "docstrings"):
        parser.error(f"{options.kind} takes {'OUT' if options.kind == 'docstrings' else 'SOURCE OUT'}")
    note = ""
    WORDS[1] = options.words
    if options.kind == "mixed":
        mixed_lengths(sources[0], out, options.documents or 1_500)
        return
    if options.kind == "docstrings":
        questions = list(from_docstrings(options.packages))
        note = "; " + ", ".join(f"{PACKAGES[name]} {version(PACKAGES[name])}" for name in options.packages)
    elif options.kind == "packages":
        every, most = list(from_packages(sources[0].read_text(encoding="utf-8"))), options.documents or 5_000
        questions = every[:: max(1, len(every) // most)][:most]
        note = f", of {len(every):,} packages"
    elif options.kind == "manuals":
        questions = list(from_manuals(sources[0], *options.sections))
    elif options.kind == "pages":
        questions = list(from_pages(sources[0]))
    else:
        questions = list(from_dictionary(gzip.decompress(sources[0].read_bytes()).decode("utf-8", "replace")))
    if options.detail:
        questions = list(about_details(questions))
    print(f"{out}: {write(out, questions, queries=options.queries, pairs=options.pairs)}{note}")


if __name__ == "__main__":
    main()
