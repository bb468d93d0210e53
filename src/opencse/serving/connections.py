"""Limits the number of open connections, and the time that each may take to send its request.

uvicorn limits the time between two requests but not before the first one, so connections that send nothing would stay
open until no file descriptor is left. Beyond the limit, the connection that has been idle longest is closed for a new
one; if none is idle, the new one is closed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from opencse.serving.limits import Limits

ACCEPTED_TOGETHER = 32
"""Connections that asyncio accepts in one iteration of its loop."""
_RESERVED = 128 + 4 * ACCEPTED_TOGETHER
"""File descriptors for everything else: models, indexes, logs, and connections that are not counted yet or any more."""
_log = logging.getLogger("opencse.serving")


def most_connections(limit: int) -> int:
    """The largest number of connections: ``limit``, or fewer where the system allows few file descriptors."""
    if sys.platform == "win32":
        return limit
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit if soft == resource.RLIM_INFINITY else min(limit, max(8, soft - _RESERVED, soft // 8))


def protocol_of(limits: Limits) -> type[asyncio.Protocol]:
    """Uvicorn's protocol for the connections of one server, within ``limits``."""
    base: Any = AutoHTTPProtocol
    most, logged = most_connections(limits.connections), False
    connections: dict[Connection, None] = {}  # in the order of their last data

    class Connection(base):  # type: ignore[misc]
        """A connection with a time limit for the headers of each request."""

        timer: asyncio.TimerHandle | None = None

        def at_work(self) -> bool:
            """Whether a request has arrived whose answer is not complete, or waits for the client to read it."""
            unread = self.transport.get_write_buffer_size() > 0
            return unread or (self.cycle is not None and not self.cycle.response_complete)

        def connection_made(self, transport: asyncio.Transport) -> None:
            nonlocal logged
            super().connection_made(transport)
            if len(connections) >= most:
                if not logged:
                    _log.warning("%d connections are open, which is the limit; for new ones idle ones are closed", most)
                    logged = True
                # The order is that of the last data, so the first one is idle for longest.
                closed = next((one for one in connections if not one.at_work()), self)
                connections.pop(closed, None)
                closed.transport.abort()  # close() would wait for a client that reads nothing
                if closed is self:
                    return
            connections[self] = None
            self.wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop()
            connections.pop(self, None)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if connections.pop(self, self) is self:  # it is closed
                return
            connections[self] = None
            super().data_received(data)
            if self.at_work():
                self.stop()
            elif self.timer is None:
                self.wait()

        def wait(self) -> None:
            self.timer = asyncio.get_running_loop().call_later(limits.headers_seconds, self.late)

        def stop(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def late(self) -> None:
            self.timer = None
            if not self.at_work():
                self.transport.abort()

    return Connection
