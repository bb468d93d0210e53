"""Chooses what is asked about: a sample spread over the documents, and passages of long ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from opencse.search.passages import PassageSplitter
from opencse.streams import seed_of
from opencse.text.documents import Document
from opencse.text.scripts import count_words

FEWEST_WORDS = 8
"""A shorter passage says too little to ask about."""
_GOLDEN = 0.6180339887498949
"""Fractional part of the golden ratio: its multiples, modulo 1, are spread evenly however many there are."""


@dataclass(frozen=True)
class SourcePassage:
    """A passage that questions are about.

    Attributes:
        row: number of its document in the collection, from 0.
        document: what refers to its document in a file; see `references_of`.
        number: of the passage in its document, from 1.
        title: of the document; may be empty.
        text: as an index stores it: of the first passage, with the title before it.
    """

    row: int
    document: str
    number: int
    title: str
    text: str

    @property
    def where(self) -> str:
        """Names the document in messages.

        >>> SourcePassage(0, "valves.md#closing", 1, "", "Close it slowly.").where
        'document 1 (valves.md#closing)'
        """
        return f"document {self.row + 1} ({self.document})"

    @property
    def body(self) -> str:
        r"""The text without the title, which only the first passage begins with.

        >>> SourcePassage(0, "a", 1, "Kettles", "Kettles\nFill it first.").body
        'Fill it first.'
        """
        begins = self.number == 1 and self.title and self.text.casefold().startswith(self.title.casefold())
        return (self.text[len(self.title) :].lstrip(" \n.:;-–—") if begins else self.text) or self.text


def passages_of_documents(documents: Sequence[Document], splitter: PassageSplitter) -> list[list[SourcePassage]]:
    """Splits each document into the passages that an index has of it; at least one per document."""
    texts = [f"{one.title}\n{one.body}" if one.title else one.body for one in documents]
    return [
        [SourcePassage(row, reference, number, document.title, text) for number, text in enumerate(parts, start=1)]
        for row, (document, reference, parts) in enumerate(
            zip(documents, references_of(documents), splitter.split(texts), strict=True)
        )
    ]


def references_of(documents: Sequence[Document]) -> list[str]:
    """What refers to each document in a file: its id, or file and section, if no other document has the same.

    Otherwise it is a fingerprint of its content, which stays when documents are added, deleted or sorted, and which no
    document has any more when the text has changed.

    >>> references_of([Document("", ("A sentence.",)), Document("", ("Another one.",), "doc-7")])
    ['text-c6f4c7a26936d1fa', 'doc-7']
    """
    counts = Counter(document.name for document in documents)
    return [
        document.name if document.name and counts[document.name] == 1 else f"text-{document.fingerprint}"
        for document in documents
    ]


def choose_passages(
    passages: Sequence[Sequence[SourcePassage]], *, documents: int | None, most: int, seed: int
) -> list[SourcePassage]:
    """Chooses the passages to ask about, in the order of the collection.

    Args:
        passages: of each document.
        documents: how many documents are drawn, spread over the collection; None: all.
        most: passages of a document, spread over it.
        seed: of the draw; a larger draw with the same seed includes a smaller one.

    Returns:
        At most ``most`` passages of each document; those of fewer than `FEWEST_WORDS` words are left out.
    """
    usable = [[one for one in parts if count_words(one.body) >= FEWEST_WORDS] for parts in passages]
    usable = [parts for parts in usable if parts]
    rows = range(len(usable)) if documents is None else spread(min(documents, len(usable)), len(usable), seed)
    return [usable[row][position] for row in rows for position in evenly(min(most, len(usable[row])), len(usable[row]))]


def spread(count: int, size: int, seed: int) -> list[int]:
    """Draws ``count`` of ``size`` positions, spread over all of them; ascending.

    They are multiples of the golden ratio from a start that the seed gives, so a larger draw includes a smaller one.

    Example:
        >>> spread(3, 90, seed=1), spread(5, 90, seed=1)
        ([8, 43, 64], [8, 29, 43, 64, 85])
    """
    start = seed_of(seed, "documents") / 2.0**63
    drawn: set[int] = set()
    step = 0
    while len(drawn) < min(count, size):
        drawn.add(int((start + step * _GOLDEN) % 1.0 * size))
        step += 1
    return sorted(drawn)


def evenly(count: int, size: int) -> list[int]:
    """``count`` of ``size`` positions at equal distances, the first one included.

    >>> evenly(3, 9), evenly(2, 2)
    ([0, 3, 6], [0, 1])
    """
    return [position * size // count for position in range(count)]
