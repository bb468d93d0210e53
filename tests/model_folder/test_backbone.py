"""Plain transformers folders: loaded whole, pooled by the mean, or refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.backbone import dropout_rates, load_backbone, position_limit
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
    "bert-without-pooler",
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
        return t.BertModel(config, add_pooling_layer=architecture == "bert")
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


def by_hand(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    """The mean of transformers' own last hidden states, text by text."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=40)
        with torch.no_grad():
            hidden = model(**inputs).last_hidden_state[0]
        rows.append(hidden.numpy().mean(axis=0))
    return np.stack(rows)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_the_mean_of_transformers_hidden_states(architecture: str, make: Any) -> None:
    folder = make(architecture)
    encoder = SentenceEncoder.load(folder, device="cpu")
    assert encoder.pooling is Pooling.MEAN
    assert len(encoder.dense) == 0
    assert not encoder.normalize
    assert not encoder.training
    expected = by_hand(folder, TEXTS)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    assert np.abs(encoder.encode(TEXTS) - expected).max() < 1e-6


@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_first_layers_alone_give_that_layers_vectors(architecture: str, layers: int, make: Any) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = make(architecture)
    if architecture == "modernbert" and layers == 0:  # transformers divides by the depth when it is built
        with pytest.raises(UserError, match="no transformers model can be loaded"):
            SentenceEncoder.load(folder, layers=layers, device="cpu")
        return
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in TEXTS:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=40)
        with torch.no_grad():
            hidden = model(**inputs, output_hidden_states=True).hidden_states[layers][0]
            if architecture == "modernbert" and layers < 2:  # its last LayerNorm is within the last hidden state alone
                hidden = model.final_norm(hidden)
        rows.append(hidden.numpy().mean(axis=0))
    encoder = SentenceEncoder.load(folder, layers=layers, device="cpu")
    assert encoder.depth == layers
    assert np.abs(encoder.encode(TEXTS) - np.stack(rows)).max() < 1e-6
    whole = SentenceEncoder.load(folder, device="cpu").encode(TEXTS)
    assert (np.abs(encoder.encode(TEXTS) - whole).max() > 1e-3) == (layers < 2)


def test_more_layers_than_there_are_cannot_be_kept(make: Any) -> None:
    with pytest.raises(UserError, match="3 layers cannot be kept of a model that has 2"):
        SentenceEncoder.load(make("bert"), layers=3)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loading_twice_is_bit_equal_and_leaves_no_random_weights(architecture: str, make: Any) -> None:
    torch.manual_seed(1)
    first = SentenceEncoder.load(make(architecture), device="cpu")
    torch.manual_seed(2)
    second = SentenceEncoder.load(make(architecture), device="cpu")
    assert first.state_dict().keys() == second.state_dict().keys()
    assert not [name for name in first.state_dict() if "pooler" in name]
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    assert np.array_equal(first.encode(TEXTS), second.encode(TEXTS))


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_training_goes_on_after_encode(architecture: str, make: Any) -> None:
    encoder = SentenceEncoder.load(make(architecture), device="cpu")
    encoder.encode(TEXTS)
    encoder.train()
    encoder(encoder.tokenizer.pad(encoder.tokenize(TEXTS))).sentence.square().sum().backward()
    assert all(p.grad is not None for p in encoder.parameters() if p.requires_grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_compute_in_float32(make: Any, tmp_path: Path, dtype: torch.dtype) -> None:
    from transformers import AutoModel

    folder = shutil.copytree(make("bert"), tmp_path / "half")
    AutoModel.from_pretrained(folder, dtype=dtype).save_pretrained(folder)
    assert str(dtype).removeprefix("torch.") in (folder / "config.json").read_text()
    encoder = SentenceEncoder.load(folder, device="cpu")
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    difference = np.abs(encoder.encode(TEXTS) - SentenceEncoder.load(make("bert"), device="cpu").encode(TEXTS)).max()
    assert 0 < difference < 0.05


# Longest input.


@pytest.mark.parametrize(("architecture", "limit"), [("roberta", 40), ("mpnet", 40), ("bert", 40), ("distilbert", 40)])
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


def test_the_tokenizers_limit_is_only_a_default(make: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = shutil.copytree(make("bert"), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.model_max_length = 16
    tokenizer.save_pretrained(folder)
    assert SentenceEncoder.load(folder, device="cpu").max_length == 16
    assert SentenceEncoder.load(folder, max_length=24, device="cpu").max_length == 24


@pytest.mark.parametrize("length", [-1, 0, 1, 2])
def test_max_length_leaves_room_for_text(make: Any, length: int) -> None:
    with pytest.raises(UserError, match=f"max_length {length} leaves no room for text next to the 2 special tokens"):
        SentenceEncoder.load(make("bert"), max_length=length, device="cpu")


def test_a_model_without_position_table_has_the_tokenizers_limit(tiny_folder: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, XLNetConfig, XLNetModel

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.model_max_length = int(1e30)
    tokenizer.save_pretrained(tmp_path)
    XLNetModel(XLNetConfig(vocab_size=len(tokenizer), d_model=32, n_layer=1, n_head=2, d_inner=48)).save_pretrained(
        tmp_path
    )
    encoder = SentenceEncoder.load(tmp_path, device="cpu")
    assert encoder.encode("dog " * 500).shape == (32,)
    assert len(encoder.tokenize(["dog " * 500])[0]) > 500


# Dropout.


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "modernbert"])
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


def test_every_dropout_module_gets_the_rate(make: Any) -> None:
    for architecture in ("bert", "distilbert", "roberta", "electra"):
        modules = load_backbone(make(architecture), dropout=0.3).modules()
        rates = [module.p for module in modules if isinstance(module, torch.nn.Dropout)]
        assert len(rates) >= 4
        assert set(rates) == {0.3}, architecture


def test_dropout_is_the_configurations_by_default(make: Any) -> None:
    encoder = SentenceEncoder.load(make("bert"), device="cpu")
    assert dropout_rates(encoder.backbone.config) == {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


@pytest.mark.parametrize("rate", [-0.1, 1.0, 7])
def test_a_dropout_that_is_no_rate_is_refused(make: Any, rate: float) -> None:
    with pytest.raises(UserError, match="dropout is a rate from 0 to below 1"):
        SentenceEncoder.load(make("bert"), dropout=rate, device="cpu")
