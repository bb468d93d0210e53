"""Tests over sentence pairs: would the difference of two models hold on other pairs?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opencse.arrays import Floats, Integers, Vectors
from opencse.numerals import number_of
from opencse.statistics.difference import ALPHA, ResampledDifference

BLOCK = 1 << 17
"""Pairs drawn at a time, so that memory stays bounded (some 10 MB) and in the processor's cache."""


class PairedBootstrap(ResampledDifference):
    """The difference of two systems evaluated on the same n pairs."""

    def over(self) -> str:
        """The number of pairs."""
        return number_of(self.n, "pair")


class PairedBootstrapTasks(PairedBootstrap):
    """The average difference over tasks; ``n`` is the pairs of all.

    Attributes:
        tasks: each task by itself, over the same resamples.
    """

    tasks: dict[str, PairedBootstrap]

    def over(self) -> str:
        """The number of pairs and tasks."""
        return f"{number_of(self.n, 'pair')} of {number_of(len(self.tasks), 'task')}"


def paired_bootstrap(
    gold: Vectors,
    a: Vectors,
    b: Vectors,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> PairedBootstrap:
    r"""Tests Spearman of a minus Spearman of b, x 100, by resampling the pairs.

    With :math:`\hat\Delta = 100\,(\rho(a, g) - \rho(b, g))`, resample :math:`k = 1 \dots B` draws n of the n
    pairs with replacement, keeps gold and both systems together, ranks again (ties share their mean rank) and
    gives :math:`\Delta^*_k`. The interval is of the percentiles 2.5 and 97.5 of :math:`\Delta^*` (Efron
    and Tibshirani 1993, An introduction to the bootstrap, ch. 13). The p is from the shifted bootstrap:
    resamples scatter about :math:`\hat\Delta`, so they are moved to the null by subtracting it (ibid., ch. 16;
    in NLP Berg-Kirkpatrick et al. 2012):

    .. math:: p = \frac{1 + \sum_k \big[\,|\Delta^*_k - \hat\Delta| \ge |\hat\Delta|\,\big]}{B + 1}

    The ones keep it from 0, which no finite number of resamples can show (Phipson and Smyth 2010). Interval
    and p rest on different halves of one distribution, so at the border they may disagree; p decides.

    It says nothing about seeds: it compares these two models, not the methods that made them.

    Args:
        gold: gold scores (n,), any unit.
        a: the system's similarities (n,), any unit.
        b: the baseline's.
        resamples: B.
        seed: of a separate generator; the same seed gives the same draws whatever the systems.

    Returns:
        The difference in points. A side that is constant in a resample has correlation 0 there, as in
        ``opencse.evaluation.spearman``.

    Example:
        >>> gold = np.arange(40.0)
        >>> noise = np.random.default_rng(0).normal(size=40)
        >>> difference = paired_bootstrap(gold, gold + 2 * noise, gold + 30 * noise, resamples=200)
        >>> difference.direction(), difference.n, difference.p < 0.05
        ('better', 40, True)
    """
    return _bootstrap(gold, a, b, resamples, np.random.SeedSequence(seed)).record(len(gold), seed)


def paired_bootstrap_tasks(
    gold: Mapping[str, Vectors],
    a: Mapping[str, Vectors],
    b: Mapping[str, Vectors],
    *,
    resamples: int,
    seed: int = 0,
) -> PairedBootstrapTasks:
    r"""Tests the average difference over T tasks, for instance the seven of STS; see ``paired_bootstrap``.

    Every task is resampled within itself, so that each keeps its number of pairs:

    .. math:: \hat\Delta = \frac1T \sum_t \hat\Delta_t, \qquad \Delta^*_k = \frac1T \sum_t \Delta^*_{t,k}

    Args:
        gold: task -> (n_t,).
        a: the system's similarities by task.
        b: the baseline's.
        resamples: B.
        seed: of the generators, one for each task.

    Returns:
        The average, and each task by itself (not adjusted for their number; see ``after_holm``).

    Example:
        >>> gold = {"sts12": np.arange(30.0), "stsb": np.arange(40.0)}
        >>> constant = {task: np.ones(len(scores)) for task, scores in gold.items()}
        >>> difference = paired_bootstrap_tasks(gold, gold, constant, resamples=100)
        >>> round(difference.difference, 2), difference.over()
        (100.0, '70 pairs of 2 tasks')
    """
    sources = np.random.SeedSequence(seed).spawn(len(gold))
    scatters = {
        task: _bootstrap(scores, a[task], b[task], resamples, source)
        for (task, scores), source in zip(gold.items(), sources, strict=True)
    }
    average = _Scatter(
        observed=float(np.mean([scatter.observed for scatter in scatters.values()])),
        resampled=np.mean([scatter.resampled for scatter in scatters.values()], axis=0),
    )
    total = average.record(sum(len(scores) for scores in gold.values()), seed)
    by_task = {task: scatter.record(len(gold[task]), seed) for task, scatter in scatters.items()}
    return PairedBootstrapTasks(**total.model_dump(), tasks=by_task)


def spearman_of_draws(variables: Sequence[Floats], draws: Integers) -> Floats:
    r"""Returns Spearman's correlation of the first variable with each other one, in every resample, exactly.

    Ranks are counted, not sorted: the variable's n values fall into U groups of equal ones in rising order,
    known once for all resamples. If group u is drawn :math:`c_u` times and all groups up to u :math:`C_u`
    times, its members share the rank :math:`R_u = C_u - (c_u - 1) / 2`. Of m drawn, what is used is
    :math:`2 R_u - (m + 1) = 2 C_u - c_u - m`, an integer with mean 0, so sums are exact below 2^53.

    Args:
        variables: gold, then the systems, (n,) each.
        draws: (B, m), the numbers of the pairs in each resample.

    Returns:
        (systems, B), in [-1, 1]; 0 where a side is constant.
    """
    ranks = [_centred_ranks(variable, draws) for variable in variables]
    squares = [np.einsum("bi,bi->b", rank, rank) for rank in ranks]
    products = np.stack([np.einsum("bi,bi->b", ranks[0], rank) for rank in ranks[1:]])
    scale = np.sqrt(squares[0] * np.stack(squares[1:]))
    correlations: Floats = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return correlations


def _centred_ranks(variable: Floats, draws: Integers) -> Floats:
    """Twice each drawn value's rank within its resample, minus (m + 1): (B, m)."""
    values, group = np.unique(variable, return_inverse=True)
    count, m = draws.shape
    cell = group[draws] + len(values) * np.arange(count)[:, None]
    counts = np.bincount(cell.ravel(), minlength=count * len(values)).reshape(count, -1)
    centred: Floats = (2 * counts.cumsum(axis=1) - counts - m).astype(np.float64)
    of_each: Floats = centred.ravel()[cell]
    return of_each


@dataclass(frozen=True)
class _Scatter:
    """The ``observed`` difference, and the difference in each resample (B,); both x 100."""

    observed: float
    resampled: Floats

    def record(self, n: int, seed: int) -> PairedBootstrap:
        lower, upper = np.quantile(self.resampled, [ALPHA / 2, 1 - ALPHA / 2])
        beyond = int((np.abs(self.resampled - self.observed) >= abs(self.observed)).sum())
        resamples = len(self.resampled)
        return PairedBootstrap(
            difference=self.observed,
            interval=(float(lower), float(upper)),
            p=(1 + beyond) / (1 + resamples),
            n=n,
            resamples=resamples,
            seed=seed,
        )


def _bootstrap(
    gold: Vectors,
    a: Vectors,
    b: Vectors,
    resamples: int,
    source: np.random.SeedSequence,
) -> _Scatter:
    variables = [np.asarray(side, dtype=np.float64) for side in (gold, a, b)]
    n = variables[0].size
    generator = np.random.default_rng(source)
    rows = max(1, BLOCK // n)
    observed = _difference(variables, np.arange(n)[None, :])[0]
    blocks = [
        _difference(variables, generator.integers(0, n, size=(min(rows, resamples - start), n)))
        for start in range(0, resamples, rows)
    ]
    return _Scatter(observed=float(observed), resampled=np.concatenate(blocks))


def _difference(variables: Sequence[Floats], draws: Integers) -> Floats:
    of_a, of_b = spearman_of_draws(variables, draws)
    points: Floats = 100 * (of_a - of_b)
    return points
