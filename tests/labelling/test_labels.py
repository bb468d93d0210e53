"""Labels: adding, changing and marking queries; which queries are dev queries."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.labelling.labels import LabelledQuery, Labels, PooledText, checked_query


def labels_of(*texts: str) -> Labels:
    labels = Labels()
    for text in texts:
        labels, _ = labels.with_query(text)
    return labels


def pooled(text_id: str, **more: object) -> PooledText:
    return PooledText.model_validate({"id": text_id, "digest": "d", "ranks": {"vectors": 1}, **more})


def test_queries_are_added_once_and_numbers_are_not_used_again() -> None:
    labels = labels_of("  one  query ", "ONE QUERY", "two")
    assert [(query.number, query.text) for query in labels.queries] == [(1, "one query"), (2, "two")]
    labels, number = labels.without(2).with_query("three")
    assert number == 3
    with pytest.raises(UserError, match="query 2 was deleted"):
        labels.query(2)
    assert labels.with_text(3, "Three").query(3).text == "Three"
    with pytest.raises(UserError, match="query 1 has this text already"):
        labels.with_text(3, "one QUERY")


def test_queries_that_are_none() -> None:
    for text in ("", " \n ", "?!", "half \ud800 a pair", "a\0b"):
        with pytest.raises(UserError):
            checked_query(text)
    assert checked_query("two\nlines\t") == "two lines"


def test_marks_and_what_they_mean() -> None:
    labels = labels_of("one").with_pool(1, [pooled("a"), pooled("b"), pooled("c")])
    assert not labels.answered
    labels = labels.marked(1, "b", 1)
    assert labels.query(1).levels() == {"b": 1}
    assert labels.with_finished(1, True).query(1).levels() == {"a": 0, "b": 1, "c": 0}
    assert [query.number for query in labels.answered] == [1]
    assert labels.marked(1, "b", None).query(1).levels() == {}
    assert labels.marked(1, "b", 0).query(1).levels() == {"b": 0}
    with pytest.raises(UserError, match="'x' is not shown for query 1"):
        labels.marked(1, "x", 2)


def test_marks_of_texts_that_have_changed_do_not_count() -> None:
    query = LabelledQuery(
        number=1, text="one", finished=True, pool=(pooled("a", level=2, is_current=False), pooled("b"))
    )
    assert query.levels() == {"b": 0}
    assert not query.is_answered
    labels = Labels(queries=(query,), next_number=2).marked(1, "a", 1, digest="new")
    assert labels.query(1).levels() == {"a": 1, "b": 0}
    assert labels.query(1).pool[0].digest == "new"
