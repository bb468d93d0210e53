"""metrics.jsonl: one line every few steps, greppable, and cut back to the checkpoint on resume."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from opencse.errors import UserError


class MetricsLog:
    """Appends records to a JSON-lines file; each record has its ``step``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, record: Mapping[str, float | int | str]) -> None:
        """Appends one record."""
        self._put([record], "a")

    def rewind(self, step: int) -> None:
        """Drops what was written after ``step``, and a last line that was cut off."""
        kept = [record for record in self.read() if record["step"] <= step]
        self._put(kept, "w")

    def _put(self, records: Iterable[Mapping[str, float | int | str]], mode: Literal["a", "w"]) -> None:
        try:
            with self.path.open(mode, encoding="utf-8") as stream:
                stream.writelines(json.dumps(record) + "\n" for record in records)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error}); make room and go on with --resume") from None

    def read(self) -> list[dict[str, float]]:
        """All whole records."""
        records = []
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return records
