"""Tables of word vectors: sentence-transformers, model2vec and this library read each other's folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.text.tokenizer import Tokenizer

STATIC = "sentence_transformers.models.StaticEmbedding"
TEXTS = ["The kettle boils.", "Snow fell on the roof!", "a", "word " * 30, ""]


@pytest.fixture(scope="module")
def theirs(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sentence-transformers, as it saves it."""
    backend = Tokenizer.load(tiny_folder).hf.backend_tokenizer
    rows = torch.randn(backend.get_vocab_size(), 16, generator=torch.Generator().manual_seed(1))
    module = StaticEmbedding(backend, embedding_weights=rows)
    folder = tmp_path_factory.mktemp("static") / "theirs"
    SentenceTransformer(modules=[module, Normalize()], device="cpu").save(str(folder))
    return folder


def rows_of(encoder: SentenceEncoder) -> torch.Tensor:
    embedding = encoder.backbone.get_input_embeddings()
    assert isinstance(embedding, torch.nn.Embedding)
    return embedding.weight


def by_sentence_transformers(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    return np.asarray(SentenceTransformer(str(folder), device="cpu").encode(texts, show_progress_bar=False))


def test_a_folder_of_sentence_transformers_has_the_same_vectors_here(theirs: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(theirs, device="cpu")
    expected = by_sentence_transformers(theirs, TEXTS)
    assert (encoder.dimension, encoder.depth, encoder.normalize, encoder.pooling) == (16, 0, True, "mean")
    found = encoder.encode(TEXTS)
    assert np.abs(found - found[0]).max() > 0.1
    assert np.abs(found - expected).max() < 1e-6
    encoder.save(tmp_path)
    assert np.abs(by_sentence_transformers(tmp_path, TEXTS) - expected).max() < 1e-6
    assert np.array_equal(SentenceEncoder.load(tmp_path, device="cpu").encode(TEXTS), found)
    assert np.abs(SentenceEncoder.load(tmp_path, max_length=2, device="cpu").encode(TEXTS) - found).max() > 0.1


@pytest.mark.parametrize("normalize", [True, False])
def test_model2vec_and_this_library_read_each_other(theirs: Path, normalize: bool, tmp_path: Path) -> None:
    model2vec = pytest.importorskip("model2vec")
    encoder = SentenceEncoder.load(theirs, device="cpu")
    encoder.normalize = normalize
    with torch.no_grad():  # model2vec leaves unknown tokens out
        rows_of(encoder)[encoder.tokenizer.hf.unk_token_id] = 0
    encoder.save(tmp_path / "ours")
    known = [text for text in TEXTS if text and "!" not in text]
    assert len(known) == 3
    opened = model2vec.StaticModel.from_pretrained(tmp_path / "ours")
    expected = encoder.encode(known)
    assert np.abs(opened.encode(known) - expected).max() < 1e-6
    opened.save_pretrained(tmp_path / "model2vec")
    again = SentenceEncoder.load(tmp_path / "model2vec", device="cpu")
    assert again.normalize is normalize
    (ours,), (others,) = again.encode(TEXTS[1:2]), opened.encode(TEXTS[1:2])
    assert ours @ others == pytest.approx(np.linalg.norm(ours) * np.linalg.norm(others), rel=1e-6), "one direction"
    assert np.abs(again.encode(known) - expected).max() < 1e-6
    (tmp_path / "model2vec" / "modules.json").unlink()  # as its early versions wrote it
    assert np.abs(SentenceEncoder.load(tmp_path / "model2vec", device="cpu").encode(known) - expected).max() < 1e-6


def test_fewer_rows_with_a_mapping_and_factors(theirs: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(theirs, device="cpu")
    encoder.save(tmp_path)
    rows = load_file(tmp_path / "model.safetensors")["embeddings"]
    mapping = torch.arange(len(rows)) // 2
    factors = torch.linspace(0.5, 1.5, len(rows))
    save_file({"embeddings": rows, "mapping": mapping, "weights": factors}, tmp_path / "model.safetensors")
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(about | {"model_type": "model2vec"}))
    found = rows_of(SentenceEncoder.load(tmp_path, device="cpu"))
    unknown = encoder.tokenizer.hf.unk_token_id
    assert torch.allclose(found[7], rows[3] * factors[7])
    assert (found[unknown] == 0).all()
    save_file({"embeddings": rows, "mapping": mapping + len(rows)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="mapping names rows"):
        SentenceEncoder.load(tmp_path)


@pytest.mark.slow
def test_it_is_trained_by_a_recipe_like_any_encoder(theirs: Path, sentences: list[str], tmp_path: Path) -> None:
    quick = ["training.max_steps=3", "training.batch_size=16", "training.learning_rate=0.01"]
    result = opencse.train(sentences[:64], tmp_path / "run", model=theirs, settings=quick, dev=None)
    assert result.kept == "last"
    before, after = (SentenceEncoder.load(folder, device="cpu").encode(TEXTS[:3]) for folder in (theirs, result.folder))
    assert np.abs(before - after).max() > 1e-4
    assert np.abs(by_sentence_transformers(result.folder, TEXTS[:3]) - after).max() < 1e-6


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", "x", "cannot be read"),
        ("tokenizer.json", "{}", "cannot be read"),
        (
            "modules.json",
            json.dumps([{"type": "sentence_transformers.models.StaticEmbedding", "path": "../x"}]),
            "path",
        ),
    ],
)
def test_broken_folders(theirs: Path, file: str, content: str, message: str, tmp_path: Path) -> None:
    SentenceEncoder.load(theirs, device="cpu").save(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(UserError, match=message):
        SentenceEncoder.load(tmp_path)


def test_what_a_table_cannot(theirs: Path) -> None:
    with pytest.raises(UserError, match="no pooling but mean"):
        SentenceEncoder.load(theirs, pooling="cls")
    with pytest.raises(UserError, match="2 layers cannot be kept"):
        SentenceEncoder.load(theirs, layers=2)
    with pytest.raises(UserError, match="dropout is a rate"):
        SentenceEncoder.load(theirs, dropout=1)
