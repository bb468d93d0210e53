"""Prints what the commands ``opencse recipes`` give: the recipes, their settings, presets and differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli.console import echo, show
from opencse.cli.parameters import Call
from opencse.commands.declared import Typed
from opencse.errors import UserError, printable

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_OF_A_PIPE = 200
_CHANGES = 42
"""Columns of a terminal that nearly all settings and models fit into."""


def overview() -> None:
    """Prints the recipes: what each is, the paper's number, what it is made of."""
    from rich import box
    from rich.table import Table

    from opencse.recipes.files import FAMILIES, presets_of, read_recipe, recipe_names
    from opencse.recipes.summary import published, short_paper

    recipes_by_name = {name: read_recipe(name) for name in recipe_names()}
    table = Table(title="Recipes, with the published score for BERT-base", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("score", overflow="fold")
    table.add_column("paper", overflow="fold")
    for family, heading in FAMILIES.items():
        members = {name: recipe for name, recipe in recipes_by_name.items() if recipe["family"] == family}
        if not members:
            continue
        table.add_section()
        table.add_row("", f"[bold]{heading}[/bold]")
        for name, recipe in members.items():
            score = published(presets_of(recipe, name))
            table.add_row(name, recipe["title"], score, short_paper(recipe.get("paper", "")))
    show(table, _console())
    typer.echo("Backbones, the authors' code and ablations are presets: opencse recipes presets NAME")


def list_presets(call: Call, recipe: str) -> None:
    """List a recipe's presets: for which backbone or table, what they change, what was published."""
    from rich.table import Table
    from rich.text import Text

    from opencse.recipes.files import sort_of
    from opencse.recipes.summary import preset_changes, scores

    presets = call()
    if not presets:
        echo(f"{recipe} has no presets")
        return
    table = Table(title=f"Presets of {recipe}", title_justify="left", show_lines=True)
    table.add_column("preset, its sort, and what it changes", overflow="fold", width=_CHANGES)
    table.add_column("published", overflow="fold")
    for key, preset in presets.items():
        sort = sort_of(key, presets)
        row = [
            "\n".join([f"{key} ({sort})", *filter(None, [preset.model]), *preset_changes(preset)]),
            "\n".join(filter(None, (", ".join(scores(preset)), preset.note))),
        ]
        table.add_row(*map(Text, row))
    show(table, _console())
    echo(f"Use one or several: --recipe {recipe}:{next(iter(presets))}")


def show_recipe(
    call: Call,
    recipe: str,
    preset: str | None,
    settings: Sequence[str],
    *,
    source: Annotated[bool, Typed("Print the recipe's own file, with its comments.")] = False,
) -> None:
    """Print every setting of a recipe, presets applied, as TOML that --recipe reads."""
    from opencse.recipes.files import recipe_text, split_name

    base, presets = split_name(recipe)
    if source:
        if presets or preset is not None or settings:
            raise UserError(
                f"--source prints {base} as it is written, without presets and --set; leave one of them out"
            )
        typer.echo(printable(recipe_text(base), keep="\n\t"), nl=False)
        return
    from opencse.recipes.recipe import to_toml

    resolved = call()
    overrides = "".join(f" --set {setting}" for setting in settings)
    called = " ".join(f"{':'.join([base, *resolved.presets])}{overrides}".split())
    typer.echo(printable(f"# {printable(called)}\n{to_toml(resolved.recipe)}", keep="\n\t"), nl=False)


def diff_recipes(call: Call, a: str, b: str) -> None:
    """List the settings in which two recipes differ."""
    from rich.table import Table
    from rich.text import Text

    differences = call()
    if not differences:
        typer.echo("no difference")
        return
    table = Table("setting")
    table.add_column(Text(a), overflow="fold")
    table.add_column(Text(b), overflow="fold")
    for difference in differences:
        table.add_row(*map(Text, (difference.key, difference.a or "-", difference.b or "-")))
    show(table, _console())


def _console() -> Console:
    """As wide as the terminal; wide enough for long lines where the output is read by a program."""
    import sys

    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_WIDTH_OF_A_PIPE)
