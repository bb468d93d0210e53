"""``opencse evaluate``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


def test_layers_and_dimensions_are_whole_numbers(opencse: Run, tmp_path: Path) -> None:
    for option, value in (("--layers", "x"), ("--dimensions", "64,,128")):
        code, _, err = opencse("evaluate", "opencse-mini", "--data", tmp_path, option, value)
        assert code == 2
        assert f"{option} is " in err


def test_retrieval_is_scored(opencse: Run, tmp_path: Path) -> None:
    folder = tmp_path / "animals"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "A dog barks."}\n{"_id": "2", "text": "Rain falls."}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "barking dogs"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    code, stdout, err = opencse("evaluate", "opencse-mini", "--suite", "retrieval", "--data", folder)
    assert code == 0, err
    assert "100.0" in stdout
