"""Views that change the tokens: repetition, insertion, deletion, synonyms, guesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare
from torch import Tensor

from fuzzing import examples
from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.reading import load_masked_lm_head
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import build as build_part
from opencse.objective.views.base import (
    ChangesTokens,
    View,
)
from opencse.objective.views.substitution import MlmSubstitute, Synonym
from opencse.objective.views.words import (
    Crop,
    DeleteWords,
    InsertMask,
    InsertStopwords,
    InsertWords,
    RepeatSubwords,
    RepeatWords,
)
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer

KINDS: list[dict[str, Any]] = [
    {"kind": "repeat_subwords", "rate": 0.9},
    {"kind": "repeat_subwords", "rate": 0.9, "rule": "reference"},
    {"kind": "repeat_subwords", "redraw": "once"},
    {"kind": "repeat_words", "rate": 0.9},
    {"kind": "repeat_words", "rate": 0.9, "rule": "reference"},
    {"kind": "insert_stopwords", "rate": 0.9},
    {"kind": "insert_words", "rate": 0.9},
    {"kind": "insert_mask", "rate": 0.9},
    {"kind": "crop", "rate": 0.3},
    {"kind": "delete_words", "rate": 0.3},
    {"kind": "delete_one_word"},
    {"kind": "synonym", "count": 3},
    {"kind": "mlm_substitute", "rate": 0.5},
]
LENGTHENING = ("repeat_subwords", "repeat_words", "insert_stopwords", "insert_words", "insert_mask", "synonym")
every_view = pytest.mark.parametrize("settings", KINDS, ids=lambda s: "-".join(map(str, s.values())))

DICTIONARY = {
    "noun": "1 05 n 03 man 0 gentleman 0 chap 0 000 | .\n1 05 n 02 dog 0 hound 0 000 | .\n",
    "verb": "1 30 v 02 play 0 perform 0 000 | .\n1 05 n 02 road 0 thoroughfare 0 000 | .\n",
    "adj": "1 00 a 02 small 0 diminutive 0 000 | .\n",
    "adv": "1 02 r 02 quickly 0 rapidly 0 000 | .\n",
}
SENTENCES = [
    "a man and a dog walk quickly on a small road",
    "A small dog, in the river!",
    "dog",
    "play",
    "one man two small men",
    "",
    "an unpronounceable xylophonist with a small dog sits on the road of the man in the house by the river",
]


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wordnet")
    for part, lines in DICTIONARY.items():
        (folder / f"data.{part}").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def loaded(tiny_encoder: SentenceEncoder, tiny_folder: Path) -> SentenceEncoder:
    encoder = tiny_encoder.twin()
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, torch.nn.Embedding)
    encoder.lm_head = load_masked_lm_head(tiny_folder, words).eval()
    return encoder


@pytest.fixture
def encoder(loaded: SentenceEncoder) -> SentenceEncoder:
    return loaded.twin()


Begin = Callable[[dict[str, Any]], View]


@pytest.fixture
def begun(encoder: SentenceEncoder, wordnet: Path) -> Begin:
    """A view, begun with the encoder."""

    def make(settings: dict[str, Any]) -> View:
        view = objective(settings, wordnet).view
        view.begin(encoder, batch_size=8, seed=3)
        return view

    return make


def objective(settings: dict[str, Any], wordnet: Path) -> Objective:
    view = settings | ({"wordnet": str(wordnet)} if settings["kind"] == "synonym" else {})
    return objective_of(view=view)


def changed(view: View, texts: list[TokenisedText], seed: int) -> Sequence[Ids]:
    assert isinstance(view, ChangesTokens)
    return view.positives(texts, np.random.default_rng(seed))


def drawn(view: View, texts: list[TokenisedText], seed: int) -> list[list[int]]:
    return [ids.tolist() for ids in changed(view, texts, seed)]


@pytest.mark.slow
@every_view
def test_special_tokens_stay_around_the_text(settings: dict[str, Any], begun: Begin, encoder: SentenceEncoder) -> None:
    """Texts cut at their maximum length keep the final one, too."""
    special = {encoder.tokenizer.hf.cls_token_id, encoder.tokenizer.hf.sep_token_id, encoder.tokenizer.pad_id}
    view = begun(settings)
    different = 0
    for limit in (None, 3, 7, 12):
        texts = encoder.tokenizer.encode_words(SENTENCES, limit)
        for seed in range(20):
            for text, ids in zip(texts, changed(view, texts, seed), strict=True):
                assert ids.dtype == text.ids.dtype == np.int32
                assert (ids[0], ids[-1]) == (text.ids[0], text.ids[-1])
                assert not special & set(ids[1:-1].tolist())
                assert len(ids) >= min(3, len(text.ids))  # never without a word where there was one
                different += ids.tolist() != text.ids.tolist()
    assert different > 20


@pytest.mark.slow
@every_view
@pytest.mark.parametrize("more", [0, 1, 2])
def test_no_positive_is_longer_than_the_encoder_reads(
    settings: dict[str, Any], more: int, begun: Begin, encoder: SentenceEncoder
) -> None:
    texts = encoder.tokenizer.encode_words(SENTENCES[:1] + SENTENCES[-1:], 13)
    assert [len(text.ids) for text in texts] == [13, 13]
    encoder.max_length = 13 + more
    view = begun(settings)
    gained = {len(ids) - 13 for seed in range(60) for ids in changed(view, texts, seed)}
    assert max(gained) <= more
    if settings["kind"] in LENGTHENING:
        assert max(gained) == (min(more, 1) if settings["kind"] == "synonym" else more)  # the room is used
    encoder.max_length = 12  # a text that is too long already is not made longer
    view = begun(settings)
    assert max(len(ids) for seed in range(20) for ids in changed(view, texts, seed)) <= 13


DRAWS = 10_000
CLS, SEP = 1, 2


class Stub(SentenceEncoder):
    """All that these views read of an encoder."""

    def __init__(self, max_length: int) -> None:
        self.__dict__["max_length"] = max_length


def view(
    cls: type[RepeatSubwords] | type[RepeatWords], room: int = 512, seed: int = 0, **chosen: Any
) -> RepeatSubwords | RepeatWords:
    made = build_part(cls.Settings.model_validate(chosen))
    assert isinstance(made, cls)
    made.begin(Stub(room), batch_size=4, seed=seed)
    return made


def text(sizes: list[int], offset: int = 10) -> TokenisedText:
    """Words of so many sub-words, all ids different, between [CLS] and [SEP]."""
    numbers = [-1, *(word for word, size in enumerate(sizes) for _ in range(size)), -1]
    ids = [CLS, *range(offset, offset + sum(sizes)), SEP]
    return TokenisedText(np.array(ids, dtype=np.int32), np.array(numbers, dtype=np.int16))


def added(made: NDArray[np.int32], given_text: TokenisedText) -> list[int]:
    """The places of the text's ids that are there twice; the rest must be there once, all in order."""
    counts = Counter(made.tolist())
    assert set(counts) == set(given_text.ids.tolist())
    assert max(counts.values()) <= 2
    return [place for place, i in enumerate(given_text.ids.tolist()) if counts[i] == 2]


