"""The harness catches what it is there to catch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import Run
from hostile.harness import Case, refuse, tree

LINE = "opencse: x: wrong; mend it\n"


def acting(code: int, stdout: str, stderr: str, act: Callable[[], object] = lambda: None) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        assert arguments == ("train", "a b")
        act()
        return code, stdout, stderr

    return run


def test_a_refusal_passes(tmp_path: Path) -> None:
    refuse(Case("train 'a b'", ("wrong",)), acting(2, "", LINE), tmp_path)
    refuse(Case("train 'a b'", late=True), acting(2, "", f"reading\n{LINE}"), tmp_path)


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [
        (0, "", LINE),
        (1, "", LINE),
        (2, "a line\n", LINE),
        (2, "", ""),
        (2, "", "wrong\n"),
        (2, "", f"reading\n{LINE}"),
        (2, "", f"{LINE}and more\n"),
        (2, "", LINE.replace("wrong", "right")),
        (2, "", f"Traceback (most recent call last):\n{LINE}"),
        (2, "", f"opencse: wrong {'x' * 5_000}\n"),
    ],
)
def test_anything_else_is_caught(code: int, stdout: str, stderr: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        refuse(Case("train 'a b'", ("wrong",)), acting(code, stdout, stderr), tmp_path)


@pytest.mark.parametrize(
    "act",
    [
        lambda file: file.write_text("other"),
        lambda file: file.unlink(),
        lambda file: file.write_text(file.read_text()),
        lambda file: file.with_name("new").touch(),
        lambda file: file.with_name("new").mkdir(),
    ],
)
def test_a_command_that_touches_a_file_is_caught(act: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file"
    file.parent.mkdir()
    file.write_text("content")
    os.utime(file, (1, 1))
    assert tree(tmp_path) == tree(tmp_path)
    with pytest.raises(AssertionError, match="files changed"):
        refuse(Case("train 'a b'"), acting(2, "", LINE, lambda: act(file)), tmp_path)


def test_a_traceback_is_caught(tmp_path: Path) -> None:
    def broken() -> None:
        raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError):
        refuse(Case("train 'a b'"), acting(2, "", LINE, broken), tmp_path)
