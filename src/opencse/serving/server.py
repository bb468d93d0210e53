"""Runs the application with uvicorn: opens the socket, serves, and shuts down gracefully."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from typing import cast

import uvicorn
from fastapi import FastAPI

from opencse.errors import UserError, reason
from opencse.serving.connections import ACCEPTED_TOGETHER, Connections
from opencse.serving.limits import Limits

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
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        raise UserError(f"--host {host!r}: is not an address of this machine ({reason(error)})") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
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
    connections = Connections(limits or Limits())
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], connections.make),
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        proxy_headers=False,
        server_header=False,
        backlog=ACCEPTED_TOGETHER,  # the number that asyncio accepts at a time; `bind` sets the system's queue
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """uvicorn's server with a longer queue of connections that wait to be accepted."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening; restores the queue, which asyncio shortens to the number it accepts at a time."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_BACKLOG)


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
