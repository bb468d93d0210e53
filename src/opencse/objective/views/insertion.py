"""Views that insert stop-words, other words or mask tokens into the positive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from opencse.arrays import Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.vectors.masking import mask_id
from opencse.objective.views.base import TokenView, word_numbers
from opencse.objective.views.repetition import draw, fitting, longest
from opencse.settings import PartSettings
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer, WordNumbers
from opencse.text.words import FUNCTION_WORDS, find_words

_DRAWN = 10_000
"""Words of the corpus that `InsertWords` inserts."""


class InsertStopwords(TokenView):
    """A random stop-word after each of some words (ESimCSE, section 5.3, "Inserting Stop-words" of Table 10).

    With N the number of words, ``k ~ uniform{0, ..., max(2, int(rate * N))}`` distinct words are drawn uniformly, as
    for `RepeatWords`, and each is followed by a stop-word drawn uniformly from the list; what does not fit into the
    encoder's longest input is left out. The paper names no list: ours are some 140 English function words. The
    authors' code has no working insertion.

    Example:
        >>> from opencse import SentenceEncoder
        >>> encoder = SentenceEncoder("opencse-mini")
        >>> view = InsertStopwords(InsertStopwords.Settings(rate=0.6, words=("the", "of")))
        >>> view.begin(encoder, batch_size=1, seed=0)
        >>> texts = encoder.tokenizer.encode_words(["a man plays the guitar"], None)
        >>> (ids,) = view.positives(texts, np.random.default_rng(0))
        >>> encoder.tokenizer.hf.decode(ids.tolist(), skip_special_tokens=True)
        'a man plays the the the guitar the'
    """

    class Settings(PartSettings):
        """Settings of `InsertStopwords`.

        Attributes:
            rate: as for repetition.
            words: the stop-words; by default English function words.
        """

        kind: Literal["insert_stopwords"] = "insert_stopwords"
        rate: float = Field(default=0.32, gt=0, le=1)
        words: tuple[str, ...] | None = Field(default=None, min_length=1)

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.words = FUNCTION_WORDS if self.settings.words is None else self.settings.words
        self.pieces: list[Ids] = []

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Tokenises the stop-words, each as inside a sentence.

        Raises:
            UserError: if the tokenizer does not know one of them.
        """
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.pieces = [_inside(word, encoder.tokenizer) for word in self.words]

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length + ids of the stop-words,)."""
        room, words = self.room(ids), find_words(numbers)
        picked = draw(random, longest(self.settings.rate, len(words)), len(words))
        pieces = [self.pieces[i] for i in random.integers(len(self.pieces), size=len(picked))]
        return _after(ids, words.ends[picked], pieces, room)


class InsertWords(TokenView):
    """A random word after each of some words ("random insertion" of ESimCSE, section 1 and Table 2).

    With N the number of words, ``k ~ uniform{0, ..., max(2, int(rate * N))}`` distinct words are drawn uniformly, as
    for `RepeatWords`, and each is followed by a word drawn uniformly from the text itself (``source = "text"``), or
    from the corpus (``"corpus"``): from 10,000 words that are drawn when the run starts, each from a text drawn
    uniformly, so that frequent words come more often. What does not fit into the encoder's longest input is left out.

    ESimCSE names random insertion as what changes a sentence's meaning ("I don't like this apple because but it looks
    so not fresh and I think it should be dog delicious"), and gives neither a rule nor a score. The rule and the rate
    are ours: those of its other insertions, so that they can be compared. A byte-level BPE spells the first word of a
    text without its leading space, and so its copy here.

    Example:
        >>> from opencse import SentenceEncoder
        >>> encoder = SentenceEncoder("opencse-mini")
        >>> view = InsertWords(InsertWords.Settings(rate=0.6))
        >>> view.begin(encoder, batch_size=1, seed=0)
        >>> texts = encoder.tokenizer.encode_words(["a man plays the guitar"], None)
        >>> (ids,) = view.positives(texts, np.random.default_rng(0))
        >>> encoder.tokenizer.hf.decode(ids.tolist(), skip_special_tokens=True)
        'a man plays a the a guitar a'
    """

    class Settings(PartSettings):
        """Settings of `InsertWords`."""

        kind: Literal["insert_words"] = "insert_words"
        rate: float = Field(default=0.32, gt=0, le=1)
        source: Literal["text", "corpus"] = "text"

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.pieces: list[Ids] = []

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """(M, 2, 2): each row twice; draws the words of the corpus.

        Raises:
            UserError: if the rows hold more than one text, or no text has a word.
        """
        examples = super().examples(corpus, random)
        if self.settings.source == "corpus":
            texts = (corpus.text(int(row), 0) for row in random.integers(len(corpus), size=_DRAWN))
            self.pieces = [piece for text in texts if (piece := _random_word(text, random)) is not None]
            if not self.pieces:
                raise UserError(f"insert_words: {corpus.facts.source} has no word to insert; set view.source to text")
        return examples

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length + ids of the words,)."""
        room, words = self.room(ids), find_words(numbers)
        picked = draw(random, longest(self.settings.rate, len(words)), len(words))
        if self.settings.source == "text":
            drawn = random.integers(max(1, len(words)), size=len(picked))
            pieces = [ids[words.starts[i] : words.ends[i]] for i in drawn]
        else:
            pieces = [self.pieces[i] for i in random.integers(len(self.pieces), size=len(picked))]
        return _after(ids, words.ends[picked], pieces, room)


