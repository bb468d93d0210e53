"""``opencse static``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust

if TYPE_CHECKING:
    from opencse.cli.console import ConsoleReporter
    from opencse.making.static import StaticSettings
    from opencse.text.readers import Source
    from opencse.text.tokenizer import Tokenizer


def static(
    text: Annotated[
        str,
        typer.Argument(help="Text file (txt, csv, tsv, jsonl, parquet; .gz .xz .bz2 too) or Hub data set id."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder for the encoder.")
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Folder or Hub id whose tokenizer is used; by default a new one is made."),
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Pieces of the new tokenizer.")] = 24_576,
    dimension: Annotated[int, typer.Option(help="Length of a vector.")] = 256,
    layers: Annotated[int, typer.Option(help="Layers of the BERT, idle until they are trained.")] = 0,
    window: Annotated[int, typer.Option(help="Words up to this far apart are counted as a pair.")] = 5,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to read, by name or (without header) by position; each text is read by itself."),
    ] = None,
    skip_lines: Annotated[
        Path | None, typer.Option(help="File of line numbers of TEXT to leave out, one a line.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of a Hub data set.")] = "train",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Any setting: key=value, for instance smoothing=0.5 or dropout=0."),
    ] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Make a sentence encoder by counting words, in minutes; no training.

    It is good by itself, small and fast, and a start for train --model.
    """
    from functools import partial

    from opencse.cli.console import ConsoleReporter, echo
    from opencse.cli.jobs import make_folder, open_source
    from opencse.making.static import build, check
    from opencse.runs.card import counted_card
    from opencse.runs.folder import require_empty
    from opencse.text.corpus import tokenise
    from opencse.training.reporter import Stages

    settings = _settings(dimension, layers, window, set_ or [])
    require_empty(out)
    reporter = ConsoleReporter()
    source = open_source(text, columns, split, skip_lines)
    tokenizer, lower_case = _tokenizer(model, source, vocabulary, settings.positions, reporter, trust_remote_code)
    check(settings, tokenizer)
    stages = Stages(reporter)
    try:
        told = partial(stages, "tokenising")
        corpus = tokenise(source, tokenizer, settings.positions, progress=told, say=reporter.say)
        facts = corpus.facts
        reporter.say(f"text       {facts.source}: {facts.rows:,} rows, {facts.tokens:,} tokens")
        make_folder(out)
        made = build(corpus, tokenizer, settings, stages)
    finally:
        reporter.finish()
    own = f"new WordPiece vocabulary of {tokenizer.vocabulary_size:,}, learned from the text"
    made.encoder.lower_case = lower_case
    made.encoder.save(out, card=counted_card(facts, made, settings, model or own, tokenizer.vocabulary_size))
    size = sum(p.numel() for p in made.encoder.parameters()) / 1e6
    reporter.say(f"encoder    {made.pieces:,} pieces with a vector of {settings.dimension}, {size:.1f}M parameters")
    echo(str(out))


def _settings(dimension: int, layers: int, window: int, overrides: list[str]) -> StaticSettings:
    from opencse.making.static import StaticSettings
    from opencse.recipes.recipe import parse_override
    from opencse.settings import validate

    given: dict[str, object] = {"dimension": dimension, "layers": layers, "window": window}
    settings = validate(StaticSettings, given, "static")
    for override in overrides:
        key, value = parse_override(override)
        given[key] = value
        settings = validate(StaticSettings, given, f"--set {override}")
    return settings


def _tokenizer(
    model: str | None,
    source: Source,
    vocabulary: int,
    positions: int,
    reporter: ConsoleReporter,
    trust_remote_code: bool,
) -> tuple[Tokenizer, bool]:
    """The tokenizer, and whether sentence-transformers' configuration is what makes it lower-case."""
    from opencse.encoder.folder import sentence_config, transformer_folder
    from opencse.encoder.locate import BUILTIN, builtin_folder
    from opencse.encoder.lower_case import lower_casing
    from opencse.making.vocabulary import train_wordpiece
    from opencse.text.tokenizer import Tokenizer

    if model is not None:
        folder = builtin_folder() if model == BUILTIN else Path(model)
        if not folder.is_dir():
            return Tokenizer.load(model, trust_remote_code=trust_remote_code), False
        folder = transformer_folder(folder)
        tokenizer = Tokenizer.load(folder, trust_remote_code=trust_remote_code)
        lower = sentence_config(folder).lower_case
        return lower_casing(tokenizer) if lower else tokenizer, lower
    reporter.say(f"vocabulary learning at most {vocabulary:,} pieces from {source.name}")
    texts = (text for row in source.read().rows for text in row)
    return Tokenizer(train_wordpiece(texts, vocabulary, max_length=positions)), False
