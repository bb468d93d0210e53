"""Reads requests within their limits, and answers errors in the format of OpenAI's API."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from opencse.errors import OutdatedError, UserError, printable, shortened
from opencse.version import __version__


@dataclass(frozen=True)
class Limits:
    """Limits of memory and waiting time; requests beyond them are refused with the reason.

    Example:
        >>> Limits(texts=100).texts
        100

    Attributes:
        body_bytes: size of one request (beyond: 413).
        texts: in one request (beyond: 400).
        waiting_texts: texts that wait for the encoder; with more waiting, a request is answered 503 with Retry-After.
        held_bytes: size of all bodies in memory (beyond: 503).
        hits: results of one query.
        pairs: entries of one similarity matrix.
        reranked: texts that the cross-encoder scores for one request, of all its queries together (beyond: 400).
        read_seconds: for the body of a request to arrive (beyond: 408).
        headers_seconds: for the headers of a request to arrive; then the connection is closed.
        write_seconds: in which a client takes nothing of its answer; then the connection is closed (on Linux).
        connections: open at a time; fewer where the system allows few file descriptors. Beyond them the connection that
            has been idle longest is closed, or the new one.
        map_points: points of the map; larger indexes are sampled.
    """

    body_bytes: int = 4 * 2**20
    texts: int = 2_048
    waiting_texts: int = 8_192
    held_bytes: int = 64 * 2**20
    hits: int = 1_000
    pairs: int = 2**18
    reranked: int = 10_000
    read_seconds: float = 30.0
    headers_seconds: float = 20.0
    write_seconds: float = 30.0
    connections: int = 1_024
    map_points: int = 2_000


ErrorType = Literal["invalid_request_error", "authentication_error", "server_error", "overloaded_error"]
_FOLDERS = re.compile(r"(?<![\w./\\])(?:[A-Za-z]:)?[/\\](?:[^\s'\"():;,/\\]+[/\\]+)*(?=[^\s'\"():;,/\\])")
_log = logging.getLogger("opencse.serving")


class ApiError(Exception):
    """An error that is answered to the client.

    Example:
        >>> ApiError(400, "k: at most 1,000 results per query", param="k").response().status_code
        400

    Attributes:
        status: HTTP status code.
        message: one line: what is wrong and how to fix it.
        kind: OpenAI's ``type``.
        param: the invalid key of the body.
        code: identifies the error for programs.
        headers: to send with the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: ErrorType = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code, self.headers = param, code, dict(headers or {})

    def response(self) -> JSONResponse:
        """The answer that is sent."""
        content = {"message": printable(self.message), "type": self.kind, "param": self.param, "code": self.code}
        return JSONResponse({"error": content}, self.status, self.headers)


def invalid(error: ValidationError, keys: Iterable[str]) -> ApiError:
    """The error for an invalid body, whose possible ``keys`` are listed where one is unknown: its first fault."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON ({shortened(first['msg'], 160)})", code="invalid_json")
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        problem = f"there is no such key; known: {', '.join(keys)}"
    key = shortened(key)
    message = f"{key}: {problem}" if key else f"the body: {problem}"
    return ApiError(400, shortened(message, 300), param=key or None, code="invalid_value")


def overloaded(message: str, seconds: int) -> ApiError:
    """The error for a busy server: the client may try again after some seconds."""
    return ApiError(
        503, message, kind="overloaded_error", code="overloaded", headers={"Retry-After": str(max(1, seconds))}
    )


def without_folders(message: str) -> str:
    r"""Shortens each absolute path in a message to its last part, so that clients do not see where files are.

    Example:
        >>> without_folders("/home/alice/my-index/rows.sqlite: damaged (see 'C:\\models\\a.json')")
        "rows.sqlite: damaged (see 'a.json')"
        >>> without_folders("unknown column 'a/b'")
        "unknown column 'a/b'"
    """
    return _FOLDERS.sub("", message)


def new_app(title: str, close: Callable[[], None]) -> FastAPI:
    """An application that answers every error in OpenAI's format, and calls ``close`` on a thread when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(close)

    app = FastAPI(
        title=title, version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False, dependencies=[Depends(require_known_parameters)],
    )  # fmt: skip

    async def api(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiError)
        return error.response()

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        message = {
            404: f"no such address: {shortened(request.url.path)} (see /openapi.json)",
            405: f"{shortened(request.url.path)} does not take {shortened(request.method)}",
        }.get(error.status_code, str(error.detail))
        return ApiError(error.status_code, message, headers=error.headers).response()

    async def query(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        name = str(first["loc"][-1])
        return ApiError(400, shortened(f"{name}: {first['msg']}", 300), param=name, code="invalid_value").response()

    async def user(_: Request, error: Exception) -> JSONResponse:
        if isinstance(error, OutdatedError):
            _log.error("%s", error)
            message = "the index of this server is missing, damaged or replaced; see the server's log"
            return ApiError(503, message, kind="server_error", code="index_outdated").response()
        return ApiError(400, without_folders(str(error))).response()

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return ApiError(500, "the server failed; see its log", kind="server_error").response()

    app.add_exception_handler(ApiError, api)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, query)
    app.add_exception_handler(UserError, user)
    app.add_exception_handler(Exception, unexpected)
    return app


