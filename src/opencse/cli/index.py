"""Prints what the commands ``opencse index`` give: build, add, delete, query, tune, info, check, pairs, and so on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from opencse.cli.console import echo
from opencse.cli.parameters import Call, Json, typed_and_read
from opencse.commands.declared import Typed
from opencse.errors import InterruptedRunError, UserError
from opencse.numerals import number_of

NoColumns = Annotated["str | None", Typed("Refused: see --fields.", ("--columns",), hidden=True)]
Full = Annotated["bool", Typed("Show whole texts in a terminal, not their first lines.")]


def build_index(
    call: Call, folder: str, model: str, text: str, *, columns: NoColumns = None, json_file: Json = None
) -> None:
    """Encode a text and keep its vectors in INDEX; after an interruption the same command continues."""
    _require_no_columns(columns)
    try:
        built = call()
    except KeyboardInterrupt:
        raise InterruptedRunError("stopped; the same command continues from here") from None
    info, recall = built.info, built.recall
    _write(json_file, {"info": info.model_dump(mode="json"), "recall": None if recall is None else recall.at})
    passages = "" if info.rows == info.documents else f" in {number_of(info.rows, 'passage')}"
    echo(f"{folder}: {number_of(info.documents, 'text')}{passages}, {info.dimensions}, {info.kind}")
    if recall is not None:
        echo(recall.line())


def add_to_index(call: Call, folder: str, *, columns: NoColumns = None) -> None:
    """Add the rows of a text to INDEX: all of them, or none if it fails or is interrupted.

    The text is read with the --fields and --id that INDEX was built with, unless you give either. Columns that INDEX
    stores are read where a file has them; --metadata names others.
    """
    _require_no_columns(columns)
    count = call()
    echo(f"{folder}: {number_of(count, 'text')} added")


def delete_from_index(call: Call, folder: str) -> None:
    """Delete rows of INDEX by id, or those that meet conditions: all of them, or none if it is interrupted."""
    count = call()
    echo(f"{folder}: {number_of(count, 'row')} deleted")


def query_index(
    call: Call,
    folder: str,
    model: str | None,
    hybrid: bool,
    texts: Annotated[
        list[str] | None, Typed("Queries, quoted; - reads standard input.", quoted=True, repeated=True, metavar="QUERY")
    ] = None,
    *,
    queries: Annotated[Path | None, Typed("File of more queries, one per line.")] = None,
    full: Full = False,
    json_file: Json = None,
) -> None:
    """Show the rows of INDEX that are most similar to each query.

    In a terminal each hit has about three lines; elsewhere one, with tabs between rank, score, id, metadata and text.
    The score is the similarity by the model's own function, usually the cosine. With --hybrid scores only compare the
    hits of one query, and the best hit may be a poor one.
    """
    from rich.console import Console

    from opencse.cli.passages import blocks
    from opencse.search.stems import stems_of

    all_queries = typed_and_read(texts, queries)
    if not all_queries:
        raise UserError("no query; give one after the index, or a file of queries with --queries")
    result = call(queries=all_queries)
    records = [
        {"query": text, "hits": [{**asdict(hit), "metadata": dict(hit.metadata)} for hit in hits]}
        for text, hits in zip(all_queries, result, strict=True)
    ]
    _write(json_file, {"queries": records})
    console = Console()
    stems = stems_of(result.language if hybrid else None)  # their package takes a tenth of a second
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
            marked = text if hybrid else ""
            for line in blocks(head, hit.text, console, full=full, query=marked, stems=stems):
                echo(line)


def index_info(call: Call, folder: str, *, json_file: Json = None) -> None:
    """Print what INDEX holds: rows, dimensions, kind, model, columns."""
    data = call()
    _write(json_file, data.model_dump(mode="json"))
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


def tune_index(call: Call, folder: str, dev: str | None, metric: str | None, *, json_file: Json = None) -> None:
    """Fit the weight of the vectors in --hybrid for INDEX to your own queries (--dev), and save it there.

    Few queries move it little from the weight that `opencse index build` chose; `opencse index query --hybrid-weight`
    overrides it.
    """
    fitted = call()
    _write(json_file, fitted.record())
    echo(fitted.line(metric or "nDCG@10"))


def index_pairs(call: Call, folder: str, *, full: Full = False, json_file: Json = None) -> None:
    """Show the most similar pairs of texts in INDEX."""
    from rich.console import Console

    from opencse.cli.passages import blocks
    from opencse.commands.index import index_info

    similar = call()
    _write(json_file, {"pairs": [asdict(pair) for pair in similar]})
    console = Console()
    kind = index_info(folder).similarity
    for pair in similar:
        for name, text in ((pair.first, pair.first_text), (pair.second, pair.second_text)):
            for line in blocks([f"{kind} {pair.score:.4f}", name], text, console, full=full):
                echo(line)


def index_duplicates(call: Call, folder: str, threshold: float | None, *, json_file: Json = None) -> None:
    """Show groups of duplicate texts in INDEX; delete all but the first of a group to keep one."""
    from opencse.commands.index import index_info

    groups = call()
    _write(json_file, {"threshold": threshold, "groups": [asdict(group) for group in groups]})
    more = sum(len(group.ids) - 1 for group in groups)
    function = index_info(folder).similarity
    for group in groups:
        echo(f"{number_of(len(group.ids), 'text')}, {function} from {group.score:.4f}: {', '.join(group.ids)}")
        for text in dict.fromkeys(group.texts):
            echo(f"    {text}")
    echo(f"{folder}: {number_of(len(groups), 'group')}; {number_of(more, 'text repeats', 'texts repeat')} another")


def index_negatives(
    call: Call,
    out: Path,
    *,
    count: Annotated[int, Typed("Negatives for each pair; each makes a row.")] = 1,
    first: Annotated[int, Typed("First rank of the query's hits that may be a negative.")] = 1,
    last: Annotated[int, Typed("Last rank of the query's hits that may be a negative.")] = 50,
    ceiling: Annotated[float, Typed("A negative's score is below this share of the answer's.")] = 0.95,
    floor: Annotated[float | None, Typed("Lowest score of a negative to its query.")] = None,
    same: Annotated[float, Typed("A text with at least this cosine to an answer is no negative.")] = 0.95,
    pick: Annotated[str, Typed("Which candidates are taken: hardest, or random.")] = "hardest",
    seed: Annotated[int, Typed("Seed of --pick random.")] = 42,
    json_file: Json = None,
) -> None:
    """Mine hard negatives for pairs from INDEX, into a file of triples for `opencse train`."""
    from opencse.search.negatives import Mining
    from opencse.settings import validate

    settings = {
        "count": count, "ranks": (first, last), "ceiling": ceiling, "floor": floor, "same": same, "pick": pick,
        "seed": seed,
    }  # fmt: skip
    mined = call(how=validate(Mining, settings, "opencse index negatives"))
    _write(json_file, asdict(mined))
    echo(
        f"{out}: {number_of(mined.triples, 'triple')} of {mined.pairs:,} pairs; {number_of(mined.without, 'pair')} "
        "without a negative"
    )
    refused = ", ".join(f"{why} {times:,}" for why, times in mined.refused.items())
    echo(f"candidates left out: {refused or 'none'}")


def export_index(call: Call, folder: str) -> None:
    """Export INDEX to another store: ids, texts, metadata and vectors."""
    from opencse.commands.index import index_info

    exported = call()
    echo(f"{exported.to}: {number_of(exported.rows, 'row')} in {exported.name}; {exported.how}")
    if prompt := index_info(folder).query_prompt:
        echo(f"prompts    put {prompt!r} before queries, as encode_query does")


def _require_no_columns(columns: str | None) -> None:
    """Refuses --columns, which names the fields of a text in other commands."""
    if columns is not None:
        raise UserError(f"an index holds documents: name their title and text with --fields {columns}, not --columns")


def _write(file: Path | None, data: dict[str, object]) -> None:
    if file is not None:
        from opencse.records import save_json

        save_json(file, data)
