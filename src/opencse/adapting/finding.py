"""At which rank a question's answer is found, what that is worth, and whether a difference is more than noise."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.modules.similarity import Similarity

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
MeasureName = Literal["ndcg", "mrr", "recall"]
_QUERIES = 256  # compared with all candidates at a time


@dataclass(frozen=True)
class Measure:
    """What a rank is worth, cut after the first k.

    Attributes:
        name: ``ndcg``, ``mrr`` or ``recall``.
        k: how many answers a user would look at.
    """

    name: MeasureName = "ndcg"
    k: int = 10

    @classmethod
    def parse(cls, text: str) -> Measure:
        """``ndcg@10``, ``mrr@10``, ``recall@100`` and the like, in any letter case.

        Raises:
            UserError: for anything else.
        """
        match = re.fullmatch(r"(ndcg|mrr|recall)@([1-9]\d{0,3})", text.strip().lower())
        if match is None:
            raise UserError(f"unknown metric {text!r}; known: ndcg@K, mrr@K, recall@K, for instance ndcg@10")
        name: MeasureName = "ndcg" if match[1] == "ndcg" else "mrr" if match[1] == "mrr" else "recall"
        return cls(name, int(match[2]))

    def __str__(self) -> str:
        return f"{ {'ndcg': 'nDCG', 'mrr': 'MRR', 'recall': 'recall'}[self.name] }@{self.k}"

    def of_ranks(self, ranks: Integers) -> Floats:
        r"""(n,) worth of finding the one answer at each rank r from 1, x 100; 0 beyond k.

        .. math:: \text{nDCG} = 1 / \log_2(r + 1), \quad \text{MRR} = 1 / r, \quad \text{recall} = 1
        """
        values = {"ndcg": 1 / np.log2(ranks + 1.0), "mrr": 1 / ranks, "recall": np.ones(len(ranks))}[self.name]
        return np.where(ranks <= self.k, 100 * values, 0.0)


def answer_ranks(
    queries: NDArray[np.floating],
    candidates: NDArray[np.floating],
    answers: Integers,
    own: Integers,
    similarity: Similarity = Similarity.COSINE,
) -> Integers:
    """The rank, from 1, of each query's answer among all candidates by the model's similarity.

    Other candidates of the very same similarity come before the answer, so that an encoder which gives every text one
    vector finds nothing.

    Args:
        queries: (n, d) vectors.
        candidates: (m, d) vectors.
        answers: (n,) row of the answer among the candidates.
        own: (n,) row of the query itself among the candidates, which is not counted; -1 where it is not there.
        similarity: what they are compared by.
    """
    asked, found = similarity.prepared(queries), similarity.prepared(candidates)
    ranks = np.empty(len(asked), dtype=np.int64)
    for start in range(0, len(asked), _QUERIES):
        block = slice(start, start + _QUERIES)
        scores = similarity.rough(asked[block], found)
        rows = np.arange(len(scores))
        of_answer = scores[rows, answers[block]].copy()
        there = own[block] >= 0
        scores[rows[there], own[block][there]] = -np.inf
        ranks[block] = (scores >= of_answer[:, None]).sum(axis=1)
    return ranks


@dataclass(frozen=True)
class Difference:
    """A mean difference between two encoders on the same questions.

    Attributes:
        value: mean of the second minus mean of the first.
        error: its standard error.
    """

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, by the normal distribution."""
        return self.value - 1.96 * self.error, self.value + 1.96 * self.error


def paired_difference(before: Floats, after: Floats, units: Integers) -> Difference:
    r"""The mean of ``after - before``; its standard error knows that questions of one document are not independent.

    With differences :math:`d_i`, their mean :math:`\bar d` over n questions and U units u (Liang and Zeger 1986):

    .. math:: \text{SE} = \frac1n \sqrt{\frac{U}{U - 1} \sum_u \Big( \sum_{i \in u} (d_i - \bar d) \Big)^2}

    Args:
        before: (n,) one encoder's values.
        after: (n,) the other's, on the same questions.
        units: (n,) where each question comes from.
    """
    differences = after - before
    mean = math.fsum(differences) / len(differences)
    numbers = np.unique(units, return_inverse=True)[1]
    sums = np.bincount(numbers, weights=differences - mean)
    if len(sums) < 2:
        return Difference(mean, math.inf)
    return Difference(mean, math.sqrt(len(sums) / (len(sums) - 1) * float(np.square(sums).sum())) / len(differences))
