"""``opencse evaluate``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from opencse.cli import options as own


class Aggregation(StrEnum):
    """How a year's subsets become one score."""

    ALL = "all"
    MEAN = "mean"
    WMEAN = "wmean"


class Correlation(StrEnum):
    """Which correlation the table shows."""

    SPEARMAN = "spearman"
    PEARSON = "pearson"


class Transform(StrEnum):
    """What may come after the model."""

    WHITENING = "whitening"
    FLOW = "flow"


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Encoders: folders, Hub ids, opencse-mini; or baselines: bag-of-words, words:FILE (word vectors).",
            metavar="MODEL",
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Evaluation data: a folder with sts/, transfer/, ... (or one of these), or 'hub' to download them."
        ),
    ],
    suite: Annotated[
        str,
        typer.Option("--suite", help="Suites, comma-separated: sts, transfer, probing, retrieval, sts-regressor, dev."),
    ] = "sts",
    pooling: own.Pooling = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Score layers one by one: 'all', or numbers from 0 (token embeddings): 0,6,12."),
    ] = None,
    dimensions: Annotated[
        str | None, typer.Option(help="Score only the first dimensions of each vector, one row each: 64,128,256.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(help="Only these tasks of the suite, comma-separated.")] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Transfer, probing: SentEval's faster settings, for a first look.")
    ] = False,
    logistic: Annotated[
        bool,
        typer.Option(
            "--logistic", help="Transfer: scikit-learn's logistic regression in place of SentEval's classifier."
        ),
    ] = False,
    transform: Annotated[
        Transform | None, typer.Option(help="Baseline put after the model: whitening, or BERT-flow.")
    ] = None,
    fit: Annotated[
        str, typer.Option(help="Texts that --transform is fitted on: 'target' (those of each task) or a text file.")
    ] = "target",
    keep_identical_ids: own.KeepIdenticalIds = False,
    aggregation: Annotated[
        Aggregation, typer.Option(help="STS: how the subsets of a year become one score; --json has all.")
    ] = Aggregation.ALL,
    correlation: Annotated[
        Correlation, typer.Option(help="STS: correlation in the table; --json has both.")
    ] = Correlation.SPEARMAN,
    subsets: Annotated[bool, typer.Option("--subsets", help="STS: one row for each subset.")] = False,
    lengths: Annotated[
        bool, typer.Option("--lengths", help="STS: pairs of similar and of different length apart.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the results to this file, as JSON: a record, or a list of several."),
    ] = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Score encoders: seven STS tasks, transfer and probing by SentEval's protocol, retrieval in BEIR's form."""
    from opencse.cli.loading import terminal

    progress = terminal()
    import opencse
    from opencse.cli.console import show
    from opencse.errors import UserError
    from opencse.evaluation import StsResult, sts_table
    from opencse.evaluation.record import EvaluationRecord
    from opencse.evaluation.sts.score import length_table
    from opencse.evaluation.suites import suite_folder, suite_named
    from opencse.outputs import has_keys
    from opencse.records import write_json

    suites = [suite_named(name) for name in dict.fromkeys(own.listed(suite) or [suite])]
    wanted = _layers(layers)
    kept = None if dimensions is None else _numbers(dimensions, "--dimensions is numbers from 1, such as 64,128,256")
    single = len(set(models)) == len(suites) == len(wanted or [0]) == len(kept or [0]) == 1 and wanted != "all"
    if json_file is not None:
        read = [fit, *(suite_folder(data, one.name, alone=len(suites) == 1) for one in suites)]
        own.require_json(json_file, lambda old: has_keys(old, EvaluationRecord.model_fields), read=read, models=models)
    if tasks is not None and len(suites) > 1:
        raise UserError("--tasks are of one suite; call evaluate for each")
    scored = opencse.evaluate_all(
        list(dict.fromkeys(models)),
        data,
        [one.name for one in suites],
        layers=wanted,
        dimensions=kept,
        pooling=pooling,
        tasks=own.listed(tasks),
        fast=fast,
        logistic=logistic,
        transform=None if transform is None else transform.value,
        fit=fit,
        keep_identical_ids=keep_identical_ids,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=progress,
    )
    records: list[dict[str, Any]] = []
    for one, (_, results) in zip(suites, scored, strict=True):
        records += [result.to_dict() for result in results.values()]
        if json_file is not None:
            write_json(json_file, records[0] if single else records)
        sts = {model: result for model, result in results.items() if isinstance(result, StsResult)}
        if not sts:
            show(one.table(results))
        elif lengths:
            show(length_table(sts))
        else:
            show(sts_table(sts, aggregation=aggregation.value, correlation=correlation.value, subsets=subsets))


def _layers(given: str | None) -> list[int] | Literal["all"] | None:
    """The layers that ``--layers`` names."""
    if given is None or given.strip() == "all":
        return None if given is None else "all"
    return _numbers(given, "--layers is 'all' or numbers from 0, such as 0,2,4")


def _numbers(given: str, expected: str) -> list[int]:
    from opencse.errors import UserError, shortened
    from opencse.numerals import whole_number

    parts = [whole_number(part.strip()) for part in given.split(",")]
    numbers = [number for number in parts if number is not None]
    if len(numbers) < len(parts):
        raise UserError(f"{expected}, not {shortened(given)!r}")
    return list(dict.fromkeys(numbers))
