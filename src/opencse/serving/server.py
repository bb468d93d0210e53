"""Runs the application with uvicorn: opens the socket, limits connections, serves, and shuts down gracefully.

uvicorn limits the time between two requests but not before the first one, so connections that send nothing would stay
open until no file descriptor is left. Beyond the limit, the connection that has been idle longest is closed for a new
one; if none is idle, the new one is closed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from opencse.errors import UserError, explaining, reason
from opencse.serving.requests import Limits, overloaded

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
                # They are in the order of their last data, so the first one is idle for longest.
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


_BACKLOG = 2_048
_KEEP_ALIVE = 75
"""Seconds; longer than the 60 of common proxies, so that they close idle connections first."""


def bind(host: str, port: int) -> socket.socket:
    """Opens a socket that listens on an address.

    Example:
        >>> with bind("127.0.0.1", 0) as listening:
        ...     address(listening).startswith("http://127.0.0.1:")
        True

    Raises:
        UserError: if the address is taken, not this machine's, or not allowed.
    """
    with explaining(f"--host {host!r}: is not an address of this machine", OSError, UnicodeError, OverflowError):
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        # With the protocol named, asyncio sets TCP_NODELAY on connections; without it an answer may wait 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A server that is started again need not wait for closed connections.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise UserError(f"--host {host!r}: is not an address of this machine ({reason(error)})") from None
        raise UserError(
            f"port {port} of {host} cannot be listened on ({reason(error)}); choose another --port (0: any free one)"
        ) from None
    return listening


def address(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


def server(app: FastAPI, *, grace: float, limits: Limits | None = None) -> uvicorn.Server:
    """Creates a server that, when it stops, gives running requests at most ``grace`` seconds to finish."""
    limits = limits or Limits()
    config = uvicorn.Config(
        partial(_answer_when_stopped, app),
        interface="asgi3",
        http=protocol_of(limits),
        loop="asyncio",  # `protocol_of` counts on how it accepts; uvloop, where it is installed, was 6% faster
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        # A client could name any address as its own.
        proxy_headers=False,
        server_header=False,
        backlog=ACCEPTED_TOGETHER,  # the number that asyncio accepts at a time; `bind` sets the system's queue
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    return _Server(config, limits.write_seconds)


async def _answer_when_stopped(app: FastAPI, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers 503 to a request that is cancelled because it is not done when the server stops.

    At a second Ctrl-C the lifespan of the application is cancelled too, which it would report as a failure.
    """
    started = False

    async def sending(message: Message) -> None:
        nonlocal started
        task = asyncio.current_task()
        if scope["type"] == "lifespan" and task is not None and task.cancelling():
            return
        started = True
        await send(message)

    try:
        await app(scope, receive, sending)
    except asyncio.CancelledError:
        if scope["type"] == "lifespan":
            return
        if started:
            raise
        await overloaded("the server is stopping; send the request again", 5).response()(scope, receive, send)


class _Server(uvicorn.Server):
    """uvicorn's server with a longer queue of connections that wait to be accepted, and a time limit for reading.

    Args:
        config: the config of uvicorn.
        write_seconds: in which a client takes nothing of its answer; then the system closes the connection, because
            answers that nobody reads would fill the memory. Only Linux has this option.
    """

    def __init__(self, config: uvicorn.Config, write_seconds: float) -> None:
        super().__init__(config)
        self._write_seconds = write_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening; restores the queue, which asyncio shortens to the number it accepts at a time."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_BACKLOG)
            if sys.platform == "linux":  # connections inherit it
                milliseconds = min(round(1_000 * self._write_seconds), 2**31 - 1)
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)


def run(
    app: FastAPI, listening: socket.socket, *, grace: float, ready: Callable[[], None], limits: Limits | None = None
) -> None:
    """Serves until SIGTERM or Ctrl-C, from the call of ``ready()`` on; a second Ctrl-C stops at once."""
    running, before = server(app, grace=grace, limits=limits), {}
    if threading.current_thread() is threading.main_thread():
        # Until uvicorn handles signals itself, a KeyboardInterrupt could be raised where it is swallowed.
        before = {number: signal.signal(number, running.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ready()
        running.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()