def largest(kind: str, rule: str, rate: float, length: int, words: int) -> int:
    """Largest dup_len, from the paper's eq. 4 and from the description of the authors' code."""
    if rule == "paper":
        n = length - 2 if kind == "subwords" else words
        return min(n, max(2, int(rate * n)))
    if kind == "subwords":
        k = int(rate * length)
        return 0 if k <= 0 else min(10, k) - 1
    return min(10, words, max(2, int(rate * words))) - 1


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 4, 6, 12, 32])
@pytest.mark.parametrize("rule", ["reference", "paper"])
def test_how_many_subwords_are_repeated(rule: str, length: int) -> None:
    """10,000 draws at rate .32: uniform up to the rule's largest number."""
    made = view(RepeatSubwords, rule=rule).positives([text([1] * (length - 2))] * DRAWS, np.random.default_rng(length))
    counts = Counter(len(ids) - length for ids in made)
    most = largest("subwords", rule, 0.32, length, length - 2)
    assert set(counts) == set(range(most + 1))
    assert not most or chisquare([counts[k] for k in range(most + 1)]).pvalue > 1e-3


sizes_of_words = st.lists(st.integers(1, 3), max_size=12)


@given(sizes_of_words, st.floats(0.05, 1), st.integers(0, 99), st.sampled_from(["paper", "reference"]))
@examples(150)
def test_a_chosen_subword_stands_twice_in_place(sizes: list[int], rate: float, seed: int, rule: str) -> None:
    sentence = text(sizes)
    made = view(RepeatSubwords, rate=rate, rule=rule).positives([sentence], np.random.default_rng(seed))[0]
    twice = added(made, sentence)
    expected = [i for place, i in enumerate(sentence.ids.tolist()) for _ in range(2 if place in twice else 1)]
    assert made.tolist() == expected
    assert {0, len(sentence.ids) - 1}.isdisjoint(twice)


