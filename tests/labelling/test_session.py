"""A session: searching, marking, and indexes that change while or before texts are marked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import RetrievalTask, load_retrieval
from opencse.files import write_text
from opencse.labelling.labels import LabelFolder
from opencse.labelling.pooling import PooledIndexes
from opencse.labelling.session import SHOWN, LabelSession, score_labels
from opencse.modules.similarity import HybridWeight
from opencse.search.index import Index
from opencse.search.rows import IndexRow


@contextmanager
def session_in(folder: Path, *indexes: Index) -> Iterator[LabelSession]:
    out = LabelFolder(folder / "out")
    with out.opened() as labels:
        yield LabelSession(PooledIndexes({index.folder.name: index for index in indexes}), out, labels)


def task_in(folder: Path, split: str = "test") -> RetrievalTask:
    return load_retrieval(folder / "out", split=split).tasks["out"]


def judged(task: RetrievalTask) -> dict[str, dict[str, int]]:
    """The levels above 0 by text, by query."""
    return {
        query: {task.documents[position]: level for position, level in levels.items() if level}
        for query, levels in zip(task.queries, task.judged, strict=True)
    }


def test_the_folder_is_a_data_set_after_every_mark(tmp_path: Path, water: Index) -> None:
    with session_in(tmp_path, water) as session:
        number = session.add("water number 3")
        query, texts = session.open_query(number)
        assert [one.id for one in query.pool] == [one.id for one in texts]
        assert {system for one in query.pool for system in one.ranks} == {"vectors", "BM25", "hybrid"}
        assert texts[0].metadata["cup"] == int(texts[0].id[1:])
        session.mark(number, "w3", 2)
        task = task_in(tmp_path)
        assert len(task.documents) == 30
        assert judged(task) == {"water number 3": {"Water number 3 is cold.": 2}}
        assert sum(map(len, task.judged)) == 1, "texts that were only shown are not judged yet"
        session.finish(number, True)
        assert sum(map(len, task_in(tmp_path).judged)) == len(texts)
        again, shown = session.open_query(number)
        assert again.finished
        assert [one.id for one in shown] == [one.id for one in texts]
        assert [one.level for one in shown if one.id == "w3"] == [2]


def test_dev_and_test_queries(tmp_path: Path, water: Index) -> None:
    with session_in(tmp_path, water) as session:
        session.set_split(0.5)
        assert session.add_queries([f"water number {i}" for i in range(4)] + ["Water  number 0"]) == 4
        for i in range(4):
            session.open_query(i + 1)
            session.mark(i + 1, f"w{i}", 2)
    assert task_in(tmp_path, "dev").queries == ["water number 1", "water number 3"]
    assert task_in(tmp_path).queries == ["water number 0", "water number 2"]
    with session_in(tmp_path, water) as session:
        assert session.labels.split == 0.5
        session.set_split(None)
    assert len(task_in(tmp_path).queries) == 4
    assert not (tmp_path / "out" / "qrels" / "dev.tsv").exists()


def test_deleted_and_changed_texts(tmp_path: Path, water: Index) -> None:
    with session_in(tmp_path, water) as session:
        session.add("water number 3")
        ids = [text.id for text in session.open_query(1)[1]]
        gone, changed, same, unmarked, new = ids[:5]
        for text_id in (gone, changed, same):
            session.mark(1, text_id, 2)
        water.delete([gone, unmarked])
        water.add([IndexRow("Something else.", changed), IndexRow("Water number 3.", new)], replace=True)
        query, texts = session.open_query(1)
        by_id = {text.id: text for text in texts}
        assert "deleted" in by_id[gone].note
        assert (by_id[changed].level, by_id[same].level) == (None, 2)
        assert ("has changed since" in by_id[changed].note, by_id[new].note) == (True, "")
        assert unmarked not in by_id
        task = task_in(tmp_path)
        assert len(task.documents) == 28
        assert task.notes == ()
        assert judged(task) == {"water number 3": {f"Water number {same[1:]} is cold.": 2}}
        with pytest.raises(UserError, match="deleted from the index"):
            session.mark(1, gone, 1)
        session.mark(1, gone, None)
        session.mark(1, changed, 1)
        assert judged(task_in(tmp_path))["water number 3"]["Something else."] == 1
        assert {text.id: text.note for text in session.open_query(1)[1]}[changed] == ""
        assert not query.finished


def test_a_text_that_was_shown_is_marked_also_where_another_one_has_its_number_by_now(
    tmp_path: Path, encoder: SentenceEncoder
) -> None:
    texts = [f"Water number {i} is cold." for i in range(8)]
    with Index.build(tmp_path / "numbers", texts, encoder) as index, session_in(tmp_path, index) as session:
        _, shown = session.open_query(session.add("water number 3"))
        by_text = {one.text: one for one in shown}
        third = by_text[texts[3]]
        assert third.id == "3"
        Index.build(tmp_path / "numbers", ["A new text.", *texts[:6]], encoder, overwrite=True).close()
        with pytest.raises(UserError, match="the index has changed since this text was shown"):
            session.text_of(third.id, third.digest)
        session.mark(1, third.id, 2, third.digest)
        assert judged(task_in(tmp_path)) == {"water number 3": {texts[3]: 2}}
        deleted = by_text[texts[7]]
        with pytest.raises(UserError, match=r"was deleted from the index|the index has changed"):
            session.mark(1, deleted.id, 2, deleted.digest)


def test_labels_of_another_index(tmp_path: Path, encoder: SentenceEncoder, water: Index) -> None:
    with session_in(tmp_path, water) as session:
        session.add("water number 3")
        for text in session.open_query(1)[1][:5]:
            session.mark(1, text.id, 2)
        labels = session.labels
        water.delete(["w3"])
        assert score_labels(PooledIndexes({"index": water}), labels).queries == 1
    other = Index.build(tmp_path / "other", [IndexRow(f"Fire {i}.", f"w{i}") for i in range(30)], encoder)
    before = (tmp_path / "out" / "corpus.jsonl").read_bytes()
    with (
        other,
        pytest.raises(UserError, match="none of its 5 marked texts is in this index"),
        session_in(tmp_path, other),
    ):
        pass
    assert (tmp_path / "out" / "corpus.jsonl").read_bytes() == before
    with Index.open(tmp_path / "other", encoder=encoder) as other, pytest.raises(UserError, match="of another index"):
        score_labels(PooledIndexes({"index": other}), labels)


def test_hostile_ids_and_huge_texts(tmp_path: Path, encoder: SentenceEncoder) -> None:
    ids = [
        "7",
        "007",
        "docs/a b.html",
        "a\tb",
        "a\nb",
        "a%09b",
        "escaped:a%09b",
        '"q"',
        "query-1",
        "ü\u2028é",
        "x" * 900,
    ]
    rows = [IndexRow(f"Water {i} \t \x00 <b> \u2028 end", name) for i, name in enumerate(ids)]
    rows.append(IndexRow("A title\n" + "long water text. " * 3_000, "long"))
    with Index.build(tmp_path / "index", rows, encoder) as index, session_in(tmp_path, index) as session:
        session.add("water")
        _, texts = session.open_query(1)
        assert all(len(text.text) <= SHOWN for text in texts)
        assert next(text for text in texts if text.id == "long").is_part
        assert len(session.text_of("long")) > 40_000
        for name in ids:
            if name in {text.id for text in texts}:
                session.mark(1, name, 2)
        session.finish(1, True)
        marked = {text.id for text in texts} & {*ids}
        assert len(marked) >= 9
    task = task_in(tmp_path)
    assert len(task.documents) == len(rows)
    assert sum(level == 2 for level in task.judged[0].values()) == len(marked)
    assert task.notes == ()
    assert task.query_ids == ["query-query-1"], "the id of no document"


@pytest.mark.parametrize("written", range(3))
def test_what_cannot_be_saved_can_be_tried_again(
    tmp_path: Path, water: Index, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The disk is full after some of the files: what is in memory is then what is on the disk."""
    with session_in(tmp_path, water) as session:
        session.add("water number 3")
        session.open_query(1)
        before = session.labels
        count = 0

        def full(path: Path, text: str) -> None:
            nonlocal count
            if count == written:
                raise OSError(28, "No space left on device")
            count += 1
            write_text(path, text)

        with monkeypatch.context() as patch:
            patch.setattr("opencse.labelling.labels.write_atomically", full)
            with pytest.raises(UserError, match=r"could not be saved \(No space left on device\); make room"):
                session.mark(1, "w3", 2)
        assert (session.labels == before) == (written == 0)
        assert session.labels == LabelFolder(tmp_path / "out").read()
        session.mark(1, "w3", 1)
        assert judged(task_in(tmp_path)) == {"water number 3": {"Water number 3 is cold.": 1}}


