"""Plain transformers folders: loaded whole, pooled by the mean, or refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.backbone import dropout_rates, position_limit
from opencse.modules.pooling import Pooling
from opencse.text import sample

pytestmark = pytest.mark.slow

TEXTS = [
    "A dog runs over the green field.",
    "Rain.",
    "",
    "The two men were sitting there, and nobody said a word: not one.",
]
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
ARCHITECTURES = [
    "bert",
    "bert-masked-lm",
    "distilbert",
    "roberta",
    "mpnet",
    "modernbert",
    "electra",
]


@pytest.fixture(scope="module")
def bpe_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer of RoBERTa's kind: padding has id 1, and no longest length is stated."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaTokenizerFast

    folder = tmp_path_factory.mktemp("bpe")
    bpe = ByteLevelBPETokenizer()
    bpe.train(
        [str(sample.TRAIN)],
        vocab_size=500,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        show_progress=False,
    )
    bpe.save_model(str(folder))
    RobertaTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    return folder


def model_of(architecture: str, vocabulary: int) -> Any:  # a transformers model
    import transformers as t

    sizes = SIZES | {"vocab_size": vocabulary}
    if architecture.startswith("bert"):
        config = t.BertConfig(**sizes, max_position_embeddings=40)
        if architecture == "bert-masked-lm":
            return t.BertForMaskedLM(config)
        return t.BertModel(config)
    if architecture == "roberta":
        return t.RobertaModel(t.RobertaConfig(**sizes, max_position_embeddings=42, pad_token_id=1))
    if architecture == "mpnet":
        return t.MPNetModel(t.MPNetConfig(**sizes, max_position_embeddings=42, pad_token_id=1))
    if architecture == "electra":
        return t.ElectraModel(t.ElectraConfig(**sizes, embedding_size=16, max_position_embeddings=40))
    if architecture == "distilbert":
        small: dict[str, Any] = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}
        return t.DistilBertModel(t.DistilBertConfig(vocab_size=vocabulary, max_position_embeddings=40, **small))
    ids: dict[str, Any] = {
        "pad_token_id": 0,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    return t.ModernBertModel(t.ModernBertConfig(**sizes, max_position_embeddings=40, local_attention=8, **ids))


@pytest.fixture(scope="module")
def make(tiny_folder: Path, bpe_tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """From an architecture's name to a folder with random weights; made once each."""
    from transformers import AutoTokenizer

    made: dict[str, Path] = {}

    def folder_of(architecture: str) -> Path:
        if architecture not in made:
            folder = tmp_path_factory.mktemp(architecture)
            source = bpe_tokenizer if architecture in ("roberta", "mpnet") else tiny_folder
            for name in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(source / name, folder)
            torch.manual_seed(7)
            model_of(architecture, len(AutoTokenizer.from_pretrained(folder))).save_pretrained(folder)
            made[architecture] = folder
        return made[architecture]

    return folder_of


# Longest input.


@pytest.mark.parametrize(
    ("architecture", "limit"),
    [
        ("roberta", 40),
        ("distilbert", 40),
    ],
)
def test_position_limit_is_tight(architecture: str, limit: int, make: Any) -> None:
    encoder = SentenceEncoder.load(make(architecture), device="cpu")
    assert position_limit(encoder.backbone, 10**9) == limit
    assert position_limit(encoder.backbone, 7) == 7
    assert encoder.max_length == limit
    ids = encoder.tokenize(["dog " * 200])
    assert len(ids[0]) == limit
    assert np.isfinite(encoder.encode("dog " * 200)).all()
    one_more = encoder.tokenizer.pad(encoder.tokenizer.encode(["dog " * 200], limit + 1))
    assert one_more.input_ids.shape == (1, limit + 1)
    with pytest.raises((IndexError, RuntimeError)):
        encoder.embed(one_more)
    with pytest.raises(UserError, match=rf"max_length {limit + 1} is beyond the position table \({limit}\)"):
        SentenceEncoder.load(make(architecture), max_length=limit + 1, device="cpu")
    assert SentenceEncoder.load(make(architecture), max_length=limit, device="cpu").max_length == limit


# Dropout.


@pytest.mark.parametrize("architecture", ["distilbert", "modernbert"])
def test_dropout_override_is_the_models_dropout(architecture: str, make: Any) -> None:
    def two_passes(rate: float) -> tuple[torch.Tensor, torch.Tensor]:
        encoder = SentenceEncoder.load(make(architecture), dropout=rate, device="cpu").train()
        assert set(dropout_rates(encoder.backbone.config).values()) == {rate}
        tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS))
        with torch.no_grad():
            return encoder.embed(tokens), encoder.embed(tokens)

    a, b = two_passes(0.5)
    assert bool(((a - b).abs().amax(dim=1) > 0.01).all()), "every text has two different vectors"
    a, b = two_passes(0.0)
    assert torch.equal(a, b)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_the_mean_of_the_hidden_states_of_a_layer(architecture: str, make: Any) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = make(architecture)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    for layers in (1, 2) if architecture == "modernbert" else (0, 1, 2):  # which divides by its depth when it is built
        rows = []
        for text in TEXTS:
            inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=40)
            with torch.no_grad():
                hidden = model(**inputs, output_hidden_states=True).hidden_states[layers][0]
                if architecture == "modernbert" and layers < 2:  # its last LayerNorm is in the last hidden state alone
                    hidden = model.final_norm(hidden)
            rows.append(hidden.numpy().mean(axis=0))
        encoder = SentenceEncoder.load(folder, layers=layers, device="cpu")
        assert (encoder.depth, encoder.pooling, encoder.training) == (layers, Pooling.MEAN, False)
        assert np.abs(rows[0] - rows[1]).max() > 1e-3
        assert np.abs(encoder.encode(TEXTS) - np.stack(rows)).max() < 1e-6
    assert np.array_equal(SentenceEncoder.load(folder, device="cpu").encode(TEXTS), encoder.encode(TEXTS))
