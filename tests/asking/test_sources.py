"""What is asked about: documents spread over the corpus, and passages as an index has them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from opencse.asking.plan import SourcePassage, choose_passages, evenly, passages_of_documents, spread
from opencse.commands.index import build_index
from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from opencse.search.passages import PassageSplitter
from opencse.text.documents import documents_in_memory

LONG = " ".join(f"Sentence number {n} says something new about the valve." for n in range(40))


@pytest.mark.parametrize(("count", "size"), [(1, 1), (5, 5), (10, 1000), (1000, 1000), (999, 1000)])
def test_a_draw_is_spread_and_a_larger_one_includes_it(count: int, size: int) -> None:
    rows = spread(count, size, seed=7)
    assert rows == sorted(set(rows))
    assert len(rows) == count
    assert set(rows) <= set(spread(min(size, 2 * count), size, seed=7))
    edges = [-1, *rows, size]
    gaps = [after - before for before, after in pairwise(edges)]
    assert max(gaps) <= 3 * size / count + 1


def test_passages_are_those_of_an_index(tmp_path: Path) -> None:
    given = [("Valves", LONG), ("Kettles", "Fill it with water and switch it on.")]
    encoder = SentenceEncoder.load(device="cpu")
    passages = passages_of_documents(documents_in_memory(given), PassageSplitter(encoder, encoder.max_length))
    assert len(passages[0]) > 2
    assert passages[0][0].text.startswith("Valves Sentence number 0")
    assert [one.number for one in passages[0]] == list(range(1, len(passages[0]) + 1))
    rows = [f"{title}\n{text}" for title, text in given]
    build_index(f"{tmp_path}/index", encoder, rows)
    texts = {one.text for parts in passages for one in parts}
    with Index.open(f"{tmp_path}/index", encoder=encoder) as index:
        assert index.info().rows == len(texts)
        hits = [hit for hits in index.search([one.text for one in passages[0]], 1) for hit in hits]
    assert [hit.text for hit in hits] == [one.text for one in passages[0]]


def test_long_documents_are_asked_about_in_parts_that_are_spread_and_short_ones_are_left_out() -> None:
    def passage(row: int, number: int, words: int) -> SourcePassage:
        return SourcePassage(row, f"d{row}", number, "", "word " * words)

    passages = [[passage(0, number, 20) for number in range(1, 11)], [passage(1, 1, 3)], [passage(2, 1, 9)]]
    selected = choose_passages(passages, documents=None, most=2, seed=0)
    assert [(one.row, one.number) for one in selected] == [(0, 1), (0, 6), (2, 1)]
    assert len(choose_passages(passages, documents=1, most=2, seed=0)) in (1, 2)
    assert evenly(4, 4) == [0, 1, 2, 3]


def test_the_body_is_the_text_without_the_title() -> None:
    assert SourcePassage(0, "a", 1, "Valves", "Valves Sentence one.").body == "Sentence one."
    assert SourcePassage(0, "a", 2, "Valves", "The valve leaks.").body == "The valve leaks."
    assert SourcePassage(0, "a", 1, "Valves", "Valves").body == "Valves"
    later = SourcePassage(0, "a", 2, "Valve", "Valves leak.")
    assert later.body == "Valves leak.", "only the first passage has the title before it"