def test_scores_are_those_of_the_searches(tmp_path: Path, water: Index) -> None:
    with session_in(tmp_path, water) as session:
        for i in range(6):
            number = session.add(f"water number {i}")
            session.open_query(number)
            session.mark(number, f"w{i}", 2)
            session.finish(number, True)
        scores = session.scores()
        assert (scores.queries, list(scores.systems)) == (6, ["vectors", "BM25", "hybrid"])
        assert scores.systems["BM25"].ndcg_at_10 == 100, "each query names the number of its text"
        assert all(one.judged == 1 for one in scores.systems.values())
        assert session.scores() == scores
        water.set_hybrid_weight(HybridWeight(0.0, "test"))
        tuned = session.scores().systems
        assert tuned["hybrid"].ndcg_at_10 == tuned["BM25"].ndcg_at_10, "no vectors any more"
        assert tuned["vectors"] == scores.systems["vectors"]
        water.add([IndexRow("Water number 2 is ice.", "ice")])
        water.delete(["w2"])
        assert session.scores().queries == 5, "the index has changed, so all queries are searched for again"
        assert session.scores().systems["BM25"].judged < 1


def test_hits_of_a_second_index_are_judged_before_its_model_is_compared(
    tmp_path: Path, water: Index, reversed_water: Index
) -> None:
    """Labels of one index are unfair to another model; with both indexes its hits are shown too."""
    queries = [f"how cold is cup {i}" for i in range(6)]
    with session_in(tmp_path, water) as session:
        for number in map(session.add, queries):
            _, texts = session.open_query(number)
            session.mark(number, texts[0].id, 2)
            session.finish(number, True)
        one_index = session.labels
    alone = score_labels(PooledIndexes({"reversed": reversed_water}), one_index)
    assert alone.systems["vectors"].judged < 1
    with session_in(tmp_path, water, reversed_water) as session:
        assert session.add_hits() == 6
        assert session.add_hits() == 0, "they are shown already"
        assert not any(query.finished for query in session.labels.queries)
        query, texts = session.open_query(1)
        shown_before = {one.id for one in one_index.query(1).pool}
        new = [text.id for text in texts if text.level is None]
        assert new
        assert not shown_before & set(new), "the others were all looked at"
        assert {one.level for one in query.pool if one.id in shown_before} == {0, 2}
        for number in range(1, 7):
            session.open_query(number)
            session.finish(number, True)
        scores = session.scores()
        assert list(scores.systems) == [
            "vectors of index", "vectors of reversed", "BM25", "hybrid of index", "hybrid of reversed",
        ]  # fmt: skip
        assert {one.judged for one in scores.systems.values()} == {1.0}
        assert "differences are from vectors of index" in scores.lines()[0]
        assert session.add_hits() == 0
    reversed_water.delete(["w3"])
    with pytest.raises(UserError, match="not indexes of the same texts"), session_in(tmp_path, water, reversed_water):
        pass


def test_an_index_without_texts(tmp_path: Path, water: Index) -> None:
    water.delete([f"w{i}" for i in range(30)])
    with pytest.raises(UserError, match="the index is empty"), session_in(tmp_path, water):
        pass
    assert not (tmp_path / "out").exists()
