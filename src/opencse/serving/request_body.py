"""How a request is read: within its limits, off the event loop where it is long, and given up when nobody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from opencse.serving.errors import ApiError, invalid, overloaded
from opencse.serving.limits import Limits

B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")
_LONG = 32_768


class Held:
    """Counts the bytes of the bodies that are held."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.bytes = 0

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """Holds within the block the bytes that the function it gives is told of, as they arrive.

        Raises:
            ApiError: from that function, if it is too much with what other bodies hold.
        """
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            if self.bytes > own and self.bytes + size > self._limits.held_bytes:
                raise overloaded("too many long requests are in work; try again in a while", 1)
            own += size
            self.bytes += size

        try:
            yield hold
        finally:
            self.bytes -= own


async def read_body(request: Request, limits: Limits, hold: Callable[[int], None]) -> bytes:
    """The body, if it says it is JSON and is not too long.

    Args:
        request: whose body it is.
        limits: how long it may be, and take.
        hold: told of the bytes as they arrive.

    Raises:
        ApiError: if it is not, does not arrive, or too much is held.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "send JSON, with the header Content-Type: application/json", code="unsupported_media_type")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "send the body as it is, without Content-Encoding", code="unsupported_encoding")
    declared = request.headers.get("content-length", "")
    too_long = ApiError(
        413, f"the body is longer than {limits.body_bytes:,} bytes; send it in parts", code="body_too_long"
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


async def parse(body: bytes, kind: type[B]) -> B:
    """The body as what it is to be.

    Raises:
        ApiError: naming the first fault.
    """
    try:
        if len(body) > _LONG:
            return await asyncio.to_thread(kind.model_validate_json, body)
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """What ``work`` gives; it is cancelled when the client goes, so that nothing is encoded for nobody.

    Raises:
        ApiError: 499, which nobody reads, if the client is gone.
    """
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError(499, "the client closed the connection", code="client_closed")
    finally:
        gone.cancel()
        working.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def answer(content: Any, size: int = 0, headers: dict[str, str] | None = None) -> Response:  # noqa: ANN401
    """``content`` as JSON; made off the event loop if it holds many numbers (``size``)."""
    body = await asyncio.to_thread(to_json, content) if size > _LONG else to_json(content)
    return Response(body, media_type="application/json", headers=headers)
