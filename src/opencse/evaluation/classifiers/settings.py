"""How the classifiers over frozen sentence vectors are trained: SentEval's two modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["test", "fast"]


@dataclass(frozen=True)
class ClassifierSettings:
    """The protocol of one fit and of the cross-validation around it (SentEval, Conneau and Kiela 2018).

    Attributes:
        optimizer: ``adam`` (rate 1e-3) or ``rmsprop`` (rate 1e-2), both at torch's defaults.
        batch_size: sentences per step; the last batch of a pass may be smaller.
        tenacity: dev checks without improvement that are allowed; the next one ends the fit. They are counted over
            the whole fit; an improvement does not reset the count.
        epoch_size: passes over the training set between two dev checks.
        folds: k of the cross-validation.
        max_epoch: no further round of ``epoch_size`` passes begins after more than this many.
        hidden: units of the hidden layer; 0: none, softmax regression.
        dropout: rate before the hidden layer's sigmoid.
        seed: of every fit's initial weights, held-out share, batches and dropout.
    """

    optimizer: Literal["adam", "rmsprop"]
    batch_size: int
    tenacity: int
    epoch_size: int
    folds: int
    max_epoch: int = 200
    hidden: int = 0
    dropout: float = 0.0
    seed: int = 1111

    def __post_init__(self) -> None:
        if self.optimizer not in ("adam", "rmsprop"):
            raise ValueError(f"optimizer {self.optimizer!r}; adam or rmsprop is expected")
        if min(self.batch_size, self.epoch_size) < 1 or self.folds < 2 or min(self.tenacity, self.hidden) < 0:
            raise ValueError(f"batch_size and epoch_size >= 1, folds >= 2, tenacity and hidden >= 0: got {self}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout {self.dropout}; a rate in [0, 1) is expected")


MODES: dict[Mode, ClassifierSettings] = {
    "test": ClassifierSettings("adam", batch_size=64, tenacity=5, epoch_size=4, folds=10),
    "fast": ClassifierSettings("rmsprop", batch_size=128, tenacity=3, epoch_size=2, folds=5),
}
"""``test``: what papers report; ``fast``: SimCSE's ``fasttest``, for checks during training."""

L2 = (1e-5, 1e-4, 1e-3, 1e-2)
"""The values of l2 that are tried."""


def mode_in_words(mode: Mode, classifier: str, usual: str) -> str:
    """Names the mode, and the classifier unless it is the ``usual`` one."""
    return mode if classifier == usual else f"{mode}, {classifier}"
