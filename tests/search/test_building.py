"""Building an index: settings, interruptions, and models that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers import Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search import building, row_encoding
from opencse.search.building import BuildSettings, require_new
from opencse.search.index import Index
from search_texts import TEXTS


def test_settings_of_passages_need_passages(mini: SentenceEncoder) -> None:
    for settings in (BuildSettings(cut=False, max_length=20), BuildSettings(cut=False, overlap=2)):
        with pytest.raises(UserError, match="need passages"):
            settings.splitter(mini)
    assert BuildSettings(cut=False).splitter(mini) is None
    assert BuildSettings(max_length=20).splitter(mini) is not None


def test_an_interrupted_build_continues_after_the_last_window(
    tmp_path: Path, mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_encoding, "WINDOW", 2)
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


def test_an_interrupted_build_of_other_settings_starts_again(
    tmp_path: Path, mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_encoding, "WINDOW", 2)
    with monkeypatch.context() as patch:
        patch.setattr(building, "_begin_build", _begin_and_fail(building._begin_build))
        with pytest.raises(KeyboardInterrupt):
            Index.build(tmp_path / "i", TEXTS, mini, how=BuildSettings(cut=False))
    reporter = Heard()
    Index.build(tmp_path / "i", TEXTS[:3], mini, how=BuildSettings(cut=False), progress=reporter).close()
    said = f"{tmp_path / 'i'}: an unfinished build had another text; starting again"
    assert said in reporter.said
    assert len(list((tmp_path / "i").glob("rows-*.sqlite"))) == 1


def test_an_interrupted_build_that_is_not_continued_names_the_settings_that_changed(
    tmp_path: Path, mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(building, "_begin_build", _begin_and_fail(building._begin_build))
        with pytest.raises(KeyboardInterrupt):
            Index.build(tmp_path / "i", TEXTS, mini, how=BuildSettings(max_length=20, precision="bf16"))
    reporter = Heard()
    Index.build(tmp_path / "i", TEXTS, mini, how=BuildSettings(max_length=30), progress=reporter).close()
    changed = "max_length (20, now 30), precision (bf16, now float32)"
    assert f"{tmp_path / 'i'}: an unfinished build had another {changed}; starting again" in reporter.said


def test_a_folder_with_an_index_needs_overwrite(index: Index, tmp_path: Path) -> None:
    require_new(tmp_path / "new", overwrite=False)
    require_new(index.folder, overwrite=True)
    with pytest.raises(UserError, match="replace it with --overwrite"):
        require_new(index.folder, overwrite=False)
    (tmp_path / "notes.md").write_text("Mine.")
    with pytest.raises(UserError, match="is not empty"):
        require_new(tmp_path, overwrite=True)


def _begin_and_fail(begin: object) -> object:
    def failing(*arguments: object) -> str:
        begin(*arguments)  # type: ignore[operator]
        raise KeyboardInterrupt

    return failing


def test_a_name_of_another_model_than_the_encoder_is_refused(
    tmp_path: Path, mini: SentenceEncoder, tiny_folder: Path
) -> None:
    """The index was built, and refused every query as one of another model."""
    with pytest.raises(UserError, match=r"is not the encoder of this index .*leave it out"):
        Index.build(tmp_path / "i", TEXTS, mini, model=str(tiny_folder))
    assert not (tmp_path / "i").exists()
    with pytest.raises(UserError, match="no such"):
        Index.build(tmp_path / "i", TEXTS, mini, model=str(tmp_path / "missing"))


def test_a_named_folder_holds_in_every_working_folder(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_folder.parent)
    encoder = SentenceEncoder.load(tiny_folder, pooling="max", device="cpu")
    with Index.build(tmp_path / "i", TEXTS, encoder, model=tiny_folder.name, pooling="max"):
        monkeypatch.chdir(tmp_path)
    with Index.open("i") as index:
        assert index.search([TEXTS[0]], 1)[0][0].text == TEXTS[0]