@given(sizes_of_words, st.floats(0.05, 1), st.integers(0, 99), st.sampled_from(["paper", "reference"]))
@examples(150)
def test_a_repeated_word_occurs_twice_with_all_its_ids(sizes: list[int], rate: float, seed: int, rule: str) -> None:
    sentence = text(sizes)
    made = view(RepeatWords, rate=rate, rule=rule).positives([sentence], np.random.default_rng(seed))[0]
    twice = added(made, sentence)
    assert sentence.words is not None
    chosen = {int(sentence.words[place]) for place in twice}
    expected = [CLS]
    at = 10
    for word, size in enumerate(sizes):
        expected += list(range(at, at + size)) * (2 if word in chosen else 1)
        at += size
    assert made.tolist() == [*expected, SEP]


@pytest.mark.parametrize("cls", [RepeatSubwords, RepeatWords])
def test_once_is_the_same_for_a_text_at_every_step(cls: type[RepeatSubwords] | type[RepeatWords]) -> None:
    texts = [text([1] * 12, offset=100 * i) for i in range(1, 1_001)]
    random = np.random.default_rng(1)
    first = [ids.tolist() for ids in view(cls, seed=4, redraw="once").positives(texts, random)]
    assert random.random() == np.random.default_rng(1).random()  # the step's draws are not used up
    again = view(cls, seed=4, redraw="once").positives(texts[::-1], np.random.default_rng(2))[::-1]
    assert [ids.tolist() for ids in again] == first
    for other in (view(cls, seed=5, redraw="once"), view(cls, seed=4)):
        made = other.positives(texts, np.random.default_rng(1))
        assert sum(a == b.tolist() for a, b in zip(first, made, strict=True)) < 500, (
            "mostly those with nothing repeated"
        )
    # The texts' draws are independent of each other and follow the rule.
    counts = Counter(len(ids) - 14 for ids in first)
    assert chisquare([counts[k] for k in range(4)]).pvalue > 1e-3


SENTENCE = "a man plays an unpronounceable guitar by the river at night"  # 11 words: int(.32 * 11) = 3
SOME_DRAWS = 3_000


@pytest.fixture
def sentence(encoder: SentenceEncoder) -> TokenisedText:
    return encoder.tokenizer.encode_words([SENTENCE], None)[0]


def spelt(word: str, tokenizer: Tokenizer) -> list[int]:
    ids: list[int] = tokenizer.encode([word], None)[0][1:-1].tolist()
    return ids


