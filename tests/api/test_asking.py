"""`opencse.questions` from documents to pairs, with a server that answers by a rule."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

import opencse
from chat_servers import ChatRule, busy, by_rule, closed, malformed
from forked import Forks
from helpers import Heard, json_in, rows_in, write_rows
from opencse.errors import UserError

SUBJECTS = [
    "kettles",
    "valves",
    "snow",
    "taxes",
    "bridges",
    "bees",
    "rivers",
    "violins",
    "bread",
    "lamps",
    "maps",
    "salt",
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    rows = [
        {
            "_id": f"doc-{subject}",
            "title": f"All about {subject}",
            "text": f"People have used {subject} for many years. Every kind of {subject} needs care, experts say.",
        }
        for subject in SUBJECTS
    ]
    write_rows(path, rows)
    return path


def test_pairs_with_their_documents_and_a_record(rule: ChatRule, corpus: Path, tmp_path: Path) -> None:
    out, progress = tmp_path / "pairs.jsonl", Heard()
    written = opencse.questions(corpus, out, rule.url, "rule", progress=progress, price_in=1.0, price_out=2.0)
    rows = rows_in(out)
    assert written.questions == len(rows) > 12
    assert {row["document"] for row in rows} == {f"doc-{subject}" for subject in SUBJECTS}
    assert [row["document"] for row in rows] == sorted(
        (row["document"] for row in rows), key=lambda one: SUBJECTS.index(one[4:])
    )
    assert rows[0]["question"] == "tell me about all about kettles"
    assert rows[0]["answer"].startswith("All about kettles\nPeople have used kettles")
    record = json_in(tmp_path / "pairs.record.json")
    assert record["questions"] == len(rows)
    assert record["cost"] > 0
    assert record["endpoint"] == rule.url
    before_first = [line for line in progress.said if line.startswith(("requests", "tokens", "documents"))]
    assert "requests   12, for 3 questions each" in before_first
    assert any("their texts are sent to http" in line for line in before_first)
    with pytest.raises(UserError, match="exists already; replace it with --overwrite"):
        opencse.questions(corpus, out, rule.url, "rule")


def test_other_filters_and_more_documents_ask_nothing_twice(rule: ChatRule, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "pairs.jsonl"
    opencse.questions(corpus, out, rule.url, "rule", documents=4)
    assert len(rule.prompts) == 4
    opencse.questions(corpus, out, rule.url, "rule", documents=8, overwrite=True, round_trip=0)
    assert len(rule.prompts) == 8
    opencse.questions(corpus, out, rule.url, "rule", documents=8, overwrite=True, temperature=0.1)
    assert len(rule.prompts) == 16, "another temperature, other answers"


def test_failures_in_between_do_not_change_the_file(rule: ChatRule, corpus: Path, tmp_path: Path) -> None:
    opencse.questions(corpus, tmp_path / "plain.jsonl", rule.url, "rule", workers=1)
    rule.failures = [busy(), malformed, closed]
    opencse.questions(corpus, tmp_path / "failing.jsonl", rule.url, "rule", workers=4)
    assert (tmp_path / "failing.jsonl").read_bytes() == (tmp_path / "plain.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_after_a_kill_the_same_command_writes_the_same_file(
    rule: ChatRule, corpus: Path, tmp_path: Path, how: signal.Signals, forked: Forks
) -> None:
    opencse.questions(corpus, tmp_path / "whole.jsonl", rule.url, "rule")
    rule.prompts.clear()
    stopped = threading.Event()

    def answer(prompt: str) -> str:
        if len(rule.prompts) > 4:
            stopped.wait(60)
        return by_rule(prompt)

    rule.answer = answer
    out = tmp_path / "pairs.jsonl"
    # A shell starts background commands, and what they start, with SIGINT ignored.
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\nfrom opencse.cli import main\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nmain()"
    )
    options = ["--out", out, "--endpoint", rule.url, "--model", "rule", "--workers", "2"]
    process = forked.start("questions", corpus, *options, program=program)
    answers = tmp_path / "pairs.answers.jsonl"
    while not (answers.exists() and answers.read_bytes().count(b"\n") >= 4):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL), err
    assert how is signal.SIGKILL or "the same command continues" in err
    assert not out.exists()
    done = answers.read_bytes().count(b"\n")
    assert 4 <= done < 12
    stopped.set()
    sent = len(rule.prompts)
    opencse.questions(corpus, out, rule.url, "rule")
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert len(rule.prompts) - sent == 12 - done, "only what was being sent is asked again"


def test_the_key_is_sent_and_written_nowhere(
    rule: ChatRule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule.key = "sk-secret-123"
    out = tmp_path / "pairs.jsonl"
    with pytest.raises(UserError, match="refuses access"):
        opencse.questions(corpus, out, rule.url, "rule")
    with pytest.raises(UserError, match="MY_KEY: the environment variable is not set"):
        opencse.questions(corpus, out, rule.url, "rule", key_variable="MY_KEY")
    monkeypatch.setenv("MY_KEY", rule.key)
    opencse.questions(corpus, out, rule.url, "rule", key_variable="MY_KEY")
    written = [path for path in tmp_path.iterdir() if path != corpus]
    assert len(written) == 3
    assert all("secret" not in path.read_text() for path in written)
