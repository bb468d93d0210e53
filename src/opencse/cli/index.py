"""The commands ``opencse index``: build, add, delete, query, info, check, pairs, duplicates, negatives, export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own

index = typer.Typer(help="Build, change and search an index of texts.", no_args_is_help=True, rich_markup_mode=None)


def _folder(name: str) -> str:
    return own.named(name, "INDEX")


Folder = Annotated[str, typer.Argument(help="Folder of the index.", metavar="INDEX", parser=_folder)]
TextColumns = Annotated[str | None, typer.Option("--columns", hidden=True, help="Refused: see --fields.")]
IdColumn = Annotated[
    str | None, typer.Option("--id", help="Column with the id of each row; by default _id, or else rows are numbered.")
]
Metadata = Annotated[
    str | None, typer.Option(help="Columns to store with each text, comma-separated; searches may filter by them.")
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Condition on metadata: lang=en, lang=en,de, year>=2020 (also !=, <, <=, >); if repeated, all must hold.",
    ),
]
OtherModel = Annotated[
    str | None,
    typer.Option("--model", help="Folder of the index's model, if it was moved; another model is refused."),
]


@index.command()
def build(
    folder: Folder,
    model: own.Encoder,
    text: own.Text,
    fields: own.Fields = None,
    columns: TextColumns = None,
    ids: IdColumn = None,
    metadata: Metadata = None,
    keep_code: own.KeepCode = False,
    split: own.Split = "train",
    kind: Annotated[
        str, typer.Option(help="flat (exact), or approximate for many rows: hnsw (fast), ivfpq (small).")
    ] = "flat",
    cut: Annotated[
        bool,
        typer.Option(
            "--cut/--no-cut", help="Split texts that are too long for the model into passages, or keep their beginning."
        ),
    ] = True,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens in a passage, at most; by default what the model reads.")
    ] = None,
    overlap: Annotated[int, typer.Option(min=0, help="Tokens that a passage shares with the one before.")] = 0,
    language: Annotated[
        str,
        typer.Option(
            help="Language whose word stems --hybrid compares: auto (that of the text, if clear), none, or en, de, ..."
        ),
    ] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing index.")] = False,
    pooling: own.Pooling = None,
    json_file: own.Json = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Encode a text and keep its vectors in INDEX; after an interruption the same command continues."""
    import opencse
    from opencse.cli.console import echo
    from opencse.errors import InterruptedRunError, require_known
    from opencse.outputs import has_keys
    from opencse.progress import Terminal
    from opencse.search.approximate import KINDS, IndexKind

    require_known(kind, KINDS, "kind of index")
    index_kind: IndexKind = kind  # type: ignore[assignment]
    own.require_json(json_file, lambda old: has_keys(old, ["info", "recall"]), read=[folder, text], models=[model])
    _require_no_columns(columns)
    try:
        built = opencse.build_index(
            folder,
            model,
            text,
            fields=own.listed(fields),
            keep_code=keep_code,
            ids=ids,
            metadata=own.listed(metadata) or (),
            split=split,
            kind=index_kind,
            cut=cut,
            max_length=max_length,
            overlap=overlap,
            language=language,
            overwrite=overwrite,
            pooling=pooling,
            device=device,
            trust_remote_code=trust_remote_code,
            progress=Terminal(),
        )
    except KeyboardInterrupt:
        raise InterruptedRunError("stopped; the same command continues from here") from None
    info, recall = built.info, built.recall
    _write(json_file, {"info": asdict(info), "recall": None if recall is None else recall.at})
    passages = "" if info.rows == info.documents else f" in {info.rows:,} passages"
    echo(f"{folder}: {info.documents:,} texts{passages}, {info.dimension} dimensions, {info.kind}")
    if recall is not None:
        echo(recall.line())


