"""The commands of ``opencse``, each in its own file."""

from __future__ import annotations

import typer

from opencse.cli.adapt import adapt
from opencse.cli.analyze import analyze
from opencse.cli.calibrate import calibrate
from opencse.cli.check import check
from opencse.cli.compare import compare
from opencse.cli.demo import demo
from opencse.cli.doctor import doctor
from opencse.cli.encode import encode
from opencse.cli.evaluate import evaluate
from opencse.cli.nearest import nearest
from opencse.cli.pretrain import pretrain
from opencse.cli.recipes import recipes
from opencse.cli.reproduce import reproduce
from opencse.cli.similarity import similarity
from opencse.cli.static import static
from opencse.cli.train import train
from opencse.cli.whiten import whiten

app = typer.Typer(
    name="opencse",
    help="Raw text in, an evaluated sentence-embedding model out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(check)
app.command()(train)
app.command()(adapt)
app.command()(pretrain)
app.command()(static)
app.command()(evaluate)
app.command()(analyze)
app.command()(compare)
app.command()(reproduce)
app.command()(encode)
app.command()(similarity)
app.command()(calibrate)
app.command()(nearest)
app.command()(whiten)
app.add_typer(recipes, name="recipes")
app.command()(demo)
app.command()(doctor)


@app.callback(invoke_without_command=True)
def version(
    show: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    """Raw text in, an evaluated sentence-embedding model out."""
    if show:
        from opencse import __version__

        typer.echo(__version__)
        raise typer.Exit
