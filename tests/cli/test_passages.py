"""Hits as they are printed: a few lines in a terminal of any width, one line elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from opencse.cli.passages import LINES, best_start, blocks
from opencse.text.stems import stems_of

LONG = " ".join(f"word{number}" for number in range(200)) + " Kettles are descaled with vinegar. " + "rest " * 200
HEAD = ["#1", "0.5000", "d7", "lang=en"]


def terminal(width: int, *, is_terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=is_terminal)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("text", [LONG, "深度学习很好用。" * 200, "x" * 3_000], ids=["words", "wide", "one word"])
def test_a_hit_has_about_three_lines_of_the_width(width: int, text: str) -> None:
    head, *lines = blocks(HEAD, text, terminal(width))
    assert head == "#1  0.5000  d7  lang=en"
    assert len(lines) == LINES
    assert all(line.startswith("    ") and cell_len(line) <= width for line in lines)
    assert max(cell_len(line) for line in lines) > width - 16
    assert lines[-1].endswith("…")
    assert not lines[0].endswith("…")


def test_a_short_text_and_a_full_one_are_shown_whole() -> None:
    assert list(blocks(["#1", ""], "A  cat\nsleeps.", terminal(80))) == ["#1", "    A cat sleeps."]
    shown = " ".join(line.strip() for line in list(blocks(HEAD, LONG, terminal(80), full=True))[1:])
    assert shown == " ".join(LONG.split())


def test_elsewhere_a_hit_is_a_line_with_tabs() -> None:
    (line,) = blocks(["#1", "0.5", "a\tb"], "A\ncat\tsleeps. " * 100, terminal(80, is_terminal=False))
    assert line.split("\t") == ["#1", "0.5", "a b", " ".join(["A cat sleeps."] * 100)]


@pytest.mark.parametrize("width", [80, 200])
def test_the_part_that_matches_is_shown(width: int) -> None:
    stems = stems_of("english")
    _, first, *more = blocks(HEAD, LONG, terminal(width), query="descaling a KETTLE", stems=stems)
    assert first.startswith("    …")
    assert "Kettles are descaled" in " ".join([first, *more])
    for query in ("word3 rest", "nothing there", ""):
        _, first, *_ = blocks(HEAD, LONG, terminal(width), query=query, stems=stems)
        assert first.startswith("    word0 word1")


def test_the_beginning_is_kept_where_it_is_as_good() -> None:
    text = "kettle " + "x " * 400 + "kettle vinegar"
    assert best_start(text, "kettle", 200, list) == 0
    assert text[best_start(text, "kettle vinegar", 200, list) :].endswith("kettle vinegar")
    assert best_start("", "kettle", 200, list) == 0


def test_a_text_without_spaces_begins_near_its_matching_characters() -> None:
    text = "やかんは毎日使う道具です。" * 20 + "水垢は酢で取り除けます。" + "最後に乾かします。" * 20
    start = best_start(text, "水垢を取り除く", 60, stems_of(None))
    assert 200 < start < text.index("水垢") < start + 60
