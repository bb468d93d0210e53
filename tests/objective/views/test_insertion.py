"""Stop-words and [MASK] after drawn words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.views.insertion import InsertMask, InsertStopwords, InsertWords
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import TokenisedText, Tokenizer
from opencse.text.words import FUNCTION_WORDS, find_words

SENTENCE = "a man plays an unpronounceable guitar by the river at night"  # 11 words: int(.32 * 11) = 3
DRAWS = 3_000


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


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
    made = view.positives([sentence] * DRAWS, np.random.default_rng(0))
    check_law([inserted(ids.tolist(), sentence, {(mask,)}) for ids in made])


def test_stop_words_stand_after_drawn_words(encoder: SentenceEncoder, sentence: TokenisedText) -> None:
    """Each is drawn on its own; one of several sub-words stays in one piece."""
    words = ("zq", "xu", "yet")  # not in the sentence; of one sub-word or of two
    view = InsertStopwords(InsertStopwords.Settings(words=words))
    view.begin(encoder, batch_size=4, seed=0)
    known = {tuple(spelt(word, encoder.tokenizer)) for word in words}
    assert len({len(ids) for ids in known}) == 2
    made = view.positives([sentence] * DRAWS, np.random.default_rng(1))
    found = [inserted(ids.tolist(), sentence, known) for ids in made]
    check_law(found)
    which = Counter(ids for each in found for ids in each.values())
    assert chisquare([which[ids] for ids in known]).pvalue > 1e-3
    assert any(len(set(each.values())) == 3 for each in found)


def test_the_built_in_stop_words(encoder: SentenceEncoder, sentence: TokenisedText) -> None:
    view = InsertStopwords(InsertStopwords.Settings())
    view.begin(encoder, batch_size=4, seed=0)
    assert [ids.tolist() for ids in view.pieces] == [spelt(word, encoder.tokenizer) for word in FUNCTION_WORDS]
    assert {ids.dtype for ids in view.pieces} == {np.dtype(np.int32)}


def test_words_of_the_text_stand_after_drawn_words(encoder: SentenceEncoder, sentence: TokenisedText) -> None:
    """How many there are follows the law; what is inserted is drawn from all words alike, in one piece."""
    view = InsertWords(InsertWords.Settings())
    view.begin(encoder, batch_size=4, seed=0)
    made = view.positives([sentence] * DRAWS, np.random.default_rng(2))
    assert sentence.words is not None
    pieces = [tuple(spelt(word, encoder.tokenizer)) for word in SENTENCE.split()]
    assert len({len(ids) for ids in pieces}) > 1
    singles = [piece for piece in pieces if len(piece) == 1]
    assert len(set(singles)) == len(singles) > 5
    counts: Counter[tuple[int, ...]] = Counter()
    for ids in made:
        more = Counter(ids.tolist())
        more.subtract(sentence.ids.tolist())
        assert min(more.values()) >= 0, "nothing is lost"
        counts.update({piece: more[piece[0]] for piece in singles})
    assert chisquare([counts[piece] for piece in singles]).pvalue > 1e-3


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


def test_a_stop_word_that_does_not_fit_is_left_out(encoder: SentenceEncoder, sentence: TokenisedText) -> None:
    """Of those drawn, in the order drawn, as many as there is room for."""
    words = ("yet", "xu")
    sizes = [len(spelt(word, encoder.tokenizer)) for word in words]
    assert sizes[0] != sizes[1]
    encoder.max_length = len(sentence.ids) + max(sizes)
    view = InsertStopwords(InsertStopwords.Settings(words=words))
    view.begin(encoder, batch_size=4, seed=0)
    made = view.positives([sentence] * 400, np.random.default_rng(1))
    known = {tuple(spelt(word, encoder.tokenizer)) for word in words}
    found = [inserted(ids.tolist(), sentence, known) for ids in made]
    assert {sum(len(ids) for ids in each.values()) for each in found} == {0, *sizes}


@pytest.mark.parametrize("word", ["☃", "", " "])
def test_a_stop_word_the_tokenizer_does_not_know_is_refused(encoder: SentenceEncoder, word: str) -> None:
    view = InsertStopwords(InsertStopwords.Settings(words=("the", word)))
    with pytest.raises(UserError) as caught:
        view.begin(encoder, batch_size=4, seed=0)
    assert f"does not know the stop-word {word!r}; set view.words" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_without_mask_is_refused(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.tokenizer.hf.mask_token = None
    with pytest.raises(UserError, match="no mask token, which the insert_mask view needs; choose another"):
        InsertMask(InsertMask.Settings()).begin(encoder, batch_size=4, seed=0)


def test_byte_level_stop_words_carry_their_space(byte_level: Tokenizer, tiny_folder: Path) -> None:
    """Inside a sentence a word of such a tokenizer begins with its space."""
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.tokenizer = byte_level
    view = InsertStopwords(InsertStopwords.Settings(rate=1.0, words=("the",)))
    view.begin(encoder, batch_size=4, seed=0)
    text = byte_level.encode_words(["a dog runs"], None)[0]
    expected = {"a dog runs", "a the dog runs", "a dog the runs", "a dog runs the", "a the dog the runs"}
    seen = set()
    for ids in view.positives([text] * 200, np.random.default_rng(0)):
        made = str(byte_level.hf.decode(ids[1:-1]))
        again = byte_level.encode([made], None)[0]
        assert again.tolist() == ids.tolist()  # as if the longer text had been tokenised
        seen.add(made)
    assert expected < seen, sorted(seen)
    assert text.words is not None
    assert len(find_words(text.words)) == 3
