"""Limits the number of open connections, and the time that each may take to send its request.

uvicorn limits the time between two requests but not before the first one, so connections that send nothing would stay
open until no file descriptor is left. `Connections` creates uvicorn's protocols and monitors each of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import Any, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.server import ServerState

from opencse.serving.limits import Limits

ACCEPTED_TOGETHER = 32
"""Connections that asyncio accepts in one iteration of its loop."""
_UNDECIDED = 4 * ACCEPTED_TOGETHER
"""Connections that are open and not counted yet, or closed for others and still open.

asyncio takes four passes over one: it accepts it, makes its transport, calls `connection_made`, and closes it.
"""
_RESERVED = 128 + _UNDECIDED
"""File descriptors for everything but connections that count: models, indexes, logs, and undecided connections."""
_SPARE = 64 + _UNDECIDED
"""The same on top of those that are in use when the server begins."""
_QUIET = 60.0
"""Seconds between two lines in the log about refused connections."""
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)
_BODY = (
    b'{"error":{"message":"too many connections; try again in a while","type":"overloaded_error","param":null,'
    b'"code":"overloaded"}}'
)
_log = logging.getLogger("opencse.serving")


class _Inner(Protocol):
    """The part of uvicorn's protocols that is used, whichever parser they have."""

    cycle: Any

    def connection_made(self, transport: asyncio.Transport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


def most_connections(limit: int) -> int:
    """The largest number of connections: ``limit``, or fewer where the system allows few file descriptors."""
    if sys.platform == "win32":
        return limit
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limit
    return min(limit, max(8, soft - max(_RESERVED, _open_files() + _SPARE), soft // 8))


def _open_files() -> int:
    """The number of open file descriptors of this process; 0 where the system does not list them."""
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - names alone
    except OSError:
        return 0


class Connections:
    """The connections of a server.

    Beyond the limit, the connection that has been idle longest is closed for a new one; if none is idle, the new one is
    answered 503.

    Args:
        limits: number of connections, and seconds for the headers of a request.
    """

    def __init__(self, limits: Limits) -> None:
        self.most = most_connections(limits.connections)
        self.headers_seconds = limits.headers_seconds
        self._open: dict[Connection, float] = {}
        self._refused = 0
        self._logged = -_QUIET

    def make(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> Connection:
        """Creates a connection, when uvicorn accepts one."""
        protocol: Any = AutoHTTPProtocol  # whose type leaves its arguments out
        inner = protocol(config=config, server_state=server_state, app_state=app_state, _loop=_loop)
        return Connection(self, inner)

    def __len__(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Whether ``connection`` may stay open; an idle one may be closed for it."""
        if len(self._open) >= self.most:
            self._note()
            # They are in the order of their last data, so the first one is idle for longest.
            idle = next((one for one in self._open if not one.at_work), None)
            if idle is None:
                return False
            self.forget(idle)
            idle.close()
        self._open[connection] = time.monotonic()
        return True

    def touch(self, connection: Connection) -> None:
        """Notes that data arrived; connections are kept in the order of their last data."""
        if self._open.pop(connection, None) is not None:
            self._open[connection] = time.monotonic()

    def forget(self, connection: Connection) -> None:
        """Removes a closed connection."""
        self._open.pop(connection, None)

    def _note(self) -> None:
        self._refused += 1
        now = time.monotonic()
        if now - self._logged >= _QUIET:
            _log.warning("%d connections are open, which is the limit; %d closed or refused", self.most, self._refused)
            self._logged, self._refused = now, 0


class Connection(asyncio.Protocol):
    """A connection: uvicorn's protocol with a time limit for the headers of each request."""

    def __init__(self, all_: Connections, inner: _Inner) -> None:
        self._all, self._inner = all_, inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._admitted = False

    @property
    def at_work(self) -> bool:
        """Whether a request has arrived whose answer is not complete, or waits for the client to read it."""
        cycle = self._inner.cycle
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return unsent > 0 or (cycle is not None and not cycle.response_complete)

    def close(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            # close() would wait for a client that reads nothing.
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the time limit of the first request, or refuses the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._admitted = self._all.admit(self)
        if not self._admitted:
            transport.write(_REFUSAL % (len(_BODY), _BODY))
            transport.close()
            return
        self._inner.connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the time limit."""
        self._stop()
        self._all.forget(self)
        if self._admitted:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Passes data on; the time limit runs until the headers are complete."""
        if not self._admitted:
            return
        self._all.touch(self)
        self._inner.data_received(data)
        if self.at_work:
            self._stop()
        elif self._timer is None:
            self._wait()

    def eof_received(self) -> None:
        """Passes the event on."""
        if self._admitted:
            self._inner.eof_received()

    def pause_writing(self) -> None:
        """Passes the event on."""
        if self._admitted:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Passes the event on."""
        if self._admitted:
            self._inner.resume_writing()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._all.headers_seconds, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if not self.at_work and self._transport is not None:
            self._transport.abort()