def inserted(made: list[int], text: TokenisedText, known: set[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """What stands after each word that something was inserted after; all else must be there as it was."""
    assert text.words is not None
    found: dict[int, tuple[int, ...]] = {}
    at = 0
    for place, i in enumerate(text.ids.tolist()):
        if place and text.words[place] != text.words[place - 1] and text.words[place - 1] >= 0:
            for length in sorted({len(ids) for ids in known}, reverse=True):
                rest = text.ids[place:].tolist()
                if tuple(made[at : at + length]) in known and len(made) - at - length >= len(rest):
                    found[int(text.words[place - 1])] = tuple(made[at : at + length])
                    at += length
                    break
        assert made[at] == i
        at += 1
    assert at == len(made)
    return found


def check_law(found: list[dict[int, tuple[int, ...]]]) -> None:
    counts = Counter(len(words) for words in found)
    assert set(counts) == {0, 1, 2, 3}
    assert chisquare([counts[k] for k in range(4)]).pvalue > 1e-3
    places = Counter(word for words in found for word in words)
    assert sorted(places) == list(range(11))
    assert chisquare([places[word] for word in range(11)]).pvalue > 1e-3


def test_masks_stand_after_drawn_words(encoder: SentenceEncoder, sentence: TokenisedText) -> None:
    view = InsertMask(InsertMask.Settings())
    view.begin(encoder, batch_size=4, seed=0)
    mask = int(encoder.tokenizer.hf.mask_token_id)
    made = view.positives([sentence] * SOME_DRAWS, np.random.default_rng(0))
    check_law([inserted(ids.tolist(), sentence, {(mask,)}) for ids in made])


def test_words_of_the_corpus_are_those_that_were_drawn(encoder: SentenceEncoder, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("red red red blue\nred blue red red\n")
    corpus = tokenise(Source(str(path)), encoder.tokenizer, 12, words=True, cache=tmp_path / "cache")
    view = InsertWords(InsertWords.Settings(rate=1.0, source="corpus"))
    view.begin(encoder, batch_size=4, seed=0)
    examples = view.examples(corpus, np.random.default_rng(3))
    assert examples.tolist() == [[[0, 0], [0, 0]], [[1, 0], [1, 0]]]
    red, blue = (tuple(spelt(word, encoder.tokenizer)) for word in ("red", "blue"))
    drawn = Counter(tuple(piece.tolist()) for piece in view.pieces)
    assert set(drawn) == {red, blue}
    assert chisquare([drawn[red], drawn[blue]], [7_500, 2_500]).pvalue > 1e-3, "as often as they are in the text"
    text = encoder.tokenizer.encode_words(["a man plays"], None)[0]
    found = [inserted(ids.tolist(), text, {red, blue}) for ids in view.positives([text] * 50, np.random.default_rng(0))]
    assert {piece for each in found for piece in each.values()} == {red, blue}
    again = InsertWords(InsertWords.Settings(rate=1.0, source="corpus"))
    again.examples(corpus, np.random.default_rng(3))
    assert all(np.array_equal(a, b) for a, b in zip(view.pieces, again.pieces, strict=True)), "the same after a stop"


@pytest.mark.parametrize("word", ["☃", "", " "])
def test_a_stop_word_the_tokenizer_does_not_know_is_refused(encoder: SentenceEncoder, word: str) -> None:
    view = InsertStopwords(InsertStopwords.Settings(words=("the", word)))
    with pytest.raises(UserError) as caught:
        view.begin(encoder, batch_size=4, seed=0)
    assert f"does not know the stop-word {word!r}; set view.words" in str(caught.value)
    assert "\n" not in str(caught.value)


def kept(view: ChangesTokens, sizes: list[int], seed: int) -> list[int]:
    """The words that are left; each must be whole, in order, between the special tokens."""
    sentence = text(sizes)
    assert sentence.words is not None
    made = view.positives([sentence], np.random.default_rng(seed))[0].tolist()
    words = sorted({int(sentence.words[sentence.ids.tolist().index(i)]) for i in made} - {-1})
    expected = [i for i, w in zip(sentence.ids.tolist(), sentence.words.tolist(), strict=True) if w in {-1, *words}]
    assert made == expected
    return words


some_words = st.lists(st.integers(1, 3), min_size=1, max_size=25)


@given(some_words, st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.99]), st.integers(0, 999))
@examples(200)
def test_a_crop_is_a_run_of_words(sizes: list[int], rate: float, seed: int) -> None:
    left = kept(Crop(Crop.Settings(rate=rate)), sizes, seed)
    assert left == list(range(left[0], left[0] + len(left)))
    n = len(sizes)
    assert len(left) == max(1, round((1 - rate) * n))
    assert abs(len(left) - (1 - rate) * n) <= 0.5 or len(left) == 1


@given(some_words, st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.99]), st.integers(0, 999))
@examples(200)
def test_a_share_of_the_words_is_deleted(sizes: list[int], rate: float, seed: int) -> None:
    n = len(sizes)
    assert len(kept(DeleteWords(DeleteWords.Settings(rate=rate)), sizes, seed)) == max(1, n - round(rate * n))


@pytest.mark.parametrize("sides", ["positives", "anchors", "both"])
def test_the_words_of_either_side_are_left_out(sides: str) -> None:
    view = DeleteWords(DeleteWords.Settings.model_validate({"rate": 0.5, "sides": sides}))
    sentence = text([1] * 10)
    lengths = {
        "positives": len(view.positives([sentence], np.random.default_rng(0))[0]),
        "anchors": len(view.changed_anchors([sentence], np.random.default_rng(0))[0]),
    }
    assert lengths == {side: 7 if sides in (side, "both") else 12 for side in ("positives", "anchors")}


