"""``opencse check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli.models import Trust

if TYPE_CHECKING:
    from opencse.text.check import CorpusCheck


def check(
    text: Annotated[
        str,
        typer.Argument(help="Text file (txt, csv, tsv, jsonl, parquet; .gz .xz .bz2 too) or Hub data set id."),
    ],
    model: Annotated[
        str, typer.Option("--model", "-m", help="Whose vocabulary is tried on it: a folder, a Hub id, opencse-mini.")
    ] = "opencse-mini",
    max_length: Annotated[int, typer.Option(min=3, help="Ids that training would read of a text.")] = 32,
    columns: Annotated[str | None, typer.Option(help="Columns to read; see opencse train.")] = None,
    split: Annotated[str, typer.Option(help="Split of a Hub data set.")] = "train",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every number here.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Look at a text before training on it: duplicates, lengths, unknown tokens, scripts, with advice."""
    from opencse.cli.console import echo
    from opencse.cli.jobs import open_source, require_writable
    from opencse.cli.models import load_encoder
    from opencse.records import write_json
    from opencse.text.check import check_corpus

    if json_file is not None:
        require_writable(json_file)
    source = open_source(text, columns, split, None)
    texts = source.read()
    encoder = load_encoder(model, device="cpu", trust_remote_code=trust_remote_code)
    found = check_corpus(texts, encoder.tokenizer, max_length=max_length)
    if json_file is not None:
        write_json(json_file, found.model_dump(mode="json"))
    for line in lines(found, model):
        echo(line)


def lines(found: CorpusCheck, model: str) -> list[str]:
    """The check for a person."""
    quantiles = ", ".join(f"{words:.0f} ({float(share):.0%})" for share, words in found.words.items())
    scripts = ", ".join(f"{name.title()} {share:.1%}" for name, share in list(found.scripts.items())[:4])
    told = [
        f"text        {found.source}: {found.rows:,} rows of {found.width}"
        + (f", {found.documents:,} documents" if found.documents else ""),
        f"words       {quantiles}",
        f"near empty  {found.near_empty:.1%} under 3 words, {found.without_letters:.1%} without a letter",
        f"duplicates  {found.duplicates:.1%}",
        *(f"            {count:,} x {text}" for text, count in found.most_repeated),
        f"scripts     {scripts or 'no letters'}",
    ]
    if found.unknown is not None and found.cut is not None and found.tokens_per_word is not None:
        told.append(
            f"tokens      {found.tokens_per_word:.2f} a word, {found.unknown:.2%} unknown to {model}, "
            f"{found.cut:.1%} of texts over {found.max_length} ids ({found.sampled:,} texts sampled)"
        )
    return [*told, *(f"advice      {line}" for line in found.advice or ["nothing stands out"])]
