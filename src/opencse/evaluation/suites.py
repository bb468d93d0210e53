"""The suites of tasks an encoder can be judged on, each opened the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, nearest
from opencse.evaluation.embedding import EmbeddingModel, Progress
from opencse.evaluation.probing.data import load_probing
from opencse.evaluation.probing.result import ProbingResult, probing_table
from opencse.evaluation.probing.score import evaluate_probing
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.regression.data import load_sts_regressor
from opencse.evaluation.regression.result import RegressorResult, regressor_table
from opencse.evaluation.regression.score import evaluate_sts_regressor
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.evaluation.retrieval.result import RetrievalResult, retrieval_table
from opencse.evaluation.retrieval.score import evaluate_retrieval
from opencse.evaluation.sts.data import load_sts, load_sts_hub
from opencse.evaluation.sts.result import StsResult, sts_table
from opencse.evaluation.sts.score import evaluate_sts
from opencse.evaluation.transfer.data import load_transfer
from opencse.evaluation.transfer.result import TransferResult, transfer_table
from opencse.evaluation.transfer.score import evaluate_transfer

if TYPE_CHECKING:
    from rich.table import Table

HUB = "hub"


@dataclass(frozen=True)
class Evaluation:
    """What a suite found.

    Attributes:
        record: the scores and where they come from.
        arrays: what the scores were made of, pair by pair, by name, for tests over pairs; empty if nothing is kept.
    """

    record: EvaluationRecord
    arrays: dict[str, NDArray[np.float64]] = field(default_factory=dict)


Evaluate = Callable[[EmbeddingModel, Progress | None], Evaluation]
"""Judges one encoder on tasks that are loaded already."""


@dataclass(frozen=True)
class Options:
    """What can be chosen about a suite.

    Attributes:
        tasks: some of its tasks; all (that are there) for None.
        fast: the fast classifier of SentEval where a classifier is trained (transfer, probing).
        logistic: transfer by scikit-learn's logistic regression instead of SentEval's classifier.
        device: where classifiers and regressors are trained.
    """

    tasks: Sequence[str] | None = None
    fast: bool = False
    logistic: bool = False
    device: str | None = None


@dataclass(frozen=True)
class Suite:
    """One suite.

    Attributes:
        name: on the command line, and the first part of its scores' names.
        title: for a person.
        open: folder and options -> a judge; faults of the data are told here, before anything is encoded.
        result: what its JSON holds.
        table: results by label -> a table.
        folder: of its tasks in a folder of suites; None: of its own name.
    """

    name: str
    title: str
    open: Callable[[Path, Options], Evaluate]
    result: type[EvaluationRecord]
    table: Callable[[Mapping[str, Any]], Table]
    folder: str | None = None


def _sts(folder: Path, options: Options) -> Evaluate:
    data = load_sts_hub(options.tasks) if str(folder) == HUB else load_sts(folder, options.tasks)

    def judge(judged: EmbeddingModel, progress: Progress | None) -> Evaluation:
        arrays = {f"{key}.gold": pairs.gold for key, pairs in data.tasks.items()}
        record = evaluate_sts(
            judged.encode,
            data,
            model=judged.name,
            pooling=judged.pooling,
            device=judged.device,
            progress=progress,
            keep=lambda key, cosines: arrays.update({f"{key}.cosine": cosines}),
        )
        return Evaluation(record.with_code(judged.code), arrays)

    return judge


def _sts_regressor(folder: Path, options: Options) -> Evaluate:
    data = load_sts_regressor(folder, options.tasks)
    return partial(_judge, evaluate_sts_regressor, data, regressor_device=options.device)


def _transfer(folder: Path, options: Options) -> Evaluate:
    return partial(
        _judge,
        evaluate_transfer,
        load_transfer(folder, options.tasks),
        mode="fast" if options.fast else "test",
        classifier="logistic" if options.logistic else "softmax",
        classifier_device=options.device,
    )


def _probing(folder: Path, options: Options) -> Evaluate:
    return partial(
        _judge,
        evaluate_probing,
        load_probing(folder, options.tasks),
        mode="fast" if options.fast else "test",
        classifier_device=options.device,
    )


def _retrieval(folder: Path, options: Options) -> Evaluate:
    return partial(_judge, evaluate_retrieval, load_retrieval(folder, options.tasks))


def _judge(
    evaluate: Callable[..., EvaluationRecord],
    data: object,
    judged: EmbeddingModel,
    progress: Progress | None,
    **settings: str | None,
) -> Evaluation:
    """What ``evaluate`` finds of ``judged`` on ``data``."""
    told = {"model": judged.name, "pooling": judged.pooling, "device": judged.device, **settings}
    return Evaluation(evaluate(judged.encode, data, progress=progress, **told).with_code(judged.code))


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("sts", "semantic textual similarity", _sts, StsResult, sts_table),
        Suite("sts-regressor", "STS by a fitted regressor", _sts_regressor, RegressorResult, regressor_table, "sts"),
        Suite("transfer", "transfer tasks by SentEval's protocol", _transfer, TransferResult, transfer_table),
        Suite("probing", "probing tasks by SentEval's protocol", _probing, ProbingResult, probing_table),
        Suite("retrieval", "retrieval in BEIR's form", _retrieval, RetrievalResult, retrieval_table),
    )
}
"""By name, in the order of the papers' tables."""


def suite_named(name: str) -> Suite:
    """The suite called ``name``.

    Raises:
        UserError: naming those there are.
    """
    if name not in SUITES:
        raise UserError(f"unknown suite {name!r}{nearest(name, SUITES)}; there are: {', '.join(SUITES)}")
    return SUITES[name]


def suite_folder(data: str | Path, suite: str, *, alone: bool) -> Path:
    """Where a suite's tasks are: in its folder within ``data`` if that is there, else ``data`` itself.

    Args:
        data: a folder of suites, the folder of one suite, or ``hub``.
        suite: its name.
        alone: whether no other suite is asked for.

    Raises:
        UserError: if several are asked for and ``data`` holds no folder of that name.
    """
    name = suite_named(suite).folder or suite
    inside = Path(data) / name
    if str(data) == HUB or (alone and not inside.is_dir()):
        return Path(data)
    if not inside.is_dir():
        raise UserError(f"{data}: no folder {name!r} in it; several suites are read from one folder each")
    return inside
