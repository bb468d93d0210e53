"""Views that leave out, repeat or insert words, sub-words or mask tokens in the positive."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from opencse.arrays import Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.views.base import TokenView, word_numbers
from opencse.settings import PartSettings, Share
from opencse.streams import Stream
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer, WordNumbers


@dataclass(frozen=True)
class Words:
    """The positions of the n words of a text among its ids; each word is a run of ids.

    Attributes:
        index: (length,) which word (0 ... n - 1) each id is of, -1 for the special tokens.
        starts: (n,) position of each word's first id.
        ends: (n,) one past the position of its last id.
    """

    index: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(n,) ids of each word."""
        return self.ends - self.starts

    def ids_of(self, words: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(length,) whether an id is of one of ``words``."""
        is_chosen = np.zeros(len(self) + 1, dtype=bool)  # the last one is what special tokens (-1) look up
        is_chosen[words] = True
        return is_chosen[self.index]


def find_words(numbers: WordNumbers) -> Words:
    """Finds words from the numbers of `TokenisedText`; numbers may be missing (a text that was truncated on the left).

    >>> words = find_words(np.array([-1, 0, 0, 1, -1], dtype=np.int16))
    >>> words.starts.tolist(), words.sizes.tolist()
    ([1, 3], [2, 1])
    """
    inside = numbers >= 0
    first, last = inside.copy(), inside.copy()
    change = numbers[1:] != numbers[:-1]
    first[1:] &= change
    last[:-1] &= change
    index = np.where(inside, np.cumsum(first) - 1, -1)
    return Words(index, np.flatnonzero(first), np.flatnonzero(last) + 1)


FUNCTION_WORDS = tuple(
    """
    a an the this that these those
    i me my myself you your yourself he him his himself she her herself it its itself
    we us our ourselves they them their themselves who whom whose which what
    and or but nor so yet if because while although though since unless until whether than as
    of in on at by for with from to into onto over under above below between among through
    during before after about against within without across behind beyond along around near off up down out
    am is are was were be been being have has had having do does did doing
    will would shall should can could may might must
    not no there here then when where why how
    very too also just only even both either each every all any some such other more most same
    """.split()  # noqa: SIM905 - a list of them would be a page long
)
"""English function words in lower case: determiners, pronouns, conjunctions, prepositions, auxiliaries and so on."""


class Crop(TokenView):
    """A contiguous part of the sentence (SimCSE, Table 1, "Crop k%: keep 100 - k% of the length").

    Of n words (delimited by white space), ``max(1, round((1 - rate) * n))`` consecutive ones are kept; the first is
    drawn uniformly. Table 1: 77.8 / 71.4 / 63.6 at 10 / 20 / 30%, against 82.5 for dropout alone. No code was
    published.

    Example:
        >>> ids = np.array([101, 11, 12, 13, 14, 102])  # special, four words of one id each, special
        >>> words = np.array([-1, 0, 1, 2, 3, -1])  # the number of each id's word
        >>> Crop(Crop.Settings(rate=0.5)).changed(ids, words, np.random.default_rng(0)).tolist()
        [101, 13, 14, 102]
    """

    class Settings(PartSettings):
        """Settings of `Crop`; ``rate`` is the share that is left out."""

        kind: Literal["crop"] = "crop"
        rate: Share = 0.1

    settings: Settings

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (ids of the words kept and the special tokens,)."""
        words = find_words(numbers)
        n = len(words)
        count = min(n, max(1, round((1 - self.settings.rate) * n)))
        start = random.integers(n - count + 1)
        index = words.index
        return ids[(index < 0) | ((index >= start) & (index < start + count))]


class DeleteWords(TokenView):
    """A share of the words left out (SimCSE, Table 1, "word deletion k%: delete k% words").

    Of n words (delimited by white space), ``min(n - 1, round(rate * n))`` are drawn uniformly and left out: short
    sentences may lose none, and one word always stays. Table 1: 75.9 / 72.2 / 68.2 at 10 / 20 / 30%. No code was
    published.

    TSDAE damages the text that the encoder reads, with ``sides = "anchors"``; its code leaves each word out with
    probability ``rate`` by itself (``draw = "each"``), and one drawn uniformly stays where none would.

    Example:
        >>> ids = np.array([101, 11, 12, 13, 14, 102])  # special, four words of one id each, special
        >>> words = np.array([-1, 0, 1, 2, 3, -1])  # the number of each id's word
        >>> DeleteWords(DeleteWords.Settings(rate=0.5)).changed(ids, words, np.random.default_rng(0)).tolist()
        [101, 12, 14, 102]
    """

    class Settings(PartSettings):
        """Settings of `DeleteWords`.

        Attributes:
            rate: share that is left out.
            sides: whose words: the positives', the anchors', or both, by draws apart.
            draw: leave out an exact share of the words, or each word with this probability.
        """

        kind: Literal["delete_words"] = "delete_words"
        rate: Share = 0.1
        sides: Literal["positives", "anchors", "both"] = "positives"
        draw: Literal["share", "each"] = "share"

    settings: Settings

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Changes the ids of each text, if ``sides`` says so."""
        return super().positives(texts, random) if self.settings.sides != "anchors" else [text.ids for text in texts]

    def changed_anchors(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Changes the ids of each text, if ``sides`` says so."""
        if self.settings.sides == "positives":
            return [text.ids for text in texts]
        return [self.changed(text.ids, word_numbers(text), random) for text in texts]

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (ids of the words kept and the special tokens,)."""
        words = find_words(numbers)
        if self.settings.draw == "each":
            return _without_each(ids, words, self.settings.rate, random)
        return without(ids, words, round(self.settings.rate * len(words)), random)


class DeleteOneWord(TokenView):
    """One word left out, drawn uniformly (SimCSE, Tables 1 and 2, "delete one word": 75.9, 74.2 without dropout).

    Words are delimited by white space; a sentence of one word stays as it is. No code was published.

    Example:
        >>> ids = np.array([101, 11, 12, 13, 14, 102])  # special, four words of one id each, special
        >>> words = np.array([-1, 0, 1, 2, 3, -1])  # the number of each id's word
        >>> DeleteOneWord().changed(ids, words, np.random.default_rng(0)).tolist()
        [101, 11, 12, 14, 102]
    """

    class Settings(PartSettings):
        """Settings of `DeleteOneWord`."""

        kind: Literal["delete_one_word"] = "delete_one_word"

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length - ids of the word,)."""
        return without(ids, find_words(numbers), 1, random)


def _without_each(ids: Ids, words: Words, rate: float, random: np.random.Generator) -> Ids:
    """Leaves out each word with probability ``rate``; where none would stay, one drawn uniformly does."""
    deleted = random.random(len(words)) < rate
    if len(words) and deleted.all():
        deleted[random.integers(len(words))] = False
    return ids[~words.ids_of(np.flatnonzero(deleted))]


def without(ids: Ids, words: Words, count: int, random: np.random.Generator) -> Ids:
    """Leaves out ``count`` of the ``words``, drawn uniformly; one word always stays."""
    n = len(words)
    return ids[~words.ids_of(random.permutation(n)[: min(count, max(0, n - 1))])]


# ESimCSE's code repeats fewer than this many.
_CODE_LIMIT = 10


class _RepetitionSettings(PartSettings):
    """Settings of both repetitions.

    Attributes:
        rate: ``dup_rate``, the largest share that is repeated (ESimCSE, Table 9: .32 was best).
        rule: how many are repeated: the paper's rule, or the authors' code's.
        redraw: at every step (``step``, the paper), or one draw per text that every epoch repeats (``once``).
    """

    rate: float = Field(default=0.32, gt=0, le=1)
    rule: Literal["paper", "reference"] = "paper"
    redraw: Literal["step", "once"] = "step"


class _Repetition(TokenView):
    """What both repetitions share: the generator of their draws."""

    settings: _RepetitionSettings
    seed = 0

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Stores how long a text may become, and the seed of draws that are made once."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.seed = seed

    def generator(self, ids: Ids, random: np.random.Generator) -> np.random.Generator:
        """The step's generator, or one that depends only on the text and the run's seed."""
        if self.settings.redraw == "step":
            return random
        # Python's own hash of bytes differs from process to process.
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
            # The code counts special tokens into the length, and draws below its limit.
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
    pieces: list[Ids]

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Tokenises the stop-words, each as inside a sentence.

        Raises:
            UserError: if the tokenizer does not know one of them.
        """
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.pieces = [_inside(word, encoder.tokenizer) for word in self.settings.words or FUNCTION_WORDS]

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
    pieces: list[Ids]

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
    mask_id: int
    cannot = (("no_mask_token", "inserts mask tokens"),)

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Looks up the mask token.

        Raises:
            UserError: if the tokenizer has none.
        """
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.mask_id = encoder.tokenizer.hf.mask_token_id

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
