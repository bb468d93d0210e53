"""benchmarks/make_collections.py writes collections that `opencse evaluate` reads."""

from __future__ import annotations

import gzip
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from opencse.evaluation.retrieval.data import load_retrieval

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


def test_a_missing_source_is_refused(makers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        collection(makers, monkeypatch, tmp_path / "out", "manuals")
    assert ended.value.code == 2
