"""The scripts of benchmarks/: collections and models that they make, records that they write, pages drawn from them."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from opencse.evaluation.retrieval.data import load_retrieval
from opencse.ranking import nearest_prepared

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("make_collections")


def collection(makers: Any, monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: object) -> Any:
    """The retrieval task that a command writes."""
    monkeypatch.setattr(
        sys, "argv", ["make_collections.py", *map(str, arguments), str(out), "--queries", "2", "--pairs", "1"]
    )
    makers.main()
    return next(iter(load_retrieval(out).tasks.values()))


def sentence(number: int, words: int) -> str:
    return " ".join(f"{WORDS[index % 10]}{number}" for index in range(words))


def test_packages(makers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "descriptions.txt"
    one = "Package: p{0}\nDescription-md5: x\nDescription-en: {1}\n {2}\n .\n {3}\n"
    source.write_text("\n".join(one.format(n, f"title {n} of four", sentence(n, 20), sentence(n, 9)) for n in range(4)))
    task = collection(makers, monkeypatch, tmp_path / "out", "packages", source)
    assert list(task.queries) == ["title 0 of four", "title 2 of four"]
    assert len(task.documents) == 4


def test_manuals(makers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "pages" / "man" / "man3"
    folder.mkdir(parents=True)
    for n in range(3):
        text = f".SH NAME\nname{n} \\- check the stream {n}\n.SH DESCRIPTION\n.nf\ncode\n.fi\n{sentence(n, 30)}\n"
        (folder / f"name{n}.3.gz").write_bytes(gzip.compress(text.encode()))
    task = collection(makers, monkeypatch, tmp_path / "out", "manuals", tmp_path / "pages")
    assert list(task.queries) == ["check the stream 0", "check the stream 1"]
    assert not any("code" in document or "check" in document for document in task.documents)


def test_dictionary(makers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entries = "".join(f"word{n}\n   The meaning of the {n}th word. {sentence(n, 25)}\n\n" for n in range(3))
    source = tmp_path / "foldoc.dict.dz"
    source.write_bytes(gzip.compress(entries.encode()))
    task = collection(makers, monkeypatch, tmp_path / "out", "dictionary", source)
    assert list(task.queries) == ["The meaning of the 0th word.", "The meaning of the 1th word."]


ROOT = Path(__file__).parents[1]


RECORDS = ROOT / "docs" / "results" / "records"


PICTURE = RECORDS.parent / "figures" / "growth.svg"


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("growth")


def test_the_picture_shows_every_curve_that_has_a_record(growth: Any) -> None:
    shown = growth.panels(RECORDS)
    assert len(shown) >= 4
    text = PICTURE.read_text(encoding="utf-8")
    for panel in shown:
        assert panel.title in text, "run benchmarks/growth.py (the command is on docs/results/scale.md)"
        for name in panel.curves:
            assert f">{name}<" in text, "run benchmarks/growth.py (the command is on docs/results/scale.md)"
    assert ("Search, by rows" in text) == (RECORDS / "search-peers.json").exists()
    assert ("Server, by clients" in text) == (RECORDS / "serving-clients.json").exists()


PAGE = ROOT / "docs" / "results" / "speed.md"


SPEED_RECORDS = sorted((PAGE.parent / "records").glob("speed-[0-9]*.json"))


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("page")


def test_the_table_is_up_to_date(page: Any) -> None:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in SPEED_RECORDS]
    assert len(records) == 5
    text = PAGE.read_text(encoding="utf-8")
    assert page.fill(PAGE, records) == text, "run benchmarks/page.py (the command is on the page)"
    assert all(path.name in text for path in SPEED_RECORDS)


@pytest.mark.parametrize("name", ["serving", "search"])
def test_the_table_of_peers_is_up_to_date(page: Any, name: str) -> None:
    path, record = PAGE.with_name(f"{name}.md"), PAGE.parent / "records" / f"{name}-peers.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    assert f"records/{name}-peers.json" in text
    if record.exists():
        filled = page.fill(path, [json.loads(record.read_text(encoding="utf-8"))])
        assert filled == text, "run benchmarks/page.py (the command is on the page)"
    else:
        assert f"{page.BEGIN}\n\nNot measured yet.\n\n{page.END}" in text


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


ROWS = ("step", "encode", "layers", "loss", "start_up", "first_answer", "loading")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The benchmark, its work replaced by a clock that goes on: both sides take 50 ms, and as much is stored."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    quick: Any = importlib.import_module("quick")
    paired: Any = importlib.import_module("rows").paired

    now = 0.0

    def work(seconds: float) -> None:
        nonlocal now
        now += seconds

    def timed(name: str) -> Callable[..., Any]:
        def ours(turn: int) -> None:
            work(seconds.get(name, 0.05))

        return lambda *_: paired(name, ours, lambda turn: work(0.05), size=1, unit="", turns=3, clock=lambda: now)

    seconds: dict[str, float] = {}
    for name in ROWS:
        monkeypatch.setattr(quick, name, timed(name))
    monkeypatch.setattr(quick, "shaped", lambda shape, folder: str(folder))
    monkeypatch.setattr(quick, "STORED", tmp_path / "quick.json")
    monkeypatch.setattr(quick.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(sys, "argv", ["quick.py"])
    quick.STORED.write_text(json.dumps(dict.fromkeys(ROWS, 1.0)))
    return quick, seconds


def test_what_got_slower_is_named(quick: Any, capsys: pytest.CaptureFixture[str]) -> None:
    quick[1]["encode"] = 0.15
    with pytest.raises(SystemExit) as ended:
        quick[0].main()
    assert ended.value.code == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("slower")]
    assert len(told) == 1
    assert told[0].startswith("slower: encode: 0.")


def test_every_measured_row_has_a_stored_ratio() -> None:
    script = (BENCHMARKS / "quick.py").read_text(encoding="utf-8")
    stored = json.loads((BENCHMARKS / "quick.json").read_text(encoding="utf-8"))
    functions = script.count(" = paired(") + script.count("return paired(")
    answers = script.split("FIRST_ANSWERS = {")[1].split("\n}")[0].count("compared with Python")
    assert answers == 3
    assert len(stored) == functions - 1 + answers
    assert [name for name in stored if f'"{name}"' not in script] == []


@pytest.fixture
def search_peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("search_peers")


@pytest.mark.skipif(not find_spec("faiss") or not find_spec("threadpoolctl"), reason="needs faiss and threadpoolctl")
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_both_sides_search_the_same(
    search_peers: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opencse.search.approximate.FEWEST", 256)
    vectors, queries = search_peers.clustered(tmp_path / "vectors", 600, 16, seed=0)
    exact, _ = nearest_prepared(queries, vectors, 10)
    row = search_peers.measured(kind, vectors, queries, exact, breadth=40, turns=1, seconds=60)
    ours, other = row["recall"]["opencse"], row["recall"]["faiss"]
    assert ours == other == 1 if kind == "flat" else 0.6 < other <= ours + 0.05
    assert row["breadth_build"] == (40 if kind == "hnsw" else None)
    assert row["bytes"]["opencse"] >= vectors.nbytes
    assert (row["bytes"]["faiss"] > vectors.nbytes) == (kind != "flat")
    assert row["one"]["ours"] > 0
    assert row["together"]["peer"] > 0
    cells = search_peers.table([{"rows": [row]}]).splitlines()[2].split(" | ")
    assert cells[0] == "| 600"
