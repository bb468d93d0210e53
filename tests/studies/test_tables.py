"""Tables of a study in terminals of several widths."""

from __future__ import annotations

import pytest
from rich.console import Console

from opencse.studies.tables import Grid

NAMES = ["retrieval.manuals.ndcg_at_10", "retrieval.questions.ndcg_at_10", "retrieval.average", "sts.average"]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_name_of_a_score_is_shown_whole(width: int) -> None:
    head = ["start", "recipe", "seeds", *NAMES, "against the start", "difference"]
    cells = ["simcse", "3", *["40.12 \u00b1 0.30"] * 4, "+0.5 \u00b1 0.1", "+0.20 (p = .03)"]
    grid = Grid(head, [["mini", *cells], ["other", *cells]])
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(grid.rich("scores"))
    lines = capture.get().splitlines()
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    for name in NAMES:
        assert f" {name} " in text
    assert text.count(" 40.12 \u00b1 0.30 ") == 2 * len(NAMES)


def test_the_only_start_is_in_the_title() -> None:
    grid = Grid(["start", "recipe"], [["mini", "simcse"], ["mini", "esimcse"]])
    table = grid.rich("scores")
    assert table.title == "scores; start: mini"
    assert [str(column.header) for column in table.columns] == ["recipe"]
    assert grid.markdown()[0] == "| start | recipe |"