SYNONYMS = {
    "man": ("chap", "gentleman", "guy"),
    "dog": ("hound",),
    "river": ("stream", "Nile"),
    "the": ("never",),
    "unk": ("never",),
    "mask": ("never",),
    "ab": ("never",),
    "house": ("habitation",),
    "self": ("never",),
}


def synonyms(encoder: SentenceEncoder, **chosen: int | str) -> Synonym:
    view = Synonym(Synonym.Settings.model_validate(chosen), SYNONYMS)
    view.begin(encoder, batch_size=4, seed=0)
    return view


def made_of(view: Synonym, sentence: str, tokenizer: Tokenizer, draws: int = 60) -> Counter[str]:
    """The texts whose ids were made, of ``sentence``; each is spelt as the tokenizer would spell that text."""
    text = tokenizer.encode_words([sentence], None)[0]
    found: Counter[str] = Counter()
    for ids in view.positives([text] * draws, np.random.default_rng(0)):
        found[" ".join(str(i) for i in ids.tolist())] += 1
    return found


def spelt_ids(tokenizer: Tokenizer, sentence: str) -> str:
    return " ".join(str(i) for i in tokenizer.encode([sentence], None)[0].tolist())


def test_a_uniform_word_of_those_with_a_synonym_and_a_uniform_synonym(encoder: SentenceEncoder) -> None:
    tokenizer = encoder.tokenizer
    found = made_of(synonyms(encoder), "the man and a dog by the big river", tokenizer, SOME_DRAWS)
    pattern = "the {} and a {} by the big {}"
    by_word = [
        [spelt_ids(tokenizer, pattern.format(s, "dog", "river")) for s in SYNONYMS["man"]],
        [spelt_ids(tokenizer, pattern.format("man", "hound", "river"))],
        [spelt_ids(tokenizer, pattern.format("man", "dog", s)) for s in SYNONYMS["river"]],
    ]
    assert set(found) == {text for texts in by_word for text in texts}
    assert len(found) == 6
    expected = [SOME_DRAWS / 3 / len(texts) for texts in by_word for _ in texts]
    assert chisquare([found[text] for texts in by_word for text in texts], expected).pvalue > 1e-3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a 'man', she said", "a 'guy', she said"),
        ("a man.", "a guy."),
        ('"man" she said', '"guy" she said'),
        ("a --man-- runs", "a --guy-- runs"),
    ],
)
def test_punctuation_stuck_to_a_word_is_kept(before: str, after: str, encoder: SentenceEncoder) -> None:
    found = made_of(synonyms(encoder), before, encoder.tokenizer)
    assert spelt_ids(encoder.tokenizer, after) in found
    assert len(found) == 3


@pytest.mark.parametrize(
    "sentence",
    ["the end", "The end", "a self-made one", "a man's", "man2", "a \N{SNOWMAN}", "[MASK] and [UNK]", "ab1 1ab", "..."],
)
def test_what_has_no_synonym_stays(sentence: str, encoder: SentenceEncoder) -> None:
    """Grammatical words, compounds, unknown words and special tokens written in the text are never replaced."""
    found = made_of(synonyms(encoder, count=5), sentence, encoder.tokenizer)
    assert list(found) == [spelt_ids(encoder.tokenizer, sentence)]


def test_several_words(encoder: SentenceEncoder) -> None:
    """As many as there are, none twice; at most ``count``."""
    sentence = "dog dog runs dog"
    texts = {
        1: {"hound dog runs dog", "dog hound runs dog", "dog dog runs hound"},
        2: {"hound hound runs dog", "hound dog runs hound", "dog hound runs hound"},
        3: {"hound hound runs hound"},
        4: {"hound hound runs hound"},
    }
    for count, expected in texts.items():
        found = made_of(synonyms(encoder, count=count), sentence, encoder.tokenizer)
        assert set(found) == {spelt_ids(encoder.tokenizer, text) for text in expected}


def test_a_missing_wordnet_is_reported_at_the_start(encoder: SentenceEncoder, tmp_path: Path) -> None:
    view = Synonym(Synonym.Settings(wordnet=str(tmp_path / "nowhere")))
    with pytest.raises(UserError, match=r"nowhere/data\.noun: WordNet cannot be read .*install Debian's package"):
        view.begin(encoder, batch_size=4, seed=0)


