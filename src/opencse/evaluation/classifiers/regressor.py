"""A softmax regressor of graded similarity on the features of sentence pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from opencse.arrays import Floats, Vectors
from opencse.evaluation.classifiers.nets import new_net
from opencse.evaluation.classifiers.optim import StackedOptimizer
from opencse.evaluation.classifiers.settings import MODES

CLASSES = 5


@dataclass(frozen=True)
class RegressorSettings:
    """The protocol of a fit (SentEval).

    Attributes:
        batch_size: pairs per step.
        passes: over the training set between two dev checks.
        misses: checks without improvement, counted over the whole fit; the last one ends it.
        max_passes: no further round of passes begins after more than this many.
        seed: of initial weights and batches.
    """

    batch_size: int = 64
    passes: int = 50
    misses: int = 4
    max_passes: int = 1000
    seed: int = 1111


SETTINGS = RegressorSettings()


@dataclass(frozen=True, eq=False)
class Regressor:
    """A fitted regressor.

    Attributes:
        weights: (5, d + 1), the last column the bias.
        dev: the best of the dev checks.
        passes: over the training set until the fit ended.
    """

    weights: Tensor
    dev: float
    passes: int

    def predict(self, features: Vectors) -> Floats:
        """Predicts the expected grade (n,) of each row of ``features`` (n, d); see ``fit``."""
        return _grades(self.weights, _with_ones(features, self.weights))


def soft_labels(scores: Floats) -> Floats:
    r"""Writes grades y as distributions over 1 ... 5 whose mean is y (Tai et al. 2015, section 4.2).

    .. math:: t_i = y - \lfloor y \rfloor \text{ for } i = \lfloor y \rfloor + 1, \quad
              \lfloor y \rfloor - y + 1 \text{ for } i = \lfloor y \rfloor, \quad 0 \text{ otherwise}

    STS-B is graded from 0, and SentEval has no class 0 there either: below 1 the row is (y, 0, 0, 0, 0), which sums to
    y and not to 1.

    Args:
        scores: (n,) in [0, 5].

    Returns:
        (n, 5).

    Example:
        >>> soft_labels(np.array([3.25, 5.0])).tolist()
        [[0.0, 0.0, 0.75, 0.25, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]
    """
    below = np.floor(scores).astype(int)
    share = scores - below
    wide = np.zeros((len(scores), CLASSES + 2))  # of the grades 0 ... 6; the outer two are dropped
    rows = np.arange(len(scores))
    wide[rows, below] = 1 - share
    wide[rows, below + 1] = share
    return wide[:, 1 : CLASSES + 1]


@torch.no_grad()
def fit(
    features: Vectors,
    scores: Floats,
    check: Callable[[Regressor], float],
    *,
    settings: RegressorSettings = SETTINGS,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Regressor:
    r"""Fits :math:`p = \mathrm{softmax}(W x + b)`, whose grade is :math:`\hat y = \sum_{i=1}^5 i\, p_i`.

    .. math:: L = \frac{1}{5 B} \sum_b \sum_{i=1}^5 (p_{bi} - t_{bi})^2

    with the targets t of ``soft_labels``, by Adam (rate 1e-3, no weight decay). Tai et al. (2015) have the KL
    divergence instead; SentEval has this loss. Every ``passes`` passes the fit is checked and the best is selected,
    the first of equals; the ``misses``-th check that does not improve on it ends the fit.

    As in SentEval, rounds begin as long as no more than ``max_passes`` are done, so up to 1,050 are made. Different
    from it: it uses separate random generators, and a GPU is not needed.

    Args:
        features: (n, d).
        scores: (n,) in [0, 5].
        check: what is maximised, at least -1: the dev set's Spearman correlation in SimCSE's copy, Pearson in SentEval.
        settings: the protocol.
        device: where to fit.
        dtype: in which precision.
    """
    random = np.random.RandomState(settings.seed)
    targets = torch.from_numpy(soft_labels(scores)).to(device=device, dtype=dtype)
    linear = replace(MODES["test"], hidden=0, seed=settings.seed)
    net = new_net(linear, torch.Size((1, 1)), CLASSES, features.shape[1], targets)
    (parameter,) = net.parameters
    weights = parameter[0, 0]
    rows = _with_ones(features, weights)
    optimizer = StackedOptimizer("adam", [parameter], torch.zeros(1, 1, device=device, dtype=dtype))
    best = Regressor(weights.clone(), -1.0, 0)
    misses = passes = 0
    while misses < settings.misses and passes <= settings.max_passes:
        for _ in range(settings.passes):
            order = torch.from_numpy(random.permutation(len(rows))).to(device)
            for start in range(0, len(rows), settings.batch_size):
                rows_of_batch = order[start : start + settings.batch_size]
                optimizer.step([_gradient(weights, rows[rows_of_batch], targets[rows_of_batch])[None, None]])
        passes += settings.passes
        value = check(Regressor(weights, best.dev, passes))
        if value > best.dev:
            best = Regressor(weights.clone(), value, passes)
        else:
            misses += 1
    return Regressor(best.weights, best.dev, passes)


def _gradient(weights: Tensor, batch: Tensor, targets: Tensor) -> Tensor:
    """(5, d + 1) of the mean squared error of a ``batch`` (b, d + 1) with ``targets`` (b, 5)."""
    shares = torch.softmax(batch @ weights.T, dim=1)
    of_shares = (shares - targets) * (2 / targets.numel())
    of_scores = shares * (of_shares - (of_shares * shares).sum(dim=1, keepdim=True))
    return of_scores.T @ batch


def _grades(weights: Tensor, rows: Tensor) -> Floats:
    shares: Floats = torch.softmax(rows @ weights.T, dim=1).cpu().numpy().astype(np.float64)
    return shares @ np.arange(1.0, CLASSES + 1)


def _with_ones(features: Vectors, like: Tensor) -> Tensor:
    bias = np.ones((len(features), 1), dtype=features.dtype)
    return torch.from_numpy(np.hstack([features, bias])).to(like)
