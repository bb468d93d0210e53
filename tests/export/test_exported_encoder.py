"""A few texts are encoded with the ONNX export next to a model, where it gives the model's vectors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import opencse
from opencse.commands import opening
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.text_encoder import TextEncoder
from opencse.export.runtime import OnnxEncoder, open_export
from opencse.progress import Silent

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
TEXTS = ["A dog barks.", "It rains.", "", "word " * 300]


@pytest.fixture(scope="module")
def exported(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("exported") / "model"
    encoder = SentenceEncoder.load(tiny_folder, device="cpu", pooling="mean", layers=1)
    encoder.normalize = True
    encoder.save(folder)
    opencse.export_onnx(folder, folder.with_name("model-onnx"))
    return folder


def test_vectors_are_the_models(exported: Path) -> None:
    light, full = open_export(exported), SentenceEncoder.load(exported, device="cpu")
    assert light is not None
    assert isinstance(light, TextEncoder)
    np.testing.assert_allclose(light.encode(TEXTS), full.encode(TEXTS), rtol=0, atol=1e-5)
    np.testing.assert_allclose(light.encode_query(TEXTS), full.encode_query(TEXTS), rtol=0, atol=1e-5)
    assert light.fingerprint() == full.fingerprint()
    assert [ids.tolist() for ids in light.tokenize(TEXTS)] == [ids.tolist() for ids in full.tokenize(TEXTS)]
    assert light.dimension == full.dimension


def test_an_index_of_the_model_is_queried_with_it(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "open_bert", lambda folder, **options: None)
    assert isinstance(opening.open_for_vectors(exported, Silent(), texts=3), OnnxEncoder)
    assert isinstance(opening.open_for_vectors(exported, Silent(), texts=3_000), SentenceEncoder)
    opencse.build_index(tmp_path / "index", exported, TEXTS[:2], device="cpu")
    by_export = opencse.query_index(tmp_path / "index", ["a dog"])[0]
    by_model = opencse.query_index(tmp_path / "index", ["a dog"], model=SentenceEncoder.load(exported, device="cpu"))[0]
    assert [hit.id for hit in by_export] == [hit.id for hit in by_model]
    np.testing.assert_allclose([hit.score for hit in by_export], [hit.score for hit in by_model], atol=1e-5)


def test_an_export_of_other_files_is_left_alone(exported: Path, tmp_path: Path) -> None:
    assert open_export(exported) is not None
    folder = shutil.copytree(exported, tmp_path / "model")
    assert open_export(folder) is None
    shutil.copytree(exported.with_name("model-onnx"), folder / "onnx")
    assert open_export(folder) is not None
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 0.1}), encoding="utf-8")
    assert open_export(folder) is None
