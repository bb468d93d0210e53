"""A socket, and uvicorn on it."""

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
"""Seconds; longer than the 60 of usual proxies, which then close idle connections first."""


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address.

    Raises:
        UserError: if that is taken, not this machine's, or not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        raise UserError(f"--host {host!r}: is no address of this machine ({reason(error)})") from None
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
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


def server(app: FastAPI, *, grace: float, limits: Limits | None = None) -> uvicorn.Server:
    """A server of ``app`` that, told to end, answers what it has taken on for at most ``grace`` seconds."""
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
        backlog=ACCEPTED_TOGETHER,  # asyncio accepts so many at a time; the system's queue is that of `bind`
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """uvicorn's server, with a longer queue of connections that wait to be accepted."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens; asyncio shortens the queue to what it accepts at a time."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_BACKLOG)


def run(
    app: FastAPI, listening: socket.socket, *, grace: float, ready: Callable[[], None], limits: Limits | None = None
) -> None:
    """Serves until SIGTERM or Ctrl-C, which may come from ``ready()`` on; a second Ctrl-C ends it at once."""
    made, before = server(app, grace=grace, limits=limits), {}
    if threading.current_thread() is threading.main_thread():
        # Until uvicorn listens to signals, a KeyboardInterrupt could be raised where it is swallowed.
        before = {number: signal.signal(number, made.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ready()
        made.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()
