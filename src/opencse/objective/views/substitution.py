"""Views that replace words of the positive: by synonyms, or by guesses of a masked language model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.states import MaskedTokens
from opencse.objective.vectors.requests import LmHead
from opencse.objective.vectors.step import Request
from opencse.objective.views.base import ChangesTokens, SentenceView, TokenView, word_numbers
from opencse.objective.views.wordnet import Synonyms, read_synonyms
from opencse.objective.views.words import FUNCTION_WORDS, find_words
from opencse.settings import Location, PartSettings
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer, Tokens, WordNumbers

_FUNCTION_WORDS = frozenset(FUNCTION_WORDS)
_WORD = re.compile(r"([\W_]*)([^\W\d_]+)([\W_]*)")
_REMEMBERED = 65_536


class Synonym(TokenView):
    """One word replaced by a synonym of it (SimCSE, Table 1, "synonym replacement": 77.4).

    A word is drawn uniformly from those that have a synonym, then one of its synonyms uniformly: any other lemma,
    of letters alone, of any of its WordNet synsets. Punctuation stuck to the word and a capital at its beginning
    are kept. A sentence without such a word stays as it is, and so does a word whose synonym would make the text
    longer than the encoder reads.

    The paper uses nlpaug, which tags parts of speech; that keeps grammatical words as they are ("a" is a noun of
    WordNet too: the angstrom) and looks inflected words up by their base form, so that it may give "dogs" a synonym
    in the singular. Here English function words are never replaced, and inflected words only if WordNet has
    the inflected form. No code was published.

    Example:
        >>> from opencse import SentenceEncoder
        >>> encoder = SentenceEncoder("opencse-mini")
        >>> view = Synonym(synonyms={"man": ("fellow",)})
        >>> view.begin(encoder, batch_size=1, seed=0)
        >>> texts = encoder.tokenizer.encode_words(["a man plays the guitar"], None)
        >>> (ids,) = view.positives(texts, np.random.default_rng(0))
        >>> encoder.tokenizer.hf.decode(ids.tolist(), skip_special_tokens=True)
        'a fellow plays the guitar'
    """

    class Settings(PartSettings):
        """Settings of `Synonym`.

        Attributes:
            count: words replaced in a sentence; fewer where fewer have a synonym.
            wordnet: folder of WordNet's database files (``data.noun`` and so on); by default Debian's.
        """

        kind: Literal["synonym"] = "synonym"
        count: int = Field(default=1, ge=1, le=1_000_000)
        wordnet: Location = "/usr/share/wordnet"

    settings: Settings
    vocabulary: _Vocabulary

    def __init__(self, settings: Settings | None = None, synonyms: Synonyms | None = None) -> None:
        """``synonyms``: the synonyms of each word, in place of WordNet's."""
        super().__init__(settings)
        self.synonyms = synonyms

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Reads WordNet.

        Raises:
            UserError: if its files are missing.
        """
        super().begin(encoder, batch_size=batch_size, seed=seed)
        if self.synonyms is None:
            self.synonyms = read_synonyms(Path(self.settings.wordnet))
        self.vocabulary = _Vocabulary(encoder.tokenizer, self.synonyms)

    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """(length,) -> (length with the synonym's ids in place of the word's,)."""
        room = self.room(ids)
        words = find_words(numbers)
        spans = list(zip(words.starts.tolist(), words.ends.tolist(), strict=True))
        replaced: dict[int, Ids] = {}
        # The first words in a random order that have a synonym are a uniform draw from all that have one.
        for word in random.permutation(len(spans)).tolist():
            start, end = spans[word]
            replaceable = self.vocabulary.replaceable(ids[start:end].tobytes())
            if replaceable is None:
                continue
            synonym = replaceable.synonyms[int(random.integers(len(replaceable.synonyms)))]
            new = self.vocabulary.ids(replaceable.with_synonym(synonym))
            if len(new) - (end - start) > room:
                continue
            room -= len(new) - (end - start)
            replaced[word] = new
            if len(replaced) == self.settings.count:
                break
        return _spliced(ids, {spans[word]: new for word, new in replaced.items()})


@dataclass(frozen=True)
class _Replaceable:
    """A word that has synonyms, and the characters around it."""

    before: str
    word: str
    after: str
    synonyms: tuple[str, ...]

    def with_synonym(self, synonym: str) -> str:
        if self.word[0].isupper():
            synonym = synonym[0].upper() + synonym[1:]
        return self.before + synonym + self.after


class _Vocabulary:
    """The words of a vocabulary by their ids; each is decoded and encoded once."""

    def __init__(self, tokenizer: Tokenizer, synonyms: Mapping[str, tuple[str, ...]]) -> None:
        self.tokenizer = tokenizer
        self.synonyms = synonyms
        self.special = frozenset(tokenizer.hf.all_special_ids)
        self.replaceable = lru_cache(_REMEMBERED)(self._replaceable)
        self.ids = lru_cache(_REMEMBERED)(self._ids)

    def _replaceable(self, word: bytes) -> _Replaceable | None:
        """The word that these ids (int32) spell, if it has synonyms."""
        ids = np.frombuffer(word, dtype=np.int32)
        if not self.special.isdisjoint(ids.tolist()):  # [UNK] is a word of letters, too
            return None
        text = "".join(str(self.tokenizer.hf.decode(ids.tolist())).split())
        match = _WORD.fullmatch(text)
        if match is None or match[2].lower() in _FUNCTION_WORDS:
            return None
        others = self.synonyms.get(match[2].lower(), ())
        # A byte-level BPE spells a word otherwise where no space is before it, at the beginning of a text.
        space = "" if np.array_equal(self._ids(text), ids) else " "
        return _Replaceable(space + match[1], match[2], match[3], others) if others else None

    def _ids(self, text: str) -> Ids:
        """The ids of ``text``, without special tokens."""
        tokenised = self.tokenizer.encode_words([text], None)[0]
        return tokenised.ids[word_numbers(tokenised) >= 0]


def _spliced(ids: Ids, replaced: Mapping[tuple[int, int], Ids]) -> Ids:
    """``ids`` with other ids in place of some spans (start, end) of them."""
    pieces: list[Ids] = []
    position = 0
    for (start, end), new in sorted(replaced.items(), key=lambda item: item[0]):
        pieces += [ids[position:start], new]
        position = end
    return np.concatenate([*pieces, ids[position:]])


class MlmSubstitute(ChangesTokens, SentenceView):
    """Some tokens replaced by the backbone's own masked-LM guesses (SimCSE, Table 1, "MLM k%": 62.2 at 15%).

    Every token that is not special is chosen with probability ``rate``; all of these become [MASK] together, a
    frozen copy of the backbone as it was before training, with its masked-LM head and without dropout, reads the
    sentence, and each is replaced by a draw from the softmax there (``pick = "sample"``) or by its most probable
    token (``"best"``). Special tokens are never put in; the old token may come back. The paper says "use BERT-base
    to replace k% of words" and no more; no code was published.

    It takes one more forward pass of N rows per step, without gradient. The copy is part of the state, never trained.

    Example:
        >>> view = MlmSubstitute(MlmSubstitute.Settings(rate=0.3, pick="best"))
        >>> [type(request).__name__ for request in view.reads]  # the encoder must have a masked-LM head
        ['LmHead']
    """

    class Settings(PartSettings):
        """Settings of `MlmSubstitute`.

        Attributes:
            rate: probability that a token is replaced.
            pick: which guess replaces it.
        """

        kind: Literal["mlm_substitute"] = "mlm_substitute"
        rate: float = Field(default=0.15, gt=0, le=1)
        pick: Literal["sample", "best"] = "sample"

    settings: Settings
    cannot = (("no_mask_token", "puts guesses in the place of mask tokens"),)

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.frozen: SentenceEncoder | None = None

    @property
    def reads(self) -> Set[Request[Any]]:
        """The head that guesses."""
        return {LmHead(instead="choose another view than mlm_substitute")}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the backbone and its masked-LM head."""
        assert encoder.lm_head is not None
        self.frozen = encoder.twin().requires_grad_(False).eval()
        self.frozen.projection = None  # sentence vectors are not made
        self.frozen.dense = torch.nn.Sequential()

    def train(self, mode: bool = True) -> Self:
        """Sets training mode, but not of the copy, which guesses without dropout."""
        super().train(mode)
        if self.frozen is not None:
            self.frozen.eval()
        return self

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """Replaces some ids of each text; the lengths stay."""
        assert self.frozen is not None
        rows = [text.ids.copy() for text in texts]
        picked = [
            np.flatnonzero((word_numbers(t) >= 0) & (random.random(len(t.ids)) < self.settings.rate)) for t in texts
        ]
        # From the step's own draws, so that guesses are a function of (seed, step) too.
        seed = int(random.integers(2**63))
        tokens = self.frozen.tokenizer.pad(rows)
        positions = torch.zeros_like(tokens.input_ids, dtype=torch.bool)
        for row, indices in enumerate(picked):
            positions[row, torch.from_numpy(indices)] = True
        if not positions.any():
            return rows
        guesses = self._guesses(self.frozen, tokens, positions, seed).numpy()
        ends = np.cumsum([len(indices) for indices in picked])
        for ids, indices, end in zip(rows, picked, ends, strict=True):
            ids[indices] = guesses[end - len(indices) : end]
        return rows

    @torch.no_grad()
    def _guesses(self, frozen: SentenceEncoder, tokens: Tokens, positions: Tensor, seed: int) -> Tensor:
        """(M,) ids, on the CPU, for the M ``positions`` in row-major order."""
        tokenizer = frozen.tokenizer
        ids = tokens.input_ids.masked_fill(positions, tokenizer.hf.mask_token_id)
        masked = MaskedTokens(Tokens(ids, tokens.attention_mask).to(frozen.device), positions)
        logits = frozen(None, masked=masked).masked_logits.float()
        logits[:, tokenizer.vocabulary_size :] = -torch.inf  # rows that only round the embedding table up
        logits[:, tokenizer.hf.all_special_ids] = -torch.inf
        if self.settings.pick == "best":
            best: Tensor = logits.argmax(dim=1).cpu()
            return best
        generator = torch.Generator(frozen.device).manual_seed(seed)
        return torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1).cpu()
