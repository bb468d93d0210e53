"""Splits running text into sentences by punctuation, without a model, so sometimes wrongly."""

from __future__ import annotations

import re

# The escapes: question mark and full stop of Arabic and Urdu, full stops of the scripts of India and of Amharic; full
# stops of Burmese and Khmer, closing quotation marks and bracket of Chinese and Japanese.
_END = re.compile(
    r"""(?<=[.!?…\u061f\u06d4\u0964\u0965\u1362])(?P<close>["'”’»)\]]*)\s+"""
    r"""|(?:(?<=[。！？\u104b\u17d4\u17d5])|(?<=[。！？][\u300d\u300f\uff09”]))(?![\u300d\u300f\uff09”])\s*"""
)
_ABBREVIATIONS = (
    "e\\.g|i\\.e|cf|vs|al|etc|ca|no|nos|vol|pp|fig|figs|eq|eqs|dr|mr|mrs|ms|prof|st|approx",
    "nr|bzw|usw|vgl|abb|bd|kap|evtl|ggf|inkl|sog|geb|hrsg|aufl|z\\.b|d\\.h|u\\.a",  # German
    "mme|mlle|p\\.ex|sr|sra|srta|dra|pág|núm|uds|p\\.ej|sig|dott|pag|ecc|bijv|blz",  # Romance languages, Dutch
)
_SHORT = re.compile(rf"(?:^|[\s(])(?:[A-Za-zÀ-ÖØ-öø-ÿ]|{'|'.join(_ABBREVIATIONS)})\.$", re.IGNORECASE)
_WORD = re.compile(r"\w")
_LONGEST = 10
"""Number of last characters that are examined for an abbreviation: longer than the longest with its full stop."""


def split_sentences(text: str) -> list[str]:
    """Splits a text after ``.``, ``!``, ``?`` and similar marks, but not after initials and abbreviations.

    White space is collapsed; nothing else is changed, and the sentences joined by spaces are the text again. Marks
    without a letter or digit between them (``. . .``, the dots in a table of contents) end the sentence before them.

    Example:
        >>> split_sentences("Ask Dr. Gray. She knows!")
        ['Ask Dr. Gray.', 'She knows!']
        >>> split_sentences("Preface . . . . 3 Index")
        ['Preface . . . .', '3 Index']
    """
    joined = " ".join(text.split())
    ranges: list[tuple[int, int]] = []
    start = 0

    def add(end: int) -> None:
        if ranges and _WORD.search(joined, start, end) is None:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))

    for match in _END.finditer(joined):
        end = match.start() + len(match["close"] or "")
        if end == start or (joined[end - 1] == "." and _SHORT.search(joined[max(start, end - _LONGEST) : end])):
            continue
        if not ranges and _WORD.search(joined, start, end) is None:
            continue  # marks before the first word
        add(end)
        start = match.end()
    if start < len(joined):
        add(len(joined))
    return [joined[first:last] for first, last in ranges]
