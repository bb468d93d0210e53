"""``opencse recipes``: list the recipes; show their settings, presets and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from opencse.api.options.recipes import ShowRecipeOptions
from opencse.cli.options import with_options

if TYPE_CHECKING:
    from rich.console import Console

recipes = typer.Typer(
    help="List the recipes; show their settings, presets and differences.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)

_NAMED = "Recipe by name or TOML file; presets follow after colons (simcse:bert-large)."
_WIDTH_OF_A_PIPE = 200
_CHANGES = 42
"""Columns of a terminal that nearly all settings and models fit into."""


@recipes.callback()
def overview(context: typer.Context) -> None:
    """List the recipes: what each is, the paper's number, what it is made of."""
    if context.invoked_subcommand is not None:
        return
    from rich import box
    from rich.table import Table

    from opencse.cli.console import show
    from opencse.recipes.outline import FAMILIES, outlines
    from opencse.recipes.summary import published, short_paper

    recipes_by_name = outlines()
    table = Table(title="Recipes, with the published score for BERT-base", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("score", overflow="fold")
    table.add_column("paper", overflow="fold")
    for family, heading in FAMILIES.items():
        members = {name: recipe for name, recipe in recipes_by_name.items() if recipe.family == family}
        if not members:
            continue
        table.add_section()
        table.add_row("", f"[bold]{heading}[/bold]")
        for name, recipe in members.items():
            table.add_row(name, recipe.title, published(recipe.presets), short_paper(recipe.paper))
    show(table, _console())
    typer.echo("Backbones, the authors' code and ablations are presets: opencse recipes presets NAME")


@recipes.command()
def presets(name: Annotated[str, typer.Argument(help="Recipe by name or TOML file.")]) -> None:
    """List a recipe's presets: for which backbone or table, what they change, what was published."""
    from rich.table import Table
    from rich.text import Text

    from opencse.api.recipes import list_presets, show_recipe
    from opencse.cli.console import echo, show
    from opencse.recipes.summary import preset_changes, scores

    presets = list_presets(name)
    if not presets:
        echo(f"{name} has no presets")
        return
    recipe = show_recipe(name).recipe
    table = Table(title=f"Presets of {recipe.name}", title_justify="left", show_lines=True)
    table.add_column("preset, its sort, and what it changes", overflow="fold", width=_CHANGES)
    table.add_column("published", overflow="fold")
    for key, preset in presets.items():
        sort = recipe.sort_of(key)
        row = [
            "\n".join([f"{key} ({sort})", *filter(None, [preset.model]), *preset_changes(preset)]),
            "\n".join(filter(None, (", ".join(scores(preset)), preset.note))),
        ]
        table.add_row(*map(Text, row))
    show(table, _console())
    echo(f"Use one or several: --recipe {name}:{next(iter(presets))}")


@recipes.command()
@with_options()
def show(
    name: Annotated[str, typer.Argument(help=_NAMED)],
    source: Annotated[bool, typer.Option("--source", help="Print the recipe's own file, with its comments.")] = False,
    **options: Unpack[ShowRecipeOptions],
) -> None:
    """Print every setting of a recipe, presets applied, as TOML that --recipe reads."""
    from opencse.errors import UserError, printable
    from opencse.recipes.recipe_files import recipe_text, split_name

    base, presets = split_name(name)
    if source:
        if presets or options["preset"] is not None or options["settings"]:
            raise UserError(
                f"--source prints {base} as it is written, without presets and --set; leave one of them out"
            )
        typer.echo(printable(recipe_text(base), keep="\n\t"), nl=False)
        return
    from opencse.api.recipes import show_recipe
    from opencse.recipes.recipe import to_toml

    settings = list(options["settings"])
    options["settings"] = settings
    resolved = show_recipe(name, **options)
    overrides = "".join(f" --set {setting}" for setting in settings)
    called = " ".join(f"{':'.join([base, *resolved.presets])}{overrides}".split())
    typer.echo(printable(f"# {printable(called)}\n{to_toml(resolved.recipe)}", keep="\n\t"), nl=False)


@recipes.command()
def diff(
    a: Annotated[str, typer.Argument(help=_NAMED)],
    b: Annotated[str, typer.Argument(help="The recipe to compare it with, in the same form.")],
) -> None:
    """List the settings in which two recipes differ."""
    from rich.table import Table
    from rich.text import Text

    from opencse.api.recipes import diff_recipes
    from opencse.cli.console import show

    differences = diff_recipes(a, b)
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
