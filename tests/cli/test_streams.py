"""The command line's streams: pipes that close, disks that are full, terminals of few characters, Ctrl-C."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opencse import SentenceEncoder
from opencse.errors import InterruptedRunError
from opencse.runs.job import TrainJob
from opencse.text import sample

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, str, str]]
COMMAND = [sys.executable, "-c", "from opencse.cli import main; main()"]


def start(*arguments: str, stdout: object = subprocess.PIPE, **environment: str) -> subprocess.Popen[bytes]:
    wanted = {"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment}
    return subprocess.Popen([*COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE, env=wanted)  # type: ignore[call-overload, no-any-return]


def test_a_reader_that_went_away_ends_it_quietly() -> None:
    end, begin = os.pipe()
    os.close(end)
    process = start("recipes", "show", "simcse", stdout=begin)
    os.close(begin)
    _, err = process.communicate()
    assert (process.returncode, err) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [("recipes", "show", "simcse"), ("--version",), ("--help",)])
def test_a_full_disk_behind_stdout_is_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start(*arguments, stdout=full)
        _, err = process.communicate()
    assert process.returncode == 2
    assert err.decode().splitlines() == [
        "opencse: the standard output cannot be written ([Errno 28] No space left on device); make room there"
    ]


def test_terminals_of_few_characters_show_the_others_by_number(
    opencse: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Ünïcödé 漢字\nEin Bär.\n", encoding="utf-8")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    code, _, err = opencse("nearest", "opencse-mini", "--corpus", path, "--query", "Löwe", "--device", "cpu")
    assert code == 0, err
    terminal.flush()
    shown = terminal.buffer.getvalue()
    assert b"\\xdcn\\xefc\\xf6d\\xe9 \\u6f22\\u5b57" in shown
    assert b"Ein B\\xe4r." in shown


def test_stdout_that_is_closed(monkeypatch: pytest.MonkeyPatch, opencse: Run) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert opencse("recipes", "show", "simcse")[0] == 0


def test_arguments_that_are_not_utf_8(opencse: Run, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    code, _, err = opencse("check", tmp_path / name)
    assert code == 2
    assert err == f"opencse: argument 2 ({str(tmp_path / name)!r}) is not UTF-8; rename the file, or correct the text\n"


def test_ctrl_c_in_any_command_is_one_line(opencse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SentenceEncoder, "load", stopped)
    code, out, err = opencse("similarity", "opencse-mini", "a", "b")
    assert (code, out, err) == (130, "", "opencse: stopped\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InterruptedRunError("go on with --resume")])
def test_ctrl_c_in_the_demo(opencse: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception) -> None:
    def stopped(*arguments: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(TrainJob, "run", stopped)
    code, out, err = opencse("demo", "--out", tmp_path / "demo")
    assert (code, out, err.splitlines()[1:]) == (130, "", ["opencse: stopped"])
    assert err.startswith("1. raw text alone")


def test_a_comparison_in_a_file(opencse: Run, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    code, _, err = opencse(
        "compare", sample.TRAIN, "--out", tmp_path / "out", "--recipes", "simcse", "--data", tmp_path
    )
    assert (code, err) == (2, f"opencse: {tmp_path / 'out'}: is a file; a comparison is kept in a folder\n")
    assert (tmp_path / "out").read_text() == "a file"


def test_doctor_tells_of_a_cache_that_cannot_be_used(
    opencse: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "file" / "cache"))
    code, out, err = opencse("doctor")
    assert code == 0, err
    assert f"token cache    {tmp_path / 'file' / 'cache'} (cannot be written: {tmp_path / 'file'} is a file)" in out
    assert "opencse-mini   loads in" in out


def test_text_from_standard_input(opencse: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one line\nanother line\n" * 2)
    kept = os.dup(0)
    try:
        with path.open("rb") as stream:
            os.dup2(stream.fileno(), 0)
        code, out, err = opencse("check", "-")
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert code == 0, err
    assert "standard input: 4 rows of 1" in out
