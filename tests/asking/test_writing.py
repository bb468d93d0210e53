"""The questions of all answers, filtered, in the order of the collection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import rows_in
from opencse.asking.chat_server import ChatReply
from opencse.asking.plan import QuestionPrompt, RequestPlan, SourcePassage, plan_requests
from opencse.asking.writing import QuestionFilter, WrittenQuestions, write_questions
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.progress import Silent

TEXTS = ["Vinegar removes limescale from kettles.", "Snow fell on the hills.", "The tax is due in April."]
PASSAGES = [[SourcePassage(row, f"d{row}", 1, "", text)] for row, text in enumerate(TEXTS)]
ANSWERS = {
    0: ["what removes limescale", "who paid the tax in April?", "a third question that was not requested"],
    1: ["what removes  limescale?", "snow"],
    2: [],
}


def plan() -> RequestPlan:
    prompt = QuestionPrompt("{{ text }}", count=2)
    return plan_requests(PASSAGES, [parts[0] for parts in PASSAGES], prompt, {"model": "rule"})


def written(tmp_path: Path, k: int, **more: str) -> tuple[WrittenQuestions, list[dict[str, object]]]:
    one = plan()
    replies = {
        request.key: ChatReply(more.get("answer", json.dumps(ANSWERS[row])), tokens_in=10, tokens_out=5)
        for row, request in enumerate(one.requests)
    }
    out = tmp_path / "pairs.jsonl"
    started = WrittenQuestions(out=str(out), model="rule", documents=3, passages=3, requests=3)
    encoder = SentenceEncoder.load(device="cpu")
    result = write_questions(started, one, replies, QuestionFilter(), PASSAGES, encoder, k=k, progress=Silent())
    return result, rows_in(out)


def test_rows_and_counts(tmp_path: Path) -> None:
    result, rows = written(tmp_path, k=1)
    ranks = {"words": 1, "vectors": 1}
    head = {"question": "what removes limescale", "answer": TEXTS[0], "document": "d0", "passage": 1, "model": "rule"}
    assert rows == [{**head, "ranks": ranks}]
    assert {name: count for name, count in result.dropped.items() if count} == {"repeat": 1, "short": 1, "lost": 1}
    assert (result.questions, result.unreadable, result.tokens_in, result.tokens_out) == (1, 1, 30, 15)


def test_without_a_round_trip(tmp_path: Path) -> None:
    result, rows = written(tmp_path, k=0)
    assert [row["question"] for row in rows] == ANSWERS[0][:2]
    assert "ranks" not in rows[0]
    assert result.dropped["lost"] == 0


def test_no_question_at_all_is_an_error_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no question is left to write .*3 questions in which the language model"):
        written(tmp_path, k=1, answer="I'm sorry, but I cannot help with that.")
    assert not (tmp_path / "pairs.jsonl").exists()
