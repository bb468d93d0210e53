"""Building an index: settings, interruptions, and models that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers import Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search import building
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from search_texts import TEXTS


def test_an_interrupted_build_continues_after_the_last_window(
    tmp_path: Path, mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "WINDOW", 2)
    encode, windows = SentenceEncoder.encode_document, []

    def interrupted(self: SentenceEncoder, texts: list[str], **options: Any) -> Any:
        windows.append(list(texts))
        if len(windows) == 2:
            raise KeyboardInterrupt
        return encode(self, texts, **options)

    monkeypatch.setattr(SentenceEncoder, "encode_document", interrupted)
    settings, reporter = BuildSettings(cut=False), Heard()
    with pytest.raises(KeyboardInterrupt):
        Index.build(tmp_path / "i", TEXTS, mini, how=settings)
    with Index.build(tmp_path / "i", TEXTS, mini, how=settings, progress=reporter) as index:
        assert [hit.text for hit in index.rows()] == TEXTS
    assert windows == [TEXTS[:2], TEXTS[2:4], TEXTS[2:4], TEXTS[4:]]
    assert f"{tmp_path / 'i'}: continuing after 2 rows" in reporter.said


def test_a_name_of_another_model_than_the_encoder_is_refused(
    tmp_path: Path, mini: SentenceEncoder, tiny_folder: Path
) -> None:
    """The index was built, and refused every query as one of another model."""
    with pytest.raises(UserError, match=r"is not the encoder of this index .*leave it out"):
        Index.build(tmp_path / "i", TEXTS, mini, model=str(tiny_folder))
    assert not (tmp_path / "i").exists()
    with pytest.raises(UserError, match="no such"):
        Index.build(tmp_path / "i", TEXTS, mini, model=str(tmp_path / "missing"))
