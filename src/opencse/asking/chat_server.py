"""Asks a server with OpenAI's chat API, and keeps every answer in a file, so that none is paid for twice."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass as validated

from opencse.errors import UserError, masked, printable, reason, shortened
from opencse.files import GrowingFile, hash_json

if TYPE_CHECKING:
    import httpx


_PATH = "/chat/completions"
_LONGEST_WAIT = 60.0
"""Seconds between two attempts, where the server does not say how long to wait."""
_PATIENCE = 900.0
"""Seconds that a server may ask to wait; for longer, the command ends."""
_MOST_BYTES = 2 * 2**20
"""Of an answer, which has 4 KB by default (--max-tokens) and a few hundred KB with long reasoning."""
_MOST_TOKENS = 100_000_000
"""Of a prompt or an answer; no model reads or writes as many."""
_MOST_SAID = 2_000
"""Characters of what a server says that are searched for secrets."""
_SHORTEST_SECRET = 8
"""Characters of a key; shorter ones (``EMPTY``, ``none``) are placeholders for servers that read none."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class UnansweredError(Exception):
    """Reports a request that the server did not answer, in spite of all attempts; others may be answered."""


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0


TokenCount = Annotated[int, BeforeValidator(_count)]
"""A number of tokens; 0 for anything that cannot be one."""


