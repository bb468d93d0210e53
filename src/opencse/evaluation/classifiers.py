"""Softmax regression and a one-hidden-layer network over frozen sentence vectors, many fits trained at once.

Cross-validation needs hundreds of fits of one protocol (SentEval, Conneau and Kiela 2018). All start from one seed,
so the fits whose training sets are of one size share initial weights and the order of positions, and those that
differ in l2 alone share their batches too. They are trained side by side: a training set's batch is gathered once, one
batched product serves all, and the result is the same as of one fit after another, up to rounding.

A group is a training set, and its fits differ in l2 alone: they share their batches. A batch is (groups, batch, d + 1),
its last column 1 (the bias); parameters are (groups, fits, rows, columns).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from opencse.arrays import Floats, Integers, Vectors
from opencse.evaluation.cross_validation import MODES, ClassifierSettings, Fits, Fold


class SoftmaxRegression:
    r"""Softmax regression: one linear layer and softmax cross-entropy, mean over the batch of B sentences.

    .. math:: L = -\frac1B \sum_b \log p_{b, y_b}, \quad p_b = \mathrm{softmax}(W x_b), \quad
              \nabla_W L = \frac1B \sum_b (p_b - e_{y_b})\, x_b^\top
    """

    def __init__(self, weights: Tensor) -> None:
        """``weights``: (groups, fits, classes, d + 1)."""
        self.parameters = [weights]

    def gradients(self, batch: Tensor, targets: Tensor) -> list[Tensor]:
        """Returns gradients of mean cross-entropy; ``batch`` (groups, batch, d + 1), ``targets`` (groups, batch)."""
        (weights,) = self.parameters
        delta = _delta(_times(weights, batch), targets)
        return [_times(delta, batch.transpose(1, 2)).view_as(weights)]


class HiddenLayer:
    r"""One hidden layer: linear, dropout, sigmoid, linear, softmax cross-entropy (SentEval's order of the layers).

    .. math:: a_b = \sigma(m_b \odot W_1 x_b), \quad p_b = \mathrm{softmax}(W_2 a_b + \beta), \quad
              m_{bj} \in \{0, 1 / (1 - r)\}

    The dropout mask is drawn once per step for all fits, from the generator that drew the weights: each fit gets
    the mask it would get alone, since all have one seed. It is drawn on the CPU, so it is the same on every device.
    """

    def __init__(self, first: Tensor, second: Tensor, dropout: float, generator: torch.Generator) -> None:
        """``first``: (groups, fits, hidden, d + 1); ``second``: (groups, fits, classes, hidden + 1)."""
        self.parameters = [first, second]
        self.dropout = dropout
        self.generator = generator

    def gradients(self, batch: Tensor, targets: Tensor) -> list[Tensor]:
        """See ``SoftmaxRegression``."""
        first, second = self.parameters
        width = first.shape[2]
        before = _times(first, batch)
        mask = self._mask(batch.shape[1], width, before.dtype).to(before.device)
        active = torch.sigmoid(before * mask)
        delta = _delta(second[..., :width] @ active + second[..., width:], targets)
        bias = delta.sum(dim=-1, keepdim=True)
        of_second = torch.cat([delta @ active.transpose(-1, -2), bias], dim=-1)
        back = (second[..., :width].transpose(-1, -2) @ delta) * active * (1 - active) * mask
        return [_times(back, batch.transpose(1, 2)).view_as(first), of_second]

    def _mask(self, batch: int, width: int, dtype: torch.dtype) -> Tensor:
        if self.dropout == 0:
            return torch.ones(width, batch, dtype=dtype)
        mask = torch.empty(batch, width, dtype=dtype).bernoulli_(1 - self.dropout, generator=self.generator)
        return mask.div_(1 - self.dropout).T


def logits(parameters: Sequence[Tensor], rows: Tensor) -> Tensor:
    """Returns (fits, classes, n) without dropout, from one group's parameters (fits, ., .) and ``rows`` (n, d + 1)."""
    first, *rest = parameters
    scores = (first.flatten(0, 1) @ rows.T).view(*first.shape[:2], len(rows))
    for second in rest:
        active = torch.sigmoid(scores)
        scores = second[..., :-1] @ active + second[..., -1:]
    return scores


def new_net(
    settings: ClassifierSettings, sizes: torch.Size, classes: int, width: int, like: Tensor
) -> SoftmaxRegression | HiddenLayer:
    """Makes a net whose fits all start from ``nn.Linear``'s weights under ``torch.manual_seed(settings.seed)``.

    Args:
        settings: see there.
        sizes: groups, and fits per group.
        classes: number of classes.
        width: d, without the column of ones.
        like: a tensor with the device and type to use; the weights are drawn in float32 and then cast.
    """
    generator = torch.Generator().manual_seed(settings.seed)

    def layer(out: int, width: int) -> Tensor:
        return _linear(out, width, generator).to(like).expand(*sizes, -1, -1).contiguous()

    if settings.hidden == 0:
        return SoftmaxRegression(layer(classes, width))
    first = layer(settings.hidden, width)
    return HiddenLayer(first, layer(classes, settings.hidden), settings.dropout, generator)


def _linear(out: int, width: int, generator: torch.Generator) -> Tensor:
    """(out, width + 1): weights and, last, bias as ``nn.Linear`` draws them."""
    weight = nn.init.kaiming_uniform_(torch.empty(out, width), a=math.sqrt(5), generator=generator)
    bound = 1 / math.sqrt(width)
    bias = torch.empty(out).uniform_(-bound, bound, generator=generator)
    return torch.cat([weight, bias[:, None]], dim=1)


def _times(rows: Tensor, batch: Tensor) -> Tensor:
    """(groups, fits, r, k) for ``rows`` (groups, fits, r, m) and ``batch`` (groups, k, m), shared by a group's fits."""
    groups, fits, r, _ = rows.shape
    return torch.bmm(rows.flatten(1, 2), batch.transpose(1, 2)).view(groups, fits, r, batch.shape[1])


def _delta(scores: Tensor, targets: Tensor) -> Tensor:
    """(groups, fits, classes, batch): the loss's gradient with respect to ``scores``, of that shape."""
    classes = torch.arange(scores.shape[2], device=scores.device)
    hits = targets[:, None, None, :] == classes[:, None]
    return torch.softmax(scores, dim=2).sub_(hits.to(scores.dtype)).div_(scores.shape[3])


Name = Literal["adam", "rmsprop"]


class StackedOptimizer:
    r"""Optimizes all fits at once, each with its own l2, added to the gradient as torch's ``weight_decay`` is.

    .. math:: g \leftarrow g + \lambda w, \quad v \leftarrow \beta_2 v + (1-\beta_2) g^2

    ``adam`` (Kingma and Ba 2015, algorithm 1; rate 1e-3, betas 0.9 and 0.999) and ``rmsprop`` (Hinton 2012, lecture 6;
    rate 1e-2, :math:`\beta_2` 0.99):

    .. math:: m \leftarrow m + (1-\beta_1)(g - m), \quad
              w \leftarrow w - \frac{\eta}{1-\beta_1^t} \frac{m}{\sqrt{v} / \sqrt{1-\beta_2^t} + \epsilon}
              \qquad \text{and} \qquad w \leftarrow w - \eta \frac{g}{\sqrt{v} + \epsilon}
    """

    beta1, epsilon = 0.9, 1e-8

    def __init__(self, name: Name, parameters: list[Tensor], l2: Tensor) -> None:
        """``parameters``: (groups, fits, rows, columns) each; ``l2``: (groups, fits)."""
        self.adam = name == "adam"
        # torch's defaults of both, which SentEval takes.
        self.rate, self.beta2 = (1e-3, 0.999) if self.adam else (1e-2, 0.99)
        self.parameters = parameters
        self.decay = l2[:, :, None, None]
        self.means = [torch.zeros_like(p) for p in parameters] if self.adam else []
        self.squares = [torch.zeros_like(p) for p in parameters]
        self.steps = 0

    def step(self, gradients: Sequence[Tensor]) -> None:
        """Changes the parameters in place; ``gradients`` have the same shapes, and are overwritten."""
        self.steps += 1
        for number, (parameter, gradient) in enumerate(zip(self.parameters, gradients, strict=True)):
            gradient.addcmul_(parameter, self.decay)
            root = self.squares[number].mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2).sqrt()
            if self.adam:
                mean = self.means[number].lerp_(gradient, 1 - self.beta1)
                root.div_((1 - self.beta2**self.steps) ** 0.5).add_(self.epsilon)
                parameter.addcdiv_(mean, root, value=-self.rate / (1 - self.beta1**self.steps))
            else:
                parameter.addcdiv_(gradient, root.add_(self.epsilon), value=-self.rate)

    def keep(self, groups: Tensor, parameters: list[Tensor]) -> None:
        """Continues with these groups (m,) alone, whose ``parameters`` are in new tensors."""
        self.parameters = parameters
        self.decay = self.decay[groups]
        self.means = [mean[groups] for mean in self.means]
        self.squares = [square[groups] for square in self.squares]


