"""Prints what the commands give that score encoders, or compare recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from opencse.cli.console import echo, show
from opencse.cli.parameters import Call, Json
from opencse.commands.declared import Typed
from opencse.errors import UserError
from opencse.numerals import number_of


def calibrate(call: Call) -> None:
    """Find out what a cosine of this model means on your text, and above which cosine pairs are similar.

    The result is saved with the model, and `opencse similarity` shows it.
    """
    calibration = call()
    percentiles = calibration.random_pairs.quantiles_by_percent()
    echo("random pairs   " + "  ".join(f"{percent:g} %: {cosine:.2f}" for percent, cosine in percentiles.items()))
    for threshold in (calibration.best_f1, calibration.at_precision):
        if threshold is None:
            continue
        interval = ""
        if threshold.interval is not None:
            interval = f" (95% interval {threshold.interval[0]:.3f} to {threshold.interval[1]:.3f})"
        rule = "best F1" if threshold.rule == "best_f1" else f"precision {threshold.wanted:g}"
        echo(
            f"similar from   {threshold.cosine:.3f}{interval} by {rule}: precision {threshold.precision:.2f}, "
            f"recall {threshold.recall:.2f} on {number_of(threshold.pairs, 'pair')}"
        )


def evaluate_all(
    call: Call,
    models: list[str],
    layers: list[int] | Literal["all"] | None,
    dimensions: list[int] | None,
    tasks: list[str] | None,
    bm25: bool,
    hybrid: bool,
    rerank: str | None,
    *,
    suites: Annotated[
        Sequence[str],
        Typed("Suites, comma-separated: sts, transfer, probing, retrieval, sts-regressor, dev.", ("--suite",)),
    ] = ("sts",),
    aggregation: Annotated[
        Literal["all", "mean", "wmean"],
        Typed("STS: how the subsets of a year become one score; --json has all."),
    ] = "all",
    correlation: Annotated[
        Literal["spearman", "pearson"], Typed("STS: correlation in the table; --json has both.")
    ] = "spearman",
    subsets: Annotated[bool, Typed("STS: one row for each subset.")] = False,
    lengths: Annotated[bool, Typed("STS: pairs of similar and of different length separately.")] = False,
    json_file: Annotated[
        Path | None,
        Typed("Also write the results to this file, as JSON: a record, or a list of several.", ("--json",)),
    ] = None,
) -> None:
    """Score encoders: seven STS tasks, transfer and probing by SentEval's protocol, retrieval in BEIR's form."""
    from opencse.evaluation import Sts, sts_table
    from opencse.evaluation.sts import length_table
    from opencse.evaluation.suites import suite_named
    from opencse.records import save_json

    named = [suite_named(name) for name in dict.fromkeys(suites or [""])]
    tables = (set(models), named, layers or [0], dimensions or [0])
    more = bm25 or hybrid or rerank is not None
    single = not more and layers != "all" and all(len(table) == 1 for table in tables)
    if tasks is not None and len(named) > 1:
        raise UserError("--tasks needs a single suite; evaluate the suites one by one, or leave --tasks out")
    scored = call(models=list(dict.fromkeys(models)), suites=[one.name for one in named])
    records: list[dict[str, Any]] = []
    for one, (_, results) in zip(named, scored, strict=True):
        records += [result.to_dict() for result in results.values()]
        if json_file is not None:
            save_json(json_file, records[0] if single else records)
        if one is not Sts:
            show(one.table(results))
        elif lengths:
            show(length_table(results))
        else:
            show(sts_table(results, aggregation=aggregation, correlation=correlation, subsets=subsets))


def analyze(
    call: Call, out: Path, *, show_page: Annotated[bool, Typed("Open the page in a browser.", ("--open",))] = False
) -> None:
    """Write a page about one model or several side by side: verdict, scores, geometry, layers, neighbours."""
    import webbrowser

    call()
    page = Path(out) / "report.html"
    echo(str(page))
    if show_page:
        webbrowser.open(page.resolve().as_uri())


def compare(
    call: Call,
    ctx: object,
    text: Annotated[
        str | None, Typed("Text that every run is trained on: a file or a Hub data set; or a study file (*.toml).")
    ] = None,
    *,
    out: Annotated[
        str | None,
        Typed(
            "Folder of the comparison; finished runs in it are not made again.",
            ("--out", "-o"),
            parser=Path,
            metavar="FOLDER",
        ),
    ] = None,
    recipes: Annotated[
        Sequence[str] | None,
        Typed("Recipes, comma-separated; presets follow after colons: simcse,simcse:dropout-0.2.", ("--recipes", "-r")),
    ] = None,
    data: Annotated[
        str | None,
        Typed("Evaluation data: a folder with sts/, transfer/, ... (or one of these), or 'hub' to download them."),
    ] = None,
    study: Annotated[
        Path | None,
        Typed("TOML file with these options by name (--set is called settings); options typed here win."),
    ] = None,
) -> None:
    """Compare recipes over seeds and starting models, with intervals and significance.

    The encoder of each run's last step is scored, because the question is what a recipe does; --kept scores the
    encoder that `opencse train` would keep, which may be the start. The start is scored too: with the pooling that
    training begins with, and with its own where that differs.

    Each run is saved when it ends; after an interruption the same command continues. The result is comparison.md,
    comparison.svg and comparison.json in OUT. A study file holds all options: opencse compare study.toml.
    """
    import shlex
    import sys

    from opencse.cli.study_file import read_study, study_of
    from opencse.studies.tables import comparison_table

    if study is None and text is not None and text.endswith(".toml"):
        study, text = Path(text), None
    arguments = {"text": text, "out": None if out is None else str(out), "recipes": recipes, "data": data}
    values = arguments | call.keywords
    typed = {name: value for name, value in values.items() if value is not None and _is_typed(ctx, name)}
    request = study_of(typed) if study is None else read_study(study, typed)
    started_by = shlex.join(["opencse", *sys.argv[1:]])  # whatever started it
    options = request.options()
    comparison = call(**options, command=started_by)
    if options["dry_run"]:
        return
    show(comparison_table(comparison))
    echo(str(Path(request.out) / "comparison.md"))


def _is_typed(ctx: Any, name: str) -> bool:  # noqa: ANN401 - a private class of typer's
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def reproduce(call: Call) -> None:
    """Train and evaluate a paper's system, and print its published scores next to the measured ones."""
    from opencse.studies.tables import expected_table

    reproduction = call()
    show(expected_table(reproduction.row.expected, reproduction.found))


def label(
    call: Call,
    folders: list[str],
    out: str,
    model: str | None,
    device: str | None,
    trust_remote_code: bool,
    *,
    score: Annotated[bool, Typed("Print how vectors, BM25 and hybrid search score by the labels so far.")] = False,
    json_file: Json = None,
) -> None:
    """Show a local page to type queries and mark which texts of INDEX are right; about twenty minutes for twenty.

    To compare models, give an index by each of them, so that no model scores too low because only hits of another one
    were judged.

    The folder of --out is saved after each mark. It is for `opencse adapt --dev FOLDER` and for `opencse evaluate
    --suite retrieval --data FOLDER`. The same command continues later. Ctrl-C stops it.
    """
    from opencse.commands.labelling import label_scores
    from opencse.records import save_json

    if not score:
        if json_file is not None:
            raise UserError("--json is for scores; add --score, or leave it out")
        call()
        return
    scores = label_scores(
        folders,
        out,
        model=model,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=call.keywords["progress"],
    )
    if json_file is not None:
        save_json(json_file, asdict(scores))
    for line in scores.lines():
        echo(line)