@validated(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class ChatReply:
    """What a language model answered.

    Example:
        >>> ChatReply("How is it cleaned?", tokens_in=-7).tokens_in
        0

    Attributes:
        content: its text.
        finished: False where it was stopped at the longest length.
        tokens_in: tokens of the prompt, as the server counts them; 0 where it does not say, or says what cannot be.
        tokens_out: tokens of the answer, in the same way.
    """

    content: str
    finished: bool = True
    tokens_in: TokenCount = 0
    tokens_out: TokenCount = 0


class RequestPace:
    """Says when the next request may begin, for all that are sent at the same time.

    Example:
        >>> pace = RequestPace(per_minute=6000)
        >>> [round(pace.reserve(now=0.0), 2) for _ in range(3)]
        [0.0, 0.01, 0.02]
    """

    def __init__(self, per_minute: float | None = None) -> None:
        self._between = 60 / per_minute if per_minute else 0.0
        self._next = 0.0

    def reserve(self, now: float) -> float:
        """Seconds to wait before the next request."""
        begins = max(now, self._next)
        self._next = begins + self._between
        return begins - now

    def pause(self, until: float) -> None:
        """Lets no request begin before ``until``."""
        self._next = max(self._next, until)


@dataclass
class ChatServer:
    """A server with OpenAI's chat API, and a model on it; several requests may be sent at the same time.

    Example:
        >>> ChatServer("http://localhost:8000", "qwen").url
        'http://localhost:8000/v1/chat/completions'

    Attributes:
        endpoint: the server's address, with or without ``/v1`` and ``/chat/completions``.
        model: its name on the server.
        key: of the API; None: none is sent.
        body: further fields of each request; a field that is None is left out.
        timeout: seconds in which an answer must be complete.
        attempts: per request, as long as its failure may pass (429, 5xx, timeouts, dropped connections).
        first_wait: seconds before the second attempt; doubled for each further one.
        pace: when requests may begin.
    """

    endpoint: str
    model: str
    key: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 120.0
    attempts: int = 6
    first_wait: float = 1.0
    pace: RequestPace = field(default_factory=RequestPace)

    def __post_init__(self) -> None:
        hostname = _hostname_of(self.endpoint)
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise UserError("the key in --key-variable has characters that no key has (not ASCII); correct it")
        self._is_reached = False
        self._client = _client_for(hostname, self.key, self.timeout)

    @property
    def url(self) -> str:
        """Where requests are sent."""
        parts = urlsplit(self.endpoint)
        path = parts.path.rstrip("/")
        if not path.endswith(_PATH):
            path = f"{path or '/v1'}{_PATH}"
        return parts._replace(path=path).geturl()

    @property
    def name(self) -> str:
        """The address for messages and records, without secrets."""
        return masked(self.endpoint)

    def fields(self) -> dict[str, Any]:
        """The fields of each request except the messages."""
        return {name: value for name, value in {"model": self.model, **self.body}.items() if value is not None}

    async def ask(self, prompt: str) -> ChatReply:
        """Sends a prompt and waits for the answer.

        Raises:
            UnansweredError: if this request is refused or fails in every attempt.
            UserError: if no request can succeed: the server is not there, or knows neither the key nor the model.
        """
        import httpx

        body = {**self.fields(), "messages": [{"role": "user", "content": prompt}]}
        fault = ""
        for attempt in range(self.attempts):
            await asyncio.sleep(self.pace.reserve(time.monotonic()))
            wait = min(self.first_wait * 2**attempt, _LONGEST_WAIT) * random.uniform(0.75, 1.25)
            try:
                response, content, fault = await self._post(body)
            except (TimeoutError, httpx.TimeoutException):
                fault = f"no complete answer within {self.timeout:g} seconds (--timeout)"
            except httpx.ConnectError as error:
                if not self._is_reached:
                    raise UserError(
                        f"{self.name}: cannot be reached ({reason(error)}); is the server running, and is this its "
                        "address?"
                    ) from None
                fault = f"it cannot be reached any more ({reason(error)})"
            except httpx.InvalidURL as error:
                raise UserError(f"--endpoint {self.name}: is no web address ({reason(error)})") from None
            except httpx.RequestError as error:
                fault = f"the connection failed ({self._said(reason(error))})"
            else:
                self._is_reached = True
                if response.status_code == 200:
                    reply = self._reply_of(content)
                    if reply is not None:
                        return reply
                    fault = fault or f"an answer that is no chat completion: {self._said(_message_in(content))}"
                else:
                    fault = f"HTTP {response.status_code}: {fault or self._said(_message_in(content))}"
                    self._require_passing(response, fault)
                    wait = self._wait_requested(response, fault, wait)
            if attempt + 1 < self.attempts:
                await asyncio.sleep(wait)
        raise UnansweredError(fault)

    async def __aenter__(self) -> None:
        """Nothing is opened before the first request."""

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _post(self, body: Mapping[str, Any]) -> tuple[httpx.Response, bytes, str]:
        """The answer, its body, and what is wrong with it if it is too long, or encoded although none was requested.

        All of it, from the name's look-up to the last byte, has the same time limit: a limit for each read would let
        a server send a byte now and then for ever.
        """
        content = bytearray()
        async with asyncio.timeout(self.timeout), self._client.stream("POST", self.url, json=body) as response:
            encoding = response.headers.get("content-encoding", "identity")
            if encoding.lower() != "identity":
                return response, b"", f"an answer in Content-Encoding {self._said(encoding)}, which was not requested"
            async for part in response.aiter_raw():
                content += part
                if len(content) > _MOST_BYTES:
                    return response, b"", f"an answer of more than {_MOST_BYTES:,} bytes"
        return response, bytes(content), ""

    def _reply_of(self, body: bytes) -> ChatReply | None:
        """The reply in the body of an answer; None where it is no chat completion."""
        try:
            data = json.loads(body)
            choice = data["choices"][0]
            content = choice["message"]["content"]
            usage = data["usage"] if isinstance(data.get("usage"), dict) else {}
            counts = (usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))
            text = "" if content is None else self._without_key(content.encode(errors="replace").decode())
            return ChatReply(text, choice.get("finish_reason") != "length", *counts)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None

    def _said(self, text: str) -> str:
        """What a server says, in one line for a message."""
        text = " ".join(self._without_key(text).split())[:_MOST_SAID]
        return printable(shortened(masked(text), 200)) or "nothing"

    def _without_key(self, text: str) -> str:
        is_secret = self.key is not None and len(self.key) >= _SHORTEST_SECRET
        return text.replace(str(self.key), "***") if is_secret else text

    def _wait_requested(self, response: httpx.Response, fault: str, otherwise: float) -> float:
        """The seconds that the server asks to wait, in which no request begins; ``otherwise`` where it does not say."""
        seconds = _retry_after(response.headers.get("retry-after", "").strip())
        if seconds is None:
            return otherwise
        if seconds > _PATIENCE:
            minutes = min(seconds / 60, 1e6)
            raise UserError(
                f"{self.name}: asks to wait {minutes:,.0f} minutes ({fault}); run the same command again then"
            )
        self.pace.pause(time.monotonic() + seconds)
        return seconds

    def _require_passing(self, response: httpx.Response, fault: str) -> None:
        """Raises unless another attempt may succeed."""
        match response.status_code:
            case 401 | 403:
                fix = "name the environment variable that holds the key with --key-variable"
                if self.key is not None:
                    fix = "the key in --key-variable is not accepted; correct it"
                raise UserError(f"{self.name}: refuses access ({fault}); {fix}")
            case 404:
                raise UserError(
                    f"{self.name}: does not know {self.model!r}, or has no {urlsplit(self.url).path} ({fault}); "
                    "correct --model or --endpoint"
                )
            case 408 | 409 | 425 | 429:
                return
            case status if status < 500:
                raise UnansweredError(fault)


