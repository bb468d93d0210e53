"""The first line of a command that loads PyTorch."""

from __future__ import annotations

import sys

import pytest

from opencse.cli.loading import terminal
from opencse.progress import Terminal


def test_loading_is_reported_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert isinstance(terminal(), Terminal)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    terminal()
    assert "loading PyTorch" in capsys.readouterr().err
