from __future__ import annotations

from opencse.text.files.paragraphs import Headed, Section, blocks, join_lines


def test_a_page_with_a_title_alone() -> None:
    assert list(Headed("Title").sections("a.md")) == [Section("a.md", "Title", ())]
    assert list(Headed().sections("a.md")) == []


def test_lines_of_a_width_are_joined() -> None:
    lines = ["The first line is broken where", "the next word did not fit.", "", "A new one."]
    assert join_lines(lines) == ["The first line is broken where the next word did not fit.", "A new one."]
    assert join_lines(["short", "lines of a list stay by themselves"]) == [
        "short",
        "lines of a list stay by themselves",
    ]


def test_blocks_are_between_blank_lines() -> None:
    assert list(blocks(["", "a", "b", " ", "", "c"])) == [["a", "b"], ["c"]]
