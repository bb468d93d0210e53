"""The examples that each command's help ends with are command lines that the command takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from opencse.cli.app import COMMANDS, app
from opencse.cli.examples import EXAMPLES

WIDTH = 110


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and those below it, by what is typed."""
    whole: Any = typer.main.get_command(app)
    for name in COMMANDS:
        command = whole.get_command(None, name)
        yield name, command
        for below, inner in (getattr(command, "commands", None) or {}).items():
            yield f"{name} {below}", inner


ALL = dict(commands())


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == ALL.keys()
    assert len(ALL) > 30


@pytest.mark.parametrize("words", ALL)
def test_help_ends_with_the_examples_as_they_are(words: str) -> None:
    command = ALL[words]
    with command.make_context(words, [], resilient_parsing=True) as context:
        shown = command.get_help(context)
    assert shown.rstrip().endswith(EXAMPLES[words][-1])
    assert all(f"  {line}\n" in shown + "\n" for line in EXAMPLES[words])


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_can_be_typed(line: str) -> None:
    assert len(line) <= WIDTH
    program, *typed = shlex.split(line.rpartition("| ")[2])
    assert program == "opencse"
    words = max((words for words in ALL if typed[: len(words.split())] == words.split()), key=len)
    command = ALL[words]
    command.make_context(words, typed[len(words.split()) :])  # refuses what is missing, unknown or of the wrong kind


def test_an_option_that_is_not_there_would_be_found() -> None:
    with pytest.raises(typer.TyperException):
        ALL["index query"].make_context("index query", ["folder", "words", "--no-such-option"])
