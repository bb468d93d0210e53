"""Makes pages of the documentation site from the code: methods, commands, settings, parts, the Python reference.

MkDocs calls `on_files` and `on_nav` (mkdocs.yml names this file as a hook); `make docs` builds the site.
"""

from __future__ import annotations

import importlib.util
import inspect
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel

import opencse
from opencse.cli.app import EXAMPLES, PURPOSES, app
from opencse.model_folder.adapters import LoraSettings
from opencse.modules.dense import HeadSettings
from opencse.objective.settings import ObjectiveSettings
from opencse.recipes.files import DataSettings, recipe_names, recipe_text
from opencse.recipes.recipe import EncoderSettings, Recipe, load_recipe
from opencse.recipes.summary import published
from opencse.training.settings import Awp, Sam, TrainingSettings

HERE = Path(__file__).parent
ROOT = HERE.parent
_MOVED = {"recipes.md": "methods/index.md", "parts.md": "reference/parts.md"}
_TABLES: dict[str, type[BaseModel]] = {
    "data": DataSettings,
    "encoder": EncoderSettings,
    "encoder.head": HeadSettings,
    "encoder.lora": LoraSettings,
    "objective": ObjectiveSettings,
    "training": TrainingSettings,
    'training.worst_case (kind = "sam")': Sam,
    'training.worst_case (kind = "awp")': Awp,
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages of the methods, one per recipe, where mkdocs.yml says ``methods/``."""
    pages: list[Any] = [{"All of them": "methods/index.md"}, *({name: f"methods/{name}.md"} for name in recipe_names())]
    assert config.nav is not None
    for section in config.nav:
        for entries in section.values():
            if isinstance(entries, list):
                entries[:] = [{"Methods": pages} if "Methods" in entry else entry for entry in entries]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made from the code."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - MkDocs' page
    """Points links to pages that the site has elsewhere, and to files outside of docs/, to where it has the same."""
    markdown = relocated(markdown, page.file.src_uri, page.file.src_uri)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:CONTRIBUTING|examples)[^)]*\)", r"`\1`", markdown)


def relocated(markdown: str, written: str, place: str) -> str:
    """The text of the page ``written`` for the page ``place``: its links to other pages lead to where these are now."""

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(written), match[1]))
        path = _MOVED.get(path, path)
        return f"]({posixpath.relpath(path, posixpath.dirname(place) or '.')}"

    return re.sub(r"\]\(([\w./-]+\.md)(?=[#)])", link, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - MkDocs' page
    """Replaces the script that the theme would fetch for search from files by our own."""
    up = "../" * page.file.dest_uri.count("/")
    return re.sub(r'src="?https://unpkg\.com/iframe-worker/shim"?', f'src="{up}assets/search-from-files.js"', output)


def pages() -> dict[str, str]:
    """Every page that is made from the code, by its path."""
    recipes = _script("build_recipes")
    made = {f"methods/{name}.md": method(load_recipe(name), recipes) for name in recipe_names()}
    made["methods/index.md"] = methods(recipes)
    parts = _script("build_parts").PAGE.read_text(encoding="utf-8")
    made["reference/parts.md"] = relocated(parts, "parts.md", "reference/parts.md")
    made["reference/commands.md"] = commands()
    made["reference/settings.md"] = settings()
    made["reference/python.md"] = python()
    return made


def methods(recipes: ModuleType) -> str:
    """The overview: one row per recipe."""
    text = str(recipes.PAGE.read_text(encoding="utf-8")).partition("\n## ")[0]
    text = relocated(text.replace("# Recipes", "# Methods", 1), "recipes.md", "methods/index.md")
    return re.sub(
        r"\[`([^`]+)`\]\(#[^)]*\)", lambda found: f"[`{found[1]}`]({found[1]}.md)", text
    )  # pages instead of headings


def method(recipe: Recipe, recipes: ModuleType) -> str:
    """One recipe: paper, formula and parts, settings, presets with published scores, where paper and code differ."""
    text = recipe_text(recipe.name)
    pieces = [f"# {recipe.name}", f"{recipe.title}.", f"**Paper.** {recipe.paper}."]
    if number := published(recipe.presets):
        pieces.append(
            f"**Published for BERT-base.** {number} (seven STS tasks, Spearman x 100, unless it says otherwise)."
        )
    pieces.append(f"**Made of.** {recipes.made_of(recipe)}.")
    pieces.append(f"```bash\nopencse train corpus.txt --recipe {recipe.name} --out my-encoder\n```")
    pieces.append("## Parts")
    parts, seen = _script("build_parts"), set()
    objective = recipe.objective
    sides = [objective.positive.of, *(source.of for source in objective.negatives if hasattr(source, "of"))]
    for role, chosen in (
        ("view", [objective.view]),
        ("sides", [side for side in sides if side.kind != "views"]),
        ("negatives", objective.negatives),
        ("term", objective.terms),
    ):
        for one in chosen:
            part = parts.built_in(role).get(one.kind)
            if part is not None and (role, one.kind) not in seen:
                seen.add((role, one.kind))
                pieces.append(parts.described(one.kind, part))
    pieces.append("## Settings\n\nThe recipe with its comments: where the authors' code differs from their paper.")
    pieces.append(f"```toml\n{text.rstrip()}\n```")
    if recipe.presets:
        table = recipes.table(["preset", "sort", "changes", "published", "note"], recipes.presets(recipe))
        pieces.append(f"## Presets\n\nPublished scores; none of them was measured here.\n\n{table}")
    pieces.append("## Measured\n\nWhat was measured with it here is in [the results](../results/index.md).")
    return "\n\n".join(pieces) + "\n"


def commands() -> str:
    """Every command with its arguments and options."""
    pieces = ["# Commands", "`opencse COMMAND --help` shows the same in a terminal."]
    for purpose, group in PURPOSES.items():
        pieces.append(f"## {purpose}")
        for name in group:
            for words, command in _leaves(name):
                pieces.append(_command(words, command))
    return "\n\n".join(pieces) + "\n"


def _leaves(name: str) -> Iterator[tuple[str, Any]]:
    """The command called ``name``, or those below it."""
    whole: Any = typer.main.get_command(app)
    command = whole.get_command(None, name)
    below = getattr(command, "commands", None)
    if not below:
        yield name, command
    else:
        yield from ((f"{name} {word}", inner) for word, inner in below.items())


def _command(words: str, command: Any) -> str:  # noqa: ANN401 - a private class of typer's
    rows = []
    for parameter in command.params:
        if "--help" in parameter.opts or getattr(parameter, "hidden", False):
            continue
        names = (
            parameter.opts if parameter.param_type_name == "option" else [parameter.metavar or parameter.name.upper()]
        )
        default = parameter.default
        shown = "" if default in (None, False, "", ()) or callable(default) or parameter.required else f"`{default}`"
        what = " ".join(str(getattr(parameter, "help", "") or "").split()).replace("|", "\\|")
        needed = " (required)" if parameter.required else ""
        rows.append(f"| {' '.join(f'`{n}`' for n in (*names, *parameter.secondary_opts))} | {what}{needed} | {shown} |")
    text = inspect.cleandoc(command.help or "")
    table = "\n".join(["| argument or option | what | default |", "| --- | --- | --- |", *rows]) if rows else ""
    examples = "\n".join(["```bash", *EXAMPLES[words], "```"])
    return "\n\n".join(piece for piece in (f"### opencse {words}", text, examples, table) if piece)


def settings() -> str:
    """Every setting of a recipe, with its meaning, values and default."""
    parts = _script("build_parts")
    pieces = [
        "# Settings",
        "Every key of a recipe's TOML by its table, also for `--set table.key=value`. Settings of views, negatives and "
        "terms are under [parts](parts.md).",
    ]
    for table, model in _TABLES.items():
        meaning = attributes(model)
        rows = [
            f"| `{name}` | {meaning.get(name, '')} | {parts.values_of(field)} | {parts.default_of(field)} |"
            for name, field in model.model_fields.items()
        ]
        head = ["| key | what | values | default |", "| --- | --- | --- | --- |"]
        pieces.append("\n".join([f"## {table}", "", *head, *rows]))
    return "\n\n".join(pieces) + "\n"


def attributes(model: type[BaseModel]) -> dict[str, str]:
    """What a settings class says about each of its attributes, one line each."""
    text = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"(?m)^    (\w+): ((?:.|\n        )+)", text)
    return {name: re.sub(r"``(.+?)``", r"`\1`", " ".join(told.split())).replace("|", "\\|") for name, told in found}


def python() -> str:
    """The public names, with their docstrings."""
    pieces = [
        "# Python, in full",
        "Every command is a function of the same name; `import opencse` loads none of them until it is used.",
    ]
    commands = [name for group in PURPOSES.values() for name in group]
    names = sorted(opencse._HOME_OF, key=lambda name: commands.index(name) if name in commands else len(commands))
    pieces += [f"::: {opencse._HOME_OF[name]}.{name}" for name in names]
    return "\n\n".join(pieces) + "\n"


def _script(name: str) -> ModuleType:
    """Loads a script next to this file as a module."""
    known = sys.modules.get(f"docs_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"docs_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
