"""What commands print on stdout."""

from __future__ import annotations

import pytest
from rich.table import Table

from opencse.cli.console import echo, show


def test_control_characters_are_shown_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\x1b[31mdog\tbarks")
    table = Table("text")
    table.add_row("b\x9bell")
    show(table)
    line, *lines = capsys.readouterr().out.splitlines()
    assert line == "a\\x1b[31mdog\tbarks"
    assert any("b\\x9bell" in one for one in lines)


def test_in_a_terminal_a_line_continues_right_of_its_label(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "advice     leave the rows out that nearly repeat an earlier one"
    echo(line)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    echo(line)
    shown = "advice     leave the rows out that\n           nearly repeat an earlier one"
    assert capsys.readouterr().out == f"{line}\n{shown}\n"
