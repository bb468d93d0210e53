"""STS by regression: how well does a small supervised model read likeness off two frozen sentence vectors?

Protocol of SentEval (Conneau and Kiela 2018, after Tai et al. 2015) for STS Benchmark and SICK relatedness, with the
dev choice by Spearman of SimCSE's copy. SimCSE's Table B.1 tells which papers have it; their scores do not compare with
those of cosines.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from opencse.environment import Environment
from opencse.evaluation.correlation import pearson, spearman
from opencse.evaluation.embedding import Embedded, Encode, Progress, distinct, embed, silent
from opencse.evaluation.pairs import ScoredPairs
from opencse.evaluation.record import DataRecord
from opencse.evaluation.regression.data import PARTS, PUBLISHED, RegressorData
from opencse.evaluation.regression.result import RegressorResult, RegressorScore
from opencse.evaluation.sts.data import TASKS, TaskPairs


def evaluate_sts_regressor(
    encode: Encode,
    data: RegressorData,
    *,
    model: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
    regressor_device: str | None = None,
    progress: Progress | None = None,
) -> RegressorResult:
    """Judges an encoder on STS-B and SICK-R with a regressor fitted on their training sets.

    Args:
        encode: texts -> (n, d); called once, on the distinct sentences of all the tasks.
        data: the tasks, from ``load_sts_regressor``.
        model: recorded in the result; so are ``pooling`` and ``device``.
        pooling: see ``model``.
        device: see ``model``.
        regressor_device: where regressors are fitted; ``device`` for None, and the CPU without that.
        progress: called with one line at each step.

    Returns:
        Spearman and Pearson, x 100, of each task's test set.

    Raises:
        UserError: if a vector holds NaN or infinite values.
        ValueError: if ``encode`` does not return an (n, d) array.
    """
    tell = progress or silent
    started = time.perf_counter()
    parts = [part for task in data.tasks.values() for part in task.values()]
    texts = distinct(side for part in parts for side in (part.first, part.second))
    tell(f"STS regressor: {', '.join(data.tasks)}; {len(texts):,} distinct sentences, text {data.text}")
    embedded = embed(encode, texts)
    tell(f"STS regressor: encoded in {time.perf_counter() - started:.1f} s")
    scores: dict[str, RegressorScore] = {}
    for key, task in data.tasks.items():
        scores[key] = score_regressor(key, task, embedded, device=regressor_device or device)
        tell(_line(key, scores[key]))
    return RegressorResult(
        model=model,
        pooling=pooling,
        data=DataRecord(
            source=data.source,
            text=data.text,
            sha256={key: TaskPairs(TASKS[key], tuple(task.values())).sha256() for key, task in data.tasks.items()},
        ),
        environment=Environment.here(device),
        seconds=time.perf_counter() - started,
        sts_regressor=scores,
    )


def score_regressor(
    key: str, task: dict[str, ScoredPairs], embedded: Embedded, *, device: str | None = None
) -> RegressorScore:
    """The scores of one task: a fit on train, kept by the Spearman of dev, tested once.

    A pair's features are [|u - v|, u * v] (2 d,), in float32; see ``regressor_fit.fit``.
    """
    from opencse.evaluation.classifiers.regressor import Regressor, fit

    started = time.perf_counter()
    train, dev, test = (_in_order(task[part]) for part in PARTS)
    of_dev, of_test = _features(dev, embedded), _features(test, embedded)

    def check(regressor: Regressor) -> float:
        return spearman(regressor.predict(of_dev), dev.scores)

    fitted = fit(_features(train, embedded), train.scores, check, device=device or "cpu")
    grades = fitted.predict(of_test)
    examples = {part: len(task[part]) for part in PARTS}
    return RegressorScore(
        spearman=100 * spearman(grades, test.scores),
        pearson=100 * pearson(grades, test.scores),
        dev_spearman=100 * fitted.dev,
        passes=fitted.passes,
        examples=examples,
        complete=examples == PUBLISHED[key],
        seconds=time.perf_counter() - started,
    )


def _in_order(pairs: ScoredPairs) -> ScoredPairs:
    """In SentEval's order, which the batches follow: by the numbers of words, then the score."""
    words = [(len(one.split()), len(two.split())) for one, two in zip(pairs.first, pairs.second, strict=True)]
    order = sorted(range(len(pairs)), key=lambda i: (*words[i], pairs.scores[i]))
    return ScoredPairs(
        pairs.name, pairs.scores[order], [pairs.first[i] for i in order], [pairs.second[i] for i in order]
    )


def _features(pairs: ScoredPairs, embedded: Embedded) -> NDArray[np.float32]:
    return embedded.pair_features(pairs.first, pairs.second)


def _line(key: str, score: RegressorScore) -> str:
    counts = ", ".join(f"{name} {n:,}" for name, n in score.examples.items())
    line = f"{TASKS[key].title}: Spearman {score.spearman:.2f}, Pearson {score.pearson:.2f}"
    line += f" ({counts}; {score.passes:,} passes; {score.seconds:.1f} s)"
    if not score.complete:
        published = ", ".join(f"{name} {n:,}" for name, n in PUBLISHED[key].items())
        line += f" (published: {published}, so this does not compare with published values)"
    return line