B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")
_LONG = 32_768
"""Bytes of a body, or numbers in an answer, from which JSON is handled outside the event loop."""


class HeldBytes:
    """Counts the bytes of all request bodies in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.bytes = 0

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """Gives a function that counts arriving bytes; they are released at the end of the block.

        Raises:
            ApiError: from that function, if all bodies together are too large.
        """
        body_bytes = 0

        def hold(size: int) -> None:
            nonlocal body_bytes
            if self.bytes > body_bytes and self.bytes + size > self._limits.held_bytes:
                raise overloaded("too many long requests at once; try again in a while", 1)
            body_bytes += size
            self.bytes += size

        try:
            yield hold
        finally:
            self.bytes -= body_bytes


async def read_body(request: Request, limits: Limits, hold: Callable[[int], None]) -> bytes:
    """Reads the body of a request.

    Args:
        request: whose body is read.
        limits: the limits of its size and time.
        hold: counts the bytes as they arrive.

    Raises:
        ApiError: if the body is not JSON, too long, does not arrive, or too much is in memory.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "send JSON, with the header Content-Type: application/json", code="unsupported_media_type")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "send the body without Content-Encoding", code="unsupported_encoding")
    declared = request.headers.get("content-length", "")
    too_long = ApiError(
        413, f"the body is longer than {limits.body_bytes:,} bytes; send several smaller requests", code="body_too_long"
    )
    if declared.isascii() and declared.isdigit() and (len(declared) > 15 or int(declared) > limits.body_bytes):
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(limits.read_seconds):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limits.body_bytes:
                    raise too_long
                hold(len(chunk))
                body += chunk
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive in {limits.read_seconds:g} seconds", code="timeout") from None
    return bytes(body)


async def require_known_parameters(request: Request) -> None:
    """Refuses a query parameter that the route does not have, or that is there twice; a dependency of every route.

    The page itself is the exception: what others add to the address of a page has no meaning.

    Raises:
        ApiError: naming those that the route has.
    """
    route = request.scope.get("route")
    if not request.url.query or not isinstance(route, APIRoute) or not route.include_in_schema:
        return
    known, seen = [one.alias for one in route.dependant.query_params], set[str]()
    for name in (name for name, _ in request.query_params.multi_items()):
        if name not in known:
            names = f"known: {', '.join(known)}" if known else "this address has none"
            body = ", and what is sent is in the body" if request.method == "POST" else ""
            message = f"{shortened(name)}: there is no such parameter in the address; {names}{body}"
            raise ApiError(400, message, param=shortened(name), code="unknown_parameter")
        if name in seen:
            raise ApiError(400, f"{name}: is in the address twice; send it once", param=name, code="invalid_value")
        seen.add(name)


async def parse(body: bytes, kind: type[B]) -> B:
    """Validates a body.

    Raises:
        ApiError: naming the first fault.
    """
    try:
        if len(body) > _LONG:
            return await asyncio.to_thread(kind.model_validate_json, body)
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error, kind.model_fields) from None


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Waits for ``work``, and cancels it when the client disconnects.

    Raises:
        ApiError: 499, which nobody reads, if the client has disconnected.
    """
    working = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({working, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError(499, "the client closed the connection", code="client_closed")
    finally:
        disconnected.cancel()
        working.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def answer(content: Any, size: int = 0, headers: dict[str, str] | None = None) -> Response:  # noqa: ANN401
    """Answers ``content`` as JSON, which is written outside the event loop if it holds many numbers (``size``)."""
    body = await asyncio.to_thread(to_json, content) if size > _LONG else to_json(content)
    return Response(body, media_type="application/json", headers=headers)
