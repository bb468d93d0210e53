"""The commands of ``opencse``, each in its own file, which is loaded when it is called."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from opencse.errors import require_known

COMMANDS = {
    "check": "Look at a text before training on it, with advice.",
    "train": "Train a sentence encoder from text; no labels needed.",
    "adapt": "Adapt an encoder to your documents; no labels needed.",
    "pretrain": "Pretrain a small BERT on raw text, or adapt one to your domain.",
    "static": "Make a sentence encoder by counting words, in minutes.",
    "evaluate": "Score encoders: STS, transfer, probing, retrieval.",
    "analyze": "See inside one model, or several side by side, on a page.",
    "compare": "Compare recipes over seeds and starts, with significance.",
    "reproduce": "Run a paper's row, and print the published scores beside those got.",
    "encode": "Turn texts into vectors, in a file.",
    "similarity": "Cosine similarity of one text to others.",
    "calibrate": "Find out what a cosine of a model means on your text.",
    "nearest": "Show the sentences nearest to a query by one or more encoders.",
    "whiten": "Whiten an encoder with a linear map fitted on a text.",
    "export": "Write an encoder as ONNX, or as a table of word vectors.",
    "recipes": "List the recipes, and what they are made of.",
    "demo": "The main job on the built-in sample, offline.",
    "doctor": "Tell versions, hardware and choices, for a bug report.",
}
"""What ``--help`` says of each; all of them could be loaded for it, and that would take a while."""


class Commands(TyperGroup):
    """The commands by name, each made when it is asked for."""

    def list_commands(self, ctx: object) -> list[str]:
        """Their names, in the order of the list."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # noqa: ANN401 - a private class of typer's
        """The command called ``cmd_name``.

        Raises:
            UserError: if there is none.
        """
        require_known(cmd_name, list(COMMANDS), "command")
        command = getattr(importlib.import_module(f"opencse.cli.{cmd_name}"), cmd_name)
        if not isinstance(command, typer.Typer):
            alone = typer.Typer(add_completion=False, context_settings=_SETTINGS)
            alone.command(cmd_name)(command)
            command = alone
        return get_command(command)

    def format_commands(self, ctx: object, formatter: Any) -> None:  # noqa: ANN401 - a private class of typer's
        """Lists them for ``--help``."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


_SETTINGS = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=Commands,
    name="opencse",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain: rich's own would take as long as all the rest
    context_settings=_SETTINGS,
)


@app.callback(invoke_without_command=True)
def version(
    show: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    """Raw text in, an evaluated sentence-embedding model out."""
    if show:
        from opencse import __version__

        typer.echo(__version__)
        raise typer.Exit
