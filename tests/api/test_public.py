"""What `import opencse` offers: a typed function for every command, loaded when it is used."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import opencse
from opencse.cli.app import COMMANDS

GROUPS = {"recipes", "export", "index"}  # commands of commands
FUNCTIONS = [name for name in COMMANDS if name not in GROUPS]
ELSEWHERE = {  # an option of a command -> the argument that it becomes
    "set_": "settings",
    "query": "queries",
    "seed": "settings",
    "minutes": "settings",
    "tokens": "settings",
    "suite": "suite",
    "texts": "others",
    **dict.fromkeys(("layers", "hidden", "heads", "inner", "positions", "dropout"), "shape"),
}
PRINTED = {"json_file", "show", "score", "aggregation", "correlation", "subsets", "lengths", "study", "ctx"}
"""What says how results are shown or kept, and where other options are read from: a caller does that himself."""
OWN = {  # where a name above stands for something else
    "demo": {"seed": "seed"},
    "questions": {"seed": "seed"},
    "static": dict.fromkeys(("dimension", "layers", "window"), "settings"),
    "evaluate": {"models": "model", "layers": "layer"},
}
SEVERAL = {"evaluate": "evaluate_all"}
"""A command that takes several of what its function takes one of calls the function for several; options that add rows
to a table are only there."""


def test_everything_is_shown_and_there() -> None:
    assert set(opencse.__all__) <= set(dir(opencse))
    assert set(FUNCTIONS) < set(opencse.__all__)
    for name in opencse.__all__:
        assert getattr(opencse, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'judge'"):
        opencse.judge  # noqa: B018


def test_showing_loads_nothing() -> None:
    code = (
        "import sys, opencse; assert 'train' in dir(opencse); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'pydantic', 'opencse.api')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_loads_no_command() -> None:
    code = (
        "import sys; sys.argv = ['opencse', '--help']\n"
        "from opencse.cli import main\n"
        "try: main()\n"
        "finally: sys.stderr.write(' '.join(m for m in sys.modules if m.startswith(('opencse.cli.', 'rich', 'numpy'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set(done.stderr.split()) == {"opencse.cli.app", "opencse.cli.examples", "opencse.cli.typed"}
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_what_its_command_has(name: str) -> None:
    function = inspect.signature(getattr(opencse, name)).parameters
    several = inspect.signature(getattr(opencse, SEVERAL.get(name, name))).parameters
    command = inspect.signature(getattr(importlib.import_module(f"opencse.cli.{name}"), name)).parameters
    for option in command.keys() - PRINTED:
        assert (ELSEWHERE | OWN.get(name, {})).get(option, option) in {*function, *several}, option
    for parameter in function.values():
        assert parameter.annotation is not inspect.Parameter.empty


@pytest.mark.parametrize("name", [name for name in opencse.__all__ if name.islower() and name != "__version__"])
def test_every_argument_is_explained(name: str) -> None:
    function = getattr(opencse, name)
    said = inspect.getdoc(function) or ""
    for argument in inspect.signature(function).parameters:
        assert f"    {argument}: " in said or name == "diff_recipes", argument
    assert ("Raises:" in said) is (name not in ("doctor", "list_recipes"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_command_imports_its_function_by_its_path_and_calls_it_once(name: str) -> None:
    function = SEVERAL.get(name, name)
    tree = ast.parse((Path(opencse.__file__).parent / "cli" / f"{name}.py").read_text(encoding="utf-8"))
    imported = [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(one.name == function for one in node.names)
    ]
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function
    ]
    assert imported == [getattr(opencse, function).__module__]
    assert len(calls) == 1


def test_exports_have_a_function_each() -> None:
    from opencse.cli.export import export

    named = {command.callback.__name__: command.callback for command in export.registered_commands if command.callback}
    assert named
    for name, command in named.items():
        function = inspect.signature(getattr(opencse, f"export_{name}")).parameters
        for option in inspect.signature(command).parameters:
            assert (ELSEWHERE | OWN["static"]).get(option, option) in function, option


def test_recipes_have_a_function_each() -> None:
    from opencse.cli.recipes import recipes

    assert isinstance(recipes, typer.Typer)
    assert [command.callback.__name__ for command in recipes.registered_commands if command.callback] == [
        "presets", "show", "diff",
    ]  # fmt: skip
    assert {"list_recipes", "list_presets", "show_recipe", "diff_recipes"} < set(opencse.__all__)
    assert opencse.list_recipes().keys() > {"simcse", "adapt"}
    assert opencse.list_presets("simcse").keys() == opencse.show_recipe("simcse").recipe.presets.keys()
    (found,) = [one for one in opencse.diff_recipes("simcse", "simcse:dropout-0.2") if one.key == "encoder.dropout"]
    assert found.b == "0.2"
    with pytest.raises(opencse.UserError, match="name the recipe alone"):
        opencse.list_presets("simcse:bert-base")
