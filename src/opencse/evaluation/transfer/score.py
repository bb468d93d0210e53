"""Transfer: how well does a simple classifier over frozen sentence vectors do on seven tasks?

Protocol of SentEval (Conneau and Kiela 2018) as SimCSE uses it (Gao et al. 2021, appendix E): the encoder is not
trained; softmax regression with l2 in 1e-5 ... 1e-2, chosen on dev or by cross-validation; accuracy in percent.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from opencse.environment import Environment
from opencse.errors import UserError, require_known
from opencse.evaluation.classifiers.cross_validation import Fitter, kfold, nested, split
from opencse.evaluation.classifiers.settings import MODES, Mode
from opencse.evaluation.embedding import Embedded, Encode, Progress, distinct, embed, silent
from opencse.evaluation.record import DataRecord
from opencse.evaluation.transfer.data import Examples, TransferData, TransferExamples
from opencse.evaluation.transfer.result import Classifier, TransferResult, TransferScore, TransferScores

L2 = (1e-5, 1e-4, 1e-3, 1e-2)
C_SPLIT = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
C_KFOLD = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SMALLEST = 20  # of which 5 % is one sentence
CLASSIFIERS: tuple[Classifier, ...] = ("softmax", "logistic")


def evaluate_transfer(
    encode: Encode,
    data: TransferData,
    *,
    mode: Mode = "test",
    classifier: Classifier = "softmax",
    model: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
    classifier_device: str | None = None,
    progress: Progress | None = None,
) -> TransferResult:
    """Judges an encoder on transfer tasks.

    Args:
        encode: texts -> (n, d); called once, on the distinct sentences of all the tasks.
        data: the tasks, from ``load_transfer``.
        mode: ``test`` (10 folds, Adam, batch 64), which papers report, or ``fast`` (5 folds, RMSprop, batch 128).
        classifier: ``softmax``, or ``logistic`` for scikit-learn's (C in 2^-2 ... 2^3, with ``kfold`` 2^-1 ... 2^5).
        model: recorded in the result; so are ``pooling`` and ``device``.
        pooling: see ``model``.
        device: see ``model``.
        classifier_device: where the softmax classifiers are fitted; ``device`` for None, and the CPU without that.
        progress: called with one line at each step.

    Returns:
        The accuracy of each task; a task's does not depend on which others are judged, nor on their order.

    Raises:
        UserError: for an unknown mode or classifier, a vector with NaN or infinite values, a task too small for
            the folds, or ``logistic`` without scikit-learn.
        ValueError: if ``encode`` does not return an (n, d) array.
    """
    require_known(mode, tuple(MODES), "mode")
    require_known(classifier, CLASSIFIERS, "classifier")
    for task in data.tasks.values():
        _large_enough(task, MODES[mode].folds)
    tell = progress or silent
    fit_on = classifier_device or device
    started = time.perf_counter()
    groups = [side for task in data.tasks.values() for part in task.parts.values() for side in part.sides]
    texts = distinct(groups)
    tell(f"transfer: {', '.join(data.tasks)}; {len(texts):,} distinct sentences, mode {mode}, {classifier}")
    if data.absent:
        tell(f"transfer: {', '.join(data.absent)} not in {data.source}, so there is no average over the seven tasks")
    embedded = embed(encode, texts)
    tell(f"transfer: encoded in {time.perf_counter() - started:.1f} s")
    scores: dict[str, TransferScore] = {}
    for key, task in data.tasks.items():
        scores[key] = score_transfer(task, embedded, mode=mode, classifier=classifier, device=fit_on)
        tell(_line(task, scores[key]))
    return TransferResult(
        model=model,
        pooling=pooling,
        data=DataRecord(
            source=data.source, text="unknown", sha256={key: task.sha256() for key, task in data.tasks.items()}
        ),
        environment=Environment.here(device),
        seconds=time.perf_counter() - started,
        mode=mode,
        classifier=classifier,
        transfer=TransferScores.of(scores),
    )


def score_transfer(
    task: TransferExamples,
    embedded: Embedded,
    *,
    mode: Mode = "test",
    classifier: Classifier = "softmax",
    device: str | None = None,
) -> TransferScore:
    """The scores of one task; see ``evaluate_transfer``.

    A sentence's features are its vector u (d,), a pair's are [|u - v|, u * v] (2 d,), all in float32.
    """
    from opencse.evaluation.classifiers.logistic import Logistic
    from opencse.evaluation.classifiers.trained import Classifiers

    started = time.perf_counter()
    scheme, settings = task.task.scheme, MODES[mode]
    features = np.concatenate([_features(part, embedded) for part in task.parts.values()])
    labels = np.concatenate([part.labels for part in task.parts.values()])
    ends = np.cumsum([len(part) for part in task.parts.values()])
    rows = dict(zip(task.parts, np.split(np.arange(len(labels)), ends[:-1]), strict=True))
    fitter: Fitter
    grid: tuple[float, ...]
    if classifier == "softmax":
        fitter = Classifiers(features, labels, settings, classes=len(task.classes), device=device or "cpu")
        grid = L2
    else:
        fitter = Logistic(features, labels)
        grid = C_KFOLD if scheme == "kfold" else C_SPLIT
    match scheme:
        case "nested":
            judged, gold = nested(fitter, labels, settings.folds, grid), labels
        case "kfold":
            judged = kfold(fitter, labels, rows["train"], rows["test"], settings.folds, grid)
            gold = labels[rows["test"]]
        case "split":
            judged = split(fitter, labels, rows["train"], rows["dev"], rows["test"], grid)
            gold = labels[rows["test"]]
    return TransferScore(
        accuracy=judged.accuracy,
        f1=f1(judged.predicted, gold) if task.task.f1 else None,
        dev_accuracy=judged.dev_accuracy,
        scheme=scheme,
        regularisation=list(judged.chosen),
        files=list(task.files),
        examples={name: len(part) for name, part in task.parts.items()},
        complete=task.complete,
        seconds=time.perf_counter() - started,
    )


def f1(predicted: NDArray[np.intp], gold: NDArray[np.intp]) -> float:
    r"""F1 of class 1 in percent, 0 if it is neither predicted nor there.

    .. math:: F_1 = \frac{2\, TP}{2\, TP + FP + FN}

    Args:
        predicted: classes (n,).
        gold: classes (n,).
    """
    true = int(np.sum((predicted == 1) & (gold == 1)))
    total = int(np.sum(predicted == 1)) + int(np.sum(gold == 1))
    return 100 * 2 * true / total if total else 0.0


def _features(part: Examples, embedded: Embedded) -> NDArray[np.float32]:
    if part.second is None:
        return embedded.of(part.first).astype(np.float32)
    return embedded.pair_features(part.first, part.second)


def _line(task: TransferExamples, score: TransferScore) -> str:
    line = f"{task.task.title}: accuracy {score.accuracy:.2f}"
    if score.f1 is not None:
        line += f", F1 {score.f1:.2f}"
    counts = ", ".join(f"{name} {n:,}" for name, n in score.examples.items())
    line += f" ({score.scheme}; {counts}; from {', '.join(score.files)}; {score.seconds:.1f} s)"
    if task.task.published and not score.complete:
        published = ", ".join(f"{name} {n:,}" for name, n in task.task.published.items())
        line += f" (published: {published}, so this does not compare with published values)"
    return line


def _large_enough(task: TransferExamples, folds: int) -> None:
    """That folds, and folds within them, hold every class, and that 5 % of the smallest training set is a sentence."""
    if task.task.scheme == "split":
        return
    train = next(iter(task.parts.values()))
    nested_folds = task.task.scheme == "nested"
    for name, count in zip(task.classes, np.bincount(train.labels, minlength=len(task.classes)).tolist(), strict=True):
        least = count - math.ceil(count / folds) if nested_folds else count
        if least < folds:
            raise UserError(
                f"{task.where}: class {name[:40]!r} has {count} example(s), too few for {folds} folds"
                f"{' within folds' if nested_folds else ''}; add some, or drop the class"
            )
    n = len(train)
    if (n - math.ceil(n / folds) if nested_folds else n) < SMALLEST:
        raise UserError(
            f"{task.where}: {n} examples are too few: 5 % of a training set are set apart to stop a fit by; "
            f"give at least {2 * SMALLEST}"
        )
