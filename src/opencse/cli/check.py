"""``opencse check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli import options as own

if TYPE_CHECKING:
    from opencse.text.check import CorpusCheck


def check(
    text: own.Text,
    model: Annotated[
        str, typer.Option("--model", "-m", help="Model whose tokenizer reads the text: a folder or a Hub id.")
    ] = "opencse-mini",
    max_length: Annotated[
        int | None,
        typer.Option(
            min=3,
            max=1_000_000,
            help="Tokens of each text that training would read; by default those that the suggested command reads.",
        ),
    ] = None,
    near_duplicates: Annotated[
        float | None,
        typer.Option(
            help="Count rows that overlap with an earlier row by at least this share (0 to 1), for instance 0.8."
        ),
    ] = None,
    columns: own.Columns = None,
    fields: own.Fields = None,
    keep_code: own.KeepCode = False,
    split: own.Split = "train",
    json_file: own.Json = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Look at a text before training on it: duplicates, lengths, unknown tokens, scripts; with advice."""
    import opencse
    from opencse.cli.console import echo
    from opencse.outputs import has_keys
    from opencse.progress import Terminal
    from opencse.records import write_json
    from opencse.text.check import CorpusCheck

    own.require_json(json_file, lambda old: has_keys(old, CorpusCheck.model_fields), read=[text], models=[model])
    found = opencse.check(
        text,
        model=model,
        max_length=max_length,
        near_duplicates=near_duplicates,
        columns=own.listed(columns),
        fields=own.listed(fields),
        keep_code=keep_code,
        split=split,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    if json_file is not None:
        write_json(json_file, found.model_dump(mode="json"))
    for line in lines(found, model):
        echo(line)


def lines(found: CorpusCheck, model: str) -> list[str]:
    """The check, to be read."""
    quantiles = ", ".join(f"{words:.0f} ({float(share):.0%})" for share, words in found.words.items())
    scripts = ", ".join(f"{name.title()} {share:.1%}" for name, share in list(found.scripts.items())[:4])
    told = [
        *(f"file        {line}" for line in found.read_as),
        f"text        {found.source}: {found.rows:,} rows of {found.width}"
        + (f", {found.documents:,} documents" if found.documents else ""),
        f"words       {quantiles}",
        f"near empty  {found.near_empty:.1%} under 3 words, {found.without_letters:.1%} without a letter",
        f"duplicates  {found.duplicates:.1%}",
        *(f"            {count:,} x {text}" for text, count in found.most_repeated),
        *([] if found.near_duplicates is None else [f"near        {found.near_duplicates:.1%} nearly repeat another"]),
        *(f"            {row} ~ {earlier}" for row, earlier in found.nearly_repeated),
        f"scripts     {scripts or 'no letters'}",
    ]
    if found.unknown is not None and found.cut is not None and found.tokens_per_word is not None:
        told.append(
            f"tokens      {found.tokens_per_word:.2f} a word, {found.unknown:.2%} unknown to {model}, "
            f"{found.cut:.1%} of texts over {found.max_length} ids ({found.sampled:,} texts sampled)"
        )
    told += [f"advice      {line}" for line in found.advice or ["nothing stands out"]]
    return told + ([f"next        {found.command}"] if found.command else [])
