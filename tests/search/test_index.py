"""The index compared with a plain sort, and what it refuses."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({"length": 13}, ["n0"]),
        ({"length": [13, 23]}, ["n0", "n1"]),
        ({"length": (">=", 19, "<", 24)}, ["n1", "n4"]),
        ({"length": None}, []),
        ({"id": ["n3", "n4"]}, ["n3", "n4"]),
        ({"length": 13, "id": "n2"}, ["n2"]),
        ({"length": {"!=": [13, 23], "<=": 19}}, ["n4"]),
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
    assert np.array_equal(index.vectors([9]), index.vectors(["9"]))
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
        Index.build(index.folder, TEXTS[:3], mini, model="opencse-mini", overwrite=True)
        assert len(reader.search(["cat"], 9)[0]) == 2
        other = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
        Index.build(index.folder, TEXTS, other, overwrite=True)
        for act in (lambda: reader.search(["cat"]), lambda: reader.add(["More."]), reader.info):
            with pytest.raises(UserError, match="another model since it was opened; open it again"):
                act()


def test_invalid_arguments_are_refused(index: Index) -> None:
    for where, message in (
        ({"colour": 1}, "unknown column 'colour'"),
        ({"length": ("=>", 1)}, "unknown operator '=>'"),
        ({"length": (">",)}, "pairs such as"),
        ({"length": (">", [1])}, "not with a list"),
        ({"length": [13, "x"]}, "holds numbers, and 'x' is a text"),
        ({"id": 3}, "holds texts, and 3 is a number"),
        ({"length": float("nan")}, "holds nan, which is no number"),
        ({"length": 2**70}, "more than 64 bits"),
        ({"length": (">", 1) * 501}, "501 comparisons; give at most 500"),
    ):
        with pytest.raises(UserError, match=message):
            index.search(["cat"], where=where)
    with pytest.raises(UserError, match="at least 1"):
        index.search(["cat"], 0)


def test_a_missing_or_damaged_index_is_reported_in_one_line(index: Index, tmp_path: Path) -> None:
    folder = index.folder
    index.close()
    vectors, rows = next(folder.glob("*.f32")), next(folder.glob("*.sqlite"))
    manifest = folder / "index.json"
    whole = {path: path.read_bytes() for path in (vectors, rows, manifest)}
    with pytest.raises(UserError, match="holds no index"):
        Index.open(tmp_path / "nowhere")
    faults: list[tuple[Path, bytes | None, str]] = [
        (vectors, whole[vectors][:-4], r"damaged \(vectors-"),
        (vectors, None, "is missing"),
        (rows, whole[rows][: len(whole[rows]) // 2], "damaged"),
        (rows, b"something else entirely, and long enough" * 100, r"damaged \(file is not a database\)"),
        (rows, None, f"{rows.name} is missing"),
        (manifest, b"[1]", "damaged or not of an index"),
        (manifest, b'{"format": 9, "rows": "x"}', "format 9"),
        (manifest, b'{"format": 1, "rows": "../x"}', "names no file in its folder"),
    ]
    for path, content, message in faults:
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            Index.open(folder)
        path.write_bytes(whole[path])
