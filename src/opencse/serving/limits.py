"""What one request may ask for, and how much may wait."""

from __future__ import annotations

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
        map_points: points of the map; of a larger corpus a sample is shown.
    """

    body_bytes: int = 4 * 2**20
    texts: int = 2_048
    waiting_texts: int = 8_192
    held_bytes: int = 64 * 2**20
    hits: int = 1_000
    pairs: int = 2**18
    read_seconds: float = 30.0
    map_points: int = 2_000

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise UserError(f"{field.name} is more than 0, not {getattr(self, field.name)}")
