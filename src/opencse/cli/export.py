"""``opencse export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own

export = typer.Typer(help="Write an encoder in another form.", no_args_is_help=True, rich_markup_mode=None)


@export.callback()
def group() -> None:
    """Write an encoder in another form."""


@export.command()
def onnx(
    model: own.Encoder,
    out: Annotated[Path, own.out("for the graph and its tokenizer")],
    int8: Annotated[bool, typer.Option("--int8", help="Write 8-bit weights too, and print what they lose.")] = False,
    text: Annotated[
        str | None, typer.Option(help="Your own texts, to check the graph on; by default the built-in sample.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="Graded pairs (score, sentence, sentence) to measure the loss of --int8 on.")
    ] = None,
    columns: own.OwnColumns = None,
    split: own.Split = "train",
    pooling: own.Pooling = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Export the whole encoder as one ONNX graph, from token ids to normalised vectors.

    It is checked against torch before it is written, and runs with onnxruntime, tokenizers and numpy alone.
    """
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    opencse.export_onnx(
        model,
        out,
        int8=int8,
        text=text,
        pairs=pairs,
        columns=own.listed(columns),
        split=None if text is None else split,
        pooling=pooling,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    echo(str(out))


@export.command()
def static(
    model: own.Encoder,
    out: Annotated[Path, own.out("for the table of word vectors")],
    corpus: Annotated[
        str | None, typer.Option(help="Texts of your domain, to count words and fit the table on; by default none.")
    ] = None,
    dimension: Annotated[
        int | None, typer.Option(min=1, help="Dimensions of a vector; by default 256, or the model's if it has fewer.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Change a setting: words=5000, fit=false; may be repeated."),
    ] = None,
    columns: own.OwnColumns = None,
    split: own.Split = "train",
    pooling: own.Pooling = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Distil an encoder into a table of word vectors: no layers, much faster, less accurate.

    opencse, sentence-transformers (StaticEmbedding) and model2vec open the folder; train --model goes on from it.
    """
    import opencse
    from opencse.cli.console import echo
    from opencse.export.distil import DistilSettings
    from opencse.progress import Terminal
    from opencse.recipes.recipe import parse_override
    from opencse.settings import validate

    given = dict(parse_override(one) for one in set_ or [])
    if dimension is not None:
        given["dimension"] = dimension
    opencse.export_static(
        model,
        out,
        corpus=corpus,
        settings=validate(DistilSettings, given, "--set") if given else None,
        columns=own.listed(columns),
        split=None if corpus is None else split,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    echo(str(out))
