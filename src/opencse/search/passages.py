"""Splits long documents into passages that the encoder reads completely."""

from __future__ import annotations

import re
from collections.abc import Sequence

from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.text.scripts import split_sentences

CharacterRange = tuple[int, int]
"""First character, and the one after the last."""


class PassageSplitter:
    """Splits texts at the ends of sentences, into as few passages as possible.

    A sentence that is too long is split between words, and a word that is too long (in a language without spaces)
    between characters; where the rest of one is the end of the text, its last two passages have about the same length.
    A text that fits is left as it is; in one that is split, white space is collapsed.

    Example:
        >>> from opencse.encoder.encoder import SentenceEncoder
        >>> encoder = SentenceEncoder.load(device="cpu")
        >>> PassageSplitter(encoder, max_length=10).split(["A cat sleeps on the mat. Rain falls.", "A dog."])
        [['A cat sleeps on the mat.', 'Rain falls.'], ['A dog.']]

    Args:
        encoder: counts tokens; its prompt for documents is counted too.
        max_length: tokens of the longest passage, including special tokens.
        overlap: tokens of complete sentences at a passage's end that the next one may begin with.

    Raises:
        UserError: for a length or overlap outside the model's range.
    """

    def __init__(self, encoder: TextEncoder, max_length: int, overlap: int = 0) -> None:
        self._encoder = encoder
        self._prompt = encoder.prompts.of(Role.DOCUMENT)
        self._fixed = len(encoder.tokenizer.encode([self._prompt], None)[0])
        self.room = max_length - self._fixed
        self.overlap = overlap
        if not self._fixed < max_length <= encoder.max_length:
            raise UserError(
                f"max_length {max_length}: the model reads {self._fixed + 1} to {encoder.max_length} tokens; choose a "
                "length in that range"
            )
        if not 0 <= overlap < self.room:
            raise UserError(f"overlap {overlap}: a passage holds {self.room} tokens; choose 0 to {self.room - 1}")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The passages of each text, at least one."""
        # A text has no more tokens than bytes, so most texts need not be tokenised.
        doubtful = [number for number, text in enumerate(texts) if len(text.encode()) > self.room]
        lengths = dict(zip(doubtful, self._lengths([texts[number] for number in doubtful]), strict=True))
        return [
            self._passages(text) if lengths.get(number, 0) > self.room else [text] for number, text in enumerate(texts)
        ]

    def _passages(self, text: str) -> list[str]:
        sentences = split_sentences(text)
        joined = " ".join(sentences)
        ranges, start = [], 0
        for sentence in sentences:
            ranges.append((start, start + len(sentence)))
            start += len(sentence) + 1
        units = self._fitting(joined, ranges)
        lengths = self._lengths([joined[a:b] for a, b in units])
        begins = {first for first, _ in ranges}
        runs = _balanced_end(_packed(lengths, self.room, self.overlap), lengths, [a in begins for a, _ in units])
        passages: list[str] = []
        for first, last in runs:
            passages += self._short_enough(joined, units[first:last])
        return passages

    def _fitting(self, text: str, ranges: Sequence[CharacterRange]) -> list[CharacterRange]:
        """Replaces ranges that are too long by smaller ones: words, then halves."""
        fitting: list[CharacterRange] = []
        for (start, end), length in zip(ranges, self._lengths([text[a:b] for a, b in ranges]), strict=True):
            if length <= self.room or end - start == 1:
                fitting.append((start, end))
                continue
            words = [(start + match.start(), start + match.end()) for match in re.finditer(r"\S+", text[start:end])]
            if len(words) == 1:
                middle = (start + end) // 2
                words = [(start, middle), (middle, end)]
            fitting += self._fitting(text, words)
        return fitting

    def _short_enough(self, text: str, units: Sequence[CharacterRange]) -> list[str]:
        """The units as one passage, or as several if they have more tokens together than one by one."""
        passage = text[units[0][0] : units[-1][1]]
        if len(units) == 1 or self._lengths([passage])[0] <= self.room:
            return [passage]
        half = len(units) // 2
        return self._short_enough(text, units[:half]) + self._short_enough(text, units[half:])

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, without prompt and special tokens."""
        prompted = [self._prompt + text for text in texts]
        return [len(ids) - self._fixed for ids in self._encoder.tokenizer.encode(prompted, None)]


def _packed(lengths: Sequence[int], room: int, overlap: int) -> list[tuple[int, int]]:
    """Runs (first, after the last) of units that fit ``room``, each as long as possible, that cover every unit."""
    runs: list[tuple[int, int]] = []
    first = last = 0
    while last < len(lengths):
        used = sum(lengths[first:last])
        while first < last and used + lengths[last] > room:
            used -= lengths[first]
            first += 1
        while last < len(lengths) and (first == last or used + lengths[last] <= room):
            used += lengths[last]
            last += 1
        runs.append((first, last))
        begin, shared = last, 0
        while begin - 1 > first and shared + lengths[begin - 1] <= overlap:
            begin -= 1
            shared += lengths[begin]
        first = begin
    return runs


def _balanced_end(
    runs: list[tuple[int, int]], lengths: Sequence[int], begins_sentence: Sequence[bool]
) -> list[tuple[int, int]]:
    """The runs, with the last two of about the same length where their border is within a sentence.

    Otherwise the last words of a text could be a passage (``the file``), nearer to a short query than any text.
    """
    if len(runs) < 2 or runs[-2][1] != runs[-1][0] or begins_sentence[runs[-1][0]]:
        return runs
    (first, border), (_, end) = runs[-2:]
    earliest = border
    while not begins_sentence[earliest] and earliest - 1 > first:
        earliest -= 1
    middle = min(range(earliest, border + 1), key=lambda unit: abs(sum(lengths[first:unit]) - sum(lengths[unit:end])))
    return [*runs[:-2], (first, middle), (middle, end)]
