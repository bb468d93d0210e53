"""Softmax regression and a one-hidden-layer network over frozen sentence vectors, many fits trained at once.

Cross-validation needs hundreds of fits of one protocol (SentEval, Conneau and Kiela 2018). All start from one seed,
so the fits whose training sets are of one size share initial weights and the order of positions, and those that
differ in l2 alone share their batches too. They are trained side by side: a training set's batch is gathered once, one
batched product serves all, and the result is that of one fit after another up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from opencse.arrays import Floats, Integers, Vectors
from opencse.errors import UserError
from opencse.evaluation.classifiers.cross_validation import Fold
from opencse.evaluation.classifiers.nets import logits, new_net
from opencse.evaluation.classifiers.optim import StackedOptimizer
from opencse.evaluation.classifiers.settings import ClassifierSettings

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
        if features.ndim != 2 or labels.shape != (len(features),) or not len(labels):
            raise ValueError(f"features (n, d) and labels (n,) are expected, got {features.shape} and {labels.shape}")
        self.settings = settings
        self.classes = int(labels.max()) + 1 if classes is None else classes
        if labels.min() < 0 or labels.max() >= self.classes:
            raise ValueError(f"labels from {labels.min()} to {labels.max()} for {self.classes} classes")
        bias = np.ones((len(features), 1), dtype=features.dtype)
        self.features = torch.from_numpy(np.hstack([features, bias])).to(device=device, dtype=dtype)
        self.labels = torch.from_numpy(labels.astype(np.int64)).to(device)
        if at_once is None:
            at_once = CPU_BYTES if self.features.device.type == "cpu" else DEVICE_BYTES
        self.at_once = at_once

    @torch.no_grad()
    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> SoftmaxFits:
        """Fits all folds; folds of one size are trained together.

        Args:
            folds: F training sets with their dev rows.
            regularisation: l2, (F, R).

        Raises:
            UserError: for fewer than 20 sentences where dev rows are to be taken from them (5 % of them is none).
            ValueError: for an empty set, or sizes that do not fit together.
        """
        l2 = torch.tensor(regularisation, dtype=self.features.dtype, device=self.features.device)
        if not folds or l2.ndim != 2 or len(l2) != len(folds):
            raise ValueError(f"{len(folds)} folds and regularisations {tuple(l2.shape)}; (folds, R) is expected")
        for fold in folds:
            if not len(fold.train) or (fold.dev is not None and not len(fold.dev)):
                raise ValueError("a fold without rows to train on or to check by")
        accuracy = np.empty(l2.shape)
        parameters: list[tuple[Tensor, ...]] = [()] * len(folds)
        for chunk in self._chunks(folds, l2.shape[1]):
            best, trained = self._train([folds[f] for f in chunk], l2[chunk])
            accuracy[chunk] = best
            for position, f in enumerate(chunk):
                parameters[f] = tuple(p[position] for p in trained)
        return SoftmaxFits(accuracy, parameters, self.features)

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


class SoftmaxFits:
    """The trained classifiers; see ``Fits``."""

    def __init__(self, accuracy: Floats, parameters: list[tuple[Tensor, ...]], features: Tensor) -> None:
        """``parameters``: of each fold, (R, ., .); ``features``: (n, d + 1)."""
        self.accuracy = accuracy
        self.parameters = parameters
        self._features = features

    def predict(self, fold: int, regularisation: int, rows: Integers) -> Integers:
        """See ``Fits``."""
        one = [p[regularisation, None] for p in self.parameters[fold]]
        scores = logits(one, self._features[torch.from_numpy(rows).to(self._features.device)])
        classes: Integers = scores[0].argmax(dim=0).cpu().numpy()
        return classes


def _held_out(
    trains: Sequence[Integers],
    random: np.random.RandomState,
) -> list[tuple[Integers, Integers | None]]:
    """Splits training sets of one size n into train and dev: the first int(0.05 n) positions of one order are dev."""
    n = len(trains[0])
    order = random.permutation(n)
    count = int(HELD_OUT * n)
    if count == 0:
        raise UserError(
            f"{n} sentences to train on are too few: 5 % of them are set apart to stop the fit by; give at least 20"
        )
    return [(rows[order[count:]], rows[order[:count]]) for rows in trains]
