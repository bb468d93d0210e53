"""The sentences nearest to a query, against a sort of all cosines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from opencse.errors import UserError
from opencse.evaluation.embedding import Encode, SearchEncode, distinct, embed
from opencse.evaluation.neighbours import compare_neighbours, neighbours_table

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[text.lower().count(letter) for letter in LETTERS] for text in texts], dtype=np.float64)


def lengths(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([[1.0, len(text.split())] for text in texts], dtype=np.float32)


def searching(encode: Encode) -> SearchEncode:
    """A model that reads queries and sentences in the same way, by one call."""

    def both(queries: Sequence[str], texts: Sequence[str]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        embedded = embed(encode, distinct([texts, queries]))
        return embedded.of(queries), embedded.of(texts)

    return both


CORPUS = ["a dog runs", "A  Dog runs", "the cat sleeps", "dogs run", "rain", "the cat sleeps", "a cat", "go"]


def naive(corpus: Sequence[str], query: str, k: int) -> list[tuple[str, float]]:
    """First spellings other than the query, by cosine, ties in corpus order."""
    first: dict[str, str] = {}
    for text in corpus:
        key = " ".join(text.lower().split())
        if key not in first and key != " ".join(query.lower().split()):
            first[key] = text
    scored = []
    for place, text in enumerate(first.values()):
        u, v = letters([query])[0], letters([text])[0]
        scored.append((-float(u @ v / np.sqrt((u @ u) * (v @ v))), place, text))
    return [(text, -cosine) for cosine, _, text in sorted(scored)[:k]]


@pytest.mark.parametrize(("query", "k"), [("a dog runs", 3), ("THE CAT  sleeps", 1), ("a bird sings", 20)])
def test_lists_equal_a_sort_of_all_cosines(query: str, k: int) -> None:
    found = compare_neighbours({"letters": searching(letters)}, CORPUS, [query], k=k)
    list_ = found.queries[0].models["letters"]
    expected = naive(CORPUS, query, k)
    assert [one.text for one in list_] == [text for text, _ in expected]
    assert [one.score for one in list_] == pytest.approx([cosine for _, cosine in expected])
    assert len(list_) == min(k, 6 if query == "a bird sings" else 5)
    assert (found.sentences, found.distinct, found.k) == (8, 6, k)


def test_models_stand_side_by_side_and_each_encodes_once() -> None:
    calls: list[list[str]] = []

    def counted(texts: Sequence[str]) -> NDArray[np.float32]:
        calls.append(list(texts))
        return lengths(texts)

    lines: list[str] = []
    queries = ["a dog runs", "rain", "new"]
    found = compare_neighbours(
        {"letters": searching(letters), "lengths": searching(counted)},
        CORPUS,
        queries,
        k=2,
        source="here",
        progress=lines.append,
    )
    assert calls == [["a dog runs", "the cat sleeps", "dogs run", "rain", "a cat", "go", "new"]]
    assert [asked.query for asked in found.queries] == queries
    assert [list(asked.models) for asked in found.queries] == [["letters", "lengths"]] * 3
    assert [one.text for one in found.queries[0].models["lengths"]] == ["the cat sleeps", "dogs run"]
    assert [one.text for one in found.queries[1].models["lengths"]] == ["go", "dogs run"]
    assert found.queries[0].models["letters"] != found.queries[0].models["lengths"]
    assert lines == ["corpus: 8 sentences, 6 of them different", "letters: done", "lengths: done"]


def test_table_has_a_column_a_model() -> None:
    corpus = [*CORPUS, "[bold]barn[/bold]"]
    found = compare_neighbours(
        {"[i]one": searching(letters), "two": searching(lengths)}, corpus, ["brain", "a dog"], k=2
    )
    console = Console(width=120, force_terminal=False)
    with console.capture() as capture:
        console.print(neighbours_table(found))
    text = capture.get()
    rows = [[cell.strip() for cell in line.strip("│┃").split("│")] for line in text.splitlines() if line[:1] == "│"]
    assert "[i]one" in text
    assert "Nearest of 7 sentences" in text
    assert rows[0] == ["Query", "brain", ""]
    for rank in (0, 1):
        one, two = (found.queries[0].models[label][rank] for label in ("[i]one", "two"))
        assert rows[1 + rank] == [f"#{rank + 1}", f"{one.text} ({one.score:.3f})", f"{two.text} ({two.score:.3f})"]
    assert rows[3] == ["Query", "a dog", ""]
    assert len(rows) == 6


def test_what_is_missing_is_told() -> None:
    with pytest.raises(UserError, match="no model"):
        compare_neighbours({}, CORPUS, ["rain"])
    with pytest.raises(UserError, match="a query is blank"):
        compare_neighbours({"m": searching(letters)}, CORPUS, ["rain", " "])
    with pytest.raises(UserError, match="at least 1, not 0"):
        compare_neighbours({"m": searching(letters)}, CORPUS, ["rain"], k=0)
