"""STS by regression: how well does a small supervised model read similarity off two frozen sentence vectors?

Protocol of SentEval (Conneau and Kiela 2018, after Tai et al. 2015) for STS Benchmark and SICK relatedness, with the
dev choice by Spearman of SimCSE's copy. SimCSE's Table B.1 tells which papers have it; their scores do not compare with
those of cosines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from opencse.evaluation.embedding import Embedded
from opencse.evaluation.labelled import listed
from opencse.evaluation.pairs import ScoredPairs
from opencse.evaluation.regression.data import PARTS, PUBLISHED, GradedSplit, RegressorData, load_sts_regressor
from opencse.evaluation.regression.result import RegressorResult, RegressorScore, regressor_table
from opencse.evaluation.suite import Options, Suite
from opencse.statistics.correlation import pearson, spearman

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Regression(Suite[GradedSplit, RegressorScore, RegressorResult]):
    """Spearman and Pearson, x 100, of each task's test set: a fit on train, kept by the Spearman of dev, tested once.

    Attributes:
        device: see ``Suite``.
    """

    name = "sts-regressor"
    title = "STS regressor"
    folder = "sts"
    device: str | None = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``."""
        return cls(options.device)

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> RegressorData:
        """See ``load_sts_regressor``."""
        return load_sts_regressor(folder, tasks)

    def score(self, task: GradedSplit, embedded: Embedded, device: str = "cpu") -> RegressorScore:
        """See ``Suite``; a pair's features are [|u - v|, u * v] (2 d,), float32, see ``classifiers.regressor.fit``."""
        from opencse.evaluation.classifiers.regressor import Regressor, fit

        def features(pairs: ScoredPairs) -> NDArray[np.float32]:
            return embedded.pair_features(pairs.first, pairs.second)

        def check(regressor: Regressor) -> float:
            return spearman(regressor.predict(of_dev), dev.scores)

        started = time.perf_counter()
        train, dev, test = (_in_order(task.parts[part]) for part in PARTS)
        of_dev = features(dev)
        fitted = fit(features(train), train.scores, check, device=device)
        grades = fitted.predict(features(test))
        return RegressorScore(
            spearman=100 * spearman(grades, test.scores),
            pearson=100 * pearson(grades, test.scores),
            dev_spearman=100 * fitted.dev,
            passes=fitted.passes,
            examples=task.counts,
            complete=task.counts == PUBLISHED[task.task.key],
            seconds=time.perf_counter() - started,
        )

    def record(self, scores: dict[str, RegressorScore], told: Mapping[str, Any]) -> RegressorResult:
        """See ``Suite``."""
        return RegressorResult(**told, sts_regressor=scores)

    def line(self, task: GradedSplit, score: RegressorScore) -> str:
        """See ``Suite``."""
        line = f"{task.task.title}: Spearman {score.spearman:.2f}, Pearson {score.pearson:.2f}"
        line += f" ({listed(score.examples)}; {score.passes:,} passes; {score.seconds:.1f} s)"
        if not score.complete:
            published = listed(PUBLISHED[task.task.key])
            line += f" (published: {published}, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, RegressorResult]) -> Table:
        """See ``regressor_table``."""
        return regressor_table(results)


def _in_order(pairs: ScoredPairs) -> ScoredPairs:
    """In SentEval's order, which the batches follow: by the numbers of words, then the score."""
    words = [(len(one.split()), len(two.split())) for one, two in zip(pairs.first, pairs.second, strict=True)]
    order = sorted(range(len(pairs)), key=lambda i: (*words[i], pairs.scores[i]))
    return ScoredPairs(
        pairs.name, pairs.scores[order], [pairs.first[i] for i in order], [pairs.second[i] for i in order]
    )
