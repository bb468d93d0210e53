"""A vocabulary learned from text: the same wherever it is learned, BERT's conventions, honest about what it lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers import json_in
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
    assert sorted(tokenizer.all_special_ids) == [0, 1, 2, 3, 4]  # none of the ##letters is special
    assert tokenizer.model_max_length == 77
    ids = tokenizer("The cat [MASK] sat.")["input_ids"]
    assert (ids[0], ids[-1], ids.count(4)) == (2, 3, 1)
    assert not {0, 1, 2, 3} & set(ids[1:-1])


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


def test_a_tiny_size_and_a_text_without_characters_are_refused() -> None:
    with pytest.raises(UserError, match="a vocabulary of 99 pieces is too small; take at least 100"):
        train_wordpiece(["some text"], 99)
    for texts in ([], [" \t\n", "　"], ["\x00\x01"]):
        with pytest.raises(UserError, match="holds no character to learn a vocabulary from"):
            train_wordpiece(texts, 200)


LARGER = Shape(layers=1, hidden=64, heads=2, inner=64, positions=48, dropout=0.0)


@pytest.mark.parametrize("new_layers", [0, 1])
def test_the_last_layers_are_drawn_again(tmp_path: Path, sentences: list[str], new_layers: int) -> None:
    tokenizer = train_wordpiece(sentences[:100], 200, max_length=48)
    create_backbone(tokenizer, LARGER.model_copy(update={"layers": 2}), tmp_path / "model", 1)
    told = [renew_backbone(str(tmp_path / "model"), tmp_path / str(seed), new_layers, seed=seed) for seed in (3, 4)]
    assert told[0] == ["as it was", "layers drawn again: 2"][new_layers]
    before, a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "3", "4"))
    assert a.keys() == before.keys()
    moved = {key for key in a if not torch.equal(a[key], before[key])}
    layers = {int(key.split("encoder.layer.")[1].split(".")[0]) + 1 for key in moved}
    assert layers == set(range(3 - new_layers, 3))
    assert bool(new_layers) == any(not torch.equal(a[key], b[key]) for key in a)


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
    config = json_in(tmp_path / "a" / "config.json")
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "max_position_embeddings")
    assert [config[name] for name in sizes] == [len(tokenizer), 64, 1, 64, 48]
    assert Tokenizer.load(tmp_path / "a").vocabulary_size == len(tokenizer)
