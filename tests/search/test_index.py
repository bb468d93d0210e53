"""The index compared with a plain sort, and what it refuses."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index
from opencse.search.rows import IndexRow
from search_texts import TEXTS


def test_hits_match_a_plain_sort(index: Index, mini: SentenceEncoder) -> None:
    queries = ["The cat is asleep.", "trains"]
    unit = mini.encode(TEXTS, normalize_embeddings=True).astype(np.float64)
    for query, hits in zip(queries, index.search(queries, 5), strict=True):
        own = mini.encode([query], normalize_embeddings=True).astype(np.float64)[0]
        cosines = (unit * own).sum(axis=1)
        order = np.lexsort((np.arange(5), -cosines))
        order = order[order != 2]
        assert [hit.id for hit in hits] == [f"n{place}" for place in order]
        assert [hit.score for hit in hits] == pytest.approx(cosines[order].tolist(), abs=1e-6)
    first = index.search(["A cat sleeps."], 1)[0]
    assert [(hit.id, hit.text, hit.copies) for hit in first] == [("n0", TEXTS[0], ("n2",))]
    assert first[0].score == pytest.approx(1)
    assert np.array_equal(*index.vectors(["n0", "n2"]))
    assert first[0].metadata == {"length": 13}


def test_the_threshold_is_the_lowest_score(index: Index) -> None:
    everything = index.search(["A cat sleeps."], 99)[0]
    assert len(everything) == 4
    assert min(hit.score for hit in everything) < 0.6
    least = everything[2].score
    assert index.search(["A cat sleeps."], 99, threshold=least)[0] == everything[:3]
    assert index.search(["A cat sleeps."], 2, threshold=least)[0] == everything[:2]
    assert index.search(["A cat sleeps."], threshold=1.5) == [[]]


def test_texts_and_their_vectors_find_the_same(index: Index, mini: SentenceEncoder) -> None:
    queries = ["rain", "a dog"]
    vectors = 7 * mini.encode(queries)
    found = index.search(vectors, 3)
    assert [[hit.id for hit in hits] for hits in found] == [[h.id for h in hits] for hits in index.search(queries, 3)]
    assert index.search([], 3) == []
    assert index.search(vectors[:0], 3) == []


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({"length": 13}, ["n0"]),
        ({"length": [13, 23]}, ["n0", "n1"]),
        ({"length": (">=", 19, "<", 24)}, ["n1", "n4"]),
        ({"length": {"!=": 13, "<=": 19}}, ["n4"]),
        ({"length": None}, []),
        ({"id": ["n3", "n4"]}, ["n3", "n4"]),
        ({"length": 13, "id": "n2"}, ["n2"]),
        ({"length": {"!=": [13, 23]}}, ["n3", "n4"]),
    ],
)
def test_all_hits_meet_the_conditions(index: Index, where: dict[str, object], ids: list[str]) -> None:
    every = [hit.id for hit in index.search(["cat"], 5)[0] if {hit.id, *hit.copies} & {*ids}]
    assert len(every) == len(ids)
    found = index.search(["cat"], 5, where=where)[0]
    assert sorted(hit.id for hit in found) == ids
    assert index.search(["cat"], 1, where=where)[0] == found[:1]


def test_rows_and_vectors_in_the_order_they_were_added(index: Index, mini: SentenceEncoder) -> None:
    assert (
        index.add([IndexRow("New.", "x"), "Newer.", {"text": "Newest.", "id": 9, "length": 7.5, "kind": "late"}]) == 3
    )
    assert [hit.id for hit in index.rows()] == ["n0", "n1", "n2", "n3", "n4", "x", "10", "9"]
    assert [hit.id for hit in index.rows(5, 2)] == ["x", "10"]
    assert index.rows(7)[0].metadata == {"length": 7.5, "kind": "late"}
    assert index.rows(0, 1)[0].metadata == {"length": 13, "kind": None}
    assert index.add(["Next."]) == 1
    assert index.rows(8)[0].id == "11"
    expected = mini.encode(["Newer.", "New."], normalize_embeddings=True)
    assert index.vectors(["10", "x"]) == pytest.approx(expected, abs=1e-6)
    assert index.vectors().shape == (9, 448)
    assert index.info().columns == {"length": "number", "kind": "text"}
    with pytest.raises(UserError, match="no row has the id 'y'"):
        index.vectors(["y"])


def test_deleting(index: Index) -> None:
    with pytest.raises(UserError, match="no row has the id 'n9'; nothing was deleted"):
        index.delete(["n0", "n9"])
    with pytest.raises(UserError, match="give either ids or conditions"):
        index.delete(where={})
    with pytest.raises(UserError, match="give either ids or conditions"):
        index.delete()
    assert len(index) == 5
    assert index.delete(["n0", "n0"]) == 1
    assert [hit.id for hit in index.search(["A cat sleeps."], 1)[0]] == ["n2"]
    assert index.delete(where={"length": (">", 0)}) == 4
    assert index.search(["cat"]) == [[]]
    assert index.rows() == []
    assert index.add(["Back."]) == 1
    assert index.search(["Back."])[0][0].score == pytest.approx(1)


def test_ids_that_are_numbers_name_the_same_rows_everywhere(index: Index) -> None:
    index.add([{"text": "Seven trains.", "id": 7, "length": 13}])
    assert np.array_equal(index.vectors([7]), index.vectors(["7"]))
    with pytest.raises(UserError, match="no row has the id '8'"):
        index.vectors([8])
    with pytest.raises(UserError, match="no row has the id '8'; nothing was deleted"):
        index.delete([7, 8])
    assert index.delete([7]) == 1


def test_a_closed_index_is_not_called_damaged(index: Index) -> None:
    index.close()
    index.close()
    for read in (lambda: index.search(["cat"]), index.info, lambda: index.vectors(["n0"])):
        with pytest.raises(UserError, match="has been closed; open it again"):
            read()


def test_an_open_index_sees_what_others_write(index: Index, mini: SentenceEncoder) -> None:
    with Index.open(index.folder, encoder=mini) as reader:
        assert len(reader.search(["cat"], 9)[0]) == 4
        index.add(["A new cat."])
        index.delete(["n0", "n1", "n2", "n3"])  # so many that the vectors are written anew
        assert sorted(hit.id for hit in reader.search(["cat"], 9)[0]) == ["0", "n4"]
        Index.build(index.folder, ["Another index."], mini, overwrite=True)
        assert [hit.text for hit in reader.search(["cat"], 9)[0]] == ["Another index."]
        assert len(list(index.folder.glob("*.f32"))) == 1


def test_a_replacement_of_another_model_is_refused(index: Index, mini: SentenceEncoder, tiny_folder: Path) -> None:
    with Index.open(index.folder) as reader:
        found = reader.search(["cat"], 9)
        Index.build(index.folder, TEXTS[:3], mini, model="opencse-mini", overwrite=True)
        assert len(reader.search(["cat"], 9)[0]) == 2 < len(found[0])
        before = reader.stamp
        Index.build(index.folder, TEXTS[:3], mini, model="opencse-mini", overwrite=True)
        assert reader.info().rows == len(reader) == 3
        assert reader.stamp != before
        other = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
        Index.build(index.folder, TEXTS, other, overwrite=True)
        for act in (lambda: reader.search(["cat"]), lambda: reader.add(["More."]), reader.info, lambda: len(reader)):
            with pytest.raises(UserError, match="another model since it was opened; open it again"):
                act()
    with Index.open(index.folder, encoder=other) as again:
        assert len(again) == 5


def test_the_log_of_another_process_is_read_in_a_read_only_folder(
    index: Index, mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(["A new cat."])  # the reader keeps SQLite's log from being emptied
    assert next(index.folder.glob("*-wal")).stat().st_size
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with Index.open(index.folder, encoder=mini) as reader:
        assert len(reader) == 6


def test_queries_with_known_vectors_are_not_encoded(index: Index, mini: SentenceEncoder) -> None:
    texts, others = ["A cat sleeps.", "the rain"], ["trains", "a dog"]
    assert index.search(texts, 3, vectors=mini.encode(others)) == index.search(others, 3) != index.search(texts, 3)
    both = index.search(texts, 3, hybrid=True, hybrid_weight=1.0, vectors=mini.encode(others))
    assert both == index.search(others, 3, hybrid=True, hybrid_weight=1.0)
    for hybrid in (False, True):
        assert index.search(texts, 3, hybrid=hybrid, vectors=mini.encode(texts)) == index.search(
            texts, 3, hybrid=hybrid
        )
    with pytest.raises(UserError, match="1 for 2 queries"):
        index.search(texts, vectors=mini.encode(texts[:1]))


def test_an_index_whose_model_changed_since_is_refused(
    tmp_path: Path, tiny_folder: Path, mini: SentenceEncoder
) -> None:
    model = tmp_path / "model"
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu").save(model)
    Index.build(tmp_path / "i", TEXTS, SentenceEncoder.load(model, device="cpu"), model=str(model)).close()
    SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu").save(model)
    with Index.open(tmp_path / "i") as opened, pytest.raises(UserError, match="this encoder is another"):
        opened.search(["cat"])


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ("cat", "give a list of texts"),
        (np.ones((2, 3), dtype=np.float32), "a (n, 448) array"),
        (np.full((1, 448), np.nan, dtype=np.float32), "NaN"),
    ],
)
def test_invalid_queries_are_refused(index: Index, queries: object, message: str) -> None:
    import re

    with pytest.raises(UserError, match=re.escape(message)):
        index.search(queries)  # type: ignore[arg-type]


def test_invalid_arguments_are_refused(index: Index) -> None:
    for where, message in (
        ({"colour": 1}, "unknown column 'colour'"),
        ({"length": ("=>", 1)}, "unknown operator '=>'"),
        ({"length": (">",)}, "pairs such as"),
        ({"length": (">", [1])}, "not with a list"),
        ({"length": (">", None)}, "not with nothing"),
        ({"length": {1: 2}}, "unknown operator"),
        ({"length": object()}, "holds object"),
        ({"length": "13"}, "holds numbers, and '13' is a text"),
        ({"length": (">", "13")}, "holds numbers"),
        ({"length": [13, "x"]}, "holds numbers, and 'x' is a text"),
        ({"id": 3}, "holds texts, and 3 is a number"),
        ({"length": float("nan")}, "holds nan, which is no number"),
        ({"length": (">", float("inf"))}, "holds inf"),
        ({"length": [1.0, float("-inf")]}, "holds -inf"),
        ({"length": 2**70}, "more than 64 bits"),
        ({"length": [[1]]}, "holds list"),
        ({"length": (">", 1) * 501}, "501 comparisons; give at most 500"),
    ):
        with pytest.raises(UserError, match=message):
            index.search(["cat"], where=where)
    with pytest.raises(UserError, match="at least 1"):
        index.search(["cat"], 0)
    with pytest.raises(UserError, match="at least 0"):
        index.rows(-1)


def test_a_missing_or_damaged_index_is_reported_in_one_line(
    index: Index, tmp_path: Path, mini: SentenceEncoder
) -> None:
    folder = index.folder
    index.close()

    def told() -> str:
        with pytest.raises(UserError) as error:
            Index.open(folder)
        assert "\n" not in str(error.value)
        return str(error.value)

    with pytest.raises(UserError, match="holds no index"):
        Index.open(tmp_path / "nowhere")
    vectors = next(folder.glob("*.f32"))
    content = vectors.read_bytes()
    vectors.write_bytes(content[:-4])
    assert "damaged (vectors-" in told()
    vectors.unlink()
    assert "is missing" in told()
    vectors.write_bytes(content)
    rows = next(folder.glob("*.sqlite"))
    whole = rows.read_bytes()
    rows.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in told()
    rows.write_bytes(b"something else entirely, and long enough" * 100)
    assert "damaged (file is not a database)" in told()
    rows.unlink()
    assert f"{rows.name} is missing" in told()
    for foreign in ("[1]", "{", json.dumps({"format": 1})):
        (folder / "index.json").write_text(foreign)
        assert "damaged or not of an index" in told()
    (folder / "index.json").write_text(json.dumps({"format": 9, "rows": "x"}))
    assert "format 9" in told()
    (folder / "index.json").write_text(json.dumps({"format": 1, "rows": "../x"}))
    assert "names no file in its folder" in told()
    sqlite3.connect(folder / "rows-foreign.sqlite").close()
    (folder / "index.json").write_text(json.dumps({"format": 1, "rows": "rows-foreign.sqlite"}))
    assert "damaged (no such table" in told()


def test_replacing_an_index_needs_overwrite(index: Index, mini: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="replace it with --overwrite"):
        Index.build(index.folder, ["x"], mini)
    with pytest.raises(UserError, match="is empty"):
        Index.build(index.folder, ["x", " "], mini, overwrite=True)
    assert len(index) == 5
