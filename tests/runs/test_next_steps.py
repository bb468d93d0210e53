"""What a report tells to do next: the commands exist, and name what was made."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from opencse.cli.app import app
from opencse.recipes.recipe import load_recipe
from opencse.runs.finish import TrainResult
from opencse.runs.job import TrainJob
from opencse.runs.next_steps import INDEX, first_steps, next_steps
from opencse.text.documents import Collection
from opencse.text.given import DocumentTexts, TextSource
from opencse.text.readers import Source

KEPT = [("simcse", "best"), ("simcse", "last"), ("simcse", "start"), ("simcse", "given"), ("pretrain", "last")]


def told(recipe: str, kept: str, text: TextSource | None = None) -> list[tuple[str, str]]:
    plan: Any = SimpleNamespace(recipe=load_recipe(recipe))
    job = TrainJob(text=text or Source("my text.txt"), recipe=recipe, model="some/start")
    return next_steps(job, TrainResult(Path("a folder"), kept, "", {}, plan))


@pytest.mark.parametrize(("recipe", "kept"), KEPT)
def test_every_command_exists_with_its_options(recipe: str, kept: str) -> None:
    lines = [line for _, command in told(recipe, kept) for line in command.splitlines()]
    assert lines
    for line in lines:
        command: Any = typer.main.get_command(app)
        words = shlex.split(line)[1:]
        while hasattr(command, "list_commands") and not words[0].startswith("-"):
            command, words = command.get_command(cast(Any, None), words[0]), words[1:]
        parsed = command.make_context("opencse", words).params
        given = [one for value in parsed.values() for one in (value if isinstance(value, list | tuple) else [value])]
        assert {"some/start", "a folder", INDEX} & set(map(str, given)), line


def test_a_pipe_is_not_named_because_it_cannot_be_read_again() -> None:
    for text in (Source("-"), DocumentTexts(Collection("-"))):
        commands = "".join(command for _, command in told("simcse", "start", text))
        assert "opencse adapt corpus.txt" in commands
        assert "standard input" not in commands


def test_the_text_is_named_with_the_options_by_which_it_was_read() -> None:
    text = DocumentTexts(Collection("my tickets.csv", fields=("subject", "body"), keep_repeated=True))
    named = "'my tickets.csv' --fields subject,body --keep-repeated"
    for kept in ("best", "start"):
        commands = [line for _, command in told("simcse", kept, text) for line in command.splitlines()]
        assert any(named in command for command in commands)
        assert not any("corpus.txt" in command for command in commands)


def test_it_differs_by_how_the_run_ended() -> None:
    firsts = {kept: told("simcse", kept)[0][0] for _, kept in KEPT}
    assert firsts["start"] == firsts["given"]
    assert len({firsts["best"], firsts["last"], firsts["start"], told("pretrain", "last")[0][0]}) == 4
    assert not any("serve" in command for _, command in told("simcse", "start")), "nothing new is there to be served"


def test_the_readme_says_the_same() -> None:
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())
    commands = [line for _, command in first_steps() for line in command.splitlines()]
    assert len(commands) >= 6
    assert [command for command in commands if command not in readme] == []


def test_adapt_is_what_is_suggested_for_text() -> None:
    for kept in ("best", "last", "start", "given"):
        assert "opencse train" not in "".join(command for _, command in told("simcse", kept))
    assert "opencse adapt" in told("simcse", "start")[-1][1]
