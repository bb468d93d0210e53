"""Requests from several threads: answers on the disk at once, failures counted, Ctrl-C."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from chat_servers import ChatRule, broken, refusing
from opencse.asking.chat_server import AnswerJournal, ChatServer, read_replies
from opencse.asking.plan import QuestionPrompt, RequestPlan, SourcePassage, plan_requests
from opencse.asking.running import send_requests
from opencse.errors import InterruptedRunError, UserError
from opencse.progress import Silent


class Lines(Silent):
    """Remembers what was reported; raises at a count of requests, as Ctrl-C does."""

    def __init__(self, stop: int | None = None) -> None:
        self.lines: list[str] = []
        self.counts: list[int] = []
        self.stop = stop

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advance(self, done: int, note: str = "") -> None:
        self.counts.append(done)
        if self.stop is not None and done >= self.stop:
            raise KeyboardInterrupt


def plan(count: int = 20) -> RequestPlan:
    passages = [[SourcePassage(row, f"d{row}", 1, "", f"This is document {row} of them.")] for row in range(count)]
    prompt = QuestionPrompt("{{ text }}", count=1)
    return plan_requests(passages, [parts[0] for parts in passages], prompt, {"model": "rule"})


def sent(rule: ChatRule, path: Path, progress: Lines, *, count: int = 20, workers: int = 4) -> int:
    server = ChatServer(rule.url, "rule", first_wait=0.01, attempts=4)
    with AnswerJournal.open(path) as journal:
        return send_requests(plan(count), server, journal, workers=workers, progress=progress)


@pytest.fixture
def rule_of_echo(rule: ChatRule) -> ChatRule:
    rule.answer = lambda prompt: f"[{prompt}]"
    return rule


def test_all_are_answered_with_a_time_estimate(rule_of_echo: ChatRule, tmp_path: Path) -> None:
    progress = Lines()
    rule_of_echo.seconds = 0.02
    assert sent(rule_of_echo, tmp_path / "a.jsonl", progress) == 0
    assert len(read_replies(tmp_path / "a.jsonl")[0]) == 20
    assert rule_of_echo.most > 1, "several at the same time"
    assert rule_of_echo.most <= 4
    assert progress.counts == sorted(progress.counts)
    assert progress.counts[-1] == 20
    time, tokens = progress.lines
    assert re.search(r"for 1[0-5] more requests", time)
    assert tokens.startswith("tokens     about ")
    assert sent(rule_of_echo, tmp_path / "a.jsonl", progress) == 0
    assert len(rule_of_echo.prompts) == 20, "nothing is asked twice"


def test_after_ctrl_c_the_rest_is_asked(rule_of_echo: ChatRule, tmp_path: Path) -> None:
    rule_of_echo.seconds = 0.02
    with pytest.raises(InterruptedRunError, match="of 60 requests are answered, and the same command continues") as end:
        sent(rule_of_echo, tmp_path / "a.jsonl", Lines(stop=7), count=60, workers=2)
    done = len(read_replies(tmp_path / "a.jsonl")[0])
    assert 7 <= done < 60
    assert str(end.value).startswith(f"stopped; {done} of"), "every answer that came is kept"
    time.sleep(0.1)
    assert len(rule_of_echo.prompts) <= done + 2, "nothing is sent any more but what two workers had begun"
    progress = Lines()
    sent(rule_of_echo, tmp_path / "a.jsonl", progress, count=60)
    assert progress.counts[0] > done
    assert len(read_replies(tmp_path / "a.jsonl")[0]) == 60


def test_requests_that_fail_are_counted_and_asked_again_by_the_next_call(
    rule_of_echo: ChatRule, tmp_path: Path
) -> None:
    rule_of_echo.failing = {"document 3 ": refusing, "document 9 ": broken}
    progress = Lines()
    assert sent(rule_of_echo, tmp_path / "a.jsonl", progress) == 2
    assert any("no answer  about document 4 (d3): HTTP 400: the prompt is too long" in line for line in progress.lines)
    rule_of_echo.failing = {}
    assert sent(rule_of_echo, tmp_path / "a.jsonl", progress) == 0
    assert len(read_replies(tmp_path / "a.jsonl")[0]) == 20


def test_a_server_that_fails_again_and_again_ends_the_command(rule_of_echo: ChatRule, tmp_path: Path) -> None:
    rule_of_echo.failing = {f"document {n} ": broken for n in range(8, 20)}
    with pytest.raises(UserError, match=r"5 requests in a row failed .*HTTP 500.* 8 of 20 are answered"):
        sent(rule_of_echo, tmp_path / "a.jsonl", Lines(), workers=1)
    assert len(read_replies(tmp_path / "a.jsonl")[0]) == 8
    rule_of_echo.failing = {"document": refusing}
    with pytest.raises(UserError, match=r"2 requests in a row failed .*HTTP 400"):
        sent(rule_of_echo, tmp_path / "b.jsonl", Lines(), count=2)


def test_a_fault_of_the_user_ends_it_at_once(rule_of_echo: ChatRule, tmp_path: Path) -> None:
    rule_of_echo.models = ("another",)
    with pytest.raises(UserError, match="does not know 'rule'"):
        sent(rule_of_echo, tmp_path / "a.jsonl", Lines(), workers=1)
    assert len(rule_of_echo.prompts) <= 2
    assert not (tmp_path / "a.jsonl").exists()
