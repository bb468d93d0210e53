"""The log of a run, metrics.jsonl: a line every few steps; on resume it is shortened to the checkpoint's step."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from opencse import io
from opencse.errors import UserError, reason
from opencse.training.callbacks import Record

METRICS = "metrics.jsonl"
AVERAGE_OF = "average_of_step"
"""Key of the records of averages that were evaluated after the last step: the step whose weights were averaged."""


class MetricsLog:
    """Appends records to a JSON-lines file; each record has a ``step``. ``notify`` is called with it too."""

    def __init__(self, path: Path, notify: Callable[[Record], None] | None = None) -> None:
        self.path = path
        self.notify = notify

    def write(self, record: Record) -> None:
        """Appends one record."""
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(record) + "\n")
        except OSError as error:
            raise self._unwritten(error) from None
        if self.notify is not None:
            self.notify(record)

    def clear(self) -> None:
        """Empties the log."""
        self._replace(b"")

    def rewind(self, step: int) -> None:
        """Drops the records after ``step``, those of averages after the last step, and an incomplete last line.

        Raises:
            UserError: as `read`.
        """
        lines = [line for line, record in self._lines() if record["step"] <= step and AVERAGE_OF not in record]
        self._replace(b"".join(line + b"\n" for line in lines))

    def read(self) -> list[dict[str, float]]:
        """Reads all records; an incomplete last line, of a run that was killed, is left out.

        Raises:
            UserError: for any other line that is no record, with its number.
        """
        return [record for _, record in self._lines()]

    def _lines(self) -> list[tuple[bytes, dict[str, float]]]:
        try:
            content = self.path.read_bytes() if self.path.is_file() else b""
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({reason(error)})") from None
        *lines, rest = content.split(b"\n")
        records = [(line, self._record(line, number)) for number, line in enumerate(lines, start=1)]
        with contextlib.suppress(ValueError):  # incomplete
            records.append((rest, _parsed(rest)))
        return records

    def _record(self, line: bytes, number: int) -> dict[str, float]:
        try:
            return _parsed(line)
        except ValueError as error:
            raise UserError(
                f"{self.path}, line {number}: is no record of a step ({reason(error)}); delete the line, or put back "
                "a copy of the file (the log alone: the encoder and its checkpoint do not depend on it)"
            ) from None

    def _replace(self, content: bytes) -> None:
        try:
            with io.writing(self.path) as unfinished:
                unfinished.write_bytes(content)
        except OSError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> UserError:
        return UserError(f"{self.path}: cannot be written ({reason(error)}); make room and continue with --resume")


def _parsed(line: bytes) -> dict[str, float]:
    record = json.loads(line.decode("utf-8"))
    if not isinstance(record, dict) or not isinstance(record.get("step"), int):
        raise ValueError("an object with a step was expected")
    return record
