"""Requests to a server that answers, fails, refuses, is slow or is not there."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from chat_servers import ChatRule, broken, busy, closed, empty, malformed, refusing
from opencse.asking.chat_server import ChatServer, RequestPace, UnansweredError
from opencse.errors import UserError


def server(rule: ChatRule, **options: object) -> ChatServer:
    return ChatServer(**{"endpoint": rule.url, "model": "rule", "first_wait": 0.01, **options})  # type: ignore[arg-type]


@pytest.fixture
def rule_of_echo(rule: ChatRule) -> ChatRule:
    rule.answer = lambda prompt: f"[{prompt}]"
    return rule


def test_an_answer_with_its_tokens(rule_of_echo: ChatRule) -> None:
    reply = server(rule_of_echo, body={"temperature": 0.5, "max_tokens": None}).ask("hello there")
    assert (reply.content, reply.finished, reply.tokens_in, reply.tokens_out) == ("[hello there]", True, 3, 4)
    assert rule_of_echo.bodies == [
        {"model": "rule", "temperature": 0.5, "messages": [{"role": "user", "content": "hello there"}]}
    ]
    rule_of_echo.finish, rule_of_echo.usage = "length", False
    reply = server(rule_of_echo).ask("hello there")
    assert (reply.finished, reply.tokens_in) == (False, 0)


@pytest.mark.parametrize("ending", ["", "/v1", "/v1/", "/v1/chat/completions"])
def test_addresses_with_and_without_the_path(rule_of_echo: ChatRule, ending: str) -> None:
    assert server(rule_of_echo, endpoint=rule_of_echo.url.removesuffix("/v1") + ending).ask("a").content == "[a]"


@pytest.mark.parametrize("failure", [busy(), broken, malformed, empty, closed])
def test_what_may_pass_is_tried_again(rule_of_echo: ChatRule, failure: object) -> None:
    rule_of_echo.failures = [failure, failure]  # type: ignore[list-item]
    assert server(rule_of_echo).ask("a").content == "[a]"
    assert len(rule_of_echo.prompts) == 3


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (busy(), "HTTP 429: Rate limit reached"),
        (broken, "HTTP 500: internal error"),
        (malformed, "no chat completion: <html>not a completion</html>"),
        (closed, "the connection failed"),
    ],
)
def test_what_does_not_pass_is_given_up(rule_of_echo: ChatRule, failure: object, message: str) -> None:
    rule_of_echo.failures = [failure] * 10  # type: ignore[list-item]
    with pytest.raises(UnansweredError, match=message):
        server(rule_of_echo, attempts=3).ask("a")
    assert len(rule_of_echo.prompts) == 3


def test_a_refused_request_is_not_tried_again(rule_of_echo: ChatRule) -> None:
    rule_of_echo.failures = [refusing]
    with pytest.raises(UnansweredError, match="HTTP 400: the prompt is too long"):
        server(rule_of_echo).ask("a")
    assert len(rule_of_echo.prompts) == 1


def test_a_slow_answer_is_a_timeout(rule_of_echo: ChatRule) -> None:
    rule_of_echo.seconds = 1.0
    with pytest.raises(UnansweredError, match=r"no answer within 0.1 seconds"):
        server(rule_of_echo, timeout=0.1, attempts=2).ask("a")


def test_retry_after_is_honoured_by_all_threads(rule_of_echo: ChatRule) -> None:
    rule_of_echo.failures = [busy("0.4")]
    one = server(rule_of_echo)
    began = time.monotonic()
    first = threading.Thread(target=one.ask, args=("a",))
    first.start()
    while not rule_of_echo.times:
        time.sleep(0.005)
    time.sleep(0.05)
    one.ask("b")  # another thread, which the server has not refused
    assert time.monotonic() - began >= 0.4
    first.join()
    assert min(rule_of_echo.times[1:]) - rule_of_echo.times[0] >= 0.35


def test_retry_after_may_be_a_date(rule_of_echo: ChatRule) -> None:
    rule_of_echo.failures = [busy(format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True))]
    server(rule_of_echo).ask("a")
    assert rule_of_echo.times[1] - rule_of_echo.times[0] > 0.5
    rule_of_echo.failures = [busy("soon")]
    server(rule_of_echo).ask("a")


def test_a_server_that_asks_for_too_long_a_wait_ends_the_command(rule_of_echo: ChatRule) -> None:
    rule_of_echo.failures = [busy("7200")]
    with pytest.raises(UserError, match="asks to wait 120 minutes"):
        server(rule_of_echo).ask("a")


def test_faults_of_the_user_are_named(rule_of_echo: ChatRule) -> None:
    rule_of_echo.key = "right"
    with pytest.raises(UserError, match=r"HTTP 401: Incorrect API key.*--key-variable"):
        server(rule_of_echo).ask("a")
    with pytest.raises(UserError, match="is not accepted"):
        server(rule_of_echo, key="wrong").ask("a")
    assert server(rule_of_echo, key="right").ask("a").content == "[a]"
    with pytest.raises(UserError, match=r"does not know 'gpt'.*correct --model or --endpoint"):
        server(rule_of_echo, key="right", model="gpt").ask("a")


@pytest.mark.parametrize(
    "endpoint",
    [
        "localhost:8000",
        "http://[::1",
        "http://localhost:99999",
        "http://a b/v1",
        "http://\ud800.org",
        "http://",
        "http://x\n/v1",
        "http://..:8/v1",
    ],
)
def test_what_is_no_address_is_refused_in_one_line(endpoint: str) -> None:
    with pytest.raises(UserError, match="is no web address") as caught:
        ChatServer(endpoint, "rule")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("key", ["schlüssel", "a\nb", "ключ", "a\ud800"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(UserError, match=r"--key-variable has characters") as caught:
        ChatServer("http://localhost:1", "rule", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("options", [{"model": "a\ud800"}, {"body": {"a": float("nan")}}, {"body": {"a": {1, 2}}}])
def test_what_is_no_json_is_refused_before_a_request(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="cannot be sent as JSON"):
        ChatServer(**{"endpoint": "http://localhost:1", "model": "rule", **options})


@pytest.mark.parametrize("endpoint", ["http://[::1]:8000/v1", "https://exämple.org", "http://1.2.3.4"])
def test_other_addresses(endpoint: str) -> None:
    assert ChatServer(endpoint, "rule").url.endswith("/v1/chat/completions")


def test_a_server_that_is_not_there_is_reported_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match=r"http://127.0.0.1:9/v1: cannot be reached .*refused"):
        ChatServer("http://127.0.0.1:9/v1", "rule", first_wait=60).ask("a")
    assert time.monotonic() - began < 10


def test_secrets_in_the_address_are_not_shown() -> None:
    assert ChatServer("https://anna:secret@host/v1", "rule").name == "https://anna:***@host/v1"


def test_requests_are_spaced(rule_of_echo: ChatRule) -> None:
    one = server(rule_of_echo, pace=RequestPace(per_minute=600))
    threads = [threading.Thread(target=one.ask, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = sorted(rule_of_echo.times)
    assert times[-1] - times[0] > 0.25


def test_stop_ends_waiting(rule_of_echo: ChatRule) -> None:
    rule_of_echo.failures = [busy("600")]
    one = server(rule_of_echo)
    threading.Timer(0.2, one.stop).start()
    began = time.monotonic()
    with pytest.raises(UnansweredError, match="stopped"):
        one.ask("a")
    assert time.monotonic() - began < 5
