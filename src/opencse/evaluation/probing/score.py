"""Probing: which properties of a sentence can a simple classifier read off its frozen vector?

Protocol of SentEval's ten probing tasks (Conneau et al. 2018, "What you can cram into a single vector"): a classifier
is fitted on train, chosen and stopped on dev, tested once; accuracy in percent.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product

import numpy as np

from opencse.environment import Environment
from opencse.errors import require_known
from opencse.evaluation.classifiers.cross_validation import Outcome, split
from opencse.evaluation.classifiers.settings import MODES, Mode
from opencse.evaluation.embedding import Embedded, Encode, Progress, distinct, embed, silent
from opencse.evaluation.probing.data import ProbingData, ProbingExamples
from opencse.evaluation.probing.result import ProbingClassifier, ProbingResult, ProbingScore, ProbingScores
from opencse.evaluation.record import DataRecord
from opencse.evaluation.transfer.score import L2

HIDDEN = (50, 100, 200)
DROPOUT = (0.0, 0.1, 0.2)
CLASSIFIERS: tuple[ProbingClassifier, ...] = ("mlp", "softmax")


def evaluate_probing(
    encode: Encode,
    data: ProbingData,
    *,
    mode: Mode = "test",
    classifier: ProbingClassifier = "mlp",
    model: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
    classifier_device: str | None = None,
    progress: Progress | None = None,
) -> ProbingResult:
    """Judges an encoder on probing tasks.

    Layer by layer: ``SentenceEncoder.load(model, pooling=...)`` averages the last layer with another (``top2``,
    ``first_last_0``); for layer l alone, give an ``encode`` that returns ``encoder(tokens, layers=[l]).layers[l]`` of
    its batches.

    Args:
        encode: texts -> (n, d); called once a task, on its distinct sentences.
        data: the tasks, from ``load_probing``.
        mode: ``test`` (Adam, batch 64, 4 passes between dev checks) or ``fast`` (RMSprop, batch 128, 2 passes).
        classifier: ``mlp``, see ``score_probing``, or ``softmax``.
        model: recorded in the result; so are ``pooling`` and ``device``.
        pooling: see ``model``.
        device: see ``model``.
        classifier_device: where classifiers are fitted; ``device`` for None, and the CPU without that.
        progress: called with one line at each step.

    Returns:
        The accuracy of each task; a task's does not depend on which others are judged, nor on their order.

    Raises:
        UserError: for an unknown mode or classifier, or a vector with NaN or infinite values.
        ValueError: if ``encode`` does not return an (n, d) array.
    """
    require_known(mode, tuple(MODES), "mode")
    require_known(classifier, CLASSIFIERS, "classifier")
    tell = progress or silent
    started = time.perf_counter()
    tell(f"probing: {', '.join(data.tasks)} from {data.source}; mode {mode}, {classifier}")
    if data.absent:
        tell(f"probing: {', '.join(data.absent)} not in {data.source}, so the average is over {len(data.tasks)} tasks")
    scores: dict[str, ProbingScore] = {}
    for key, task in data.tasks.items():
        # A task at a time: the ten published ones hold 1.2 million sentences.
        before = time.perf_counter()
        embedded = embed(encode, distinct(part.first for part in task.parts.values()))
        score = score_probing(task, embedded, mode=mode, classifier=classifier, device=classifier_device or device)
        scores[key] = score.model_copy(update={"seconds": time.perf_counter() - before})
        tell(_line(task, scores[key]))
    return ProbingResult(
        model=model,
        pooling=pooling,
        data=DataRecord(
            source=data.source, text="unknown", sha256={key: task.sha256() for key, task in data.tasks.items()}
        ),
        environment=Environment.here(device),
        seconds=time.perf_counter() - started,
        mode=mode,
        classifier=classifier,
        probing=ProbingScores.of(scores),
    )


def score_probing(
    task: ProbingExamples,
    embedded: Embedded,
    *,
    mode: Mode = "test",
    classifier: ProbingClassifier = "mlp",
    device: str | None = None,
) -> ProbingScore:
    r"""The scores of one task; see ``evaluate_probing``.

    ``softmax`` is softmax regression on the sentence vector x (d,), float32, with l2 in 1e-5 ... 1e-2. ``mlp`` has a
    hidden layer before it, the layers in SentEval's order:

    .. math:: p = \mathrm{softmax}\big(W_2\, \sigma(\mathrm{dropout}(W_1 x + b_1)) + b_2\big)

    with 50, 100 or 200 units and dropout 0, 0.1 or 0.2, chosen together with l2 by dev accuracy in percent with two
    decimals, the first of equals in that order; 36 fits. SentEval's readme recommends this grid; its code chooses l2
    alone. WordContent (1,000 classes) always has ``softmax``, as in SentEval.
    """
    from opencse.evaluation.classifiers.trained import Classifiers

    started = time.perf_counter()
    linear = classifier == "softmax" or task.task.linear
    features = embedded.of([text for part in task.parts.values() for text in part.first])
    features = features.astype(np.float32)
    labels = np.concatenate([part.labels for part in task.parts.values()])
    ends = np.cumsum([len(part) for part in task.parts.values()])
    train, dev, test = np.split(np.arange(len(labels)), ends[:-1])
    found: list[tuple[Outcome, int, float]] = []
    for hidden, dropout in [(0, 0.0)] if linear else product(HIDDEN, DROPOUT):
        settings = replace(MODES[mode], hidden=hidden, dropout=dropout)
        fitter = Classifiers(features, labels, settings, classes=len(task.classes), device=device or "cpu")
        found.append((split(fitter, labels, train, dev, test, L2), hidden, dropout))
    outcome, hidden, dropout = max(found, key=lambda one: one[0].dev_accuracy)
    return ProbingScore(
        accuracy=outcome.accuracy,
        dev_accuracy=outcome.dev_accuracy,
        majority=100 * float(np.bincount(labels[test]).max()) / len(test),
        hidden=hidden,
        dropout=dropout,
        l2=outcome.chosen[0],
        classes=len(task.classes),
        files=list(task.files),
        split=task.split,
        examples={name: len(part) for name, part in task.parts.items()},
        dropped=task.dropped,
        complete=task.complete,
        seconds=time.perf_counter() - started,
    )


def _line(task: ProbingExamples, score: ProbingScore) -> str:
    counts = ", ".join(f"{name} {n:,}" for name, n in score.examples.items())
    net = f"{score.hidden} units, dropout {score.dropout:g}" if score.hidden else "softmax"
    line = f"{task.task.title}: accuracy {score.accuracy:.2f}, majority {score.majority:.2f} ({net}, l2 {score.l2:g}; "
    line += f"{counts}; from {', '.join(score.files)}; {score.seconds:.1f} s)"
    if score.dropped:
        line += f"; {score.dropped:,} lines dropped, their sentences being in the test set"
    if not score.complete:
        line += " (not the published parts, so this does not compare with published values)"
    return line