@pytest.fixture
def guessing(encoder: SentenceEncoder, tiny_folder: Path) -> SentenceEncoder:
    """The tiny model with guesses that are far from uniform."""
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, torch.nn.Embedding)
    words.weight.data *= 10
    encoder.lm_head = load_masked_lm_head(tiny_folder, words)
    with torch.no_grad():  # special tokens are the likeliest guess everywhere
        encoder.lm_head.lm.get_output_embeddings().bias[:5] = 50
    return encoder.train()


@pytest.fixture
def texts(guessing: SentenceEncoder, sentences: list[str]) -> list[TokenisedText]:
    made = guessing.tokenizer.encode_words([*sentences[:30], "the sea", "a small dog, by the sea"], 20)
    assert len({len(text.ids) for text in made}) > 2  # so padding is there
    return made


def substituting(encoder: SentenceEncoder, **chosen: float | str) -> MlmSubstitute:
    view = MlmSubstitute(MlmSubstitute.Settings.model_validate(chosen))
    view.begin(encoder, batch_size=4, seed=0)
    return view


@torch.no_grad()
def guesses(encoder: SentenceEncoder, masked: list[int]) -> Tensor:
    """(length, vocabulary) probabilities of one text without padding, special tokens left out, by hand."""
    assert encoder.lm_head is not None
    with encoder.without_dropout():
        hidden = encoder.backbone(input_ids=torch.tensor([masked])).last_hidden_state[0]
        logits = encoder.lm_head(hidden).double()
    logits[:, [0, 1, 2, 3, 4]] = -torch.inf
    probabilities: Tensor = logits.softmax(dim=1)
    return probabilities


def test_every_token_at_once_becomes_its_best_guess(guessing: SentenceEncoder, texts: list[TokenisedText]) -> None:
    mask = int(guessing.tokenizer.hf.mask_token_id)
    made = substituting(guessing, rate=1.0, pick="best").positives(texts, np.random.default_rng(0))
    differing = 0
    for text, ids in zip(texts, made, strict=True):
        inside = range(1, len(text.ids) - 1)
        masked = [mask if place in inside else i for place, i in enumerate(text.ids.tolist())]
        best = guesses(guessing, masked).argmax(dim=1)
        assert ids.tolist() == [int(best[p]) if p in inside else i for p, i in enumerate(text.ids.tolist())]
        differing += len(set(ids[1:-1].tolist())) > 1
    assert differing > 10  # a guess depends on its place and its text


def test_the_rate_is_the_share_of_tokens_replaced(guessing: SentenceEncoder, texts: list[TokenisedText]) -> None:
    view, replaced, tokens = substituting(guessing, pick="best"), 0, 0
    for seed in range(10):
        for text, ids in zip(texts, view.positives(texts, np.random.default_rng(seed)), strict=True):
            tokens += len(ids) - 2
            replaced += int((ids != text.ids).sum())
    assert abs(replaced - 0.15 * tokens) < 4 * (0.15 * 0.85 * tokens) ** 0.5


def test_a_sample_follows_the_softmax(guessing: SentenceEncoder) -> None:
    text = guessing.tokenizer.encode_words(["water"], None)[0]
    assert len(text.ids) == 3
    draws = 5_000
    made = substituting(guessing, rate=1.0).positives([text] * draws, np.random.default_rng(0))
    counts = Counter(int(ids[1]) for ids in made)
    expected = guesses(guessing, [2, 4, 3])[1].numpy() * draws
    common = np.flatnonzero(expected > 20)
    assert len(common) > 5
    observed = [counts[int(i)] for i in common]
    rest = draws - sum(observed)
    assert chisquare([*observed, rest], [*expected[common], draws - expected[common].sum()]).pvalue > 1e-3
    assert not set(counts) & {0, 1, 2, 3, 4}


def test_what_it_cannot_work_without(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.tokenizer.hf.mask_token = None
    objective = Objective(MlmSubstitute(), negatives=[InBatch()])
    with pytest.raises(UserError, match=r"mlm_substitute puts guesses .*, and the tokenizer of m has no mask token"):
        objective.check_encoder(encoder, "m")
