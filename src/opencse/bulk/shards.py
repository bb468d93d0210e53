"""A folder of vectors in files with the same number of rows, and a manifest; finished files survive a kill.

Until all files are written, ``encoding.json`` records what they are made from, and ``shards.jsonl`` has one line for
each finished file. At the end ``manifest.json`` replaces both: if it exists, the folder is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.files import (
    append_lines,
    changed_key,
    hash_file,
    held_lock,
    made_folder,
    read_lines,
    remove_unfinished,
    sync,
    write_text,
    writing,
)
from opencse.outputs import foreign_files_message, names_in
from opencse.progress import Say

FileFormat = Literal["npy", "parquet"]
MANIFEST = "manifest.json"
_BEGUN, _JOURNAL, _LOCK = "encoding.json", "shards.jsonl", ".lock"
_DIGITS = 5


@dataclass(frozen=True)
class Shard:
    """One file of vectors in the folder.

    Attributes:
        file: its name in the folder.
        start: its first row, counted from 0 over all files.
        rows: number of vectors in it.
        bytes: its size.
        sha256: of its content.
    """

    file: str
    start: int
    rows: int
    bytes: int
    sha256: str


class Shards:
    """The folder while its files are written; see `Shards.open`.

    Attributes:
        folder: its path.
        identity: everything that the vectors depend on: equal identities give equal files.
        done: the finished files, by number.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.identity = folder, identity
        self.done: dict[int, Shard] = {}

    @classmethod
    @contextmanager
    def open(cls, folder: Path, identity: dict[str, Any], say: Say) -> Iterator[Shards]:
        """Opens a folder that an earlier call began with the same identity, or a new one, and locks it.

        Raises:
            UserError: if another process writes there, or the folder holds something else.
            OSError: if it cannot be written.
        """
        require_own(folder)
        busy = "another process is writing there; wait for it, or choose another --out"
        with made_folder(folder), held_lock(folder / _LOCK, busy):
            shards = cls(folder, identity)
            shards._resume(say)
            try:
                yield shards
            except BaseException:
                if not shards.done:  # nothing to continue from
                    files = (shards.path(number) for number in range(shards.count))
                    for path in (folder / _JOURNAL, folder / _BEGUN, *files):
                        path.unlink(missing_ok=True)
                raise

    @property
    def count(self) -> int:
        """Number of files when all are written."""
        return -(-int(self.identity["rows"]) // int(self.identity["shard_rows"]))

    @property
    def rows(self) -> int:
        """Number of vectors in the finished files."""
        return sum(shard.rows for shard in self.done.values())

    @property
    def is_complete(self) -> bool:
        """Whether the folder is complete."""
        return (self.folder / MANIFEST).exists()

    def path(self, number: int) -> Path:
        """The path of the file with a number."""
        digits = max(_DIGITS, len(str(self.count - 1)))
        return self.folder / f"part-{number:0{digits}}.{self.identity['format']}"

    def add(self, number: int, shard: Shard) -> None:
        """Records a file that is on the disk."""
        append_lines(self.folder / _JOURNAL, [json.dumps({"number": number, **asdict(shard)})])
        self.done[number] = shard

    def finish(self) -> None:
        """Writes the manifest."""
        shards = [asdict(self.done[number]) for number in range(self.count)]
        write_text(self.folder / MANIFEST, json.dumps({**self.identity, "shards": shards}, indent=1) + "\n")
        for name in (_JOURNAL, _BEGUN):
            (self.folder / name).unlink(missing_ok=True)
        sync(self.folder)

    def _resume(self, say: Say) -> None:
        for name in (MANIFEST, _BEGUN):
            if (self.folder / name).exists():
                self._require_same(self.folder / name)
                break
        else:
            require_own(self.folder)
            write_text(self.folder / _BEGUN, json.dumps(self.identity, indent=1) + "\n")
            return
        remove_unfinished(self.folder)
        if self.is_complete:
            self.done = self._unchanged(json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))["shards"])
            if len(self.done) == self.count:
                for name in (_JOURNAL, _BEGUN):  # of a process that was killed at its very end
                    (self.folder / name).unlink(missing_ok=True)
                say(f"{self.folder}: all {self.rows:,} vectors exist already")
                return
            write_text(self.folder / _BEGUN, json.dumps(self.identity, indent=1) + "\n")
            (self.folder / _JOURNAL).unlink(missing_ok=True)
            finished, self.done = self.done, {}
            for number, shard in finished.items():
                self.add(number, shard)
            (self.folder / MANIFEST).unlink()
        else:
            self.done = self._unchanged(self._recorded())
        say(f"{self.folder}: continues after {self.rows:,} of {self.identity['rows']:,} texts")

    def _require_same(self, path: Path) -> None:
        try:
            before = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise UserError(f"{path}: damaged; remove {self.folder}, or choose another --out") from None
        if (key := changed_key(before, self.identity)) is not None:
            raise UserError(
                f"{self.folder}: was begun with another {key} ({_short(before.get(key))}, now "
                f"{_short(self.identity[key])}); choose another --out, or remove it"
            )

    def _recorded(self) -> list[dict[str, Any]]:
        """The files that the journal lists."""
        path = self.folder / _JOURNAL
        try:
            return [dict(json.loads(line)) for line in read_lines(path)]
        except (ValueError, TypeError):
            raise UserError(f"{path}: damaged; remove {self.folder}, or choose another --out") from None

    def _unchanged(self, recorded: list[dict[str, Any]]) -> dict[int, Shard]:
        """The recorded files that still have their content; the others are written again."""
        shards: dict[int, Shard] = {}
        for values in recorded:
            number = int(values.get("number", values["start"] // self.identity["shard_rows"]))
            shard = Shard(**{key: value for key, value in values.items() if key != "number"})
            with suppress(FileNotFoundError):
                path = self.folder / shard.file
                if path.stat().st_size == shard.bytes and hash_file(path) == shard.sha256:
                    shards[number] = shard
        return shards


def require_own(folder: Path) -> None:
    """Refuses a folder with files of something else; changes nothing.

    Raises:
        UserError: with the fix.
    """
    names = names_in(folder) - {_LOCK}
    if names and not names & {_BEGUN, MANIFEST}:
        raise UserError(foreign_files_message(folder, names))


def write_shard(path: Path, start: int, vectors: NDArray[Any]) -> Shard:
    """Writes the rows from ``start`` on to ``path``, in the format of its suffix, and waits until they are on the disk.

    Raises:
        OSError: if it cannot be written.
    """
    with writing(path) as unfinished:
        if path.suffix == ".npy":
            with unfinished.open("wb") as stream:
                np.save(stream, vectors)
        else:
            _write_parquet(unfinished, start, vectors)
        checksum = hash_file(unfinished)
    return Shard(path.name, start, len(vectors), path.stat().st_size, checksum)


def _write_parquet(path: Path, start: int, vectors: NDArray[Any]) -> None:
    """Columns ``row`` (int64) and ``vector`` (a list of fixed size)."""
    import pyarrow
    import pyarrow.parquet

    flat = pyarrow.array(np.ascontiguousarray(vectors).reshape(-1))
    columns = {
        "row": pyarrow.array(np.arange(start, start + len(vectors), dtype=np.int64)),
        "vector": pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="none", use_dictionary=False)


def require_format(name: FileFormat) -> None:
    """Refuses a format whose package is not installed."""
    if name == "parquet":
        require_packages("writing Parquet", "train", "pyarrow")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."
