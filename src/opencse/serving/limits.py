"""The limits of a server: size of requests, waiting texts, connections, seconds."""

from __future__ import annotations

from dataclasses import dataclass


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
