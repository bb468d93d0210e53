"""metrics.jsonl: one line every few steps, greppable, and cut back to the checkpoint on resume."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from opencse.errors import UserError


class MetricsLog:
    """Appends records to a JSON-lines file; each record has its ``step``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, record: Mapping[str, float | int | str]) -> None:
        """Appends one record."""
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(record) + "\n")
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error}); make room and go on with --resume") from None

    def rewind(self, step: int) -> None:
        """Drops what was written after ``step``, and a last line that was cut off."""
        kept = [record for record in self.read() if record["step"] <= step]
        self.path.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")

    def read(self) -> list[dict[str, float]]:
        """All whole records."""
        records = []
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return records
