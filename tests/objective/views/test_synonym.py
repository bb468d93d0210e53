"""One word replaced by a synonym, on a small dictionary of our own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.views.synonym import Synonym
from opencse.text.tokenizer import Tokenizer

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
DRAWS = 4_000


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


def begun(encoder: SentenceEncoder, **chosen: int | str) -> Synonym:
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


def spelt(tokenizer: Tokenizer, sentence: str) -> str:
    return " ".join(str(i) for i in tokenizer.encode([sentence], None)[0].tolist())


def test_a_uniform_word_of_those_with_a_synonym_and_a_uniform_synonym(encoder: SentenceEncoder) -> None:
    tokenizer = encoder.tokenizer
    found = made_of(begun(encoder), "the man and a dog by the big river", tokenizer, DRAWS)
    pattern = "the {} and a {} by the big {}"
    by_word = [
        [spelt(tokenizer, pattern.format(s, "dog", "river")) for s in SYNONYMS["man"]],
        [spelt(tokenizer, pattern.format("man", "hound", "river"))],
        [spelt(tokenizer, pattern.format("man", "dog", s)) for s in SYNONYMS["river"]],
    ]
    assert set(found) == {text for texts in by_word for text in texts}
    assert len(found) == 6
    expected = [DRAWS / 3 / len(texts) for texts in by_word for _ in texts]
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
    found = made_of(begun(encoder), before, encoder.tokenizer)
    assert spelt(encoder.tokenizer, after) in found
    assert len(found) == 3


@pytest.mark.parametrize(
    "sentence",
    ["the end", "The end", "a self-made one", "a man's", "man2", "a \N{SNOWMAN}", "[MASK] and [UNK]", "ab1 1ab", "..."],
)
def test_what_has_no_synonym_stays(sentence: str, encoder: SentenceEncoder) -> None:
    """Grammatical words, compounds, unknown words and special tokens written in the text are never replaced."""
    found = made_of(begun(encoder, count=5), sentence, encoder.tokenizer)
    assert list(found) == [spelt(encoder.tokenizer, sentence)]


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
        found = made_of(begun(encoder, count=count), sentence, encoder.tokenizer)
        assert set(found) == {spelt(encoder.tokenizer, text) for text in expected}


def test_a_synonym_that_does_not_fit_is_passed_over(encoder: SentenceEncoder) -> None:
    tokenizer = encoder.tokenizer
    sentence, one, both = "a dog by a house", "a hound by a house", "a hound by a habitation"
    sizes = [len(tokenizer.encode([text], None)[0]) for text in (sentence, one, both)]
    assert sizes[0] < sizes[1] < sizes[2] - (sizes[1] - sizes[0])  # the second synonym alone is longer than the first
    for limit in range(sizes[0], sizes[2] + 1):
        encoder.max_length = limit
        fitting = one if limit >= sizes[1] else sentence  # a word that does not fit leaves room for the other
        most = set(made_of(begun(encoder), sentence, tokenizer))
        assert most <= {spelt(tokenizer, text) for text in (fitting, "a dog by a habitation")}
        if limit < sizes[0] + sizes[2] - sizes[1]:
            assert most == {spelt(tokenizer, fitting)}
        two = set(made_of(begun(encoder, count=2), sentence, tokenizer))
        assert (spelt(tokenizer, both) in two) == (limit == sizes[2])


def test_byte_level_words_keep_their_case_and_space(byte_level: Tokenizer, encoder: SentenceEncoder) -> None:
    """At the beginning of a text a word has no space before it; the synonym has none either."""
    encoder.tokenizer = byte_level
    found = made_of(begun(encoder), "Man bites Dog, (man)", byte_level, 300)
    expected = [f"{s} bites Dog, (man)" for s in ("Chap", "Gentleman", "Guy")]
    expected += ["Man bites Hound, (man)", *(f"Man bites Dog, ({s})" for s in SYNONYMS["man"])]
    assert set(found) == {spelt(byte_level, text) for text in expected}
    found = made_of(begun(encoder), "The _river_", byte_level)  # "The" is a grammatical word all the same
    assert set(found) == {spelt(byte_level, text) for text in ("The _stream_", "The _Nile_")}


def test_a_missing_wordnet_is_reported_at_the_start(encoder: SentenceEncoder, tmp_path: Path) -> None:
    view = Synonym(Synonym.Settings(wordnet=str(tmp_path / "nowhere")))
    with pytest.raises(UserError, match=r"nowhere/data\.noun: WordNet cannot be read .*install Debian's package"):
        view.begin(encoder, batch_size=4, seed=0)


def test_wordnet_is_read_from_the_folder(encoder: SentenceEncoder, tmp_path: Path) -> None:
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{part}").write_text("1 05 n 02 dog 0 hound 0 000 | .\n" if part == "noun" else "")
    view = Synonym(Synonym.Settings(wordnet=str(tmp_path)))
    view.begin(encoder, batch_size=4, seed=0)
    assert set(made_of(view, "a dog", encoder.tokenizer)) == {spelt(encoder.tokenizer, "a hound")}
    assert (Synonym.Settings().count, Synonym.Settings().wordnet) == (1, "/usr/share/wordnet")
