"""An index from moment to moment, while other processes change it or put a new one in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opencse.errors import OutdatedError, UserError
from opencse.search.database import Facts
from opencse.search.engines import Engine
from opencse.search.folder import NAMES, current
from opencse.search.querying import State
from opencse.search.store import Store

_TRIES = 5


class Moments:
    """Follows the index in a folder; safe to use from several threads.

    Attributes:
        folder: of the index.
        fingerprint: of the encoder that the index was built with when it was opened.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = Store.open(folder)
        self._seen: State | None = None
        self._stamp: tuple[int, ...] = ()
        try:
            with self._store.snapshot() as facts:
                self.fingerprint = facts.fingerprint
        except BaseException:
            self._store.close()
            raise

    @property
    def store(self) -> Store:
        """The rows of the index that is there now.

        Raises:
            UserError: see `require_same`.
        """
        self._follow()
        return self._store

    @property
    def facts(self) -> Facts:
        """What is true of the index now."""
        with self.store.snapshot() as facts:
            return facts

    def close(self) -> None:
        """Lets go of the files."""
        self._store.close()

    def require_same(self, facts: Facts) -> None:
        """Refuses an index whose vectors are another encoder's than those of the index that was opened.

        Raises:
            OutdatedError: saying what to do.
        """
        if facts.fingerprint != self.fingerprint:
            raise OutdatedError(f"{self.folder}: was built again with another model since it was opened; open it again")

    @contextmanager
    def now(self) -> Iterator[State]:
        """Within the block the index as it is now.

        Raises:
            OutdatedError: if a file of it is not there.
        """
        for _ in range(_TRIES):
            store = self.store
            with store.snapshot() as facts:
                try:
                    state = self._state(store, facts)
                except FileNotFoundError as error:  # written anew since; or it is not there at all
                    missing = error.filename
                    continue
                yield state
                return
        raise OutdatedError(f"{self.folder}: damaged ({Path(missing).name} is missing); build the index again")

    def _follow(self) -> None:
        """Opens the index that has taken this one's place, if one has.

        Raises:
            OutdatedError: if the index is gone, or what has taken its place cannot be used.
        """
        try:
            stamp = self._identity()
            if stamp == self._stamp:
                return
            name = current(self.folder)
            if self._stamp or name != self._store.name:
                store = Store(self.folder, name)
                with store.snapshot() as facts:
                    self.require_same(facts)
                # Other threads may still read the old one, which closes when they are done.
                self._store, self._seen = store, None
            self._stamp = stamp
        except (FileNotFoundError, NotADirectoryError):
            raise OutdatedError(f"{self.folder}: the index is gone; put it back, or build it again") from None
        except OutdatedError:
            raise
        except UserError as error:
            raise OutdatedError(str(error)) from None
        except OSError:  # cannot be looked at for the moment
            return

    def _identity(self) -> tuple[int, ...]:
        """What changes when another index takes this one's place, also one of the same name."""
        names, rows = (self.folder / NAMES).stat(), self.folder / self._store.name
        try:
            return names.st_mtime_ns, names.st_ino, rows.stat().st_ino
        except FileNotFoundError:  # removed by a build, which has put another database in its place
            return names.st_mtime_ns, names.st_ino, 0

    def _state(self, store: Store, facts: Facts) -> State:
        seen = self._seen
        if seen is None or seen.facts != facts:
            engine = (
                None if facts.engine is None else Engine.read(self.folder / facts.engine, facts.slots, facts.similarity)
            )
            seen = State(store, facts, store.vectors(facts), store.alive(facts), engine)
            self._seen = seen
        return seen
