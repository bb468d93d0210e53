"""Sends prompts to a server with OpenAI's chat API (``POST /v1/chat/completions``): pace, retries and plain errors."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opencse.errors import UserError, masked, printable, reason, shortened

if TYPE_CHECKING:
    import httpx

_PATH = "/chat/completions"
_LONGEST_WAIT = 60.0
"""Seconds between two attempts, where the server does not say how long to wait."""
_PATIENCE = 900.0
"""Seconds that a server may ask to wait; for longer, the command ends."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class UnansweredError(Exception):
    """Reports a request that the server did not answer, in spite of all attempts; others may be answered."""


@dataclass(frozen=True)
class ChatReply:
    """What a language model answered.

    Attributes:
        content: its text.
        finished: False where it was stopped at the longest length.
        tokens_in: tokens of the prompt, as the server counts them; 0 where it does not say.
        tokens_out: tokens of the answer, as the server counts them.
    """

    content: str
    finished: bool = True
    tokens_in: int = 0
    tokens_out: int = 0


class RequestPace:
    """Says when the next request may begin, for all threads together.

    Example:
        >>> pace = RequestPace(per_minute=6000)
        >>> [round(pace.reserve(now=0.0), 2) for _ in range(3)]
        [0.0, 0.01, 0.02]
    """

    def __init__(self, per_minute: float | None = None) -> None:
        self._between = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def reserve(self, now: float) -> float:
        """Seconds to wait before the next request."""
        with self._lock:
            begins = max(now, self._next)
            self._next = begins + self._between
            return begins - now

    def pause(self, until: float) -> None:
        """Lets no request begin before ``until``."""
        with self._lock:
            self._next = max(self._next, until)


@dataclass
class ChatServer:
    """A server with OpenAI's chat API, and a model on it; several threads may use it.

    Example:
        >>> ChatServer("http://localhost:8000", "qwen").url
        'http://localhost:8000/v1/chat/completions'

    Attributes:
        endpoint: the server's address, with or without ``/v1`` and ``/chat/completions``.
        model: its name on the server.
        key: of the API; None: none is sent.
        body: further fields of each request; a field that is None is left out.
        timeout: seconds to wait for an answer.
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
        try:  # as each request is written
            json.dumps(self.fields(), ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, TypeError) as error:
            raise UserError(f"--model and --body cannot be sent as JSON ({reason(error)}); correct them") from None
        self._stopping = threading.Event()
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

    def ask(self, prompt: str) -> ChatReply:
        """Sends a prompt and waits for the answer.

        Raises:
            UnansweredError: if this request is refused or fails in every attempt, or `stop` was called.
            UserError: if no request can succeed: the server is not there, or knows neither the key nor the model.
        """
        import httpx

        body = {**self.fields(), "messages": [{"role": "user", "content": prompt}]}
        fault = ""
        for attempt in range(self.attempts):
            self._sleep(self.pace.reserve(time.monotonic()))
            wait = min(self.first_wait * 2**attempt, _LONGEST_WAIT) * random.uniform(0.75, 1.25)
            try:
                response = self._client.post(self.url, json=body)
            except httpx.TimeoutException:
                fault = f"no answer within {self.timeout:g} seconds (--timeout)"
            except httpx.ConnectError as error:
                if not self._is_reached:
                    raise UserError(
                        f"{self.name}: cannot be reached ({reason(error)}); is the server running, and is this its "
                        "address?"
                    ) from None
                fault = f"it cannot be reached any more ({reason(error)})"
            except httpx.TransportError as error:
                fault = f"the connection failed ({reason(error)})"
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise UserError(f"--endpoint {self.name}: is no web address ({reason(error)})") from None
            else:
                self._is_reached = True
                if response.status_code == 200:
                    reply = _reply_of(response)
                    if reply is not None:
                        return reply
                    fault = f"an answer that is no chat completion: {_text_of(response)}"
                else:
                    fault = f"HTTP {response.status_code}: {_text_of(response)}"
                    self._require_passing(response, fault)
                    seconds = _seconds_to_wait(response)
                    if seconds is not None:
                        wait = self._patient(seconds, fault)
                        self.pause(wait)
            if attempt + 1 < self.attempts:
                self._sleep(wait)
        raise UnansweredError(fault)

    def pause(self, seconds: float) -> None:
        """Lets no thread begin a request for some seconds."""
        self.pace.pause(time.monotonic() + seconds)

    def stop(self) -> None:
        """Ends waiting in all threads; requests that are running are not waited for."""
        self._stopping.set()

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds) if seconds > 0 else self._stopping.is_set():
            raise UnansweredError("stopped")

    def _patient(self, seconds: float, fault: str) -> float:
        if seconds > _PATIENCE:
            raise UserError(
                f"{self.name}: asks to wait {seconds / 60:,.0f} minutes ({fault}); run the same command again then"
            )
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


def _client_for(hostname: str, key: str | None, timeout: float) -> httpx.Client:
    import httpx

    return httpx.Client(
        headers={} if key is None else {"Authorization": f"Bearer {key}"},
        timeout=httpx.Timeout(timeout, connect=min(timeout, 20.0)),
        limits=httpx.Limits(max_connections=None),
        trust_env=hostname not in _LOOPBACK,  # proxies do not reach this machine
    )


def _reply_of(response: httpx.Response) -> ChatReply | None:
    """The reply in a response; None where it is no chat completion."""
    try:
        data = response.json()
        choice = data["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return None
    if content is None:
        content = ""
    if not isinstance(content, str):
        return None
    usage = data.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    numbers = [counts.get(name) for name in ("prompt_tokens", "completion_tokens")]
    tokens_in, tokens_out = (number if isinstance(number, int) else 0 for number in numbers)
    content = content.encode(errors="replace").decode()
    return ChatReply(content, choice.get("finish_reason") != "length", tokens_in, tokens_out)


def _text_of(response: httpx.Response) -> str:
    """What a server says about a failure, in one line."""
    text = response.text
    try:
        data = response.json()
        error = data.get("error", data) if isinstance(data, dict) else data
        text = str(error.get("message") or error.get("detail") or text) if isinstance(error, dict) else str(error)
    except ValueError:
        pass
    return printable(shortened(masked(" ".join(text.split())), 200)) or "nothing"


def _seconds_to_wait(response: httpx.Response) -> float | None:
    """The seconds of ``Retry-After``, which is a number or a date; None where there is none."""
    value = response.headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
