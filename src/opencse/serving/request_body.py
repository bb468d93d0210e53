"""Reads a request within its limits, refuses unknown parameters, and stops the work when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from opencse.errors import shortened
from opencse.serving.errors import ApiError, invalid, overloaded
from opencse.serving.limits import Limits

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
