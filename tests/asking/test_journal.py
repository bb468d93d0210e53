"""Answers survive a kill, and no other file is taken for a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.asking.chat_server import ChatReply
from opencse.asking.journal import AnswerJournal, key_of, read_replies
from opencse.errors import UserError


def test_a_line_that_a_kill_left_unfinished_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with AnswerJournal.open(path) as journal:
        journal.add({"a": ChatReply("Wie?\nWo?", tokens_in=3)})
        journal.add({"b": ChatReply("Ü", finished=False)})
    with path.open("ab") as stream:
        stream.write(b'{"key": "c", "con')
    assert sorted(read_replies(path)[0]) == ["a", "b"]
    with AnswerJournal.open(path) as journal:
        assert journal.replies == {"a": ChatReply("Wie?\nWo?", tokens_in=3), "b": ChatReply("Ü", finished=False)}
        journal.add({"d": ChatReply("d")})
    assert sorted(read_replies(path)[0]) == ["a", "b", "d"]


def test_counts_that_an_earlier_version_kept_do_not_stop_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    line = '{{"key": "{}", "content": "How?", "finished": true, "tokens_in": {}, "tokens_out": {}}}\n'
    path.write_text(line.format("a", "9" * 4_000, 3) + line.format("b", -5, "true"))
    with AnswerJournal.open(path) as journal:
        assert journal.replies == {"a": ChatReply("How?", tokens_out=3), "b": ChatReply("How?")}


def test_nothing_is_left_without_answers(tmp_path: Path) -> None:
    with AnswerJournal.open(tmp_path / "answers.jsonl"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_two_processes_do_not_write_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerJournal.open(path), pytest.raises(UserError, match="another process"), AnswerJournal.open(path):
        pass


@pytest.mark.parametrize("content", ["a text\n", '{"text": "a document"}\n', "[1]\n", '{"key": "a", "more": 1}\n'])
def test_another_file_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match="line 1: is no answer"), AnswerJournal.open(path):
        pass
    assert path.read_text() == content


def test_a_text_without_a_line_break_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    for content in ('{"text": "one line alone"}', "notes"):
        path.write_text(content)
        with pytest.raises(UserError, match="last line is no answer"), AnswerJournal.open(path):
            pass
        assert path.read_text() == content
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        read_replies(path)


def test_a_key_depends_on_prompt_model_and_settings() -> None:
    keys = {key_of(fields, prompt) for fields in ({"model": "a"}, {"model": "b"}) for prompt in ("x", "y")}
    assert len(keys) == 4
