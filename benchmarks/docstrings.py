"""A collection that anybody has: the documentation of installed Python packages, as queries and documents (BEIR).

    python benchmarks/docstrings.py OUT                       # then: python benchmarks/adapt.py --collections OUT ...

A query is the first sentence of a docstring ("Compute the softmax function."), its document the rest: the paragraphs in
plain English, without signatures, doctests, tables and names of parameters. The document never holds the query; a text
that two docstrings share is kept once. Some of the docstrings that ask no query are judged for training (``train``):
pairs for `benchmarks/adapt.py --pairs`. What is found differs with the packages' versions, which are printed.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path

from collection import Asked, command, write

PACKAGES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "torch": "torch", "matplotlib": "matplotlib"}
WORDS = (25, 400)
_CODE = re.compile(r"^\s*(>>>|\.\.\.|\.\. |:|[-=~^+|]{3,})|::\s*$")
_MARK = re.compile(r":[a-z:]+:`~?([^`<]+)(?:<[^>]*>)?`|``([^`]+)``|`([^`]+)`_?|\*\*?([^*\n]+)\*\*?")


def docstrings(folder: Path) -> Iterator[str]:
    """Every docstring of a public function or class, file after file by name."""
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


def prose(text: str) -> Iterator[str]:
    """Its paragraphs of plain English, as one line each."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if any(_CODE.search(line) for line in lines) or (len(lines) > 1 and re.match(r"\w+ ?:", lines[0])):
            continue
        plain = _MARK.sub(lambda found: next(filter(None, found.groups())), " ".join(line.strip() for line in lines))
        words = plain.split()
        if len(words) >= 6 and plain.rstrip()[-1:] in ".!?" and sum(word.isalpha() for word in words) > len(words) / 2:
            yield plain


def collect(packages: list[str]) -> Iterator[tuple[str, str]]:
    """(query, document) of every docstring that has both."""
    seen: set[str] = set()
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for text in docstrings(Path(spec.origin).parent):
            paragraphs = list(prose(text))
            if len(paragraphs) < 2:
                continue
            query, _, more = paragraphs[0].partition(". ")
            body = "\n".join(filter(None, [more, *paragraphs[1:]]))
            if len(query.split()) < 4 or not WORDS[0] <= len(body.split()) <= WORDS[1]:
                continue
            if query.lower() in body.lower() or query in seen or body in seen:
                continue
            seen |= {query, body}
            yield query.rstrip(".") + ".", body


def main() -> None:
    """Writes the collection."""
    parser = command(__doc__)
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    given = parser.parse_args()
    found = [Asked(query, body) for query, body in collect(given.packages)]
    written = write(given.out, found, queries=given.queries, pairs=given.pairs)
    versions = ", ".join(f"{PACKAGES[name]} {version(PACKAGES[name])}" for name in given.packages)
    print(f"{given.out}: {written}; {versions}")


if __name__ == "__main__":
    main()
