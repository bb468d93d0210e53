"""A vocabulary learned from text: the same wherever it is learned, BERT's conventions, honest about what it lacks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from opencse.errors import UserError
from opencse.making.backbone import Shape, create_backbone, renew_backbone
from opencse.making.vocabulary import train_wordpiece
from opencse.text.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHILD = """
import json, sys
from pathlib import Path
from opencse.making.vocabulary import train_wordpiece
texts = Path(sys.argv[1]).read_text(encoding="utf-8").split("\\n")
print(json.dumps(train_wordpiece(texts, int(sys.argv[2])).get_vocab()))
"""


@pytest.mark.slow
def test_two_processes_learn_the_same_vocabulary(sentences: list[str], tmp_path: Path) -> None:
    """Hash maps are seeded anew in every process; a small text has ties between pairs at every turn."""
    texts = sentences[:400]
    (tmp_path / "text.txt").write_text("\n".join(texts), encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "text.txt"), "700"], stdout=subprocess.PIPE, text=True
    )
    here = train_wordpiece(texts, 700).get_vocab()
    assert train_wordpiece(texts, 700).get_vocab() == here
    printed, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert json.loads(printed) == here
    assert train_wordpiece(sentences[400:800], 700).get_vocab() != here


def test_special_pieces_come_first_and_stand_around_a_text(sentences: list[str]) -> None:
    tokenizer = train_wordpiece(sentences[:300], 400, max_length=77)
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3, 4]) == SPECIAL
    named = (tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.cls_token_id)
    assert (*named, tokenizer.sep_token_id, tokenizer.mask_token_id) == (0, 1, 2, 3, 4)
    assert sorted(tokenizer.all_special_ids) == [0, 1, 2, 3, 4]  # none of the ##letters is special
    assert tokenizer.model_max_length == 77
    ids = tokenizer("The cat sat.")["input_ids"]
    assert (ids[0], ids[-1]) == (2, 3)
    assert not {0, 1, 2, 3, 4} & set(ids[1:-1])
    pair = tokenizer("a cat", "a dog")
    inner = [len(tokenizer.tokenize(text)) for text in ("a cat", "a dog")]
    assert pair["token_type_ids"] == [0] * (inner[0] + 2) + [1] * (inner[1] + 1)
    assert tokenizer("a [MASK] b")["input_ids"].count(4) == 1


@pytest.mark.slow
def test_words_that_recur_become_pieces_and_decode_to_the_text(sentences: list[str]) -> None:
    tokenizer = train_wordpiece(sentences, 1_000)
    assert tokenizer.tokenize("the water and the house") == ["the", "water", "and", "the", "house"]
    pieces = tokenizer.tokenize("waterhouses")
    assert len(pieces) > 1
    assert all(piece.startswith("##") for piece in pieces[1:])
    assert "".join(piece.removeprefix("##") for piece in pieces) == "waterhouses"
    for text in sentences[:50]:
        letters = [c for c in tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) if c != " "]
        assert "".join(letters) == text.lower().replace(" ", "")


def test_case_and_accents_are_dropped_by_default() -> None:
    texts = ["Café crème naïve", "cafe creme NAIVE"] * 20
    lower = train_wordpiece(texts, 200)
    assert lower.tokenize("CAFÉ Crème") == lower.tokenize("cafe creme") == ["cafe", "creme"]
    assert not [piece for piece in lower.get_vocab() if piece != piece.lower() and piece not in SPECIAL]
    cased = train_wordpiece(texts, 200, lower_case=False)
    assert cased.tokenize("Café") == ["Café"]
    assert cased.tokenize("cafe") == ["cafe"]


def test_a_rare_character_makes_its_word_unknown_and_a_common_one_does_not() -> None:
    texts = ["common words again and again"] * 1_000
    rare = train_wordpiece([*texts, "ж"], 200)
    assert rare.tokenize("again ж andж and") == ["again", "[UNK]", "[UNK]", "and"]
    assert not [piece for piece in rare.get_vocab() if "ж" in piece]
    common = train_wordpiece([*texts, *["ж"] * 10], 200)
    assert common.tokenize("ж andж") == ["ж", "and", "##ж"]


@pytest.mark.slow
def test_the_size_is_an_upper_bound_and_is_reached(sentences: list[str]) -> None:
    for size in (100, 150, 1_000):
        tokenizer = train_wordpiece(sentences, size)
        ids = sorted(tokenizer.get_vocab().values())
        assert ids == list(range(size)), "every id has a piece, and no piece is beyond"
        assert len(tokenizer) == tokenizer.vocab_size == size
    few = train_wordpiece(["only few words here"], 5_000)
    assert len(few) < 100
    assert few.tokenize("few words") == ["few", "words"]


def test_an_alphabet_beyond_the_vocabulary_keeps_its_most_frequent() -> None:
    many = [chr(code) for code in range(0x4E00, 0x4E00 + 300)]
    texts = [f"{many[i]} " * (400 - i) for i in range(300)]
    tokenizer = train_wordpiece(texts, 120)
    assert len(tokenizer) == 5 + 2 * (120 // 4)
    assert tokenizer.tokenize(many[0] + many[29] + many[30]) == [many[0], many[29], "[UNK]"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("猫は家で眠る", ["猫", "は", "家", "て", "眠", "る"]),
        ("Кошка спит дома", ["кошка", "спит", "дома"]),
    ],
)
def test_other_scripts(text: str, pieces: list[str]) -> None:
    tokenizer = train_wordpiece([text, f"{text}。"] * 30, 200)
    assert tokenizer.tokenize(text) == pieces
    assert tokenizer.tokenize("。") == ["。"]


def test_saved_and_loaded_it_gives_the_same_ids(sentences: list[str], tmp_path: Path) -> None:
    trained = train_wordpiece(sentences[:300], 500, lower_case=False)
    trained.save_pretrained(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    texts = [*sentences[:40], "Ünïcode ÀND Ж, [MASK]!", "a  b\tc", "don't", "日本"]
    assert [ids.tolist() for ids in loaded.encode(texts, 12)] == [
        trained(text, truncation=True, max_length=12)["input_ids"] for text in texts
    ]
    assert loaded.fingerprint() == Tokenizer(trained).fingerprint()


def test_a_tiny_size_and_a_text_without_characters_are_refused() -> None:
    with pytest.raises(UserError, match="a vocabulary of 99 pieces is too small; take at least 100"):
        train_wordpiece(["some text"], 99)
    for texts in ([], [" \t\n", "　"], ["\x00\x01"]):
        with pytest.raises(UserError, match="holds no character to learn a vocabulary from"):
            train_wordpiece(texts, 200)


SHAPE = Shape(layers=1, hidden=16, heads=2, inner=24, positions=20)
LARGER = Shape(layers=1, hidden=64, heads=2, inner=64, positions=48, dropout=0.0)
TEXTS = ["a few words to learn a vocabulary from", "and a few more of them"] * 40


@pytest.mark.parametrize(
    "size",
    [
        {"hidden": 30, "heads": 4},
        {"heads": 0},
    ],
)
def test_a_shape_that_cannot_be_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="hidden 30 is not a multiple of heads 4" if "hidden" in size else None):
        Shape.model_validate(size)


@pytest.mark.parametrize(
    "new_layers",
    [
        0,
        1,
    ],
)
def test_the_last_layers_are_drawn_again(tmp_path: Path, sentences: list[str], new_layers: int) -> None:
    tokenizer = train_wordpiece(sentences[:100], 200, max_length=48)
    create_backbone(tokenizer, LARGER.model_copy(update={"layers": 2}), tmp_path / "model", 1)
    facts = [
        renew_backbone(str(tmp_path / "model"), tmp_path / name, new_layers, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert facts[0] == ["as it was", "layers drawn again: 2", "layers drawn again: 1, 2"][new_layers]
    before, a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "a", "b", "c"))
    assert a.keys() == before.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    moved = {key for key in a if not torch.equal(a[key], before[key])}
    layers = {int(key.split("encoder.layer.")[1].split(".")[0]) + 1 for key in moved}
    assert layers == set(range(3 - new_layers, 3))
    assert bool(new_layers) == any(not torch.equal(a[key], c[key]) for key in a)


def test_a_new_backbone_is_a_function_of_its_seed(sentences: list[str], tmp_path: Path) -> None:
    tokenizer = train_wordpiece(sentences[:100], 200, max_length=48)
    torch.manual_seed(9)
    drawn = torch.random.get_rng_state()
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        create_backbone(tokenizer, LARGER, tmp_path / name, seed)
    assert torch.equal(torch.random.get_rng_state(), drawn), "the caller's random state is left alone"
    weights = {name: load_file(tmp_path / name / "model.safetensors") for name in "abc"}
    assert all(torch.equal(weights["a"][key], weights["b"][key]) for key in weights["a"])
    key = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(weights["a"][key], weights["c"][key])
    assert float(weights["a"][key].std()) == pytest.approx(0.02, rel=0.1)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    assert [config[name] for name in sizes] == [len(tokenizer), 64, 1, 2, 64]
    assert [config[name] for name in ("max_position_embeddings", "hidden_dropout_prob", "pad_token_id")] == [48, 0.0, 0]
    assert Tokenizer.load(tmp_path / "a").vocabulary_size == len(tokenizer)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").write_text("a file in the way")
    with pytest.raises(UserError, match="the new backbone cannot be written") as caught:
        create_backbone(tokenizer, LARGER, tmp_path / "a", 1)
    assert "\n" not in str(caught.value)
