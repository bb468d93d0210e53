"""The line of a command that loads PyTorch."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from opencse.cli.loading import terminal
from opencse.progress import Terminal


def test_loading_is_reported_on_a_terminal_once_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finders = len(sys.meta_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert isinstance(terminal(), Terminal)
    assert len(sys.meta_path) == finders
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    terminal()
    importlib.util.find_spec("numbers")
    assert capsys.readouterr().err == ""  # no PyTorch so far
    assert importlib.util.find_spec("torch") is not None
    assert "loading PyTorch" in capsys.readouterr().err
    assert len(sys.meta_path) == finders
