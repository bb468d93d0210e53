"""A server with OpenAI's chat API, for tests: it answers by a rule, and fails as it is ordered to."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Failure = Callable[["Handler"], None]


def by_rule(prompt: str) -> str:
    """Questions made of the title and the first words of the text in the built-in prompt."""
    title = re.search(r"(?m)^Title: (.+)$", prompt)
    text = re.search(r"(?ms)^Text: (.+?)\n\nAnswer", prompt)
    assert text is not None, prompt
    words = [word.strip(".,;:()").lower() for word in text[1].split()]
    questions = [f"what is said about {' '.join(words[0:6:2])}?", f"why {' '.join(words[3:12:2])}?"]
    if title is not None:
        questions.insert(0, f"tell me about {title[1].lower()}")
    return "Sure:\n```json\n" + json.dumps(questions) + "\n```"


@dataclass
class ChatRule:
    """What the server does, and what it was sent.

    Attributes:
        answer: a prompt -> the answer.
        failures: the next requests fail so, one after another.
        failing: a text in a prompt -> how its requests always fail.
        key: that requests must have; None: none.
        models: that the server has.
        seconds: before each answer.
        prompts: of all requests, those that failed included.
        bodies: of the requests.
        usage: whether it counts tokens.
        most: requests at the same time, at most.
    """

    answer: Callable[[str], str] = by_rule
    failures: list[Failure] = field(default_factory=list)
    failing: dict[str, Failure] = field(default_factory=dict)
    key: str | None = None
    models: tuple[str, ...] = ("rule",)
    seconds: float = 0.0
    usage: bool = True
    finish: str = "stop"
    url: str = ""
    prompts: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    running: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    rule: ChatRule
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def send(self, status: int, content: object, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def error(self, status: int, message: str, **headers: str) -> None:
        self.send(status, {"error": {"message": message}}, **headers)

    def do_POST(self) -> None:
        rule = self.rule
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][0]["content"]
        with rule.lock:
            rule.prompts.append(prompt)
            rule.bodies.append(body)
            rule.times.append(time.monotonic())
            rule.running += 1
            rule.most = max(rule.most, rule.running)
            failure = rule.failures.pop(0) if rule.failures else None
        try:
            self._answer(prompt, body, failure)
        finally:
            with rule.lock:
                rule.running -= 1

    def _answer(self, prompt: str, body: dict[str, Any], failure: Failure | None) -> None:
        rule = self.rule
        if self.path != "/v1/chat/completions":
            return self.error(404, "Not Found")
        if rule.key is not None and self.headers.get("authorization") != f"Bearer {rule.key}":
            return self.error(401, "Incorrect API key provided")
        if body["model"] not in rule.models:
            return self.error(404, f"The model `{body['model']}` does not exist.")
        failure = failure or next((one for text, one in rule.failing.items() if text in prompt), None)
        if failure is not None:
            return failure(self)
        time.sleep(rule.seconds)
        answer = rule.answer(prompt)
        usage = {"prompt_tokens": len(prompt) // 3, "completion_tokens": len(answer) // 3}
        choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": rule.finish}
        with rule.lock:
            rule.answered[prompt] += 1
        return self.send(
            200, {"object": "chat.completion", "choices": [choice], **({"usage": usage} if rule.usage else {})}
        )


def completion(content: object = "[How?]", **more: object) -> bytes:
    """A completion as bytes, with further keys; the content and the keys may be anything."""
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], **more}).encode()


def sending(content: object, status: int = 200, **headers: str) -> Failure:
    return lambda handler: handler.send(status, content, **headers)


def endless(begin: bytes, part: bytes, seconds: float = 0.0) -> Failure:
    """Sends ``begin``, then ``part`` again and again until the client has had enough, at most for a minute."""

    def failure(handler: Handler) -> None:
        handler.close_connection = True
        ends = time.monotonic() + 60
        try:
            handler.wfile.write(begin)
            while time.monotonic() < ends:
                handler.wfile.write(part)
                time.sleep(seconds)
        except OSError:
            return

    return failure


def busy(after: str = "0") -> Failure:
    return lambda handler: handler.error(429, "Rate limit reached", retry_after=after)


def broken(handler: Handler) -> None:
    handler.error(500, "internal error")


def refusing(handler: Handler) -> None:
    handler.error(400, "the prompt is too long")


def malformed(handler: Handler) -> None:
    handler.send(200, b"<html>not a completion</html>")


def empty(handler: Handler) -> None:
    handler.send(200, {"choices": []})


def closed(handler: Handler) -> None:
    handler.close_connection = True
    handler.connection.close()


@contextmanager
def chat_server(rule: ChatRule | None = None) -> Iterator[ChatRule]:
    """Runs a server on a free port of this machine; gives its rule, with ``url``."""
    rule = rule or ChatRule()
    handler = type("RuledHandler", (Handler,), {"rule": rule})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        rule.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield rule
        finally:
            server.shutdown()
            thread.join()
