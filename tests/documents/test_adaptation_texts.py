"""The texts of an adaptation: documents, pairs and written questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import write_rows
from opencse.documents.adaptation import AdaptationSources, read_pairs
from opencse.documents.dev_choice import Dev
from opencse.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six documents in BEIR's layout, and pairs of three queries with them."""
    documents = [{"_id": str(n), "title": f"Thing {n}", "text": f"It has {n} parts."} for n in range(6)]
    queries = [{"_id": f"q{n}", "text": f"question {n}"} for n in range(3)]
    for name, records in (("corpus", documents), ("queries", queries)):
        write_rows(tmp_path / f"{name}.jsonl", records)
    (tmp_path / "qrels").mkdir()
    train = "query-id\tcorpus-id\tscore\nq0\t4\t1\nq0\t2\t2\nq1\t3\t0\nq1\t5\t1\n"
    (tmp_path / "qrels" / "train.tsv").write_text(train)
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\t1\t1\n")
    return tmp_path


def test_pairs_of_a_folder_are_its_train_judgements(folder: Path) -> None:
    pairs = [("question 0", 4), ("question 0", 2), ("question 1", 5)]
    assert sorted(read_pairs(folder)) == sorted((query, f"Thing {n} It has {n} parts.") for query, n in pairs)


def test_a_folder_of_pairs_selects_only_where_it_has_other_judgements(folder: Path) -> None:
    sources = AdaptationSources(corpus=folder, pairs=folder)
    sources.require_apart_from(Dev.of(None))
    sources.require_apart_from(Dev.of("auto"))
    with pytest.raises(UserError, match=r"no judgements called dev .*its train judgements are the pairs"):
        sources.require_apart_from(Dev.of(folder / "qrels" / ".."))
    (folder / "qrels" / "dev.tsv").write_text("q2\t1\t1\n")
    sources.require_apart_from(Dev.of(folder))


def test_columns_without_pairs_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    sources = AdaptationSources(corpus=tmp_path / "missing", columns=("question", "answer"))
    with pytest.raises(UserError, match="add --pairs, or leave --columns out"):
        sources.read(print)