@index.command()
def add(
    folder: Folder,
    text: own.Text,
    fields: own.Fields = None,
    columns: TextColumns = None,
    ids: IdColumn = None,
    metadata: Metadata = None,
    keep_code: own.KeepCode = False,
    split: own.Split = "train",
    replace: Annotated[bool, typer.Option("--replace", help="Replace rows that have the same ids.")] = False,
    model: OtherModel = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Add the rows of a text to INDEX: all of them, or none if it fails or is interrupted."""
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    _require_no_columns(columns)
    count = opencse.add_to_index(
        folder,
        text,
        fields=own.listed(fields),
        keep_code=keep_code,
        ids=ids,
        metadata=own.listed(metadata) or (),
        split=split,
        replace=replace,
        model=model,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    echo(f"{folder}: {count:,} texts added")


@index.command()
def delete(
    folder: Folder,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of rows or documents.", metavar="ID")] = None,
    where: Conditions = None,
) -> None:
    """Delete rows of INDEX by id, or those that meet conditions: all of them, or none if it is interrupted."""
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    count = opencse.delete_from_index(folder, ids or None, where=where or None, progress=Terminal())
    echo(f"{folder}: {count:,} rows deleted")


@index.command()
def query(
    folder: Folder,
    texts: Annotated[list[str] | None, typer.Argument(help="Queries, quoted.", metavar="QUERY")] = None,
    queries: Annotated[Path | None, typer.Option(help="File of more queries, one per line.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of hits for each query.")] = 10,
    threshold: Annotated[float | None, typer.Option(help="Leave out rows below this score; by default none.")] = None,
    where: Conditions = None,
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Rank by keywords (BM25) and vectors together.")] = False,
    hybrid_weight: Annotated[
        float | None, typer.Option(min=0, max=1, help="Weight of the vectors in --hybrid, 0 to 1; by default 0.5.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show whole texts in a terminal, not their first lines.")
    ] = False,
    model: OtherModel = None,
    json_file: own.Json = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Show the rows of INDEX that are most similar to each query.

    In a terminal each hit has about three lines; elsewhere one, with tabs between rank, score, id, metadata and text.
    The score is the similarity by the model's own function, usually the cosine. With --hybrid scores only compare the
    hits of one query, and the best hit may be a poor one.
    """
    from rich.console import Console

    import opencse
    from opencse.cli.console import echo
    from opencse.cli.passages import blocks
    from opencse.errors import UserError
    from opencse.outputs import has_list
    from opencse.progress import Terminal
    from opencse.text.stems import stems_of

    own.require_json(
        json_file, lambda old: has_list(old, "queries", ["query", "hits"]), read=[folder, queries], models=[model]
    )
    all_queries = own.texts(texts, queries)
    if not all_queries:
        raise UserError("no query; give one after the index, or a file of queries with --queries")
    result = opencse.query_index(
        folder,
        all_queries,
        k=k,
        threshold=threshold,
        where=where or None,
        hybrid=hybrid,
        hybrid_weight=hybrid_weight,
        model=model,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    records = [
        {"query": text, "hits": [{**asdict(hit), "metadata": dict(hit.metadata)} for hit in hits]}
        for text, hits in zip(all_queries, result, strict=True)
    ]
    _write(json_file, {"queries": records})
    console = Console()
    stems = stems_of(result.language)
    for text, hits in zip(all_queries, result, strict=True):
        echo(f"{text} ({result.score})" if hits else f"{text}: no text meets the conditions and the threshold")
        for rank, hit in enumerate(hits, start=1):
            values = [f"{name}={value}" for name, value in hit.metadata.items() if value is not None]
            head = [f"#{rank}", f"{hit.score:.4f}", hit.id, *values]
            for line in blocks(head, hit.text, console, full=full, query=text if hybrid else "", stems=stems):
                echo(line)


@index.command()
def info(folder: Folder, json_file: own.Json = None) -> None:
    """Print what INDEX holds: rows, dimensions, kind, model, columns."""
    import opencse
    from opencse.cli.console import echo
    from opencse.outputs import has_fields
    from opencse.search.result import IndexInfo

    own.require_json(json_file, lambda old: has_fields(old, IndexInfo), read=[folder])
    data = opencse.index_info(folder)
    _write(json_file, asdict(data))
    columns = ", ".join(f"{name} ({kind or 'empty'})" for name, kind in data.columns.items()) or "none"
    passages = (
        f"passages of at most {data.max_length} tokens, overlap {data.overlap}" if data.max_length else "not split"
    )
    echo(f"texts      {data.documents:,}, {data.rows:,} rows; {passages}")
    size = f"{data.dimension} dimensions, {data.megabytes:,.1f} MB of vectors"
    echo(f"kind       {data.kind}, {data.similarity}, {size}")
    echo(f"model      {data.model or 'passed in Python'}, fingerprint {data.fingerprint}")
    if data.query_prompt or data.document_prompt:
        query, document = (repr(prompt) if prompt else "none" for prompt in (data.query_prompt, data.document_prompt))
        echo(f"prompts    queries {query}, documents {document}")
    echo(f"metadata   {columns}")
    echo(f"keywords   {f'{data.language} stems' if data.language else 'without stemming'}, for --hybrid")


@index.command()
def check(folder: Folder, json_file: own.Json = None) -> None:
    """Check every file of INDEX against its checksums; exit code 0 if intact, 1 if damaged, 2 without an index."""
    import opencse
    from opencse.cli.console import echo
    from opencse.outputs import has_fields
    from opencse.progress import Terminal
    from opencse.search.checking import IndexCheck

    own.require_json(json_file, lambda old: has_fields(old, IndexCheck), read=[folder])
    result = opencse.check_index(folder, progress=Terminal())
    _write(json_file, asdict(result))
    for line in (*result.faults, *result.notes):
        echo(line)
    if result.faults:
        echo(f"{folder}: damaged; copy the whole folder again, or build the index again")
        raise typer.Exit(1)
    echo(f"{folder}: intact, {result.rows:,} rows")


@index.command()
def pairs(
    folder: Folder,
    most: Annotated[int, typer.Option("-n", min=1, help="Pairs to show.")] = 20,
    full: Annotated[
        bool, typer.Option("--full", help="Show whole texts in a terminal, not their first lines.")
    ] = False,
    json_file: own.Json = None,
) -> None:
    """Show the most similar pairs of texts in INDEX."""
    from rich.console import Console

    import opencse
    from opencse.cli.console import echo
    from opencse.cli.passages import blocks
    from opencse.outputs import has_list
    from opencse.progress import Terminal

    own.require_json(json_file, lambda old: has_list(old, "pairs", ["score", "first", "second"]), read=[folder])
    similar = opencse.index_pairs(folder, most=most, progress=Terminal())
    _write(json_file, {"pairs": [asdict(pair) for pair in similar]})
    console = Console()
    kind = opencse.index_info(folder).similarity
    for pair in similar:
        for name, text in ((pair.first, pair.first_text), (pair.second, pair.second_text)):
            for line in blocks([f"{kind} {pair.score:.4f}", name], text, console, full=full):
                echo(line)


@index.command()
def duplicates(
    folder: Folder,
    threshold: Annotated[
        float | None,
        typer.Option(help="Texts with at least this similarity count as duplicates; by default only equal texts."),
    ] = None,
    json_file: own.Json = None,
) -> None:
    """Show groups of duplicate texts in INDEX; delete all but the first of a group to keep one."""
    import opencse
    from opencse.cli.console import echo
    from opencse.outputs import has_list
    from opencse.progress import Terminal

    own.require_json(json_file, lambda old: has_list(old, "groups", ["ids", "texts", "score"]), read=[folder])
    groups = opencse.index_duplicates(folder, threshold=threshold, progress=Terminal())
    _write(json_file, {"threshold": threshold, "groups": [asdict(group) for group in groups]})
    more = sum(len(group.ids) - 1 for group in groups)
    function = opencse.index_info(folder).similarity
    for group in groups:
        echo(f"{len(group.ids)} texts, {function} from {group.score:.4f}: {', '.join(group.ids)}")
        for text in dict.fromkeys(group.texts):
            echo(f"    {text}")
    echo(f"{folder}: {len(groups):,} groups; {more:,} texts repeat another")


@index.command()
def negatives(
    folder: Folder,
    pairs: Annotated[str, typer.Argument(help="Pairs of query and answer: a text file or a Hub data set.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of triples to write (.jsonl).")],
    columns: Annotated[str | None, typer.Option(help="Columns with query and answer, comma-separated.")] = None,
    split: own.Split = "train",
    count: Annotated[int, typer.Option(help="Negatives for each pair; each makes a row.")] = 1,
    first: Annotated[int, typer.Option(help="First rank of the query's hits that may be a negative.")] = 1,
    last: Annotated[int, typer.Option(help="Last rank of the query's hits that may be a negative.")] = 50,
    ceiling: Annotated[float, typer.Option(help="A negative's score is below this share of the answer's.")] = 0.95,
    floor: Annotated[float | None, typer.Option(help="Lowest score of a negative to its query.")] = None,
    same: Annotated[float, typer.Option(help="A text with at least this cosine to an answer is no negative.")] = 0.95,
    pick: Annotated[str, typer.Option(help="Which candidates are taken: hardest, or random.")] = "hardest",
    seed: Annotated[int, typer.Option(help="Seed of --pick random.")] = 42,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file --out if it exists.")] = False,
    model: OtherModel = None,
    json_file: own.Json = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Mine hard negatives for pairs from INDEX, into a file of triples for `opencse train`."""
    import opencse
    from opencse.cli.console import echo
    from opencse.outputs import has_fields
    from opencse.progress import Terminal
    from opencse.search.negatives import Mined, Mining
    from opencse.settings import validate

    own.require_json(json_file, lambda old: has_fields(old, Mined), read=[folder, pairs, out], models=[model])
    settings = {
        "count": count, "ranks": (first, last), "ceiling": ceiling, "floor": floor, "same": same, "pick": pick,
        "seed": seed,
    }  # fmt: skip
    mined = opencse.index_negatives(
        folder,
        pairs,
        out,
        how=validate(Mining, settings, "opencse index negatives"),
        columns=own.listed(columns),
        split=split,
        overwrite=overwrite,
        model=model,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    _write(json_file, asdict(mined))
    echo(f"{out}: {mined.triples:,} triples of {mined.pairs:,} pairs; {mined.without:,} pairs without a negative")
    refused = ", ".join(f"{why} {times:,}" for why, times in mined.refused.items())
    echo(f"candidates left out: {refused or 'none'}")


@index.command()
def export(
    folder: Folder,
    to: Annotated[str, typer.Argument(help="Store: qdrant, lancedb or pgvector.")],
    target: Annotated[
        str, typer.Argument(help="Folder or URL (Qdrant), folder (LanceDB), or connection string (pgvector).")
    ],
    name: Annotated[str, typer.Option(help="Name of the new collection or table.")] = "opencse",
) -> None:
    """Export INDEX to another store: ids, texts, metadata and vectors."""
    import opencse
    from opencse.cli.console import echo

    exported = opencse.export_index(folder, to, target, name=name)
    echo(f"{exported.to}: {exported.rows:,} rows in {exported.name}; {exported.how}")
    if prompt := opencse.index_info(folder).query_prompt:
        echo(f"prompts    put {prompt!r} before queries, as encode_query does")


def _require_no_columns(columns: str | None) -> None:
    """Refuses --columns, which names the fields of a text in other commands."""
    from opencse.errors import UserError

    if columns is not None:
        raise UserError(f"an index holds documents: name their title and text with --fields {columns}, not --columns")


def _write(file: Path | None, data: dict[str, object]) -> None:
    if file is not None:
        from opencse.records import write_json

        write_json(file, data)
