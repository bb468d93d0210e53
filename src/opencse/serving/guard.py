"""Checks every request before the routes: host and API key; sets security headers on every answer, and counts it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import time
from collections.abc import Collection
from urllib.parse import urlencode

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opencse.errors import shortened
from opencse.serving.requests import ApiError

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one server; what waits and is held is counted by functions that are set.

    Example:
        >>> metrics = Metrics()
        >>> metrics.answered("/search", 200, 0.01)
        >>> b'opencse_requests_total{path="/search",status="200"} 1.0' in metrics.text()
        True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        registry = self.registry
        self._requests = Counter("opencse_requests", "Requests answered.", ["path", "status"], registry=registry)
        self._seconds = Histogram("opencse_request_seconds", "Time to answer.", ["path"], registry=registry)
        self._texts = Counter("opencse_texts", "Texts encoded.", ["model"], registry=registry)
        self._tokens = Counter("opencse_tokens", "Tokens encoded, padding not counted.", ["model"], registry=registry)
        self._batches = Histogram(
            "opencse_batch_texts", "Texts in a batch.", ["model"], buckets=_SIZES, registry=registry
        )
        self._encoding = Counter("opencse_encode_seconds", "Time spent encoding.", ["model"], registry=registry)
        self.waiting = Gauge("opencse_waiting_texts", "Texts that wait for the encoder.", ["model"], registry=registry)
        self._pairs = Counter("opencse_reranked_texts", "Texts re-ranked.", ["model"], registry=registry)
        self._reranking = Counter("opencse_rerank_seconds", "Time spent re-ranking.", ["model"], registry=registry)
        self.waiting_pairs = Gauge(
            "opencse_waiting_reranked_texts", "Texts that wait for the cross-encoder.", ["model"], registry=registry
        )
        self.held = Gauge("opencse_held_bytes", "Bytes of request bodies in memory.", registry=registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def reranked(self, model: str, texts: int, seconds: float) -> None:
        """Counts the texts that a cross-encoder ranked for a query."""
        self._pairs.labels(model).inc(texts)
        self._reranking.labels(model).inc(seconds)

    def text(self) -> bytes:
        """All counters in Prometheus' text format."""
        return generate_latest(self.registry)

    def encoded(self, model: str, texts: int, tokens: int, seconds: float) -> None:
        """Counts an encoded batch."""
        self._texts.labels(model).inc(texts)
        self._tokens.labels(model).inc(tokens)
        self._batches.labels(model).observe(texts)
        self._encoding.labels(model).inc(seconds)


_OPEN = ("/", "/health", "/openapi.json")
_PAGE = "/page/"
_LOCAL = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    # Only the page's own files: no text of an index can become a script.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_log = logging.getLogger("opencse.serving")


class Keys:
    """The API keys, compared in constant time.

    Example:
        >>> Keys(["secret"]).allow("Bearer secret"), Keys(["secret"]).allow("Bearer guess")
        (True, False)
    """

    def __init__(self, keys: Collection[str]) -> None:
        # Hashes are of one length, so that comparing tells nothing about a key's.
        self._hashes = [hashlib.sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def allow(self, authorization: str) -> bool:
        """Whether the header ``Authorization: Bearer KEY`` holds one of the keys."""
        scheme, _, key = authorization.partition(" ")
        digest = hashlib.sha256(key.strip().encode("latin-1", "replace")).digest()
        matches = [hmac.compare_digest(digest, key_hash) for key_hash in self._hashes]  # all, in constant time
        return scheme.lower() == "bearer" and any(matches)


class TokenGuard:
    """Middleware that answers those alone who have the token of this server, as the address that it prints does.

    A port of this machine is open to all of its users. The token is sent as the query parameter ``token``, which later
    layers do not see, or in the cookie that the answer to such a request sets.

    Args:
        app: answers the request.
        token: the token of this server.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token
        # Cookies are shared by all ports of a host, so each server has a name of its own.
        self._cookie = f"opencse-{hashlib.sha256(token.encode()).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks and answers a request.

        Raises:
            ApiError: 403, for one without the token.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        typed = request.query_params.getlist("token")
        given = [*typed, request.cookies.get(self._cookie, "")]
        if not any(hmac.compare_digest(one.encode(), self._token.encode()) for one in given):
            raise ApiError(403, "open the whole address that the command printed, with its token", code="no_token")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and typed:
                cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                MutableHeaders(scope=message).append("Set-Cookie", cookie)
            await send(message)

        others = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        await self._app({**scope, "query_string": urlencode(others).encode()}, receive, sending)


class RequestGuard:
    """Middleware that checks host and key, sets the headers of every answer, and counts it.

    Args:
        app: answers the request.
        keys: API keys; empty: no key is required.
        hosts: host names that requests may be for; None: any. Otherwise the page of another site whose name is made to
            point to this machine (DNS rebinding) could read a server without a key.
        metrics: counts answers.
        paths: paths that are counted separately.
    """

    def __init__(
        self, app: ASGIApp, keys: Keys, hosts: Collection[str] | None, metrics: Metrics, paths: Collection[str]
    ) -> None:
        self._app, self._keys, self._metrics, self._paths = app, keys, metrics, frozenset(paths)
        self._hosts = None if hosts is None else {*_LOCAL, *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks and answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        path = scope["path"]

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                # Answers may hold texts that need a key; no proxy keeps them.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check(Headers(scope=scope), path)
            # HEAD is answered as GET; the server leaves the body out
            as_get = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            await self._app(as_get, receive, sending)
        except ApiError as error:
            await error.response()(scope, receive, sending)
        except ClientDisconnect:
            status = 499
        finally:
            # Other paths have one name, or a client could fill the metrics with names.
            known = path if path in self._paths else _PAGE if path.startswith(_PAGE) else "other"
            self._metrics.answered(known, status, time.perf_counter() - started)

    def _check(self, headers: Headers, path: str) -> None:
        # Against DNS rebinding, by which a web page reads a local server under its own name.
        if self._hosts is not None and _name(headers.get("host", "")) not in self._hosts:
            raise ApiError(
                421,
                f"this server does not answer for {shortened(headers.get('host', ''))!r}; allow the host with "
                "--allow-host, or require an API key with --api-key-file",
                code="misdirected_request",
            )
        if not self._keys or path in _OPEN or path.startswith(_PAGE):
            return
        if not self._keys.allow(headers.get("authorization", "")):
            raise ApiError(
                401,
                "this server needs an API key: send the header Authorization: Bearer KEY",
                kind="authentication_error",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )


def is_local(host: str) -> bool:
    """Whether only this machine can reach ``host``.

    Example:
        >>> is_local("127.0.0.1"), is_local("0.0.0.0")
        (True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name(host: str) -> str:
    """The name in a ``Host`` header without its port; 127.0.0.1 for every loopback address."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    return "127.0.0.1" if is_local(name) else name.lower().rstrip(".")
