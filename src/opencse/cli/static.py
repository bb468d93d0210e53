"""``opencse static``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli import options as own

if TYPE_CHECKING:
    from opencse.making.static import StaticSettings


def static(
    text: own.Text,
    out: Annotated[Path, own.out("for the encoder")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Model whose tokenizer is used: a folder or Hub id; by default a new one is made from TEXT.",
        ),
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Size of the new tokenizer's vocabulary, at most.")] = 24_576,
    dimension: Annotated[int, typer.Option(help="Dimensions of a vector.")] = 256,
    layers: Annotated[int, typer.Option(help="Layers of the BERT; they change nothing until they are trained.")] = 0,
    window: Annotated[int, typer.Option(help="Distance in tokens up to which two count as a pair.")] = 5,
    columns: own.OwnColumns = None,
    fields: own.Fields = None,
    keep_code: own.KeepCode = False,
    skip_lines: own.SkipLines = None,
    split: own.Split = "train",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Change a setting: smoothing=0.5, dropout=0; may be repeated."),
    ] = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Make a sentence encoder by counting words, in minutes; no training.

    It is good by itself, small and fast, and a start for train --model.
    """
    from opencse.cli.loading import terminal

    progress = terminal()
    import opencse
    from opencse.cli.console import echo

    opencse.static(
        text,
        out,
        model=model,
        vocabulary=vocabulary,
        settings=_settings(dimension, layers, window, set_ or []),
        columns=own.listed(columns),
        split=split,
        skip_lines=own.lines_of(skip_lines),
        fields=own.listed(fields),
        keep_code=keep_code,
        trust_remote_code=trust_remote_code,
        progress=progress,
    )
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
