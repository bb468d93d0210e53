"""A change of an index from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opencse.progress import Progress
from opencse.search.database import refused
from opencse.search.engines import write_engine
from opencse.search.folder import current, locked, note, remove_others
from opencse.search.kept_words import place_of
from opencse.search.writer import Writer

_COMPACT = 4
"""One dead place in so many makes the vector file be written anew."""


@contextmanager
def changing(folder: Path, progress: Progress) -> Iterator[Writer]:
    """What is done to the index within the block becomes true at its end; nothing of it on an error.

    Raises:
        UserError: if another process writes the index, or it cannot be written.
    """
    current(folder)  # a folder without an index is not locked
    with locked(folder), refused(folder):
        name = current(folder)
        with Writer(folder, name) as writer:
            facts = writer.facts
            words = place_of(name, facts.version, facts.language)
            note(folder, name, facts.vectors, facts.engine or "", words)
            remove_others(folder, [name, facts.vectors, facts.engine or "", words])
            yield writer
            writer.change(source=None)
            if writer.facts.slots > _COMPACT * max(1, writer.facts.rows) // (_COMPACT - 1):
                writer.compact()
            write_engine(writer, progress)
            writer.commit()
