"""``opencse export``: write an encoder as ONNX, or as a table of word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.exporting import OnnxOptions, StaticTableOptions
from opencse.cli.options import EncoderArgument, folder_option, with_options

export = typer.Typer(
    help="Write an encoder in another form.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@export.callback()
def group() -> None:
    """Write an encoder in another form."""


@export.command()
@with_options()
def onnx(
    model: EncoderArgument,
    out: Annotated[Path, folder_option("for the graph and its tokenizer")],
    **options: Unpack[OnnxOptions],
) -> None:
    """Export the whole encoder as one ONNX graph, from token ids to normalised vectors.

    It is checked against torch before it is written, and runs with onnxruntime, tokenizers and numpy alone.
    """
    from opencse.api.exporting import export_onnx
    from opencse.cli.console import echo

    export_onnx(model, out, **options)
    echo(str(out))


@export.command()
@with_options()
def static(
    model: EncoderArgument,
    out: Annotated[Path, folder_option("for the table of word vectors")],
    dimension: Annotated[
        int | None, typer.Option(min=1, help="Dimensions of a vector; by default 256, or the model's if it has fewer.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Change a setting: words=5000, fit=false; may be repeated."),
    ] = None,
    **options: Unpack[StaticTableOptions],
) -> None:
    """Distil an encoder into a table of word vectors: no layers, much faster, less accurate.

    opencse, sentence-transformers (StaticEmbedding) and model2vec open the folder; train --model continues from it.
    """
    from opencse.api.exporting import export_static
    from opencse.cli.console import echo
    from opencse.export.distil import DistilSettings
    from opencse.recipes.overrides import parse_override, require_set_once
    from opencse.settings import validate

    require_set_once(set_ or [], {} if dimension is None else {"dimension": f"--dimension {dimension}"})
    values = dict(parse_override(override) for override in set_ or [])
    if dimension is not None:
        values["dimension"] = dimension
    options["settings"] = validate(DistilSettings, values, "--set") if values else None
    export_static(model, out, **options)
    echo(str(out))
