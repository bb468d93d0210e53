"""Long documents cut into passages that the encoder reads whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.text.sentences import split_sentences

Span = tuple[int, int]
Lengths = Callable[[Sequence[str]], list[int]]
"""Texts -> how many ids each has, special tokens not counted."""


class Cutter:
    """Cuts texts at the ends of sentences, as few times as will do.

    A sentence that is too long by itself is cut between words, and a word that is (a language without spaces) between
    characters. A text that fits is left as it is; in one that is cut, white space is collapsed.

    Args:
        encoder: tells how many ids a text has; its prompt for documents is counted.
        max_length: ids of the longest passage, special tokens counted.
        overlap: ids of whole sentences at a passage's end that the next one may begin with.

    Raises:
        UserError: for a length or overlap that cannot be.
    """

    def __init__(self, encoder: SentenceEncoder, max_length: int, overlap: int = 0) -> None:
        self._encoder = encoder
        self._prompt = encoder.prompts.of(Role.DOCUMENT)
        self._around = len(encoder.tokenizer.encode([self._prompt], None)[0])
        self.room = max_length - self._around
        self.overlap = overlap
        if not self._around < max_length <= encoder.max_length:
            raise UserError(f"passages of {max_length} ids: the model reads {self._around + 1} to {encoder.max_length}")
        if not 0 <= overlap < self.room:
            raise UserError(f"overlap {overlap}: passages hold {self.room} ids, so it is between 0 and {self.room - 1}")

    def cut(self, texts: Sequence[str]) -> list[list[str]]:
        """The passages of each text, at least one."""
        # A text has no more ids than bytes, so that most sentences need not be counted.
        doubtful = [place for place, text in enumerate(texts) if len(text.encode()) > self.room]
        lengths = dict(zip(doubtful, self._lengths([texts[place] for place in doubtful]), strict=True))
        return [
            self._passages(text) if lengths.get(place, 0) > self.room else [text] for place, text in enumerate(texts)
        ]

    def _passages(self, text: str) -> list[str]:
        sentences = split_sentences(text)
        joined = " ".join(sentences)
        spans, start = [], 0
        for sentence in sentences:
            spans.append((start, start + len(sentence)))
            start += len(sentence) + 1
        units = self._fitting(joined, spans)
        lengths = self._lengths([joined[a:b] for a, b in units])
        found: list[str] = []
        for first, last in _packed(lengths, self.room, self.overlap):
            found += self._short_enough(joined, units[first:last])
        return found

    def _fitting(self, text: str, spans: Sequence[Span]) -> list[Span]:
        """``spans``, those that are too long replaced by smaller ones."""
        found: list[Span] = []
        for (start, end), length in zip(spans, self._lengths([text[a:b] for a, b in spans]), strict=True):
            if length <= self.room or end - start == 1:
                found.append((start, end))
                continue
            words = [(start + match.start(), start + match.end()) for match in re.finditer(r"\S+", text[start:end])]
            if len(words) == 1:
                middle = (start + end) // 2
                words = [(start, middle), (middle, end)]
            found += self._fitting(text, words)
        return found

    def _short_enough(self, text: str, units: Sequence[Span]) -> list[str]:
        """The units as one passage, or as more where together they have more ids than one by one."""
        passage = text[units[0][0] : units[-1][1]]
        if len(units) == 1 or self._lengths([passage])[0] <= self.room:
            return [passage]
        half = len(units) // 2
        return self._short_enough(text, units[:half]) + self._short_enough(text, units[half:])

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        prompted = [self._prompt + text for text in texts]
        return [len(ids) - self._around for ids in self._encoder.tokenizer.encode(prompted, None)]


def _packed(lengths: Sequence[int], room: int, overlap: int) -> list[tuple[int, int]]:
    """Runs (first, beyond the last) of units that fit ``room``, each as long as it can be, every unit in one."""
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
