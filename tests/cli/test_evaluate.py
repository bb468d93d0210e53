"""``opencse evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import Run


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
    code, stdout, err = opencse(
        "evaluate",
        "opencse-mini",
        "--suite",
        "retrieval",
        "--data",
        folder,
        "--hybrid",
        "--json",
        tmp_path / "rows.json",
    )
    assert code == 0, err
    assert "opencse-mini + BM25: weight of the vectors 0.50 (the default)" in err
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["ranked_by"] for row in rows] == ["BM25", "cosine", "0.5 cosine + 0.5 BM25"]
    assert rows[2]["compared"]["animals"]["n"] == 1


def test_rows_of_keywords_belong_to_retrieval(opencse: Run, tmp_path: Path) -> None:
    for options, message in (
        (("--suite", "sts", "--hybrid"), "--bm25 and --hybrid are for retrieval"),
        (("--suite", "retrieval", "--hybrid-weight", 0.3), "--hybrid-weight needs --hybrid"),
        (("--suite", "retrieval", "--language", "de"), "--language needs --bm25 or --hybrid"),
        (("--suite", "retrieval", "--bm25", "--language", "klingon"), "no stems for the language 'klingon'"),
    ):
        code, _, err = opencse("evaluate", "opencse-mini", "--data", tmp_path, *options)
        assert code == 2
        assert message in err
