"""Views that draw an example's texts from the corpus at each step, and DeCLUTR's spans of documents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from opencse.arrays import Flags, Integers
from opencse.errors import UserError
from opencse.objective.vectors.represent import Passes
from opencse.objective.vectors.requests import Clean, Draws, LmHead, Masked, Sentences
from opencse.objective.vectors.step import Representations
from opencse.objective.views.base import View, cells
from opencse.settings import PartSettings
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, Tokenizer

_KNOWN = (Sentences, Clean, Draws, Masked, LmHead)
"""Requests that need no vector per row of the positives."""


@dataclass(frozen=True)
class DrawnTexts:
    """The texts of a step's N anchors and their positives, with special tokens.

    Attributes:
        anchors: N.
        positives: P * N: the first positive of every anchor, then the second of every anchor, and so on.

    Example:
        >>> anchor, positive = np.array([2, 7, 3]), np.array([2, 8, 3])  # ids with the special tokens 2 and 3
        >>> len(DrawnTexts([anchor], [positive]).positives)
        1
    """

    anchors: Sequence[Ids]
    positives: Sequence[Ids]


class DrawsTexts(View):
    """A view that draws the texts of an example at each step: several anchors, with several positives each.

    An example is all rows of the corpus from its first cell's to its second's. The vector of the positives of an anchor
    is made of theirs by `merge`; by default it is their mean.

    Example:
        >>> import torch
        >>> from opencse.objective.views.spans import Spans
        >>> Spans().merge(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))  # two positives of one anchor
        tensor([[0.5000, 0.5000]])
    """

    cannot = (("prompts", "draws texts from several rows, each of which would begin with a prompt"),)
    draws_texts = True

    @property
    @abstractmethod
    def anchors(self) -> int:
        """Anchors of an example (A)."""

    @property
    @abstractmethod
    def positives_per_anchor(self) -> int:
        """Positives of an anchor (P)."""

    @property
    def texts_per_example(self) -> int:
        """Anchors and positives of an example, A (1 + P)."""
        return self.anchors * (1 + self.positives_per_anchor)

    @abstractmethod
    def suitable(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer) -> Flags:
        """(M,) whether texts can be drawn from each example.

        Raises:
            UserError: if no example is suitable.
        """

    @abstractmethod
    def draw(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer, random: np.random.Generator) -> DrawnTexts:
        """Draws the texts of some examples, again at each step: A anchors of the first, then of the second, ..."""

    @abstractmethod
    def mean_lengths(self, corpus: Corpus) -> tuple[float, float]:
        """The mean lengths of an anchor and of a positive, in tokens, for the plan of a run."""

    def merge(self, positives: Tensor) -> Tensor:
        """(P, N, d) vectors of the positives -> (N, d)."""
        return positives.mean(dim=0)

    def represent(self, passes: Passes) -> Representations:
        """Makes one forward pass, then one vector of each anchor's positives."""
        return passes.forward(merge=self.merge)

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`
        """Refuses, with several positives, parts that need a vector of each positive's text."""
        if self.positives_per_anchor == 1:
            return
        for request in sorted(objective.reads, key=str):
            if not isinstance(request, _KNOWN):
                raise UserError(
                    f"an anchor has {self.positives_per_anchor} positives in the view {self.kind}, and a part reads "
                    f"{type(request).__name__} of each text of the views, which go with one; set "
                    "objective.view.positives=1, or drop the part"
                )


_ANCHOR_SHAPE, _POSITIVE_SHAPE = (4, 2), (2, 4)
"""The beta distributions of the lengths: anchors are long, positives short."""


class Spans(DrawsTexts):
    """Spans of a document's tokens, and spans near each as its positives (DeCLUTR, section 3.1).

    An example is a document, a batch of B documents has B times ``anchors`` anchors, and each has ``positives``
    positives; its positive vector is the mean of theirs. With l the shortest and L the longest span, drawn again at
    every step::

        length of an anchor    floor(l + (L - l) x),  x ~ beta(4, 2)
        length of a positive   floor(l + (L - l) x),  x ~ beta(2, 4)
        start of a positive    uniform, from one that ends where the anchor starts to one that starts where it ends

    so a positive overlaps the anchor, is next to it, or is inside it; ``near = "adjacent"`` or ``"subsumed"`` allows
    only that kind. Each anchor is inside one of the document's stretches of L tokens, and ``gap`` such stretches are
    between two anchors: 2 in the paper. In the authors' code it is 1, and spans are counted in words (here in the
    tokenizer's tokens, so a span may start inside a word) and then truncated to 512 tokens. All choices of stretches
    are equally probable here; there the second anchor's depends on the first's.

    L is ``data.max_length``, special tokens included. Documents of less than ``2 * anchors * L`` tokens are left out,
    as there. A text file must be in reading order, one sentence per line, and a blank line ends a document; in JSON and
    tables each record is a document of its sentences.

    Example:
        >>> from opencse.objective.negatives.in_batch import InBatch
        >>> from opencse.objective.objective import Objective
        >>> view = Spans(Spans.Settings(anchors=2, positives=2))
        >>> objective = Objective(view, negatives=[InBatch(InBatch.Settings(columns="positives_and_anchors"))])
        >>> objective.negatives_per_anchor(batch_size=16, hard=0)  # of 32 anchors
        62
    """

    class Settings(PartSettings):
        """Settings of `Spans`.

        Attributes:
            anchors: the anchors of each document (A).
            positives: the positives of each anchor (P).
            shortest: shortest span in tokens, special tokens included; the longest is ``data.max_length``.
            near: where positives are: ``any`` place that touches the anchor, ``adjacent`` to it, or ``subsumed`` by it.
            gap: stretches of the longest span between two anchors.
        """

        kind: Literal["spans"] = "spans"
        anchors: int = Field(default=2, ge=1, le=1_024)
        positives: int = Field(default=2, ge=1, le=1_024)
        shortest: int = Field(default=32, ge=3, le=1_048_576)
        near: Literal["any", "adjacent", "subsumed"] = "any"
        gap: int = Field(default=2, ge=0, le=1_024)

    settings: Settings

    @property
    def anchors(self) -> int:
        """As its settings say."""
        return self.settings.anchors

    @property
    def positives_per_anchor(self) -> int:
        """As its settings say."""
        return self.settings.positives

    def require_width(self, width: int, source: str) -> None:
        """Refuses rows of several texts."""
        if width != 1:
            raise UserError(
                f"{source}: the spans view reads one text per row, not {width}; "
                "give running text, one sentence per line"
            )

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        """(M, 2, 2): the first and the last row of every document."""
        self.require_width(corpus.width, corpus.facts.source)
        documents = np.asarray(corpus.documents)
        first = np.flatnonzero(np.diff(documents, prepend=documents[:1] - 1))
        examples = cells(first.astype(np.int64), [0, 0])
        examples[:, 1, 0] = np.append(first[1:], len(documents)) - 1
        return examples

    def suitable(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer) -> Flags:
        """Whether each document has ``2 * anchors * L`` tokens, and room for its anchors with gaps between them."""
        settings = self.settings
        before, after = special_tokens(tokenizer)
        special, limit = before + after, corpus.facts.max_length
        if settings.shortest > limit or settings.shortest <= special:
            raise UserError(
                f"objective.view.shortest {settings.shortest} is not between {special + 1} and the longest span, "
                f"data.max_length {limit}; set another"
            )
        longest = limit - special
        least = longest * max(2 * settings.anchors, settings.anchors + settings.gap * (settings.anchors - 1))
        rows = examples[:, :, 0]
        offsets = corpus.offsets
        tokens = offsets[rows[:, 1] + 1] - offsets[rows[:, 0]] - special * (rows[:, 1] - rows[:, 0] + 1)
        long_enough = np.asarray(tokens >= least)
        if not long_enough.any():
            raise UserError(
                f"{corpus.facts.source}: none of {len(rows):,} documents has the {least:,} tokens that "
                f"{settings.anchors} anchors of up to {limit} tokens need (the longest has "
                f"{int(tokens.max(initial=0)):,}); give longer documents, with a blank line between two, or lower "
                "data.max_length or objective.view.anchors"
            )
        return long_enough

    def draw(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer, random: np.random.Generator) -> DrawnTexts:
        """Draws the spans of some documents."""
        before, after = special_tokens(tokenizer)
        longest, shortest = corpus.facts.max_length - before - after, self.settings.shortest - before - after
        anchors: list[Ids] = []
        positives: list[list[Ids]] = [[] for _ in range(self.settings.positives)]
        for first, last in examples[:, :, 0]:
            texts = [corpus.text_ids(int(row), 0) for row in range(int(first), int(last) + 1)]
            start, end = texts[0][:before], texts[0][len(texts[0]) - after :]
            document = np.concatenate([ids[before : len(ids) - after] for ids in texts])
            for anchor, near in self._spans(len(document), shortest, longest, random):
                spans = [np.concatenate([start, document[a:b], end]) for a, b in (anchor, *near)]
                anchors.append(spans[0])
                for positive, span in zip(positives, spans[1:], strict=True):
                    positive.append(span)
        return DrawnTexts(anchors, [span for number in positives for span in number])

    def _spans(
        self, tokens: int, shortest: int, longest: int, random: np.random.Generator
    ) -> list[tuple[tuple[int, int], list[tuple[int, int]]]]:
        """The (start, stop) of each anchor of a document, and of its positives."""
        settings = self.settings
        stretches, rest = divmod(tokens, longest)
        free = stretches - settings.gap * (settings.anchors - 1)  # with the gaps taken out, any choice is allowed
        numbers = np.sort(random.choice(free, settings.anchors, replace=False))
        numbers += settings.gap * np.arange(settings.anchors)
        offset = int(random.integers(rest + 1))
        spans = []
        for number in numbers:
            length = span_length(shortest, longest, _ANCHOR_SHAPE, random)
            start = offset + int(number) * longest + int(random.integers(longest - length + 1))
            anchor = (start, start + length)
            near = [self._positive(anchor, tokens, shortest, longest, random) for _ in range(settings.positives)]
            spans.append((anchor, near))
        return spans

    def _positive(
        self, anchor: tuple[int, int], tokens: int, shortest: int, longest: int, random: np.random.Generator
    ) -> tuple[int, int]:
        """The (start, stop) of a positive of ``anchor``."""
        start, stop = anchor
        near = self.settings.near
        if near == "subsumed":
            length = span_length(shortest, stop - start, _POSITIVE_SHAPE, random)
            first, last = start, stop - length
        elif near == "adjacent":
            length = span_length(shortest, min(longest, max(start, tokens - stop)), _POSITIVE_SHAPE, random)
            sides: Sequence[int] = [s for s in (start - length, stop) if s >= 0 and s + length <= tokens]
            first = last = int(random.choice(sides))
        else:
            length = span_length(shortest, longest, _POSITIVE_SHAPE, random)
            first, last = max(0, start - length), min(stop, tokens - length)
        begin = int(random.integers(first, last + 1))
        return begin, begin + length

    def mean_lengths(self, corpus: Corpus) -> tuple[float, float]:
        """Two thirds and one third of the way from the shortest to the longest span."""
        shortest, longest = self.settings.shortest, corpus.facts.max_length
        anchor, positive = (shortest + (longest - shortest) * a / (a + b) for a, b in (_ANCHOR_SHAPE, _POSITIVE_SHAPE))
        return anchor, positive


def span_length(shortest: int, longest: int, shape: tuple[int, int], random: np.random.Generator) -> int:
    """Draws the length of a span: ``floor(shortest + (longest - shortest) x)``, x of the beta distribution.

    Example:
        >>> random = np.random.default_rng(0)
        >>> sorted(span_length(10, 20, (4, 2), random) for _ in range(5))
        [14, 15, 15, 15, 17]
    """
    return int(shortest + (longest - shortest) * random.beta(*shape))


def special_tokens(tokenizer: Tokenizer) -> tuple[int, int]:
    """Counts the special tokens that a tokenizer puts before and after each text."""
    empty, text = (ids.tolist() for ids in tokenizer.encode(["", "a"], None))
    before = next((n for n, (a, b) in enumerate(zip(empty, text, strict=False)) if a != b), len(empty))
    return before, len(empty) - before
