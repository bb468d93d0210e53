"""``opencse evaluate``: score encoders: STS, transfer, probing, retrieval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

import typer

from opencse.api.options.evaluation import EvaluateAllOptions
from opencse.cli.options import DataOption, listed, require_json, with_options


def _layers(typed: str) -> list[int] | Literal["all"]:
    """The layers that ``--layers`` names."""
    if typed.strip() == "all":
        return "all"
    return _whole_numbers(typed, "--layers is 'all' or numbers from 0, such as 0,2,4")


def _dimensions(typed: str) -> list[int]:
    """The dimensions that ``--dimensions`` names."""
    return _whole_numbers(typed, "--dimensions is numbers from 1, such as 64,128,256")


def _whole_numbers(typed: str, expected: str) -> list[int]:
    from opencse.errors import UserError, shortened
    from opencse.numerals import whole_number

    parts = [whole_number(part.strip()) for part in typed.split(",")]
    numbers = [number for number in parts if number is not None]
    if len(numbers) < len(parts):
        raise UserError(f"{expected}, not {shortened(typed)!r}")
    return list(dict.fromkeys(numbers))


@with_options(layers=_layers, dimensions=_dimensions)
def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Encoders: folders, Hub ids, opencse-mini; baselines: bag-of-words, words:FILE (word vectors); for "
            "retrieval also indexes (INDEX), whose own passages are searched.",
            metavar="MODEL",
        ),
    ],
    data: DataOption,
    suite: Annotated[
        str,
        typer.Option("--suite", help="Suites, comma-separated: sts, transfer, probing, retrieval, sts-regressor, dev."),
    ] = "sts",
    aggregation: Annotated[
        Literal["all", "mean", "wmean"],
        typer.Option(help="STS: how the subsets of a year become one score; --json has all."),
    ] = "all",
    correlation: Annotated[
        Literal["spearman", "pearson"], typer.Option(help="STS: correlation in the table; --json has both.")
    ] = "spearman",
    subsets: Annotated[bool, typer.Option("--subsets", help="STS: one row for each subset.")] = False,
    lengths: Annotated[
        bool, typer.Option("--lengths", help="STS: pairs of similar and of different length separately.")
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the results to this file, as JSON: a record, or a list of several."),
    ] = None,
    **options: Unpack[EvaluateAllOptions],
) -> None:
    """Score encoders: seven STS tasks, transfer and probing by SentEval's protocol, retrieval in BEIR's form."""
    from opencse.api.evaluation import evaluate_all
    from opencse.cli.console import show
    from opencse.errors import UserError
    from opencse.evaluation import StsResult, sts_table
    from opencse.evaluation.record import EvaluationRecord
    from opencse.evaluation.sts.tables import length_table
    from opencse.evaluation.suites import suite_folder, suite_named
    from opencse.outputs import has_keys
    from opencse.records import save_json

    suites = [suite_named(name) for name in dict.fromkeys(listed(suite) or [suite])]
    layers, dimensions = options["layers"], options["dimensions"]
    tables = (set(models), suites, layers or [0], dimensions or [0])
    more = options["bm25"] or options["hybrid"] or options["rerank"] is not None
    single = not more and layers != "all" and all(len(table) == 1 for table in tables)
    if json_file is not None:
        names = [one.name for one in suites]
        read = [options["fit"], *(suite_folder(data, name, names) for name in names)]
        require_json(json_file, lambda old: has_keys(old, EvaluationRecord.model_fields), read=read, models=models)
    if options["tasks"] is not None and len(suites) > 1:
        raise UserError("--tasks needs a single suite; evaluate the suites one by one, or leave --tasks out")
    scored = evaluate_all(list(dict.fromkeys(models)), data, [one.name for one in suites], **options)
    records: list[dict[str, Any]] = []
    for one, (_, results) in zip(suites, scored, strict=True):
        records += [result.to_dict() for result in results.values()]
        if json_file is not None:
            save_json(json_file, records[0] if single else records)
        sts = {model: result for model, result in results.items() if isinstance(result, StsResult)}
        if not sts:
            show(one.table(results))
        elif lengths:
            show(length_table(sts))
        else:
            show(sts_table(sts, aggregation=aggregation, correlation=correlation, subsets=subsets))
