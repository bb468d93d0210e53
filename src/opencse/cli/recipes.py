"""``opencse recipes``."""

from __future__ import annotations

from typing import Annotated

import typer

recipes = typer.Typer(help="The recipes there are, and what they are made of.", invoke_without_command=True)


@recipes.callback()
def overview(context: typer.Context) -> None:
    """List the recipes: what each is, the paper's number, what it is made of."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.table import Table

    from opencse.recipe import load_recipe, recipe_names

    table = Table(title="Recipes", title_justify="left")
    table.add_column("name", no_wrap=True)
    for column in ("what", "made of", "published for BERT-base"):
        table.add_column(column, overflow="fold")
    for name in recipe_names():
        recipe = load_recipe(name)
        parts: list[str] = [recipe.objective.view.kind, *(s.kind for s in recipe.objective.negatives)]
        parts += [s.kind for s in recipe.objective.terms]
        base = recipe.presets.get("bert-base")
        published = ", ".join(f"{key} {value:.2f}" for key, value in (base.expected if base else {}).items()
                              if key in ("sts.average", "dev.stsb"))  # fmt: skip
        table.add_row(name, recipe.title, " + ".join(parts), published)
    Console().print(table)


@recipes.command()
def show(
    name: Annotated[str, typer.Argument(help="Recipe by name or TOML file.")],
    preset: Annotated[str | None, typer.Option(help="With this preset applied.")] = None,
) -> None:
    """Print a recipe: its TOML, or every resolved setting of a preset."""
    from opencse.recipe import flatten, load_recipe, recipe_text

    if preset is None:
        typer.echo(recipe_text(name), nl=False)
        return
    resolved = load_recipe(name, preset=preset).model_dump(mode="json", exclude={"presets"})
    for key, value in flatten(resolved).items():
        typer.echo(f"{key} = {value!r}")
