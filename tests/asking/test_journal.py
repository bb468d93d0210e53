"""Answers survive a kill, and no other file is taken for a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.asking.chat_server import AnswerJournal, ChatReply, key_of, read_replies
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


def test_two_processes_do_not_write_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerJournal.open(path), pytest.raises(UserError, match="another process"), AnswerJournal.open(path):
        pass


def test_another_file_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    for content in ("a text\n", '{"text": "a document"}\n', "notes"):
        path.write_text(content)
        with pytest.raises(UserError, match=r"line( 1:)? is no answer"), AnswerJournal.open(path):
            pass
        assert path.read_text() == content


def test_a_key_depends_on_prompt_model_and_settings() -> None:
    keys = {key_of(fields, prompt) for fields in ({"model": "a"}, {"model": "b"}) for prompt in ("x", "y")}
    assert len(keys) == 4
