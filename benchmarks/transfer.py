"""How long a transfer task's classifiers take trained side by side, beside one fit after another with torch.optim.

    python benchmarks/transfer.py --data FOLDER --task mr --model opencse-mini

Both sides make the same fits of the inner and outer folds (same seed, batches and stopping; the plain side's refits
take the l2 that was chosen). The plain side is a straightforward loop over ``nn.Linear``, ``F.cross_entropy`` and the
optimizer; it is timed on ``--share`` of the folds, evenly spread, and that time is scaled up.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.evaluation.classifiers.cross_validation import Fold, nested, stratified_folds
from opencse.evaluation.classifiers.settings import MODES, ClassifierSettings, Mode
from opencse.evaluation.classifiers.trained import Classifiers
from opencse.evaluation.transfer.data import load_transfer
from opencse.evaluation.transfer.score import L2


def plain_fit(x: torch.Tensor, y: torch.Tensor, fold: Fold, l2: float, settings: ClassifierSettings) -> float:
    """The best dev accuracy of one fit."""
    torch.manual_seed(settings.seed)
    numbers = np.random.RandomState(settings.seed)
    model = nn.Linear(x.shape[1], int(y.max()) + 1)
    make = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.RMSprop
    optimizer = make(model.parameters(), weight_decay=l2)
    train, dev = fold.train, fold.dev
    if dev is None:
        order = numbers.permutation(len(train))
        count = int(0.05 * len(train))
        train, dev = train[order[count:]], train[order[:count]]
    train_x, train_y, dev_x, dev_y = x[train], y[train], x[dev], y[dev]
    best, bad, passes = -1.0, 0, 0
    kept = copy.deepcopy(model)
    while bad <= settings.tenacity and passes <= settings.max_epoch:
        for _ in range(settings.epoch_size):
            for rows in torch.from_numpy(numbers.permutation(len(train_x))).split(settings.batch_size):
                loss = nn.functional.cross_entropy(model(train_x[rows]), train_y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        passes += settings.epoch_size
        with torch.no_grad():
            accuracy = int((model(dev_x).argmax(dim=1) == dev_y).sum()) / len(dev_y)
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(model)
        else:
            bad += 1
    del kept
    return best


def main() -> None:
    """Prints both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", default="mr", choices=["mr", "cr", "subj", "mpqa"])
    parser.add_argument("--model", default="opencse-mini")
    parser.add_argument("--mode", default="fast", choices=list(MODES))
    parser.add_argument("--share", type=float, default=1.0, help="of the folds that the plain loop is timed on")
    arguments = parser.parse_args()
    mode: Mode = arguments.mode
    settings = MODES[mode]
    examples = load_transfer(arguments.data, [arguments.task]).tasks[arguments.task].parts["all"]
    encoder = SentenceEncoder.load(arguments.model, device="cpu")
    features = np.asarray(encoder.encode(examples.first), dtype=np.float32)
    labels = examples.labels
    print(f"{arguments.task}, mode {mode}: {features.shape[0]:,} sentences of {features.shape[1]} values", flush=True)

    started = time.perf_counter()
    judged = nested(Classifiers(features, labels, settings), labels, settings.folds, L2)
    together = time.perf_counter() - started
    print(f"side by side: {judged.fits} fits, {together:.1f} s; accuracy {judged.accuracy:.2f}", flush=True)

    fits = _fits(labels, settings.folds, judged.chosen)
    some = fits[:: max(1, round(1 / arguments.share))]
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    started = time.perf_counter()
    for fold, grid in some:
        for l2 in grid:
            plain_fit(x, y, fold, l2, settings)
    made = sum(len(grid) for _, grid in some)
    plain = (time.perf_counter() - started) * judged.fits / made
    scaled = f", scaled from {made}" if made < judged.fits else ""
    print(f"one after another: {judged.fits} fits, {plain:.1f} s{scaled}")
    print(f"ratio {plain / together:.1f}")
    environment = Environment.here("cpu").model_dump(mode="json")
    print(", ".join(f"{k} {v}" for k, v in environment.items()), end="; ")
    print(f"{torch.get_num_threads()} threads; {datetime.now(UTC):%Y-%m-%d}")


def _fits(labels: np.ndarray, k: int, chosen: Sequence[float]) -> list[tuple[Fold, Sequence[float]]]:
    outer = [train for train, _ in stratified_folds(labels, k)]
    inner = [Fold(train[a], train[b]) for train in outer for a, b in stratified_folds(labels[train], k)]
    return [(fold, L2) for fold in inner] + [(Fold(t, None), (l2,)) for t, l2 in zip(outer, chosen, strict=True)]


if __name__ == "__main__":
    main()
