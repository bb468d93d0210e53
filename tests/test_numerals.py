"""Whole numbers as typed, and counts as read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import opencse
from opencse.numerals import number_of, whole_number

COUNTED = (
    "documents|texts|rows|queries|pairs|lines|files|steps|seeds|questions|examples|sentences|vectors|runs|requests|"
    "evaluations|classes|groups|triples"
)
COMPARED = re.compile(r"(\b(of|than|most|least|first|last|only|all)( the)?| x) $")
"""What is before a count that is not 1, or after which a plural is right: "1 of 1 rows", "more than 1 rows"."""


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("42", 42), ("007", 7), (str(2**63 - 1), 2**63 - 1)])
def test_numbers(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", " 1", "1_000", "²", str(2**63), "9" * 5_000])
def test_anything_else(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize(
    ("noun", "several"),
    [("row", "rows"), ("query", "queries"), ("key", "keys"), ("index", "indexes"), ("batch", "batches")],
)
def test_the_noun_of_a_count_is_in_the_plural_for_all_but_one(noun: str, several: str) -> None:
    assert [number_of(count, noun) for count in (0, 1, 2_000)] == [f"0 {several}", f"1 {noun}", f"2,000 {several}"]
    assert number_of(1, f"new {noun}") == f"1 new {noun}"


def plain_counts(code: str) -> list[str]:
    """The f-strings in which a count with thousands separators, or a length, is put before a plural noun."""
    found = []
    for string in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.JoinedStr)):
        before = ""
        for value, after in zip(string.values, [*string.values[1:], ast.Constant("")], strict=True):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                separated = value.format_spec is not None and ast.unparse(value.format_spec) == "f','"
                counts = separated or (value.format_spec is None and ast.unparse(value.value).startswith("len("))
                constant = isinstance(value.value, ast.Name) and value.value.id.isupper()
                plural = re.match(rf" (?:{COUNTED})\b", str(after.value))
                if counts and plural and not constant and not COMPARED.search(before):
                    found.append(f"line {value.lineno}: {ast.unparse(value.value)}{plural[0]}")
            before = str(value.value) if isinstance(value, ast.Constant) else ""
    return found


def test_a_plain_count_is_found() -> None:
    assert plain_counts("n = 1\nprint(f'{n:,} rows')") == ["line 2: n rows"]
    assert plain_counts("print(f'{len(x)} texts')") == ["line 1: len(x) texts"]
    for right in ("f'{n} rows'", "f'1 of {n:,} rows'", "f'more than {n:,} texts'", "f'{MOST:,} texts'"):
        assert plain_counts(right) == []


def test_no_message_says_1_rows() -> None:
    package = Path(opencse.__file__).parent
    modules = list(package.rglob("*.py"))
    assert len(modules) > 300
    lines = [f"{path}, {line}" for path in modules for line in plain_counts(path.read_text(encoding="utf-8"))]
    assert not lines, "use opencse.numerals.number_of"
