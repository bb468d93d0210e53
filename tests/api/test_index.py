"""Indexes through Python: options, models that moved, and what is refused before a model is loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError


def test_a_model_that_was_moved_is_named_again(tmp_path: Path, tiny_folder: Path) -> None:
    model = tmp_path / "model"
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu").save(model)
    built = opencse.build_index(tmp_path / "i", model, ["A cat sleeps.", "Rain falls."], device="cpu")
    assert (built.info.rows, built.recall) == (2, None)
    before = opencse.query_index(tmp_path / "i", ["cat"], device="cpu")
    shutil.move(model, tmp_path / "moved")
    with pytest.raises(UserError, match="give its folder with --model"):
        opencse.query_index(tmp_path / "i", ["cat"])
    assert opencse.query_index(tmp_path / "i", ["cat"], model=tmp_path / "moved", device="cpu") == before
    assert opencse.add_to_index(tmp_path / "i", ["Snow."], model=tmp_path / "moved", device="cpu") == 1
    other = SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")
    with pytest.raises(UserError, match="this encoder is another"):
        opencse.query_index(tmp_path / "i", ["cat"], model=other)


def test_an_index_of_an_encoder_object_needs_it_again(tmp_path: Path, tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    opencse.build_index(tmp_path / "i", encoder, ["A cat sleeps."])
    with pytest.raises(UserError, match="names no model"):
        opencse.query_index(tmp_path / "i", ["cat"])
    assert opencse.query_index(tmp_path / "i", ["cat"], model=encoder)[0][0].text == "A cat sleeps."


def test_conditions_are_checked_before_a_model_is_loaded(tmp_path: Path, tiny_folder: Path) -> None:
    rows = [{"text": "A cat sleeps.", "year": 2020}]
    opencse.build_index(tmp_path / "i", SentenceEncoder.load(tiny_folder, device="cpu"), rows)
    for where in (["size=3"], {"size": 3}):
        with pytest.raises(UserError, match="unknown column 'size'"):
            opencse.query_index(tmp_path / "i", ["cat"], where=where, model="no-such-model")
    assert opencse.delete_from_index(tmp_path / "i", where=["year>=2021"]) == 0
    assert opencse.delete_from_index(tmp_path / "i", where="year>=2020") == 1


def test_added_files_are_read_with_the_columns_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first.csv").write_text("_id,text,lang,year\na,A cat sleeps.,en,2001\n", encoding="utf-8")
    Path("folder").mkdir()
    Path("folder/table.csv").write_text("_id,text,year\nb,A dog sleeps.,2002\n", encoding="utf-8")
    Path("folder/page.md").write_text("# Cows\n\nA cow sleeps.\n", encoding="utf-8")
    Path("late.jsonl").write_text('{"_id": "c", "text": "Pigs."}\n' + '{"text": "x", "_id": "d", "lang": "fr"}\n')
    Path("line.txt").write_text("Sheep.\n", encoding="utf-8")
    opencse.build_index("i", "opencse-mini", "first.csv", metadata=["lang", "year"], device="cpu")
    heard = Heard()
    opencse.add_to_index("i", "first.csv", replace=True, device="cpu", progress=heard)
    assert "not read" not in str(heard.said)
    for text in ("folder", "late.jsonl", "line.txt"):
        opencse.add_to_index("i", text, device="cpu")
    opencse.add_to_index("i", "first.csv", ids="year", metadata=["lang"], device="cpu")
    hits = opencse.Index.open("i").rows()
    assert {hit.id: tuple(hit.metadata.values()) for hit in hits} == {
        "a": ("en", 2001),
        "b": (None, 2002),
        "page.md#cows": (None, None),
        "c": (None, None),
        "d": ("fr", None),
        "0": (None, None),
        "2001": ("en", None),
    }


def test_a_column_of_numbers_is_one_next_to_other_files(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/table.csv").write_text("text,size\nA cat.,1000\nA dog.,150\n", encoding="utf-8")
    (tmp_path / "texts/page.md").write_text("# Cows\n\nA cow.\n", encoding="utf-8")
    opencse.build_index(tmp_path / "i", "opencse-mini", tmp_path / "texts", metadata=["size"], device="cpu")
    hits = opencse.query_index(tmp_path / "i", ["cat"], where=["size<200"], device="cpu")[0]
    assert [hit.text for hit in hits] == ["A dog."]
    lines = '{"text": "A pig.", "size": 90}\n{"text": "A hen.", "size": "90"}\n'
    (tmp_path / "texts/more.jsonl").write_text(lines, encoding="utf-8")
    opencse.build_index(tmp_path / "j", "opencse-mini", tmp_path / "texts", metadata=["size"], device="cpu")
    hits = opencse.query_index(tmp_path / "j", ["cat"], where=["size<200"], device="cpu")[0]
    assert sorted(hit.text for hit in hits) == ["A dog.", "A pig."]


@pytest.mark.parametrize("queries", ["cat", [], [" "]])
def test_queries_are_needed(tmp_path: Path, queries: object) -> None:
    with pytest.raises(UserError, match="query"):
        opencse.query_index(tmp_path, queries)  # type: ignore[arg-type]


def test_a_first_hybrid_query_of_many_rows_says_that_it_counts_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opencse.build_index(tmp_path / "i", "opencse-mini", ["A cat sleeps.", "Rain falls.", "Snow."], device="cpu")
    for fewest, hybrid, said in ((4, True, False), (3, False, False), (3, True, True), (3, True, False)):
        progress = Heard()
        if said:  # as after a change of the index
            shutil.rmtree(next((tmp_path / "i").glob("words-*")))
        monkeypatch.setattr("opencse.api.index._SLOW_TO_COUNT", fewest)
        opencse.query_index(tmp_path / "i", ["cat"], hybrid=hybrid, progress=progress, device="cpu")
        assert ("words      counting those of 3 rows, once" in progress.said) == said