class InsertMask(TokenView):
    """A [MASK] after each of some words (ESimCSE, section 5.3, "Inserting [MASK]" of Table 10).

    With N the number of words, ``k ~ uniform{0, ..., max(2, int(rate * N))}`` distinct words are drawn uniformly, as
    for `RepeatWords`, and each is followed by the tokenizer's mask token; what does not fit into the encoder's
    longest input is left out. The authors' code has no such insertion.

    Example:
        >>> from opencse import SentenceEncoder
        >>> encoder = SentenceEncoder("opencse-mini")
        >>> view = InsertMask(InsertMask.Settings(rate=0.6))
        >>> view.begin(encoder, batch_size=1, seed=0)
        >>> texts = encoder.tokenizer.encode_words(["a man plays the guitar"], None)
        >>> (ids,) = view.positives(texts, np.random.default_rng(0))
        >>> encoder.tokenizer.hf.decode(ids.tolist(), skip_special_tokens=False)
        '[CLS] a man plays [MASK] the [MASK] guitar [MASK] [SEP]'
    """

    class Settings(PartSettings):
        """Settings of `InsertMask`."""

        kind: Literal["insert_mask"] = "insert_mask"
        rate: float = Field(default=0.32, gt=0, le=1)

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.mask_id = -1

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Looks up the mask token.

        Raises:
            UserError: if the tokenizer has none.
        """
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.mask_id = mask_id(encoder.tokenizer, f"{self.kind} view")

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length + k,)."""
        room = self.room(ids)
        ends: Integers = find_words(numbers).ends
        picked = draw(random, longest(self.settings.rate, len(ends)), len(ends))[:room]
        return np.insert(ids, ends[picked], self.mask_id)


def _after(ids: Ids, ends: Integers, pieces: Sequence[Ids], room: int) -> Ids:
    """Inserts each of ``pieces`` before the id at its end of ``ends``, as many of them as fit."""
    sizes = np.asarray([len(piece) for piece in pieces], dtype=np.int64)
    count = len(fitting(ends, sizes, room))
    if count == 0:
        return ids
    return np.insert(ids, np.repeat(ends[:count], sizes[:count]), np.concatenate(pieces[:count]))


def _random_word(text: TokenisedText, random: np.random.Generator) -> Ids | None:
    """The ids of a word of ``text``; None if it has none."""
    words = find_words(word_numbers(text))
    if len(words) == 0:
        return None
    number = int(random.integers(len(words)))
    return text.ids[words.starts[number] : words.ends[number]]


def _inside(word: str, tokenizer: Tokenizer) -> Ids:
    """The ids of ``word`` in the middle of a sentence, without special tokens."""
    text = tokenizer.encode_words([f" {word.strip()}"], None)[0]
    ids = text.ids[word_numbers(text) >= 0]
    if len(ids) == 0 or tokenizer.hf.unk_token_id in ids.tolist():
        raise UserError(
            f"insert_stopwords: {tokenizer.hf.name_or_path or 'the tokenizer'} does not know the stop-word {word!r}; "
            "set view.words to words of its language"
        )
    return ids
