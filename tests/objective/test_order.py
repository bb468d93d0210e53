"""Whether texts follow one another: the formula, text in reading order, and shuffled lines."""

from __future__ import annotations

import numpy as np

from opencse.objective.views.order import FEWEST, follow_each_other


def test_it_is_the_formula() -> None:
    """A mean just above and just below three standard errors, computed with loops."""
    random = np.random.default_rng(3)
    decided = set()
    for chance in np.linspace(0, 0.4, 30):
        texts: list[set[int]] = []
        for _ in range(FEWEST):
            first = set(random.integers(0, 40, 6).tolist())
            second = {word if random.random() < chance else int(random.integers(0, 40)) for word in first}
            texts += [first, second]
        pairs = np.arange(2 * FEWEST).reshape(-1, 2)
        drawn = np.random.default_rng(0).permutation(pairs)
        weight = {word: np.log(len(texts) / sum(word in text for text in texts)) for word in range(40)}
        gains = []
        for row in range(FEWEST):
            a, b, c = drawn[row, 0], drawn[row, 1], drawn[row - 1, 1]
            shares = []
            for other in (b, c):
                top = sum(weight[word] for word in texts[a] & texts[other])
                lengths = sum(weight[word] for word in texts[a]) * sum(weight[word] for word in texts[other])
                shares.append(top / lengths**0.5)
            gains.append(shares[0] - shares[1])
        expected = bool(np.mean(gains) / (np.std(gains, ddof=1) / FEWEST**0.5) > 3)
        assert follow_each_other(pairs, texts.__getitem__) is expected
        decided.add(expected)
    assert decided == {True, False}
