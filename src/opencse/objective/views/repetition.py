"""Views that repeat sub-words or words in the positive (ESimCSE)."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
from pydantic import Field

from opencse.arrays import Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.views.base import TokenView
from opencse.settings import PartSettings
from opencse.streams import Stream
from opencse.text.tokenizer import Ids, WordNumbers
from opencse.text.words import find_words

_CODE_LIMIT = 10


class _RepetitionSettings(PartSettings):
    """Settings of both repetitions.

    Attributes:
        rate: ``dup_rate``, the largest share that is repeated (ESimCSE, Table 9: .32 was best).
        rule: how many are repeated: the paper's, or that of the authors' code.
        redraw: at every step (``step``, the paper), or one draw per text that every epoch repeats (``once``).
    """

    rate: float = Field(default=0.32, gt=0, le=1)
    rule: Literal["paper", "reference"] = "paper"
    redraw: Literal["step", "once"] = "step"


class _Repetition(TokenView):
    """What both repetitions share: the generator of their draws."""

    settings: _RepetitionSettings

    def __init__(self, settings: _RepetitionSettings | None = None) -> None:
        super().__init__(settings)
        self.seed = 0

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Stores how long a text may become, and the seed of draws that are made once."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.seed = seed

    def generator(self, ids: Ids, random: np.random.Generator) -> np.random.Generator:
        """The step's generator, or one that depends only on the text and the run's seed."""
        if self.settings.redraw == "step":
            return random
        digest = hashlib.blake2b(ids.astype("<i4").tobytes(), digest_size=8).digest()
        return np.random.default_rng([self.seed, Stream.REPEAT, int.from_bytes(digest, "little")])


class RepeatSubwords(_Repetition):
    """Some sub-words repeated in place: "micro micro ##biology" (ESimCSE, section 3.1, eq. 4 and 5).

    With N the sub-words of the sentence, special tokens not counted,
    ``dup_len ~ uniform{0, ..., max(2, int(rate * N))}``, both ends included, and ``dup_len`` distinct sub-words are
    drawn uniformly; each is followed by itself. ``dup_len`` is at most N, and what does not fit into the encoder's
    longest input is left out.

    ``rule = "reference"`` is the authors' code: with L the ids of the text, special ones counted, and
    ``k = int(rate * L)``, ``dup_len ~ uniform{0, ..., min(10, k) - 1}``, and nothing is repeated where k is 0: short
    sentences stay as they are, and at most 9 sub-words are repeated. The code draws when it tokenises, so every
    epoch sees the same repetitions: ``redraw = "once"``; equal texts share one draw then.

    Example:
        >>> from opencse import SentenceEncoder
        >>> encoder = SentenceEncoder("opencse-mini")
        >>> view = RepeatSubwords(RepeatSubwords.Settings(rate=0.6))
        >>> view.begin(encoder, batch_size=1, seed=0)
        >>> texts = encoder.tokenizer.encode_words(["a man plays unbelievably well"], None)
        >>> (ids,) = view.positives(texts, np.random.default_rng(0))
        >>> encoder.tokenizer.hf.decode(ids.tolist(), skip_special_tokens=True)
        'a man plays plays un unbelbelievablyably well'
    """

    class Settings(_RepetitionSettings):
        """Settings of `RepeatSubwords`."""

        kind: Literal["repeat_subwords"] = "repeat_subwords"

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length + dup_len,)."""
        random = self.generator(ids, random)
        subwords = np.flatnonzero(numbers >= 0)
        if self.settings.rule == "paper":
            most = longest(self.settings.rate, len(subwords))
        else:
            most = max(0, min(_CODE_LIMIT, int(self.settings.rate * len(ids))) - 1)
        picked = draw(random, most, len(subwords))[: self.room(ids)]
        times = np.ones(len(ids), dtype=np.int64)
        times[subwords[picked]] = 2
        return np.repeat(ids, times)


class RepeatWords(_Repetition):
    """Some words repeated: "microbiology microbiology" (ESimCSE, section 5.3).

    As `RepeatSubwords`, with N the number of words (delimited by white space, stuck punctuation is theirs). The ids
    of a chosen word are repeated after themselves. That is what the tokenizer makes of the doubled text where it
    treats words apart from each other (WordPiece); a byte-level BPE spells the first word of a text without its
    leading space, and so its copy here.

    ``rule = "reference"`` is the authors' code: ``dup_len ~ uniform{0, ..., min(10, N, max(2, int(rate * N))) - 1}``
    words among all but the last; a sentence of one word stays as it is. The code counts and repeats the words
    before it truncates the text to its maximum length; here they are the words of the truncated text.

    Example:
        >>> from opencse import SentenceEncoder
        >>> encoder = SentenceEncoder("opencse-mini")
        >>> view = RepeatWords(RepeatWords.Settings(rate=0.6))
        >>> view.begin(encoder, batch_size=1, seed=0)
        >>> texts = encoder.tokenizer.encode_words(["a man plays unbelievably well"], None)
        >>> (ids,) = view.positives(texts, np.random.default_rng(0))
        >>> encoder.tokenizer.hf.decode(ids.tolist(), skip_special_tokens=True)
        'a man plays plays unbelievably unbelievably well well'
    """

    class Settings(_RepetitionSettings):
        """Settings of `RepeatWords`."""

        kind: Literal["repeat_words"] = "repeat_words"

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length + ids of the repeated words,)."""
        random = self.generator(ids, random)
        words = find_words(numbers)
        n = len(words)
        if self.settings.rule == "paper":
            picked = draw(random, longest(self.settings.rate, n), n)
        else:
            picked = draw(random, min(_CODE_LIMIT, longest(self.settings.rate, n)) - 1, max(0, n - 1))
        picked = fitting(picked, words.sizes[picked], self.room(ids))
        copied = np.flatnonzero(words.ids_of(picked))
        return np.insert(ids, words.ends[words.index[copied]], ids[copied])


def longest(rate: float, n: int) -> int:
    """``max(2, int(rate * n))``: the largest ``dup_len`` of ESimCSE's eq. 4."""
    return max(2, int(rate * n))


def draw(random: np.random.Generator, most: int, n: int) -> Integers:
    """Draws ``k ~ uniform{0, ..., min(most, n)}`` distinct numbers of ``0, ..., n - 1``, in random order."""
    count = random.integers(min(most, n) + 1)
    return random.permutation(n)[:count]


def fitting(picked: Integers, sizes: Integers, room: int) -> Integers:
    """The first of ``picked`` whose ``sizes`` add up to at most ``room``."""
    return picked[np.cumsum(sizes) <= room]
