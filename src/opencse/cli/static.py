"""``opencse static``: make a sentence encoder by counting words, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from opencse.api.options.making import StaticOptions
from opencse.cli.options import TextArgument, folder_option, with_options

if TYPE_CHECKING:
    from opencse.making.static import StaticSettings


@with_options()
def static(
    text: TextArgument,
    out: Annotated[Path, folder_option("for the encoder")],
    dimension: Annotated[int, typer.Option(help="Dimensions of a vector.")] = 256,
    layers: Annotated[int, typer.Option(help="Layers of the BERT; they change nothing until they are trained.")] = 0,
    window: Annotated[int, typer.Option(help="Distance in tokens up to which two count as a pair.")] = 5,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Change a setting: smoothing=0.5, dropout=0; may be repeated."),
    ] = None,
    **options: Unpack[StaticOptions],
) -> None:
    """Make a sentence encoder by counting words, in minutes; no training.

    It is good by itself, small and fast, and a start for train --model.
    """
    from opencse.api.making import static
    from opencse.cli.console import echo

    options["settings"] = _settings(dimension, layers, window, set_ or [])
    static(text, out, **options)
    echo(str(out))


def _settings(dimension: int, layers: int, window: int, overrides: list[str]) -> StaticSettings:
    from opencse.making.static import StaticSettings
    from opencse.recipes.overrides import parse_override, require_keys_once
    from opencse.settings import validate

    values: dict[str, object] = {"dimension": dimension, "layers": layers, "window": window}
    settings = validate(StaticSettings, values, "static")
    require_keys_once(overrides)
    for override in overrides:
        key, value = parse_override(override)
        values[key] = value
        settings = validate(StaticSettings, values, f"--set {override}")
    return settings
