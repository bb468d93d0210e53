"""Views that insert stop-words or mask tokens into the positive."""

from __future__ import annotations

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
from opencse.text.tokenizer import Ids, Tokenizer, WordNumbers
from opencse.text.words import FUNCTION_WORDS, find_words


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
        room = self.room(ids)
        words = find_words(numbers)
        picked = draw(random, longest(self.settings.rate, len(words)), len(words))
        pieces = [self.pieces[i] for i in random.integers(len(self.pieces), size=len(picked))]
        sizes = np.asarray([len(piece) for piece in pieces], dtype=np.int64)
        count = len(fitting(picked, sizes, room))
        if count == 0:
            return ids
        return np.insert(ids, np.repeat(words.ends[picked[:count]], sizes[:count]), np.concatenate(pieces[:count]))


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
