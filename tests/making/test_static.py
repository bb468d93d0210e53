"""The encoder of counted words, against its own formulas computed from the texts another way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.making import static
from opencse.making.cooccurrence import count_pairs, ppmi
from opencse.making.static import (
    Static,
    StaticSettings,
    build,
    check,
    leading_vectors,
    text_means,
    whitening,
)
from opencse.progress import Silent
from opencse.text.corpus import Corpus, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer

D = 16
Array = NDArray[np.float64]
SMALL = StaticSettings(dimension=D, layers=1, inner=24, positions=32)


def static_encoder(source: Source, tokenizer: Tokenizer, settings: StaticSettings) -> SentenceEncoder:
    check(settings, tokenizer)
    return build(tokenise(source, tokenizer, settings.positions), tokenizer, settings).encoder


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, sentences: list[str]) -> Source:
    """Six hundred sentences, and at the end a word that stands in none of them, alone in its text."""
    path = tmp_path_factory.mktemp("text") / "a.txt"
    seen = {token for text in sentences[:600] for token in tokenizer.hf.tokenize(text)}
    lone = min(token for token in tokenizer.hf.get_vocab() if token.isalpha() and token.isascii() and token not in seen)
    path.write_text("\n".join([*sentences[:600], lone]) + "\n")
    return Source(str(path))


@pytest.fixture(scope="module")
def corpus(source: Source, tokenizer: Tokenizer) -> Corpus:
    return tokenise(source, tokenizer, SMALL.positions)


@pytest.fixture(scope="module")
def made(corpus: Corpus, tokenizer: Tokenizer) -> Static:
    return build(corpus, tokenizer, SMALL)


@dataclass(frozen=True)
class Words:
    """What the test itself knows of the text."""

    rows: list[list[int]]
    times: Counter[int]
    special: set[int]

    def weight(self, piece: int) -> float:
        return SMALL.sif / (SMALL.sif + self.times[piece] / self.times.total())


@pytest.fixture(scope="module")
def words(source: Source, tokenizer: Tokenizer) -> Words:
    hf = tokenizer.hf
    special = {hf.pad_token_id, hf.unk_token_id, hf.cls_token_id, hf.sep_token_id, hf.mask_token_id}
    encoded = hf([row[0] for row in source.read().rows], truncation=True, max_length=SMALL.positions)["input_ids"]
    rows = [[i for i in row if i not in special] for row in encoded]
    return Words(rows, Counter(i for row in rows for i in row), special)


@pytest.fixture(scope="module")
def vectors(made: Static) -> Array:
    return table(made.encoder)


def table(encoder: SentenceEncoder) -> Array:
    weights: Array = encoder.backbone.get_input_embeddings().weight.detach().double().numpy()  # type: ignore[operator]
    return weights


def cosines(a: Array, b: Array) -> Array:
    made: Array = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return made


def piece_vectors(words: Words, size: int) -> Array:
    """u_t of every piece, from loops and dense matrices."""
    counts = np.zeros((size, size))
    for row in words.rows:
        for k in range(1, SMALL.window + 1):
            for a, b in zip(row, row[k:], strict=False):
                counts[a, b] += 1 / k
                counts[b, a] += 1 / k
    rows = counts.sum(axis=1)
    context = rows**SMALL.smoothing / (rows**SMALL.smoothing).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts / (rows[:, None] * context))
    positive = csr_array(np.where(counts > 0, np.maximum(information, 0), 0).astype(np.float32))
    # The spectrum of so small a text is flat: only the same projection gives the same last vectors.
    return leading_vectors(positive, D, np.random.default_rng(SMALL.seed))[0].astype(np.float64)


@pytest.mark.slow
def test_vectors_of_sentences_are_the_whitened_weighted_average(
    made: Static, words: Words, vectors: Array, source: Source, tokenizer: Tokenizer
) -> None:
    """The method written out, one sentence after another.

    Whitening leaves a rotation free, so the products of sentences are compared: (s - m) T T^T (s' - m) needs no T.
    """
    u = piece_vectors(words, tokenizer.vocabulary_size)
    averages = np.array([np.mean([words.weight(i) * u[i] for i in row], axis=0) for row in words.rows])
    mean, covariance = averages.mean(axis=0), np.cov(averages.T)
    bar = sum(words.weight(i) * n for i, n in words.times.items()) / words.times.total()
    own = np.array([np.mean([words.weight(i) for i in row]) for row in words.rows])
    plain = averages - own[:, None] / bar * mean
    expected = plain @ np.linalg.solve(covariance, plain.T)
    ours = np.array([np.mean([vectors[i] for i in row], axis=0) for row in words.rows])
    products = ours @ ours.T
    whole = slice(0, 600)  # the lone word at the end has no neighbour, so no vector
    scale = products[whole, whole].trace() / expected[whole, whole].trace()
    np.testing.assert_allclose(products[whole, whole] / scale, expected[whole, whole], atol=0.02)
    assert expected[whole, whole].std() > 1

    # The same of what `encode` gives: LayerNorm takes off the mean over coordinates, the rest keeps its direction.
    texts = [row[0] for row in source.read().rows][whole]
    centred = ours - ours.mean(axis=1, keepdims=True)
    same = cosines(made.encoder.encode(texts).astype(np.float64), centred[whole])
    assert np.median(same) > 0.999
    assert same.min() > 0.99


@pytest.mark.slow
def test_at_full_size_the_direction_is_the_average(tokenizer: Tokenizer, sentences: list[str], tmp_path: Path) -> None:
    path = tmp_path / "more.txt"
    path.write_text("\n".join(sentences[:1_000]) + "\n")
    encoder = static_encoder(Source(str(path)), tokenizer, StaticSettings(dimension=256, positions=64))
    sums = np.array([table(encoder)[ids].sum(axis=0) for ids in encoder.tokenize(sentences[:100])])
    assert np.median(cosines(encoder.encode(sentences[:100]).astype(np.float64), sums)) > 0.997


def test_the_bert_computes_the_closed_form(source: Source, tokenizer: Tokenizer, corpus: Corpus) -> None:
    texts = [row[0] for row in source.read().rows][:50]
    for layers in (0, 1, 2):
        encoder = build(corpus, tokenizer, SMALL.model_copy(update={"layers": layers})).encoder
        e = table(encoder)
        spread = e.var(axis=1, keepdims=True)
        hidden = (e - e.mean(axis=1, keepdims=True)) / np.sqrt(1 + (2 * layers + 1) * spread / 0.5)
        expected = np.array([hidden[ids].mean(axis=0) for ids in encoder.tokenize(texts)])
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)


def test_layers_change_nothing_at_the_start(source: Source, tokenizer: Tokenizer, corpus: Corpus) -> None:
    texts = [row[0] for row in source.read().rows][:50]
    encoders = [build(corpus, tokenizer, SMALL.model_copy(update={"layers": n})).encoder for n in (0, 1, 2)]
    assert [encoder.depth for encoder in encoders] == [0, 1, 2]
    none, one, two = (encoder.encode(texts).astype(np.float64) for encoder in encoders)
    assert cosines(none, one).min() > 0.995
    assert cosines(none, two).min() > 0.99
    assert [len(list(encoder.backbone.parameters())) for encoder in encoders] == [5, 21, 37]


def test_a_layer_can_be_trained(made: Static, tokenizer: Tokenizer) -> None:
    state = {name: tensor.clone() for name, tensor in made.encoder.state_dict().items()}
    ids = made.encoder.tokenize(["the bread rises in the sun"])
    vector = made.encoder(tokenizer.pad(ids)).sentence
    (vector**2).sum().backward()
    moved = {name for name, p in made.encoder.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    made.encoder.zero_grad(set_to_none=True)
    assert {n for n in moved if n.endswith("output.dense.weight")} == {
        "backbone.encoder.layer.0.attention.output.dense.weight",
        "backbone.encoder.layer.0.output.dense.weight",
    }
    drawn = [t for n, t in state.items() if n.endswith(("query.weight", "intermediate.dense.weight"))]
    assert len(drawn) == 2
    assert all(0.01 < float(t.std()) < 0.03 for t in drawn), "BERT's initialisation"


def test_whitening_gives_the_identity_as_covariance(made: Static, words: Words, corpus: Corpus) -> None:
    real = np.array([i not in words.special for i in range(len(table(made.encoder)))])
    generator = np.random.default_rng(0)
    raw = generator.standard_normal((len(real), D)) * np.linspace(0.1, 3, D)
    means = text_means(corpus, np.arange(len(corpus)), raw, real)
    expected = np.array([np.mean([raw[i] for i in row], axis=0) for row in words.rows if row])
    np.testing.assert_allclose(means, expected)
    mean, whitener = whitening(means)
    white = (means - mean) @ whitener
    np.testing.assert_allclose(np.cov(white.T), np.eye(D), atol=1e-9)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-9)


def test_whitening_does_not_blow_up_an_empty_direction() -> None:
    vectors = np.random.default_rng(0).standard_normal((200, 3)) * [1.0, 0.5, 0.0]
    mean, whitener = whitening(vectors)
    assert np.abs(whitener).max() < 150
    assert np.allclose(((vectors - mean) @ whitener)[:, 0], 0, atol=1e-9)


def test_size_of_the_coordinates(words: Words, vectors: Array) -> None:
    mean_square = sum(n * (vectors[i] ** 2).mean() for i, n in words.times.items()) / words.times.total()
    assert mean_square**0.5 == pytest.approx(0.06, rel=1e-4)


def test_pieces_without_a_neighbour_have_the_zero_vector(
    made: Static, words: Words, vectors: Array, tokenizer: Tokenizer
) -> None:
    met = {i for row in words.rows if len(row) > 1 for i in row}
    for piece in range(len(vectors)):
        assert vectors[piece].any() == (piece in met), tokenizer.hf.convert_ids_to_tokens(piece)
    assert words.special.isdisjoint(met)
    assert set(words.times) - met, "a piece that was seen, but alone"
    assert len(vectors) - len(words.special) > len(words.times), "a piece that was never seen"
    assert made.pieces == len(met)


def test_pairs_are_counted_once(made: Static, words: Words) -> None:
    near = {
        tuple(sorted((a, b)))
        for row in words.rows
        for k in range(1, SMALL.window + 1)
        for a, b in zip(row, row[k:], strict=False)
    }
    assert any(a == b for row in words.rows for a, b in pairwise(row))
    assert made.pairs == len(near)


def test_a_text_of_unseen_pieces_has_the_zero_vector(made: Static, words: Words, tokenizer: Tokenizer) -> None:
    unseen = [i for i in range(tokenizer.vocabulary_size) if i not in words.times and i not in words.special]
    tokens = tokenizer.hf.convert_ids_to_tokens(unseen)
    texts = [next(t for t in tokens if not t.startswith("##")), "漢", ""]
    assert not made.encoder.encode(texts).any()
    assert np.isfinite(made.encoder.encode(texts, normalize_embeddings=True)).all()
    assert np.isfinite(made.encoder.similarity(texts, ["the bread"])).all()


@pytest.mark.slow
def test_the_seed_decides(corpus: Corpus, source: Source, tokenizer: Tokenizer, made: Static) -> None:
    state = torch.get_rng_state()
    again = static_encoder(source, tokenizer, SMALL)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"
    for name, weight in made.encoder.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name]), name
    other = build(corpus, tokenizer, SMALL.model_copy(update={"seed": 7})).encoder
    query = "backbone.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(other.state_dict()[query], again.state_dict()[query])


def test_whitening_takes_a_random_sample_of_a_large_text(
    corpus: Corpus, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[NDArray[np.int64]] = []

    def recorded(
        corpus: Corpus, rows: NDArray[np.int64], table: NDArray[np.floating], real: NDArray[np.bool_]
    ) -> NDArray[np.floating]:
        taken.append(rows)
        return text_means(corpus, rows, table, real)

    monkeypatch.setattr(static, "_SAMPLE", 100)
    monkeypatch.setattr(static, "text_means", recorded)
    for seed in (1, 1, 2):
        build(corpus, tokenizer, SMALL.model_copy(update={"seed": seed}))
    first, again, other = (set(rows.tolist()) for rows in taken)
    assert first == again != other
    assert len(first) == len(taken[0]) == 100
    assert max(first) > 400
    assert first < set(range(len(corpus)))


def test_it_loads_with_the_same_vectors(made: Static, source: Source, tmp_path: Path) -> None:
    texts = [*(row[0] for row in source.read().rows[:20]), "", "one two three " * 60]
    expected = made.encoder.encode(texts)
    made.encoder.save(tmp_path / "m", card="card")
    loaded = SentenceEncoder.load(tmp_path / "m", device="cpu")
    assert loaded.max_length == SMALL.positions
    np.testing.assert_array_equal(loaded.encode(texts), expected)

    from transformers import AutoModel, AutoTokenizer

    plain, cut = AutoModel.from_pretrained(tmp_path / "m"), AutoTokenizer.from_pretrained(tmp_path / "m")
    batch = cut(texts, padding=True, truncation=True, return_tensors="pt")
    assert batch["input_ids"].shape[1] == SMALL.positions, "the tokenizer knows of the positions"
    with torch.inference_mode():
        states = plain.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    np.testing.assert_allclose((states * mask).sum(1) / mask.sum(1), expected, atol=1e-6)


def test_sentence_transformers_gives_the_same_vectors(made: Static, source: Source, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    texts = [*(row[0] for row in source.read().rows[:20]), "", "one two three " * 60]
    made.encoder.save(tmp_path / "m", card="card")
    theirs = library.SentenceTransformer(str(tmp_path / "m"), device="cpu").encode(texts)
    np.testing.assert_allclose(theirs, made.encoder.encode(texts), atol=1e-6)


def test_the_tokenizer_given_is_left_alone(made: Static, tokenizer: Tokenizer) -> None:
    assert tokenizer.hf.model_max_length == 64
    assert made.encoder.tokenizer.hf.model_max_length == SMALL.positions


class Bars(Silent):
    """Keeps (what, in all, done) of every bar."""

    def __init__(self) -> None:
        self.bars: list[tuple[str, int, int]] = []

    def start(self, what: str, total: int, done: int = 0) -> None:
        self.bars.append((what, total, done))

    def advance(self, done: int, note: str = "") -> None:
        self.bars[-1] = (*self.bars[-1][:2], done)


def test_leading_vectors_are_numpys() -> None:
    """On a falling spectrum of a matrix that is not symmetric, so that left and right vectors are told apart."""
    draw = np.random.default_rng(1)
    left, right = (np.linalg.qr(draw.standard_normal((120, 120)))[0] for _ in range(2))
    dense = (left * 0.9 ** np.arange(120)) @ right.T
    found, values = leading_vectors(csr_array(dense.astype(np.float32)), 10, np.random.default_rng(0))
    np.testing.assert_allclose(values, 0.9 ** np.arange(10), rtol=1e-4)
    assert np.linalg.svd(found.T @ left[:, :10])[1].min() > 0.999
    assert np.linalg.svd(found.T @ right[:, :10])[1].min() < 0.9
    again = leading_vectors(csr_array(dense.astype(np.float32)), 10, np.random.default_rng(0))[0]
    np.testing.assert_array_equal(found, again)


def test_progress_tells_of_every_stage(corpus: Corpus, tokenizer: Tokenizer) -> None:
    told = Bars()
    build(corpus, tokenizer, SMALL, told)
    assert [what for what, _, _ in told.bars] == ["counting pairs", "factorising"]
    assert all(done == total >= 1 for _, total, done in told.bars)


def test_all_texts_of_a_pair_are_read(tmp_path: Path, tokenizer: Tokenizer, sentences: list[str]) -> None:
    path = tmp_path / "pairs.tsv"
    rows = [(a, b) for a, b in zip(sentences[:100], sentences[100:200], strict=True) if "\t" not in a + b]
    path.write_text("anchor\tpositive\n" + "".join(f"{a}\t{b}\n" for a, b in rows).replace('"', ""))
    flat = tmp_path / "flat.txt"
    flat.write_text("".join(f"{a}\n{b}\n" for a, b in rows).replace('"', ""))
    both, single = (table(static_encoder(Source(str(p)), tokenizer, SMALL)) for p in (path, flat))
    np.testing.assert_allclose(both, single, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "heads 3 does not divide dimension 16; take heads 2"),
        ({"heads": 99}, "heads 99 does not divide dimension 16; take heads 16"),
        ({"dimension": 6400}, "dimension 6400 is above the"),
        ({"positions": 3}, "positions 3 leaves no room for a pair beside 2 special tokens"),
    ],
)
def test_settings_that_do_not_fit(source: Source, tokenizer: Tokenizer, changes: dict[str, int], message: str) -> None:
    settings = StaticSettings(**(SMALL.model_dump() | changes))
    with pytest.raises(UserError, match=message) as told:
        static_encoder(source, tokenizer, settings)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b c\n" * 100, r"too little text \(3 different pieces, where at least 16 are needed\); give more"),
        ("a b c d e f g h i j k l m n o p q r\n", r"\(1 texts with words, where at least 17"),
        ("".join(f"{letter}\n" for letter in "abcdefghijklmnopqrstuvwxyz"), r"\(0 independent word vectors"),
    ],
)
def test_too_little_text(text: str, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "little.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as told:
        static_encoder(Source(str(path)), tokenizer, SMALL)
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)


def test_the_bert_has_the_sizes_asked_for(corpus: Corpus, tokenizer: Tokenizer) -> None:
    settings = SMALL.model_copy(update={"layers": 2, "heads": 4, "dropout": 0.2})
    config = build(corpus, tokenizer, settings).encoder.backbone.config
    assert (config.num_hidden_layers, config.num_attention_heads, config.intermediate_size) == (2, 4, 24)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.2, 0.2)
    assert (config.hidden_size, config.max_position_embeddings, config.layer_norm_eps) == (D, 32, 0.5)


def test_window_and_smoothing_are_heeded(made: Static, corpus: Corpus, tokenizer: Tokenizer) -> None:
    narrow = build(corpus, tokenizer, SMALL.model_copy(update={"window": 1}))
    assert narrow.pairs < made.pairs
    plain = build(corpus, tokenizer, SMALL.model_copy(update={"smoothing": 1.0}))
    assert plain.pairs == made.pairs
    assert not np.allclose(table(plain.encoder), table(made.encoder), atol=1e-3)


def test_heads_follow_the_dimension() -> None:
    assert [StaticSettings(dimension=d).attention_heads for d in (2, 64, 200, 256, 448)] == [1, 1, 2, 4, 7]
    assert StaticSettings(heads=2).attention_heads == 2


def test_plain_average_has_the_factors_themselves_as_word_vectors(corpus: Corpus, tokenizer: Tokenizer) -> None:
    plain = SMALL.model_copy(update={"sif": float("inf"), "whiten": False})
    words_of = table(build(corpus, tokenizer, plain).encoder)
    real = np.ones(len(words_of), dtype=np.bool_)
    real[tokenizer.hf.all_special_ids] = False
    counts = count_pairs(corpus, real, window=plain.window)
    factors, _ = leading_vectors(ppmi(counts, plain.smoothing), D, np.random.default_rng(plain.seed))
    met = np.linalg.norm(words_of, axis=1) > 0
    assert met.sum() > 100
    scale = np.linalg.norm(words_of[met]) / np.linalg.norm(factors[met])
    assert np.allclose(words_of[met], scale * factors[met], atol=1e-5)
