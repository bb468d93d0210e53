"""The weight of a hybrid search in a model's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.hybrid_weight import read_hybrid_weight, write_hybrid_weight
from opencse.model_folder.layout import SENTENCE_CONFIG
from opencse.modules.hybrid_weight import HybridWeight

WEIGHT = HybridWeight(0.4, "300 questions about kettles")


def test_it_is_saved_loaded_and_saved_again_with_the_encoder(tmp_path: Path, encoder: SentenceEncoder) -> None:
    encoder.save(tmp_path / "first")
    before = json.loads((tmp_path / "first" / SENTENCE_CONFIG).read_text())
    assert read_hybrid_weight(tmp_path / "first") is None
    write_hybrid_weight(tmp_path / "first", WEIGHT)
    after = json.loads((tmp_path / "first" / SENTENCE_CONFIG).read_text())
    assert after == {**before, "hybrid_search": {"weight": 0.4, "source": "300 questions about kettles"}}
    loaded = SentenceEncoder.load(tmp_path / "first", device="cpu")
    assert loaded.hybrid_weight == WEIGHT
    loaded.save(tmp_path / "second")
    assert read_hybrid_weight(tmp_path / "second") == WEIGHT


def test_sentence_transformers_ignores_it(tmp_path: Path, encoder: SentenceEncoder) -> None:
    library = pytest.importorskip("sentence_transformers")
    encoder.save(tmp_path / "model")
    text = ["A kettle boils."]
    before = library.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(text)
    write_hybrid_weight(tmp_path / "model", WEIGHT)
    after = library.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(text)
    assert (before == after).all()


@pytest.mark.parametrize("weight", [1.5, -0.1, "much", True, None])
def test_a_weight_that_is_none_is_refused_by_name(tmp_path: Path, weight: object) -> None:
    (tmp_path / SENTENCE_CONFIG).write_text(json.dumps({"hybrid_search": {"weight": weight}}))
    with pytest.raises(UserError, match=r"hybrid_search: the weight of the vectors is a number from 0 to 1"):
        read_hybrid_weight(tmp_path)


def test_a_folder_without_a_model_gets_no_weight(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no model in sentence-transformers' layout"):
        write_hybrid_weight(tmp_path, WEIGHT)
    assert not list(tmp_path.iterdir())
