"""What one request may ask for, and how much may wait."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from opencse.errors import UserError


@dataclass(frozen=True)
class Limits:
    """Bounds that keep memory and waiting time bounded; what goes beyond them is refused with its reason.

    Attributes:
        body_bytes: of one request (413 beyond).
        texts: of one request (400 beyond).
        waiting_texts: texts that wait for the encoder; a request that finds more waiting is told to come back (503).
        held_bytes: of all bodies that are held at a time (503 beyond).
        hits: results of one query.
        pairs: entries of one similarity matrix.
        read_seconds: for the body of a request to arrive (408 beyond).
        headers_seconds: for the headers of a request to arrive; the connection is closed then.
        connections: open at a time, fewer where the system allows few file descriptors. Beyond them the connection
            that has waited longest without a request is closed, or the new one refused (503).
        map_points: points of the map; of a larger corpus a sample is shown.
    """

    body_bytes: int = 4 * 2**20
    texts: int = 2_048
    waiting_texts: int = 8_192
    held_bytes: int = 64 * 2**20
    hits: int = 1_000
    pairs: int = 2**18
    read_seconds: float = 30.0
    headers_seconds: float = 20.0
    connections: int = 1_024
    map_points: int = 2_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise UserError(f"{field.name} is a number above 0, not {value!r}")