HELD_OUT = 0.05
CPU_BYTES, DEVICE_BYTES = 4 << 20, 1 << 30  # of batches and weights at a time: a CPU's cache, a device's memory


class Classifiers:
    """Fits classifiers by SentEval's protocol; the regularisation is l2, as the optimizer's weight decay.

    One fit: weights as ``nn.Linear`` draws them under its seed; batches by one random order of positions a pass;
    mean softmax cross-entropy; every ``epoch_size`` passes the dev accuracy is measured, the best weights are stored
    (the first of equals), and after ``tenacity`` checks without improvement the next such one ends it.

    As in SentEval: weight decay falls on the bias too; the count of bad checks is never reset; a round of passes
    begins as long as no more than ``max_epoch`` are done, so up to 204 are made for 200 in rounds of 4. Different from
    it: the random generators are separate, so others are not touched.
    """

    def __init__(
        self,
        features: Vectors,
        labels: Integers,
        settings: ClassifierSettings,
        *,
        classes: int | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        at_once: int | None = None,
    ) -> None:
        """Moves the data to the device.

        Args:
            features: (n, d), finite.
            labels: (n,), from 0.
            settings: of every fit.
            classes: their number; by default the highest label + 1.
            device: where to fit.
            dtype: in which precision.
            at_once: bytes of batches and weights held at a time, without the features; by default 4 MiB on a CPU, for
                its cache, and 1 GiB elsewhere. Results do not depend on it but for rounding.
        """
        self.settings = settings
        self.classes = int(labels.max()) + 1 if classes is None else classes
        # The bias is the weight of one more feature, so that a layer is one product.
        bias = np.ones((len(features), 1), dtype=features.dtype)
        self.features = torch.from_numpy(np.hstack([features, bias])).to(device=device, dtype=dtype)
        self.labels = torch.from_numpy(labels.astype(np.int64)).to(device)
        if at_once is None:
            at_once = CPU_BYTES if self.features.device.type == "cpu" else DEVICE_BYTES
        self.at_once = at_once

    @torch.no_grad()
    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> Fits:
        """Fits all folds; folds of one size are trained together.

        Args:
            folds: F training sets with their dev rows; of at least 20 sentences where there are none.
            regularisation: l2, (F, R).
        """
        l2 = torch.tensor(regularisation, dtype=self.features.dtype, device=self.features.device)
        accuracy = np.empty(l2.shape)
        parameters: list[tuple[Tensor, ...]] = [()] * len(folds)
        for chunk in self._chunks(folds, l2.shape[1]):
            best, trained = self._train([folds[f] for f in chunk], l2[chunk])
            accuracy[chunk] = best
            for position, f in enumerate(chunk):
                parameters[f] = tuple(p[position] for p in trained)
        return Fits(accuracy, partial(self._predict, parameters))

    def _predict(
        self, parameters: list[tuple[Tensor, ...]], fold: int, regularisation: int, rows: Integers
    ) -> Integers:
        """The class (n,) of each row; see ``Fits``."""
        one = [p[regularisation, None] for p in parameters[fold]]
        scores = logits(one, self.features[torch.from_numpy(rows).to(self.features.device)])
        classes: Integers = scores[0].argmax(dim=0).cpu().numpy()
        return classes

    def _chunks(self, folds: Sequence[Fold], fits: int) -> list[list[int]]:
        """Groups the folds by size of training set, at most as many at a time as memory allows."""
        sizes: dict[tuple[int, bool], list[int]] = {}
        for f, fold in enumerate(folds):
            sizes.setdefault((len(fold.train), fold.dev is None), []).append(f)
        width = self.features.shape[1]
        rows = self.settings.hidden or self.classes
        each = width * (self.settings.batch_size + fits * rows) * self.features.element_size()
        most = max(1, self.at_once // each)
        return [same[start : start + most] for same in sizes.values() for start in range(0, len(same), most)]

    def _train(self, folds: Sequence[Fold], l2: Tensor) -> tuple[Floats, list[Tensor]]:
        """Trains on sets of one size: the best dev accuracies (folds, R) and their parameters (folds, R, ., .)."""
        settings, device = self.settings, self.features.device
        random = np.random.RandomState(settings.seed)
        splits = [(fold.train, fold.dev) for fold in folds]
        if folds[0].dev is None:
            splits = _held_out([fold.train for fold in folds], random)
        train = torch.from_numpy(np.stack([rows for rows, _ in splits])).to(device)
        dev = [torch.from_numpy(rows).to(device) for _, rows in splits if rows is not None]
        net = new_net(settings, l2.shape, self.classes, self.features.shape[1] - 1, self.features)
        optimizer = StackedOptimizer(settings.optimizer, net.parameters, l2)
        best_parameters = [p.clone() for p in net.parameters]
        best = np.full(l2.shape, -1.0)
        misses = np.zeros(l2.shape, dtype=int)
        running = np.ones(l2.shape, dtype=bool)
        live = np.arange(len(folds))
        passes = 0
        # <= as in SentEval's loop.
        while len(live) and passes <= settings.max_epoch:
            for _ in range(settings.epoch_size):
                order = torch.from_numpy(random.permutation(train.shape[1])).to(device)
                shuffled = train[:, order]
                targets = self.labels[shuffled]
                for start in range(0, train.shape[1], settings.batch_size):
                    rows = shuffled[:, start : start + settings.batch_size]
                    batch = self.features.index_select(0, rows.flatten()).view(*rows.shape, -1)
                    optimizer.step(net.gradients(batch, targets[:, start : start + settings.batch_size]))
            passes += settings.epoch_size
            reached = self._dev_accuracy(net.parameters, [dev[f] for f in live])
            better = running[live] & (reached > best[live])
            missed = running[live] & ~better
            best[live] = np.where(better, reached, best[live])
            for position, fit in np.argwhere(better).tolist():
                for stored, parameter in zip(best_parameters, net.parameters, strict=True):
                    stored[live[position], fit] = parameter[position, fit]
            running[live] &= ~(missed & (misses[live] >= settings.tenacity))
            misses[live] += missed
            unfinished = np.flatnonzero(running[live].any(axis=1))
            if len(unfinished) < len(live):
                remaining = torch.from_numpy(unfinished).to(device)
                net.parameters = [p[remaining] for p in net.parameters]
                optimizer.keep(remaining, net.parameters)
                train, live = train[remaining], live[unfinished]
        return best, best_parameters

    def _dev_accuracy(self, parameters: Sequence[Tensor], dev: Sequence[Tensor]) -> Floats:
        """Computes the share (groups, R) of each group's dev rows that its fits predict correctly."""
        right = [
            (logits([p[g] for p in parameters], self.features[rows]).argmax(dim=1) == self.labels[rows]).sum(dim=1)
            for g, rows in enumerate(dev)
        ]
        sizes = np.array([len(rows) for rows in dev])
        shares: Floats = torch.stack(right).cpu().numpy() / sizes[:, None]
        return shares


def _held_out(
    trains: Sequence[Integers],
    random: np.random.RandomState,
) -> list[tuple[Integers, Integers | None]]:
    """Splits training sets of one size n into train and dev: the first int(0.05 n) positions of one order are dev."""
    n = len(trains[0])
    order = random.permutation(n)
    count = int(HELD_OUT * n)
    return [(rows[order[count:]], rows[order[:count]]) for rows in trains]


CLASSES = 5


SETTINGS = replace(MODES["test"], epoch_size=50, tenacity=3, max_epoch=1000)
"""The protocol of a fit (SentEval); there are no folds."""


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
    settings: ClassifierSettings = SETTINGS,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Regressor:
    r"""Fits :math:`p = \mathrm{softmax}(W x + b)`, whose grade is :math:`\hat y = \sum_{i=1}^5 i\, p_i`.

    .. math:: L = \frac{1}{5 B} \sum_b \sum_{i=1}^5 (p_{bi} - t_{bi})^2

    with the targets t of ``soft_labels``, by Adam (rate 1e-3, no weight decay). Tai et al. (2015) have the KL
    divergence instead; SentEval has this loss. Every ``epoch_size`` passes the fit is checked and the best is selected,
    the first of equals; after ``tenacity`` checks that do not improve on it the next such one ends the fit.

    As in SentEval, rounds begin as long as no more than ``max_epoch`` are done, so up to 1,050 are made. Different
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
    net = new_net(settings, torch.Size((1, 1)), CLASSES, features.shape[1], targets)
    (parameter,) = net.parameters
    weights = parameter[0, 0]
    rows = _with_ones(features, weights)
    optimizer = StackedOptimizer("adam", [parameter], torch.zeros(1, 1, device=device, dtype=dtype))
    best = Regressor(weights.clone(), -1.0, 0)
    misses = passes = 0
    while misses <= settings.tenacity and passes <= settings.max_epoch:
        for _ in range(settings.epoch_size):
            order = torch.from_numpy(random.permutation(len(rows))).to(device)
            for start in range(0, len(rows), settings.batch_size):
                rows_of_batch = order[start : start + settings.batch_size]
                optimizer.step([_gradient(weights, rows[rows_of_batch], targets[rows_of_batch])[None, None]])
        passes += settings.epoch_size
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
