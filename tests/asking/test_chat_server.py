"""Requests to a server that answers, fails, refuses, lies, is slow or is not there."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from chat_servers import (
    ChatRule,
    Failure,
    broken,
    busy,
    closed,
    completion,
    empty,
    endless,
    malformed,
    refusing,
    sending,
)  # fmt: skip
from opencse.asking.chat_server import ChatReply, ChatServer, RequestPace, UnansweredError
from opencse.errors import UserError

KEY = "sk-secret/123"
HEAD = b"HTTP/1.1 200 OK\r\n"
LIES: dict[str, tuple[Failure, str]] = {
    "a byte of the body now and then": (endless(HEAD + b"\r\n", b" ", 0.05), "no complete answer within 0.5 seconds"),
    "a byte of a header now and then": (endless(HEAD + b"x: ", b"y", 0.05), "no complete answer within 0.5 seconds"),
    "no end of interim answers": (endless(b"", b"HTTP/1.1 102 Processing\r\n\r\n", 0.01), "no complete answer within"),
    "a body without end": (endless(HEAD + b"\r\n", b"x" * 65_536), "an answer of more than 2,097,152 bytes"),
    "gzip that was not requested": (sending(b"abc", content_encoding="gzip"), "Content-Encoding gzip, which was not"),
    "an unknown encoding": (sending(completion(), content_encoding="br, \xfe"), "which was not requested"),
    "deep brackets": (sending(b"[" * 100_000), r"no chat completion: \[\[\["),
    "deep brackets of an error": (sending(b'{"error":' * 100_000, 500), "HTTP 500: "),
    "numbers of 5,000 digits": (sending(completion(usage={"prompt_tokens": 1})[:-2] + b"9" * 5_000), "no chat compl"),
    "a number as the text": (sending(completion(7)), "no chat completion"),
    "a list of lists": (sending(b'{"choices": [[[]]]}'), "no chat completion"),
    "no HTTP": (endless(b"SSH-2.0-server\r\n", b"\r\n", 0.01), "the connection failed"),
    "an echoed key": (sending({"error": f"not {KEY}, my\x1b[31m friend\u202e"}, 500), r"not \*\*\*, my\\x1b"),
    "an echoed key in a header": (endless(HEAD + f"Bearer {KEY}\r\n\r\n".encode(), b"", 0.1), r"failed \(.*\*\*\*"),
    "a wait that is no number": (busy("nan"), "HTTP 429"),
    "a wait that is no date": (busy("Mon, 99 Foo 99999 99:99:99 +9999999"), "HTTP 429"),
    "a wait before today": (busy("-5"), "HTTP 429"),
}


def ask(rule: ChatRule, *prompts: str, **options: Any) -> list[ChatReply]:
    """Asks all prompts at the same time."""
    server = ChatServer(**{"endpoint": rule.url, "model": "rule", "first_wait": 0.01, **options})

    async def answers() -> list[ChatReply]:
        async with server:
            return await asyncio.gather(*map(server.ask, prompts or ["a"]))

    return asyncio.run(answers())


@pytest.fixture
def echo(rule: ChatRule) -> ChatRule:
    rule.answer = lambda prompt: f"[{prompt}]"
    return rule


def test_an_answer_with_its_tokens(echo: ChatRule) -> None:
    (reply,) = ask(echo, "hello there", body={"temperature": 0.5, "max_tokens": None})
    assert reply == ChatReply("[hello there]", True, 3, 4)
    assert echo.bodies == [
        {"model": "rule", "temperature": 0.5, "messages": [{"role": "user", "content": "hello there"}]}
    ]
    echo.finish, echo.usage = "length", False
    assert ask(echo, "hello there") == [ChatReply("[hello there]", False, 0, 0)]


def test_addresses_with_and_without_the_path(echo: ChatRule) -> None:
    for ending in ("", "/v1", "/v1/", "/v1/chat/completions"):
        assert ask(echo, endpoint=echo.url.removesuffix("/v1") + ending)[0].content == "[a]"


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_cannot_be_used_is_given_up_in_a_line(echo: ChatRule, lie: str) -> None:
    failure, message = LIES[lie]
    echo.failures = [failure] * 2
    began = time.monotonic()
    with pytest.raises(UnansweredError, match=message) as caught:
        ask(echo, attempts=2, timeout=0.5, key=KEY)
    assert time.monotonic() - began < 20
    assert len(echo.prompts) == 2
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("failure", [busy(), broken, malformed, empty, closed])
def test_what_may_pass_is_tried_again(echo: ChatRule, failure: Failure) -> None:
    echo.failures = [failure, failure]
    assert ask(echo)[0].content == "[a]"
    assert len(echo.prompts) == 3


def test_a_refused_request_is_not_tried_again(echo: ChatRule) -> None:
    echo.failures = [refusing]
    with pytest.raises(UnansweredError, match="HTTP 400: the prompt is too long"):
        ask(echo)
    assert len(echo.prompts) == 1


def test_retry_after_is_honoured_by_all_requests(echo: ChatRule) -> None:
    echo.failures = [busy("0.4")]

    async def answers() -> None:
        refused = asyncio.Event()

        class Pace(RequestPace):
            def pause(self, until: float) -> None:
                super().pause(until)
                refused.set()

        async with (server := ChatServer(echo.url, "rule", pace=Pace())):
            first = asyncio.create_task(server.ask("a"))
            await refused.wait()
            await server.ask("b")  # another request, which the server has not refused
            await first

    asyncio.run(answers())
    assert min(echo.times[1:]) - echo.times[0] >= 0.399


def test_a_server_that_asks_for_too_long_a_wait_ends_the_command(echo: ChatRule) -> None:
    for wait, said in (("7200", "120 minutes"), ("1e308", "1,000,000 minutes"), ("inf", "1,000,000 minutes")):
        echo.failures = [busy(wait)]
        with pytest.raises(UserError, match=f"asks to wait {said}"):
            ask(echo)


def test_faults_of_the_user_are_named(echo: ChatRule) -> None:
    echo.key = "right"
    with pytest.raises(UserError, match=r"HTTP 401: Incorrect API key.*--key-variable"):
        ask(echo)
    with pytest.raises(UserError, match="is not accepted"):
        ask(echo, key="wrong")
    assert ask(echo, key="right")[0].content == "[a]"
    with pytest.raises(UserError, match=r"does not know 'gpt'.*correct --model or --endpoint"):
        ask(echo, key="right", model="gpt")


def test_what_is_no_address_is_refused_in_one_line() -> None:
    for endpoint in ("localhost:8000", "http://[::1", "http://localhost:99999", "http://\ud800.org", "http://x\n/v1"):
        with pytest.raises(UserError, match="is no web address") as caught:
            ChatServer(endpoint, "rule")
        assert len(str(caught.value).splitlines()) == 1
    for endpoint in ("http://[::1]:8000/v1", "https://exämple.org", "http://1.2.3.4"):
        assert ChatServer(endpoint, "rule").url.endswith("/v1/chat/completions")


def test_what_cannot_be_sent_is_refused_and_the_key_is_not_shown() -> None:
    for key in ("schlüssel", "a\nb", "ключ", "a\ud800"):
        with pytest.raises(UserError, match=r"--key-variable has characters") as caught:
            ChatServer("http://localhost:1", "rule", key)
        assert key not in str(caught.value)


def test_a_server_that_is_not_there_is_reported_at_once(echo: ChatRule) -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match=r"http://127.0.0.1:9/v1: cannot be reached .*"):
        ask(echo, endpoint="http://127.0.0.1:9/v1", first_wait=60)
    assert time.monotonic() - began < 30


def test_secrets_in_the_address_are_not_shown() -> None:
    assert ChatServer("https://anna:secret@host/v1", "rule").name == "https://anna:***@host/v1"


def test_requests_are_spaced(echo: ChatRule) -> None:
    began = time.monotonic()
    ask(echo, *"abcd", pace=RequestPace(per_minute=600))
    # Any of them may arrive late, none early.
    assert all(arrived - began >= 0.099 * number for number, arrived in enumerate(sorted(echo.times)))
