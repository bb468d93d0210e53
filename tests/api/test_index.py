"""Indexes through Python: options, models that moved, fitted weights, second stages, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import opencse
import opencse as opencse_package
from helpers import Heard, Run, refused, write_collection
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.description import write_hybrid_weight
from opencse.modules.similarity import HybridWeight
from opencse.search.index import Index
from search_texts import DOCUMENTS


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


QUERIES = ["a man with a guitar", "rain in the city"]


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """30 documents are asked for by every second word of their beginning."""
    documents = {f"d{row}": text for row, text in enumerate(DOCUMENTS)}
    queries = {f"q{row}": " ".join(text.split()[:12:2]) for row, text in enumerate(DOCUMENTS[:30])}
    judged = [(f"q{row}", f"d{row}", 1) for row in range(30)]
    return write_collection(tmp_path / "queries", documents, queries, judged)


def ranked(index: str | Path, **options: object) -> list[list[str]]:
    result = opencse.query_index(index, QUERIES, hybrid=True, device="cpu", **options)  # type: ignore[arg-type]
    return [[hit.id for hit in hits] for hits in result]


def test_a_weight_travels_from_the_model_through_the_index_to_the_search(tmp_path: Path) -> None:
    SentenceEncoder.load("opencse-mini", device="cpu").save(tmp_path / "model")
    write_hybrid_weight(tmp_path / "model", HybridWeight(0.9, "someone's queries"))
    built = opencse.build_index(tmp_path / "index", tmp_path / "model", DOCUMENTS, device="cpu")
    assert built.info.hybrid == HybridWeight(0.9, "someone's queries")
    progress = Heard()
    by_default = ranked(tmp_path / "index", progress=progress)
    assert progress.said == ["hybrid     weight of the vectors 0.90 (someone's queries)"]
    assert by_default == ranked(tmp_path / "index", hybrid_weight=0.9)
    assert by_default != ranked(tmp_path / "index", hybrid_weight=0.1, progress=progress)
    assert progress.said[-1] == "hybrid     weight of the vectors 0.10 (as requested)"


def test_an_index_is_tuned_to_queries_alone_and_keeps_its_rows(tmp_path: Path, dev: Path) -> None:
    opencse.build_index(tmp_path / "index", "opencse-mini", dev / "corpus.jsonl", device="cpu")
    before = opencse.index_info(tmp_path / "index")
    assert before.hybrid.source == "general questions that the model answers"
    with pytest.raises(UserError, match="tuned to people's queries: give --dev FOLDER"):
        opencse.tune_index(tmp_path / "index", device="cpu")
    fitted = opencse.tune_index(tmp_path / "index", dev=dev, device="cpu")
    after = opencse.index_info(tmp_path / "index")
    assert after.hybrid == fitted.weight != before.hybrid
    assert (after.rows, after.fingerprint) == (before.rows, before.fingerprint)
    assert ranked(tmp_path / "index") == ranked(tmp_path / "index", hybrid_weight=fitted.weight.value)


def test_a_read_only_index_is_refused_before_queries_are_answered(
    tmp_path: Path, dev: Path, read_only: Callable[[Path], None]
) -> None:
    opencse.build_index(tmp_path / "index", "opencse-mini", DOCUMENTS[:30], device="cpu")
    read_only(tmp_path / "index")
    progress = Heard()
    with pytest.raises(UserError, match=r"cannot be written \(.*Read-only.*\); .* tune a copy"):
        opencse.tune_index(tmp_path / "index", dev=dev, device="cpu", progress=progress)
    assert progress.said == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--suite", "sts"), "is an index, whose searches are scored by retrieval alone; use --suite retrieval"),
        (("--suite", "retrieval", "--pooling", "cls"), "leave out --pooling"),
        (("--suite", "retrieval", "--bm25", "--language", "de"), "leave out --language"),
    ],
)
def test_options_of_models_are_refused(opencse: Run, tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    folder = tmp_path / "index"
    Index.build(folder, ["Rain falls."], opencse_package.load("opencse-mini"), model="opencse-mini").close()
    refused(opencse("evaluate", folder, "--data", tmp_path, *options), str(folder), message)