def _hostname_of(endpoint: str) -> str:
    """The host of an address.

    Raises:
        UserError: for text that is no web address.
    """
    import httpx

    try:
        parts, url = urlsplit(endpoint), httpx.URL(endpoint)
        url.host.encode("idna")  # refuses empty and very long labels, as a look-up of the name would
        is_complete = parts.scheme in ("http", "https") and parts.hostname and url.host and parts.port != 0
        if is_complete and not any(character.isspace() for character in parts.netloc):
            return url.host
        why = ""
    except (ValueError, httpx.InvalidURL) as error:
        why = f" ({reason(error)})"
    address = printable(shortened(masked(endpoint)))
    raise UserError(f"--endpoint {address}: is no web address{why}; give one such as http://localhost:8000/v1")


def _client_for(hostname: str, key: str | None, timeout: float) -> httpx.AsyncClient:
    import httpx

    authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(
        headers={"Accept-Encoding": "identity", **authorization},
        timeout=httpx.Timeout(None, connect=min(timeout, 20.0)),
        limits=httpx.Limits(max_connections=None),
        trust_env=hostname not in _LOOPBACK,  # proxies do not reach this machine
    )


def _message_in(body: bytes) -> str:
    """What the body of an answer says about a failure."""
    text = body.decode(errors="replace")
    try:
        data = json.loads(body)
        error = data.get("error", data) if isinstance(data, dict) else data
        return str(error.get("message") or error.get("detail") or text) if isinstance(error, dict) else str(error)
    except (ValueError, RecursionError):
        return text


def _retry_after(value: str) -> float | None:
    """The seconds of ``Retry-After``, which is a number or a date; None where it is neither."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(value)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError, LookupError):
        return None


_BEGINNING = b'{"key": "'
"""How each line begins."""


class AnswerJournal:
    """The answers in a ``.jsonl`` file, one per line, by a hash of the request.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
        >>> with AnswerJournal.open(path) as journal:
        ...     journal.add({"a": ChatReply("How?")})
        >>> with AnswerJournal.open(path) as journal:  # the next call
        ...     journal.replies["a"].content
        'How?'

    Attributes:
        replies: by key, what was answered; what was added included.
    """

    def __init__(self, file: GrowingFile, replies: dict[str, ChatReply]) -> None:
        self._file = file
        self.replies = replies

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[AnswerJournal]:
        """Opens the file for this process alone; what a kill left unfinished at its end is removed.

        Raises:
            UserError: if another process writes it, it cannot be written, or it is no such file.
        """
        with closing(GrowingFile(path)) as file:
            if not file.lock():
                raise UserError(f"{path}: another process is writing it; wait for it, or choose another --out")
            replies, size = read_replies(path)
            file.keep(size)
            try:
                yield cls(file, replies)
            finally:
                if not replies:
                    path.unlink()

    def add(self, replies: Mapping[str, ChatReply]) -> None:
        """Adds answers by key, and waits until they are on the disk."""
        lines = [json.dumps({"key": key, **asdict(reply)}, ensure_ascii=False) for key, reply in replies.items()]
        self._file.append("".join(f"{line}\n" for line in lines).encode())
        self._file.sync()
        self.replies.update(replies)


def read_replies(path: Path) -> tuple[dict[str, ChatReply], int]:
    """The answers in a file by key, and the bytes of its complete lines; of a missing file, none.

    Raises:
        UserError: for a file of something else, naming the line.
    """
    if not path.exists():
        return {}, 0
    content = path.read_bytes()
    size = content.rfind(b"\n") + 1
    replies: dict[str, ChatReply] = {}
    unfinished = content[size:]
    if not (unfinished.startswith(_BEGINNING) or _BEGINNING.startswith(unfinished)):
        raise UserError(f"{path}: its last line is no answer of an earlier call; choose another --out")
    for number, line in enumerate(content[:size].split(b"\n")[:-1], start=1):
        try:
            values = json.loads(line)
            key = str(values.pop("key"))
            replies[key] = ChatReply(**values)  # which drops impossible counts of an earlier version
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            raise UserError(
                f"{path}, line {number}: is no answer of an earlier call; remove the line, or choose another --out"
            ) from None
    return replies, size


def key_of(fields: Mapping[str, object], prompt: str) -> str:
    """Identifies a request by its prompt, the model and the other fields; the server's address does not matter."""
    return hash_json([dict(fields), prompt])[:24]
