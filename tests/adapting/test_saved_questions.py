"""Questions that are saved while a run goes on fit the same weight as those in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from opencse.adapting.saved_questions import FILE, SavedQuestions, remove_questions
from opencse.adapting.selection_by_questions import Questions
from opencse.adapting.text_questions import TextQuestions, text_questions
from opencse.adapting.trained_texts import TrainedTexts
from opencse.adapting.user_pairs import questions_of_both
from opencse.adapting.user_queries import UserQueries
from opencse.errors import UserError
from opencse.ranking import Measure
from opencse.text.readers import Texts


def saved_and_read(questions: Questions, folder: Path, of: Path | None = None) -> SavedQuestions:
    saved = SavedQuestions.of(questions, of)
    assert saved is not None
    saved.write(folder)
    again = SavedQuestions.read(folder)
    assert again == saved
    return saved


def test_questions_from_text_and_pairs(tmp_path: Path) -> None:
    rows = [(f"question {n} about thing {n}", f"an answer that explains thing {n}") for n in range(600)]
    of_pairs = text_questions(Texts([*rows], None, "pairs"), Measure.parse("mrr@5"))
    both = questions_of_both(of_pairs, of_pairs)
    assert both is not None
    read = saved_and_read(both, tmp_path).opened()
    assert isinstance(read, TextQuestions)
    assert read.fingerprint() == both.fingerprint()
    assert (read.source, read.from_pairs, read.measure) == (both.source, both.from_pairs, "MRR@5")
    assert np.array_equal(read.units, both.units)
    remove_questions(tmp_path)
    assert SavedQuestions.read(tmp_path) is None


def test_queries_of_a_folder_are_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "queries"
    (folder / "qrels").mkdir(parents=True)
    for name, word in (("corpus", "text"), ("queries", "query")):
        rows = [json.dumps({"_id": str(n), "text": f"{word} {n}"}) for n in range(5)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    (folder / "qrels" / "dev.tsv").write_text("".join(f"{n}\t{n}\t1\n" for n in range(5)))
    queries = UserQueries.read(folder, Measure.parse("recall@3"), keep_identical_ids=True)
    queries, _ = queries.without(TrainedTexts.among([("Query 3",)], queries.forbidden_texts()))
    saved = saved_and_read(queries, tmp_path, folder)
    assert "query 1" not in (tmp_path / FILE).read_text(), "the texts are in the folder"
    read = saved.opened()
    assert read.fingerprint() == queries.fingerprint()
    (folder / "queries.jsonl").write_text((folder / "queries.jsonl").read_text().replace("query 1", "another"))
    with pytest.raises(UserError, match="the queries have changed since"):
        saved.opened()
    assert SavedQuestions.of(queries) is None
