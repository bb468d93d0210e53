"""Sub-words or words of a sentence repeated."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from opencse.objective.views.tokens import TokenView
from opencse.settings import PartSettings
from opencse.streams import Stream
from opencse.text.tokenizer import Ids, WordNumbers
from opencse.text.words import find_words

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

_CODE_LIMIT = 10


class RepetitionSettings(PartSettings):
    """What both repetitions are told.

    Attributes:
        rate: ``dup_rate``, the largest share that is repeated (ESimCSE, Table 9: .32 was best).
        rule: how many are repeated: the paper's, or that of the authors' code.
        redraw: at every step (``step``, the paper), or one draw for each text that every epoch repeats (``once``).
    """

    rate: float = Field(default=0.32, gt=0, le=1)
    rule: Literal["paper", "reference"] = "paper"
    redraw: Literal["step", "once"] = "step"


class Repetition(TokenView):
    """What both repetitions do alike: whose draw it is."""

    settings: RepetitionSettings

    def __init__(self, settings: RepetitionSettings | None = None) -> None:
        super().__init__(settings)
        self.seed = 0

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Notes how long a text may become, and the seed of draws that are made once."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.seed = seed

    def generator(self, ids: Ids, random: np.random.Generator) -> np.random.Generator:
        """The step's own generator, or one that depends on the text and the run's seed alone."""
        if self.settings.redraw == "step":
            return random
        digest = hashlib.blake2b(ids.astype("<i4").tobytes(), digest_size=8).digest()
        return np.random.default_rng([self.seed, Stream.REPEAT, int.from_bytes(digest, "little")])


class RepeatSubwords(Repetition):
    """Some sub-words doubled in place: "micro micro ##biology" (ESimCSE, section 3.1, eq. 4 and 5).

    With N the sub-words of the sentence, special tokens not counted,
    ``dup_len ~ uniform{0, ..., max(2, int(rate * N))}``, both ends included, and ``dup_len`` distinct sub-words are
    drawn uniformly; each is followed by itself. ``dup_len`` is at most N, and what does not fit into the encoder's
    longest input is left out.

    ``rule = "reference"`` is the authors' code: with L the ids of the text, special ones counted, and
    ``k = int(rate * L)``, ``dup_len ~ uniform{0, ..., min(10, k) - 1}``, and nothing is repeated where k is 0: short
    sentences stay as they are, and at most 9 sub-words are repeated. The code draws when it tokenises, so every
    epoch sees the same repetitions: ``redraw = "once"``; there equal texts share one draw.
    """

    class Settings(RepetitionSettings):
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
        chosen = draw(random, most, len(subwords))[: self.room(ids)]
        times = np.ones(len(ids), dtype=np.int64)
        times[subwords[chosen]] = 2
        return np.repeat(ids, times)


class RepeatWords(Repetition):
    """Some words doubled as a whole: "microbiology microbiology" (ESimCSE, section 5.3).

    As `RepeatSubwords`, with N the number of words (delimited by white space, stuck punctuation is theirs). The ids
    of a chosen word are repeated after themselves. That is what the tokenizer makes of the doubled text where it
    treats words apart from each other (WordPiece); a byte-level BPE spells the first word of a text without its
    leading space, and so its copy here.

    ``rule = "reference"`` is the authors' code: ``dup_len ~ uniform{0, ..., min(10, N, max(2, int(rate * N))) - 1}``
    words among all but the last; a sentence of one word stays as it is. The code counts and repeats the words
    before it cuts the text to its maximum length; here they are those that are left of the cut text.
    """

    class Settings(RepetitionSettings):
        """Settings of `RepeatWords`."""

        kind: Literal["repeat_words"] = "repeat_words"

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length + ids of the repeated words,)."""
        random = self.generator(ids, random)
        words = find_words(numbers)
        n = len(words)
        if self.settings.rule == "paper":
            chosen = draw(random, longest(self.settings.rate, n), n)
        else:
            chosen = draw(random, min(_CODE_LIMIT, longest(self.settings.rate, n)) - 1, max(0, n - 1))
        chosen = fitting(chosen, words.sizes[chosen], self.room(ids))
        copied = np.flatnonzero(words.ids_of(chosen))
        return np.insert(ids, words.ends[words.index[copied]], ids[copied])


def longest(rate: float, n: int) -> int:
    """``max(2, int(rate * n))``: the largest ``dup_len`` of ESimCSE's eq. 4."""
    return max(2, int(rate * n))


def draw(random: np.random.Generator, most: int, n: int) -> NDArray[np.int64]:
    """``k ~ uniform{0, ..., min(most, n)}`` distinct numbers of ``0, ..., n - 1``, in the order drawn."""
    count = random.integers(min(most, n) + 1)
    return random.permutation(n)[:count]


def fitting(chosen: NDArray[np.int64], sizes: NDArray[np.int64], room: int) -> NDArray[np.int64]:
    """The first of ``chosen`` whose ``sizes`` add up to no more than ``room``."""
    return chosen[np.cumsum(sizes) <= room]
