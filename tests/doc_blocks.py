"""The code blocks of Markdown pages: where they are, in which language, and whether a reader can run them."""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import dataclass

_ENDS = {";", "&", "&&", "|", "||"}
_BEFORE = {"do", "then", "if", "while", "time"}
_MARKER = re.compile(r"<!-- (not run|not compared): (.+?) -->")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        page: the file it is in, from the root of the repository.
        line: of its first line, from 1.
        language: after the opening fence; ``indented`` for a block without fences.
        code: its text, without common indentation.
        not_run: the reason why it is not run, or an output not compared, if a marker above it gives one.
    """

    page: str
    line: int
    language: str
    code: str
    not_run: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> list[Block]:
    """All blocks of a page, in their order.

    A block that should not be run has a comment of its own line right above it: ``<!-- not run: the reason -->``. An
    output that the commands above it do not print in a test has ``<!-- not compared: the reason -->``.
    """
    found: list[Block] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.lstrip().startswith("```"):
            first = number + 1
            last = first
            while not lines[last].lstrip().startswith("```"):
                last += 1
            reason = _MARKER.fullmatch(lines[number - 1].strip()) if number else None
            language = line.strip().removeprefix("```") or "none"
            found.append(_block(page, first, language, lines[first:last], reason[2] if reason else ""))
            number = last + 1
        elif line.startswith("    ") and (not number or not lines[number - 1].strip()) and not _in_list(lines, number):
            last = number
            while last < len(lines) and (lines[last].startswith("    ") or not lines[last].strip()):
                last += 1
            found.append(_block(page, number, "indented", lines[number:last]))
            number = last
        else:
            number += 1
    return found


def _block(page: str, first: int, language: str, lines: list[str], reason: str = "") -> Block:
    return Block(page, first + 1, language, textwrap.dedent("\n".join(lines)).strip("\n") + "\n", reason)


def _in_list(lines: list[str], number: int) -> bool:
    """Whether the paragraph before belongs to a list, of which an indented line is then a further paragraph."""
    before = [line for line in lines[:number] if line.strip()]
    return (
        bool(before)
        and re.match(r"\s*([-*]|\d+\.) |\s+\S", before[-1]) is not None
        and not before[-1].startswith("    ")
    )


def commands_of(code: str, name: str) -> list[str]:
    """The commands of a shell block that call ``name``, each on one line, without what the shell does around them.

    What the shell would compute (``$(...)``) is one word that says so.
    """
    calls = []
    for line in re.sub(r"\$\([^)]*\)", "COMPUTED", code.replace("\\\n", "")).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
        lexer.whitespace_split = True
        words: list[str] = []
        to_file = False
        for token in [*lexer, ";"]:
            if token in _ENDS:
                if words and words[0] == name:
                    calls.append(shlex.join(words))
                words = []
            elif to_file:
                to_file = False
            elif set(token) <= {"<", ">"}:
                to_file = True
            elif words or (token not in _BEFORE and not re.fullmatch(r"[A-Z_]+=.*", token)):
                words.append(token)
    return calls
