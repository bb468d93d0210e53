"""A tokenizer, a text and a cache for its corpora."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from corpora import TEXT
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return Source(str(path))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever reads a source fails."""

    def refuse(source: Source) -> None:
        raise AssertionError(f"{source.location} was read again")

    with monkeypatch.context() as patch:
        patch.setattr(Source, "examples", refuse)
        yield
