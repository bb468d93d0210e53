"""Tables of word vectors: sentence-transformers, model2vec and this library read each other's folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors

import opencse
from helpers import json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.static import StaticEncoder
from opencse.errors import UserError
from opencse.model_folder.table import UNLIMITED, table_rows
from opencse.text.tokenizer import Tokenizer

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


UNKNOWN = ["漢字 in a text", "漢字", "", "a 漢 b 字 c", "word " * 600, "x" * 4000, "The kettle boils. " * 9]


def backend_of(kind: str) -> Any:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, pre_tokenizers, processors, trainers

    model, trainer = {
        "WordPiece": (models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer),
        "WordLevel": (models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer),
        "BPE": (models.BPE(unk_token="[UNK]"), trainers.BpeTrainer),
        "BPE without unknown": (models.BPE(), trainers.BpeTrainer),
        "Unigram": (models.Unigram(), trainers.UnigramTrainer),
    }[kind]
    special = ["[PAD]", "[CLS]"] + ([] if kind == "BPE without unknown" else ["[UNK]"])
    more = {"unk_token": "[UNK]"} if kind == "Unigram" else {}
    backend = Backend(model)
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    corpus = ["the kettle boils a word in a text snow fell on the roof b c x " * 3]
    backend.train_from_iterator(corpus, trainer(vocab_size=90, special_tokens=special, show_progress=False, **more))
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    return backend


@pytest.mark.parametrize(
    ("kind", "normalize", "how"),
    [
        ("WordPiece", True, "plain"),
        ("WordLevel", False, "mapping"),
        ("BPE", True, "int8"),
        ("BPE without unknown", False, "by hand"),
        ("Unigram", False, "max_length 3"),
        ("WordPiece", False, "max_length null"),
        ("WordLevel", False, "no max_length"),
    ],
)
def test_a_model2vec_folder_has_the_vectors_of_model2vec(kind: str, normalize: bool, how: str, tmp_path: Path) -> None:
    from model2vec import StaticModel

    backend, random = backend_of(kind), np.random.default_rng(3)
    size = backend.get_vocab_size()
    more: dict[str, Any] = {}
    rows = random.normal(size=(size, 8)).astype(np.float32)
    if how == "mapping":
        rows = rows[: size // 2]
        mapping, factors = random.integers(0, size // 2, size), random.uniform(0.5, 2, size).astype(np.float32)
        more = {"token_mapping": mapping, "weights": factors}
    if how == "int8":
        rows = np.rint(20 * rows).astype(np.int8)
    if how.startswith("max_length"):
        more = {"max_length": 3 if "3" in how else None}
    config = {} if how == "by hand" else {"model_type": "model2vec"}
    model = StaticModel(rows, backend, config, normalize=normalize, **more)
    model.save_pretrained(tmp_path / "theirs")
    if kind == "WordPiece":
        (tmp_path / "theirs" / "modules.json").unlink()
    if how == "no max_length":
        about = json_in(tmp_path / "theirs" / "config.json")
        del about["max_length"]
        (tmp_path / "theirs" / "config.json").write_text(json.dumps(about))
    texts = [*TEXTS, *UNKNOWN]
    expected = StaticModel.from_pretrained(tmp_path / "theirs").encode(texts)
    encoder = SentenceEncoder.load(tmp_path / "theirs", device="cpu")
    found = encoder.encode(texts)
    tolerance = np.array([1e-5 if len(text) < 200 else 2e-4 for text in texts])  # numpy adds up 512 rows in float32
    assert (np.abs(found - expected).max(axis=1) < tolerance).all()
    assert np.ptp(found, axis=0).max() > 0.1
    light = StaticEncoder.load(tmp_path / "theirs")
    np.testing.assert_array_equal(light.encode(texts), found)
    assert light.fingerprint() == encoder.fingerprint()
    assert light.tokenizer.unknown_id == encoder.tokenizer.unknown_id
    encoder.save(tmp_path / "ours")
    again = SentenceEncoder.load(tmp_path / "ours", device="cpu")
    assert again.max_length == encoder.max_length
    assert (np.abs(again.encode(texts) - expected).max(axis=1) < tolerance).all()
    assert (
        np.abs(StaticModel.from_pretrained(tmp_path / "ours").encode(texts) - expected).max(axis=1) < tolerance
    ).all()
    if normalize:  # sentence-transformers counts unknown tokens, which changes the length, and truncates by ids alone
        short = [row for row, text in enumerate(texts) if len(text) < 200]
        counted = by_sentence_transformers(tmp_path / "ours", [texts[row] for row in short])
        assert np.abs(counted - expected[short]).max() < 1e-5


def test_a_static_embedding_truncates_where_its_tokenizer_does(theirs: Path, tmp_path: Path) -> None:
    texts = ["a b c d e f", "漢 a b 漢 c", "the word " * 300]
    encoder = SentenceEncoder.load(theirs, device="cpu")
    assert encoder.max_length == UNLIMITED
    whole = encoder.encode(texts)
    assert np.abs(whole - by_sentence_transformers(theirs, texts)).max() < 1e-5
    for side in ("right", "left"):
        folder = shutil.copytree(theirs, tmp_path / side)
        file = next(folder.rglob("tokenizer.json"))
        backend = Backend.from_file(str(file))
        backend.enable_truncation(3, direction=side)
        backend.save(str(file))
        short = SentenceEncoder.load(folder, device="cpu")
        np.testing.assert_array_equal(StaticEncoder.load(folder).encode(texts), short.encode(texts))
        expected = by_sentence_transformers(folder, texts)
        assert np.abs(short.encode(texts) - expected).max() < 1e-5
        assert np.abs(expected - whole).max() > 0.1
        short.save(tmp_path / "ours")
        assert np.abs(by_sentence_transformers(tmp_path / "ours", texts) - expected).max() < 1e-5
        assert np.abs(SentenceEncoder.load(tmp_path / "ours", device="cpu").encode(texts) - expected).max() < 1e-5


@pytest.mark.parametrize("kept", [True, False])
def test_the_names_of_special_tokens_in_a_text_are_read_as_its_tokenizer_does(
    kept: bool, theirs: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(theirs, tmp_path / "model")
    file = next(folder.rglob("tokenizer.json"))
    stated = json_in(file)
    if not kept:
        stated["added_tokens"] = []
        del stated["model"]["vocab"]["[PAD]"]
        stated["model"]["vocab"] = {word: number for number, word in enumerate(stated["model"]["vocab"])}
        weights = load_file(next(folder.rglob("model.safetensors")))
        save_file({name: rows[1:].contiguous() for name, rows in weights.items()}, next(folder.rglob("*.safetensors")))
    file.write_text(json.dumps(stated), encoding="utf-8")
    texts = ["The kettle [UNK] boils.", "[PAD]", "snow[PAD]fell", "a"]
    expected = by_sentence_transformers(folder, texts)
    encoder = SentenceEncoder.load(folder, device="cpu")
    assert np.abs(encoder.encode(texts) - expected).max() < 1e-5
    light = opencse.load(folder)
    np.testing.assert_array_equal(light.encode(texts), encoder.encode(texts))
    assert light.fingerprint() == encoder.fingerprint()
    encoder.save(tmp_path / "ours")
    again = opencse.load(tmp_path / "ours")
    assert np.abs(again.encode(texts) - expected).max() < 1e-5
    assert np.abs(by_sentence_transformers(tmp_path / "ours", texts) - expected).max() < 1e-5
    assert again.fingerprint() == encoder.fingerprint()


WORDS = {"[UNK]": 0, "tea": 1, "kettle": 2, "[PAD]": 3}
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2) + 1


def word_level(words: dict[str, int], length: int | None = None) -> Backend:
    backend = Backend(models.WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(single="tea $A", special_tokens=[("tea", 1)])
    if length is not None:
        backend.enable_truncation(length, direction="left")
    return backend


@pytest.fixture
def model2vec_folder(tmp_path: Path) -> Path:
    word_level(WORDS).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    return tmp_path


BROKEN_TABLES: dict[str, dict[str, Any]] = {
    "no rows": {},
    "too few rows": {"embeddings": ROWS[:3]},
    "rows that are not there": {"embeddings": ROWS, "mapping": np.array([0, 1, 2, 9])},
    "weights of two dimensions": {"embeddings": ROWS, "weights": np.ones((4, 2))},
}


@pytest.mark.parametrize("broken", BROKEN_TABLES)
def test_broken_tables_are_refused_in_a_line(broken: str, model2vec_folder: Path) -> None:
    with pytest.raises(UserError, match=f"{model2vec_folder}: (holds no table|the tokenizer has 4 ids, the table is)"):
        table_rows(model2vec_folder, model2vec_folder, BROKEN_TABLES[broken])
