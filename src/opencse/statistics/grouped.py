"""The mean difference of two systems on the same questions, where several questions come from one document."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opencse.arrays import Floats, Integers


@dataclass(frozen=True)
class MeanDifference:
    """A mean difference between two systems on the same questions.

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


def grouped_difference(
    before: Floats, after: Floats, groups: Integers, kinds: Integers | None = None
) -> MeanDifference:
    r"""Returns the mean of ``after - before`` with a standard error that allows for questions of one document.

    Questions of one group are not independent of each other. With differences :math:`d_i`, their mean :math:`\bar d`
    over n questions and G groups g (Liang and Zeger 1986):

    .. math:: \text{SE} = \frac1n \sqrt{\frac{G}{G - 1} \sum_g \Big( \sum_{i \in g} (d_i - \bar d) \Big)^2}

    Where questions are of several kinds, each kind's own mean is subtracted: how far the means of the kinds are from
    each other is no error of their average.

    Args:
        before: (n,) values of one system.
        after: (n,) values of the other, on the same questions.
        groups: (n,) number of the document that each question comes from.
        kinds: (n,) number of the kind of each question, from 0; None where there is one kind.

    Returns:
        The mean and its error, which is infinite where all questions are of one group.

    Example:
        >>> before, after = np.array([50.0, 40.0, 30.0, 60.0]), np.array([55.0, 45.0, 30.0, 61.0])
        >>> difference = grouped_difference(before, after, groups=np.array([0, 0, 1, 2]))
        >>> round(difference.value, 2), round(difference.error, 2)
        (2.75, 1.7)
    """
    differences = after - before
    mean = math.fsum(differences) / len(differences)
    group_numbers = np.unique(groups, return_inverse=True)[1]
    centres: Floats = np.full(len(differences), mean)
    if kinds is not None:
        centres = (np.bincount(kinds, weights=differences) / np.maximum(np.bincount(kinds), 1))[kinds]
    sums = np.bincount(group_numbers, weights=differences - centres)
    if len(sums) < 2:
        return MeanDifference(mean, math.inf)
    error = math.sqrt(len(sums) / (len(sums) - 1) * float(np.square(sums).sum())) / len(differences)
    return MeanDifference(mean, error)
