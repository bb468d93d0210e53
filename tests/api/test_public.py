"""What `import opencse` offers: a typed function for every command, with options that are declared once."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack, cast

import pytest
import typer

import opencse
from opencse.api.declaring import Option, defaults_of, public
from opencse.api.options.shared import DeviceOptions
from opencse.cli.app import COMMANDS
from opencse.errors import UserError
from opencse.progress import Terminal

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


if TYPE_CHECKING:
    from opencse.text.given import Text


class BoilOptions(DeviceOptions, total=False):
    """Options with numbers."""

    cups: Annotated[int, Option(1, "Cups.", least=1, most=9)]
    heat: Annotated[float | None, Option(None, "Degrees.")]


class Kettle(DeviceOptions, total=False):
    """Options of the function below."""

    litres: Annotated[float, Option(1.5, "How much water.", rank=-1)]


@public
def boil(what: str, **options: Unpack[Kettle]) -> tuple[str, dict[str, Any]]:
    """Boils something.

    Args:
        what: is boiled.
        **options: see `Kettle`.

    Returns:
        What was asked for.
    """
    return what, dict(options)


def test_options_that_are_not_passed_have_their_default() -> None:
    expected = {"litres": 1.5, "device": None, "trust_remote_code": False, "progress": None}
    assert boil("water") == ("water", expected)
    assert boil("tea", litres=2.0, device="cpu") == ("tea", expected | {"litres": 2.0, "device": "cpu"})
    assert defaults_of(Kettle) == expected


class Places(TypedDict, total=False):
    """Options of the function below."""

    dev: Annotated[str | Path | None, Option(None, "A path.")]
    starts: Annotated[Sequence[str | Path], Option((), "Paths.")]
    name: Annotated[str, Option("", "A name.")]
    text: Annotated[Text | None, Option(None, "A text.")]


@public
def packed(
    out: str | Path, texts: Sequence[str], models: str | Sequence[str | Path], **options: Unpack[Places]
) -> tuple[object, ...]:
    return out, texts, models, *options.values()


def test_paths_begin_with_the_home_folder_and_other_values_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    starts: list[str | Path] = ["~/a", Path("~/b"), "c"]
    values = packed("~/out", ["~/text"], models=["~/m"], dev="~/dev", starts=starts, name="~/name", text="~/text")
    expected = "/home/anna/out", ["~/text"], ["/home/anna/m"], "/home/anna/dev", ["/home/anna/a", Path("~/b"), "c"]
    assert values == (*expected, "~/name", "/home/anna/text")
    assert packed(Path("~/out"), (), "~/m")[:3] == (Path("~/out"), (), "~/m")


class Kitchen(TypedDict, total=False):
    """Options of the function below."""

    settings: Annotated[Iterable[str], Option((), "Settings.", keyed=True)]
    names: Annotated[Iterable[str], Option((), "Names.")]


@public
def cooked(**options: Unpack[Kitchen]) -> dict[str, object]:
    return {name: list(cast(Iterable[str], value)) for name, value in options.items()}


def test_numbers_are_in_the_range_that_is_declared() -> None:
    @public
    def boil(seed: int = 0, **options: Unpack[BoilOptions]) -> None:
        del seed, options

    boil(seed=2**63 - 1, cups=1, heat=-1e300, progress=None)
    for name, wrong, said in (
        ("seed", -1, "seed is at least 0, not -1"),
        ("seed", 2**63, "seed is a finite number of at most 64 bits"),
        ("cups", 0, "cups is at least 1 and at most 9, not 0"),
        ("cups", 10, "at most 9, not 10"),
        ("cups", 10**5_000, "cups is a finite number of at most 64 bits, not a number of that size"),
        ("heat", float("nan"), "heat is a finite number"),
        ("heat", float("-inf"), "heat is a finite number"),
    ):
        with pytest.raises(UserError, match=said):
            boil(**{name: wrong})  # type: ignore[arg-type]


def test_settings_may_be_a_dictionary() -> None:
    expected = {"settings": ["stove.heat=2.5", 'stove.fuel="gas"'], "names": ["a"]}
    assert cooked(settings={"stove": {"heat": 2.5}, "stove.fuel": "gas"}, names={"a": 1}) == expected
    assert cooked(settings=["stove.heat=2.5"])["settings"] == ["stove.heat=2.5"]


def test_unknown_options_and_trust_by_a_word_are_refused() -> None:
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'liters'"):
        boil("water", liters=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="trust_remote_code is True or False"):
        boil("water", trust_remote_code="false")  # type: ignore[arg-type]


@pytest.mark.parametrize("progress", [True, print])
def test_a_progress_that_is_no_reporter_is_refused(progress: object) -> None:
    with pytest.raises(TypeError, match=r"progress is None, opencse\.progress\.Terminal\(\), or an object"):
        boil("water", progress=progress)  # type: ignore[arg-type]
    terminal = Terminal()
    assert boil("water", progress=terminal)[1]["progress"] is terminal


def test_signature_and_documentation_show_the_options() -> None:
    parameters = inspect.signature(boil).parameters
    assert list(parameters) == ["what", "litres", "device", "trust_remote_code", "progress"]
    assert (parameters["litres"].default, parameters["litres"].annotation) == (1.5, "float")
    assert "    litres: How much water.\n" in str(boil.__doc__)
    assert "**options" not in str(boil.__doc__)
    assert inspect.signature(opencse.compare).parameters["precision"].default == "float32"
