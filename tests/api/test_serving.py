"""`serve` through Python: names, keys and indexes, before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse.api import serving
from opencse.api.serving import KEY_VARIABLE
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.measured_precision import SAMPLE
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.kernels.precision import Precision
from opencse.search.index import Index


def test_names_of_models(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    assert serving._names(["opencse-mini", tmp_path / "my-model", "owner/name"], None) == [
        "opencse-mini", "my-model", "owner/name",
    ]  # fmt: skip
    assert serving._names(["a", "b"], ["x", "y"]) == ["x", "y"]
    for names, message in (
        (["x"], "1 name for 2 models"),
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
    encoders: dict[str, TextEncoder] = {"x": first, "y": second}
    opened = [Index.open(tmp_path / "i") for _ in range(2)]
    indexes = serving._indexes(opened[:1], encoders, {}, tmp_path, reporter)
    assert list(indexes) == ["y", "x"]
    assert [(hit.id, hit.text) for hit in indexes["x"].rows()] == [("a", "A cat sleeps."), ("b", "Rain.")]
    assert "x: has no index, so the 2 texts of the first one are encoded now" in reporter.said
    with pytest.raises(UserError, match="y has an index already"):
        serving._indexes(opened, encoders, {}, tmp_path, reporter)
    for index in indexes.values():
        index.close()


def test_the_precision_is_requested_or_measured_on_the_texts_of_the_index(
    tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny, mini = SentenceEncoder.load(tiny_folder, device="cpu"), opencse.load("opencse-mini")
    encoders: dict[str, TextEncoder] = {"tiny": tiny, "mini": mini}
    heard = Heard()
    assert serving._precisions("float32", encoders, [], heard) == {"tiny": "float32", "mini": "float32"}
    assert heard.said == []
    assert serving._precisions("bf16", encoders, [], heard) == {"tiny": "bf16", "mini": "float32"}
    assert heard.said == [
        "tiny: computes in bf16 (requested)",
        "mini: computes in float32 (bf16: a model of word vectors computes in float32 alone)",
    ]
    asked: list[list[str]] = []

    def measured(choice: str, encoder: TextEncoder, texts: list[str], prompt: str) -> Precision:
        asked.append(texts)
        return Precision(encoder is tiny, choice)

    monkeypatch.setattr(serving, "measured_precision", measured)
    with Index.build(tmp_path / "i", ["A cat sleeps.", "Rain."], tiny) as index:
        assert serving._precisions("auto", encoders, [index], heard)["tiny"] == "bf16"
    serving._precisions("auto", {"tiny": tiny}, [], heard)
    assert asked[:2] == [["A cat sleeps.", "Rain."]] * 2
    assert len(asked[2]) == SAMPLE, "built-in sentences"


def test_an_index_that_is_made_at_the_start_has_the_precision_of_its_model(tmp_path: Path, tiny_folder: Path) -> None:
    first, second = (SentenceEncoder.load(tiny_folder, pooling=pooling, device="cpu") for pooling in ("mean", "cls"))
    Index.build(tmp_path / "i", ["A cat sleeps.", "Rain."], second).close()
    indexes = serving._indexes(
        [Index.open(tmp_path / "i")], {"x": first, "y": second}, {"x": "bf16"}, tmp_path, Heard()
    )
    assert [indexes[name].info().precision for name in ("x", "y")] == ["bf16", "float32"]
    for index in indexes.values():
        index.close()
