"""The command line's streams: pipes that close, disks that are full, terminals of few characters, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers import Run
from opencse.encoder.static import StaticEncoder
from opencse.errors import InterruptedRunError
from opencse.runs.job import TrainJob
from opencse.search.index import Index
from opencse.text import sample

pytestmark = pytest.mark.slow


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

    monkeypatch.setattr(StaticEncoder, "encode", stopped)
    code, out, err = opencse("similarity", "opencse-mini", "a", "b")
    assert (code, out, err) == (130, "", "opencse: stopped\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InterruptedRunError("go on with --resume")])
def test_ctrl_c_in_the_demo(opencse: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception) -> None:
    def stopped(*arguments: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(TrainJob, "run", stopped)
    code, out, err = opencse("demo", "--out", tmp_path / "demo")
    assert (code, out, err.splitlines()[-1]) == (130, "", "opencse: stopped")
    assert "1. raw text alone" in err


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


@contextmanager
def standard_input(path: Path) -> Iterator[None]:
    kept = os.dup(0)
    try:
        with path.open("rb") as stream:
            os.dup2(stream.fileno(), 0)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def test_text_from_standard_input(opencse: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one line\nanother line\n" * 2)
    with standard_input(path):
        code, out, err = opencse("check", "-")
    assert code == 0, err
    assert "standard input: 4 rows of 1 text" in out
    assert "advice      a pipe is read once: save its text in a file, and name that for FILE\n" in out
    assert out.endswith("next        opencse adapt FILE --out adapted\n")


READERS = {
    "check": ("check", "-"),
    "adapt": ("adapt", "-", "--out", "out", "--dry-run"),
    "train": ("train", "-", "--out", "out", "--dry-run"),
    "index build": ("index", "build", "out", "opencse-mini", "-"),
    "encode": ("encode", "opencse-mini", "-", "--out", "out.npy"),
}


@pytest.mark.parametrize("arguments", READERS.values(), ids=READERS.keys())
def test_documents_from_standard_input(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """What comes through a pipe comes once, and commands look at their text several times."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.jsonl"
    rows = [{"_id": str(n), "title": f"Note {n}", "text": f"The valve {n} leaks. It was tightened."} for n in range(9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with standard_input(path):
        code, _, err = opencse(*arguments)
    assert code == 0, err
    if arguments[0] == "index":
        assert len(Index.open("out").rows()) == 9
    path.write_text("")  # another command reads anew
    with standard_input(path):
        code, _, err = opencse(*arguments)
    assert code == 2
    assert "it is empty" in err or "exists already" in err or "holds an index" in err


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (("similarity", "opencse-mini", "The kettle boils.", "-"), "1.0000  The kettle boils.\n"),
        (("similarity", "opencse-mini", "-", "The kettle boils."), "1.0000  The kettle boils.\n"),
        (("similarity", "opencse-mini", "-"), "0.0"),
        (("index", "query", "index", "-"), "The kettle boils. (cosine)\n#1\t1.0000\t0\tThe kettle boils.\n"),
    ],
)
def test_texts_that_are_typed_come_from_standard_input_where_a_dash_is(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], first: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("The kettle boils.\nThe train is late.\n")
    opencse("index", "build", "index", "opencse-mini", path)
    with standard_input(path):
        code, out, err = opencse(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith(first)
    with standard_input(path):
        code, _, err = opencse(*arguments, "-")
    assert (code, err) == (2, "opencse: standard input (-) is named twice; it can be read once\n")
