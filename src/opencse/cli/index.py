"""The commands ``opencse index``: build, add, delete, query, tune, info, check, pairs, duplicates, and so on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.index import (
    AddOptions,
    BuildOptions,
    DeleteOptions,
    DuplicateOptions,
    ExportOptions,
    NegativeOptions,
    PairOptions,
    QueryOptions,
    TuneOptions,
)
from opencse.api.options.shared import ProgressOptions
from opencse.cli.options import (
    EncoderArgument,
    JsonOption,
    TextArgument,
    require_json,
    require_name,
    typed_and_read,
    with_options,
)
from opencse.cli.typed import quoted
from opencse.numerals import number_of

index = typer.Typer(
    help="Build, change and search an index of texts.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def _folder(name: str) -> str:
    return require_name(name, "INDEX")


Folder = Annotated[str, typer.Argument(help="Folder of the index.", metavar="INDEX", parser=_folder)]
TextColumns = Annotated[str | None, typer.Option("--columns", hidden=True, help="Refused: see --fields.")]
FullOption = Annotated[bool, typer.Option("--full", help="Show whole texts in a terminal, not their first lines.")]


@index.command()
@with_options()
def build(
    folder: Folder,
    model: EncoderArgument,
    text: TextArgument,
    columns: TextColumns = None,
    json_file: JsonOption = None,
    **options: Unpack[BuildOptions],
) -> None:
    """Encode a text and keep its vectors in INDEX; after an interruption the same command continues."""
    from opencse.api.index import build_index
    from opencse.cli.console import echo
    from opencse.errors import InterruptedRunError
    from opencse.outputs import has_keys

    require_json(json_file, lambda old: has_keys(old, ["info", "recall"]), read=[folder, text], models=[model])
    _require_no_columns(columns)
    try:
        built = build_index(folder, model, text, **options)
    except KeyboardInterrupt:
        raise InterruptedRunError("stopped; the same command continues from here") from None
    info, recall = built.info, built.recall
    _write(json_file, {"info": asdict(info), "recall": None if recall is None else recall.at})
    passages = "" if info.rows == info.documents else f" in {number_of(info.rows, 'passage')}"
    echo(f"{folder}: {number_of(info.documents, 'text')}{passages}, {info.dimensions}, {info.kind}")
    if recall is not None:
        echo(recall.line())


@index.command()
@with_options()
def add(folder: Folder, text: TextArgument, columns: TextColumns = None, **options: Unpack[AddOptions]) -> None:
    """Add the rows of a text to INDEX: all of them, or none if it fails or is interrupted.

    The text is read with the --fields and --id that INDEX was built with, unless you give either. Columns that INDEX
    stores are read where a file has them; --metadata names others.
    """
    from opencse.api.index import add_to_index
    from opencse.cli.console import echo

    _require_no_columns(columns)
    count = add_to_index(folder, text, **options)
    echo(f"{folder}: {number_of(count, 'text')} added")


@index.command()
@with_options()
def delete(
    folder: Folder,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of rows or documents.", metavar="ID", parser=quoted)
    ] = None,
    **options: Unpack[DeleteOptions],
) -> None:
    """Delete rows of INDEX by id, or those that meet conditions: all of them, or none if it is interrupted."""
    from opencse.api.index import delete_from_index
    from opencse.cli.console import echo

    count = delete_from_index(folder, ids or None, **options)
    echo(f"{folder}: {number_of(count, 'row')} deleted")


@index.command()
@with_options()
def query(
    folder: Folder,
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Queries, quoted; - reads standard input.", metavar="QUERY", parser=quoted),
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="File of more queries, one per line.")] = None,
    full: FullOption = False,
    json_file: JsonOption = None,
    **options: Unpack[QueryOptions],
) -> None:
    """Show the rows of INDEX that are most similar to each query.

    In a terminal each hit has about three lines; elsewhere one, with tabs between rank, score, id, metadata and text.
    The score is the similarity by the model's own function, usually the cosine. With --hybrid scores only compare the
    hits of one query, and the best hit may be a poor one.
    """
    from rich.console import Console

    from opencse.api.index import query_index
    from opencse.cli.console import echo
    from opencse.cli.passages import blocks
    from opencse.errors import UserError
    from opencse.outputs import has_list
    from opencse.text.stems import stems_of

    read, model = [folder, queries], options["model"]
    require_json(json_file, lambda old: has_list(old, "queries", ["query", "hits"]), read=read, models=[model])
    all_queries = typed_and_read(texts, queries)
    if not all_queries:
        raise UserError("no query; give one after the index, or a file of queries with --queries")
    result = query_index(folder, all_queries, **options)
    records = [
        {"query": text, "hits": [{**asdict(hit), "metadata": dict(hit.metadata)} for hit in hits]}
        for text, hits in zip(all_queries, result, strict=True)
    ]
    _write(json_file, {"queries": records})
    console = Console()
    stems = stems_of(result.language if options["hybrid"] else None)  # their package takes a tenth of a second
    mixed = result.score == "hybrid score"
    named = f"{result.score}, {result.similarity}" if mixed else result.score
    for text, hits in zip(all_queries, result, strict=True):
        echo(f"{text} ({named})" if hits else f"{text}: no text meets the conditions and the threshold")
        for rank, hit in enumerate(hits, start=1):
            values = [f"{name}={value}" for name, value in hit.metadata.items() if value is not None]
            if hit.copies:
                more = f", and {len(hit.copies) - 3:,} more" if len(hit.copies) > 3 else ""
                values.insert(0, f"same text: {', '.join(hit.copies[:3])}{more}")
            head = [f"#{rank}", f"{hit.score:.4f}", *([f"{hit.similarity:.4f}"] if mixed else []), hit.id, *values]
            marked = text if options["hybrid"] else ""
            for line in blocks(head, hit.text, console, full=full, query=marked, stems=stems):
                echo(line)


@index.command()
def info(folder: Folder, json_file: JsonOption = None) -> None:
    """Print what INDEX holds: rows, dimensions, kind, model, columns."""
    from opencse.api.index import index_info
    from opencse.cli.console import echo
    from opencse.outputs import has_fields
    from opencse.search.result import IndexInfo

    require_json(json_file, lambda old: has_fields(old, IndexInfo), read=[folder])
    data = index_info(folder)
    _write(json_file, asdict(data))
    columns = ", ".join(f"{name} ({kind or 'empty'})" for name, kind in data.columns.items()) or "none"
    passages = "not split"
    if data.max_length is not None:
        passages = f"passages of at most {data.max_length} tokens, overlap {data.overlap}"
    echo(f"texts      {data.documents:,}, {number_of(data.rows, 'row')}; {passages}")
    size = f"{data.dimensions}, {data.megabytes:,.1f} MB of vectors, computed in {data.precision}"
    echo(f"kind       {data.kind}, {data.similarity}, {size}")
    echo(f"model      {data.model or 'passed in Python'}, fingerprint {data.fingerprint}")
    if data.query_prompt or data.document_prompt:
        query, document = (repr(prompt) if prompt else "none" for prompt in (data.query_prompt, data.document_prompt))
        echo(f"prompts    queries {query}, documents {document}")
    echo(f"metadata   {columns}")
    if data.reading:
        echo(f"read with  {data.reading}")
    echo(f"keywords   {f'{data.language} stems' if data.language else 'without stemming'}, for --hybrid")
    echo(f"hybrid     weight of the vectors {data.hybrid}")


@index.command()
@with_options()
def tune(folder: Folder, json_file: JsonOption = None, **options: Unpack[TuneOptions]) -> None:
    """Fit the weight of the vectors in --hybrid for INDEX to your own queries (--dev), and save it there.

    Few queries move it little from the weight that `opencse index build` chose; `opencse index query --hybrid-weight`
    overrides it.
    """
    from opencse.api.tuning import tune_index
    from opencse.cli.console import echo
    from opencse.outputs import has_keys

    require_json(json_file, lambda old: has_keys(old, ["weight", "scores"]), read=[folder, options["dev"]])
    fitted = tune_index(folder, **options)
    _write(json_file, fitted.record())
    echo(fitted.line(options["metric"] or "nDCG@10"))


@index.command()
@with_options()
def check(folder: Folder, json_file: JsonOption = None, **options: Unpack[ProgressOptions]) -> None:
    """Check every file of INDEX against its checksums; exit code 0 if intact, 1 if damaged, 2 without an index."""
    from opencse.api.index import check_index
    from opencse.cli.console import echo
    from opencse.outputs import has_fields
    from opencse.search.checking import IndexCheck
    from opencse.search.row_database import how_to_rebuild

    require_json(json_file, lambda old: has_fields(old, IndexCheck), read=[folder])
    result = check_index(folder, **options)
    _write(json_file, asdict(result))
    for line in (*result.faults, *result.notes):
        echo(line)
    if result.faults:
        echo(f"{folder}: damaged; copy the whole folder again, or {how_to_rebuild(Path(folder))}")
        raise typer.Exit(1)
    echo(f"{folder}: intact, {number_of(result.rows, 'row')}")


@index.command()
@with_options()
def pairs(
    folder: Folder, full: FullOption = False, json_file: JsonOption = None, **options: Unpack[PairOptions]
) -> None:
    """Show the most similar pairs of texts in INDEX."""
    from rich.console import Console

    from opencse.api.index import index_info, index_pairs
    from opencse.cli.console import echo
    from opencse.cli.passages import blocks
    from opencse.outputs import has_list

    require_json(json_file, lambda old: has_list(old, "pairs", ["score", "first", "second"]), read=[folder])
    similar = index_pairs(folder, **options)
    _write(json_file, {"pairs": [asdict(pair) for pair in similar]})
    console = Console()
    kind = index_info(folder).similarity
    for pair in similar:
        for name, text in ((pair.first, pair.first_text), (pair.second, pair.second_text)):
            for line in blocks([f"{kind} {pair.score:.4f}", name], text, console, full=full):
                echo(line)


@index.command()
@with_options()
def duplicates(folder: Folder, json_file: JsonOption = None, **options: Unpack[DuplicateOptions]) -> None:
    """Show groups of duplicate texts in INDEX; delete all but the first of a group to keep one."""
    from opencse.api.index import index_duplicates, index_info
    from opencse.cli.console import echo
    from opencse.outputs import has_list

    require_json(json_file, lambda old: has_list(old, "groups", ["ids", "texts", "score"]), read=[folder])
    groups = index_duplicates(folder, **options)
    _write(json_file, {"threshold": options["threshold"], "groups": [asdict(group) for group in groups]})
    more = sum(len(group.ids) - 1 for group in groups)
    function = index_info(folder).similarity
    for group in groups:
        echo(f"{number_of(len(group.ids), 'text')}, {function} from {group.score:.4f}: {', '.join(group.ids)}")
        for text in dict.fromkeys(group.texts):
            echo(f"    {text}")
    echo(f"{folder}: {number_of(len(groups), 'group')}; {number_of(more, 'text repeats', 'texts repeat')} another")


@index.command()
@with_options()
def negatives(
    folder: Folder,
    pairs: Annotated[str, typer.Argument(help="Pairs of query and answer: a text file or a Hub data set.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of triples to write (.jsonl).")],
    count: Annotated[int, typer.Option(help="Negatives for each pair; each makes a row.")] = 1,
    first: Annotated[int, typer.Option(help="First rank of the query's hits that may be a negative.")] = 1,
    last: Annotated[int, typer.Option(help="Last rank of the query's hits that may be a negative.")] = 50,
    ceiling: Annotated[float, typer.Option(help="A negative's score is below this share of the answer's.")] = 0.95,
    floor: Annotated[float | None, typer.Option(help="Lowest score of a negative to its query.")] = None,
    same: Annotated[float, typer.Option(help="A text with at least this cosine to an answer is no negative.")] = 0.95,
    pick: Annotated[str, typer.Option(help="Which candidates are taken: hardest, or random.")] = "hardest",
    seed: Annotated[int, typer.Option(help="Seed of --pick random.")] = 42,
    json_file: JsonOption = None,
    **options: Unpack[NegativeOptions],
) -> None:
    """Mine hard negatives for pairs from INDEX, into a file of triples for `opencse train`."""
    from opencse.api.index import index_negatives
    from opencse.cli.console import echo
    from opencse.outputs import has_fields
    from opencse.search.negatives import Mined, Mining
    from opencse.settings import validate

    read, models = [folder, pairs, out], [options["model"], options["teacher"]]
    require_json(json_file, lambda old: has_fields(old, Mined), read=read, models=models)
    settings = {
        "count": count, "ranks": (first, last), "ceiling": ceiling, "floor": floor, "same": same, "pick": pick,
        "seed": seed,
    }  # fmt: skip
    options["how"] = validate(Mining, settings, "opencse index negatives")
    mined = index_negatives(folder, pairs, out, **options)
    _write(json_file, asdict(mined))
    echo(
        f"{out}: {number_of(mined.triples, 'triple')} of {mined.pairs:,} pairs; {number_of(mined.without, 'pair')} "
        "without a negative"
    )
    refused = ", ".join(f"{why} {times:,}" for why, times in mined.refused.items())
    echo(f"candidates left out: {refused or 'none'}")


@index.command()
@with_options()
def export(
    folder: Folder,
    to: Annotated[str, typer.Argument(help="Store: qdrant, lancedb or pgvector.")],
    target: Annotated[
        str, typer.Argument(help="Folder or URL (Qdrant), folder (LanceDB), or connection string (pgvector).")
    ],
    **options: Unpack[ExportOptions],
) -> None:
    """Export INDEX to another store: ids, texts, metadata and vectors."""
    from opencse.api.index import export_index, index_info
    from opencse.cli.console import echo

    exported = export_index(folder, to, target, **options)
    echo(f"{exported.to}: {number_of(exported.rows, 'row')} in {exported.name}; {exported.how}")
    if prompt := index_info(folder).query_prompt:
        echo(f"prompts    put {prompt!r} before queries, as encode_query does")


def _require_no_columns(columns: str | None) -> None:
    """Refuses --columns, which names the fields of a text in other commands."""
    from opencse.errors import UserError

    if columns is not None:
        raise UserError(f"an index holds documents: name their title and text with --fields {columns}, not --columns")


def _write(file: Path | None, data: dict[str, object]) -> None:
    if file is not None:
        from opencse.records import save_json

        save_json(file, data)
