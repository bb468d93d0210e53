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
    dimension: Annotated[int | None, typer.Option(help="Dimensions of a vector; by default 256.")] = None,
    layers: Annotated[
        int | None, typer.Option(help="Layers of the BERT, by default 0; they change nothing until they are trained.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Distance in tokens up to which two count as a pair; by default 5.")
    ] = None,
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

    options["settings"] = _settings({"dimension": dimension, "layers": layers, "window": window}, set_ or [])
    static(text, out, **options)
    echo(str(out))


def _settings(options: dict[str, int | None], overrides: list[str]) -> StaticSettings:
    from opencse.making.static import StaticSettings
    from opencse.recipes.overrides import parse_override, require_set_once
    from opencse.settings import validate

    values: dict[str, object] = {name: value for name, value in options.items() if value is not None}
    require_set_once(overrides, {name: f"--{name} {value}" for name, value in values.items()})
    settings = validate(StaticSettings, values, "static")
    for override in overrides:
        key, value = parse_override(override)
        values[key] = value
        settings = validate(StaticSettings, values, f"--set {override}")
    return settings
