"""Do texts that stand next to each other belong together? Shuffled lines share no more words than any two lines do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

import numpy as np

from opencse.arrays import Integers

FEWEST = 200
"""With fewer pairs a text in reading order may look shuffled."""
MOST = 2000
_ERRORS = 3.0


def follow_each_other(pairs: Integers, words: Callable[[int], Iterable[Hashable]]) -> bool | None:
    r"""Whether the texts of a pair share more words than texts of two pairs do.

    With :math:`w_t = \log(N / n_t)` for a word that is in :math:`n_t` of the N texts looked at, two texts A and B share

    .. math:: s(A, B) = \frac{\sum_{t \in A \cap B} w_t}{\sqrt{\sum_{t \in A} w_t \sum_{t \in B} w_t}}

    The answer is yes if the mean of :math:`s(A, B) - s(A, C)`, with C the second text of another pair, is more than
    three standard errors above 0.

    Args:
        pairs: (M, 2) numbers of texts; of more than 2,000 pairs as many are drawn.
        words: the words (or token ids) of a text, by its number.

    Returns:
        None for fewer than 200 pairs.

    Example:
        >>> import numpy as np
        >>> lines = [f"the {name} {part}" for name in range(200) for part in ("opens", "closes")]
        >>> words = [line.split() for line in lines]
        >>> pairs = np.arange(400).reshape(200, 2)
        >>> follow_each_other(pairs, words.__getitem__)
        True
        >>> follow_each_other(np.random.default_rng(0).permutation(400).reshape(200, 2), words.__getitem__)
        False
    """
    if len(pairs) < FEWEST:
        return None
    drawn = np.random.default_rng(0).permutation(pairs)[:MOST]
    texts = {number: frozenset(words(number)) for number in np.unique(drawn).tolist()}
    counts = Counter(word for text in texts.values() for word in text)
    weights = {word: float(np.log(len(texts) / count)) for word, count in counts.items()}
    norms = {number: sum(weights[word] for word in text) ** 0.5 for number, text in texts.items()}

    def shared(a: int, b: int) -> float:
        norm = norms[a] * norms[b]
        return sum(weights[word] for word in texts[a] & texts[b]) / norm if norm else 0.0

    first, second = drawn.T.tolist()
    gains = [shared(a, b) - shared(a, c) for a, b, c in zip(first, second, np.roll(second, 1).tolist(), strict=True)]
    return bool(np.mean(gains) > _ERRORS * np.std(gains, ddof=1) / len(gains) ** 0.5)
