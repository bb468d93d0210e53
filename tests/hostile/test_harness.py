"""The harness catches what it is there to catch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import Run
from hostile.harness import Case, refuse

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


def test_anything_else_is_caught(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for code, stdout, stderr, act in (
        (1, "", LINE, file.exists),
        (2, "a line\n", LINE, file.exists),
        (2, "", f"reading\n{LINE}", file.exists),
        (2, "", LINE.replace("wrong", "right"), file.exists),
        (2, "", f"Traceback (most recent call last):\n{LINE}", file.exists),
        (2, "", LINE, lambda: file.write_text("other")),
        (2, "", LINE, lambda: file.with_name("new").mkdir()),
    ):
        with pytest.raises(AssertionError):
            refuse(Case("train 'a b'", ("wrong",)), acting(code, stdout, stderr, act), tmp_path)
