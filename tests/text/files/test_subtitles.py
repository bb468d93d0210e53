"""Subtitles."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.files.subtitles import subtitle_sections


def spoken(path: Path, content: str) -> tuple[str, ...]:
    path.write_text(content, encoding="utf-8")
    return tuple(text for one in subtitle_sections(path, "a") for text in one.paragraphs)


def test_numbers_times_and_tags_go(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    content = (
        "1\n00:00:01,000 --> 00:00:02,000\n<i>The first</i>\n{\\an8}line goes on,\n\n"
        "2\n00:00:02,100 --> 00:00:03,000 X1:40 X2:600\n- until it ends.\n- 42 times.\n\n"
        "3\n00:00:09,000 --> 00:00:10,000\n[music]\n♪ la la ♪\nA pause &amp; more.\n"
    )
    assert spoken(path, content) == ("The first line goes on, until it ends. 42 times.", "A pause & more.")
    assert spoken(path, content.replace("\n", "\r\n")) == spoken(path, content)


def test_webvtt_and_rolling_captions(tmp_path: Path) -> None:
    path = tmp_path / "a.vtt"
    content = (
        "WEBVTT - a title\n\nNOTE\nnot spoken\n\nSTYLE\n::cue {}\n\nintro\n00:01.000 --> 00:02.000 align:start\n"
        "<v Ann>Good<00:01.500><c> day.</c>\n\n00:02.000 --> 00:03.000\nGood day.\nAnd more.\n"
    )
    assert spoken(path, content) == ("Good day. And more.",)


def test_a_file_without_times_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.srt: no line such as 00:00:01,000 --> 00:00:02,000 in it"):
        spoken(tmp_path / "a.srt", "One.\nTwo.\n")
