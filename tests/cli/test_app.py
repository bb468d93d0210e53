"""The list of commands, and what may run in several processes."""

from __future__ import annotations

import importlib

import pytest

from opencse.cli.app import COMMANDS, app
from opencse.errors import UserError


def command(name: str) -> object:
    from typer.main import get_command

    return get_command(app).get_command(None, name)  # type: ignore[attr-defined]


def test_every_command_has_a_module_and_a_summary() -> None:
    for name, summary in COMMANDS.items():
        assert callable(getattr(importlib.import_module(f"opencse.cli.{name}"), name))
        assert summary.endswith(".")


def test_a_wrong_name_suggests_the_right_one() -> None:
    with pytest.raises(UserError, match="did you mean 'train'"):
        command("trian")


def test_most_commands_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert command("train") is not None
    with pytest.raises(UserError, match="only adapt, pretrain, train run in several"):
        command("encode")
