"""A text of numbered sentences, some longer than others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from helpers import write_lines
from opencse import SentenceEncoder
from opencse.bulk.encoding_settings import EncodingSettings
from opencse.encoder.text_encoder import TextEncoder
from opencse.text.readers import Source

LINES = [f"sentence number {n} of the text" + " and more" * (n % 5) for n in range(23)]


def numbered(folder: Path) -> Source:
    """The sentences in a file of ``folder``, one per line."""
    path = folder / "a.txt"
    write_lines(path, LINES)
    return Source(str(path))


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, calls: int, error: BaseException) -> Iterator[list[int]]:
    """Makes encoding raise ``error`` after ``calls`` calls; yields a list of the number of texts in each call."""
    encode, sizes = SentenceEncoder.encode, list[int]()

    def ending(self: SentenceEncoder, texts: list[str], **how: object) -> object:
        if len(sizes) == calls:
            raise error
        sizes.append(len(texts))
        return encode(self, texts, **how)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(SentenceEncoder, "encode", ending)
        yield sizes


def settings_of(model: str | Path | TextEncoder, arguments: dict[str, Any]) -> EncodingSettings:
    """Encoding settings with those of the arguments that belong there, which are removed from them."""
    names = {field.name for field in fields(EncodingSettings)} & arguments.keys()
    return EncodingSettings(model=model, **{name: arguments.pop(name) for name in names})
