"""`serve` through Python: names, keys and indexes, before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Heard
from opencse.api import serving
from opencse.api.serving import KEY_VARIABLE
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index


def test_names_of_models(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    assert serving._names(["opencse-mini", tmp_path / "my-model", "owner/name"], None) == [
        "opencse-mini", "my-model", "owner/name",
    ]  # fmt: skip
    assert serving._names(["a", "b"], ["x", "y"]) == ["x", "y"]
    for names, message in (
        (["x"], "1 names for 2 models"),
        (["x", "x"], "would be called 'x'"),
        (["x", " "], "cannot"),
    ):
        with pytest.raises(UserError, match=message):
            serving._names(["a", "b"], names)


def test_keys_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert serving._keys(None) == []
    monkeypatch.setenv(KEY_VARIABLE, " secret ")
    assert serving._keys(None) == ["secret"]
    file = tmp_path / "keys.txt"
    file.write_text("# a comment\none\n\ntwo\n")
    assert serving._keys(file) == ["one", "two"]
    for content, message in (("\n", "holds no API key"), ("a b\n", "without spaces, one per line")):
        file.write_text(content)
        with pytest.raises(UserError, match=message):
            serving._keys(file)
    with pytest.raises(UserError, match="cannot be read"):
        serving._keys(tmp_path / "missing.txt")


def test_a_model_without_an_index_gets_the_texts_of_the_first(tmp_path: Path, tiny_folder: Path) -> None:
    first, second = (SentenceEncoder.load(tiny_folder, pooling=pooling, device="cpu") for pooling in ("mean", "cls"))
    Index.build(tmp_path / "i", [{"text": "A cat sleeps.", "id": "a"}, {"text": "Rain.", "id": "b"}], second).close()
    reporter = Heard()
    indexes = serving._indexes([tmp_path / "i"], {"x": first, "y": second}, tmp_path, reporter)
    assert list(indexes) == ["y", "x"]
    assert [(hit.id, hit.text) for hit in indexes["x"].rows()] == [("a", "A cat sleeps."), ("b", "Rain.")]
    assert "x: has no index, so the 2 texts of the first one are encoded now" in reporter.said
    with pytest.raises(UserError, match="y has an index already"):
        serving._indexes([tmp_path / "i", tmp_path / "i"], {"x": first, "y": second}, tmp_path, reporter)
    for index in indexes.values():
        index.close()
