"""Nothing that a text, a name or a path holds is obeyed by the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from opencse.errors import printable

HOSTILE = "a\x1b[31mdog\x07\x9b2J\u202e\x7f"
SHOWN = r"a\x1b[31mdog\x07\x9b2J\u202e\x7f"


def quiet(text: str) -> bool:
    return not any(c in text for c in "\x1b\x07\x9b\u202e\x7f\r")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, SHOWN),
        ("a\nb\r\tc\u2028", r"a\nb\r\tc\u2028"),
        ("\udc80", r"\udc80"),
        ("Größe 猫 🙂 \u200d \u0627\u200f", "Größe 猫 🙂 \u200d \u0627\u200f"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable("a\nb\tc", keep="\n\t") == "a\nb\tc"


@pytest.mark.slow
def test_errors(opencse: Run) -> None:
    code, out, err = opencse("similarity", f"./{HOSTILE}\nx", "a", "b")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"./{SHOWN}\\nx" in err
    assert quiet(err)


@pytest.mark.slow
def test_texts_and_names_of_the_commands(tiny_folder: Path, tmp_path: Path, small_sts: Path, opencse: Run) -> None:
    folder = tmp_path / f"m[/x]{HOSTILE}"  # rich would take [/x] for the end of a style
    folder.parent.mkdir()
    folder.symlink_to(tiny_folder)
    text = tmp_path / "text.txt"
    text.write_text(f"{HOSTILE} one\n{HOSTILE} one\ntwo\nthree\n", encoding="utf-8")
    for command in (
        ["similarity", folder, "two", HOSTILE],
        ["nearest", folder, "--corpus", text, "-q", HOSTILE],
        ["check", text, "--model", folder],
        ["evaluate", folder, "--data", small_sts, "--tasks", "sts12"],
        ["encode", folder, text, "-o", tmp_path / f"{HOSTILE}.npy"],
    ):
        code, out, err = opencse(*command)
        assert code == 0, err
        assert out
        assert quiet(out), command[0]
        assert quiet(err), command[0]
        assert "x1b" in out or command[0] == "evaluate", "a long name is broken over lines there"


def test_the_reporter(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from opencse.progress import Terminal

    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich draws its bar
    progress = Terminal()
    progress.say(HOSTILE)
    assert capsys.readouterr().err == SHOWN + "\n"
    progress.start(f"[/x]{HOSTILE}", 3)
    progress.advance(1, "[/note]")
    progress.finish()
    drawn = capsys.readouterr().err
    assert "[/x]a\\x1b[31m" in drawn.replace("\n", "")
    assert not any(c in drawn for c in "\x07\x9b\u202e\x7f")
