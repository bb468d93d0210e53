"""Options that are declared once: what a function, its documentation and its signature make of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack, cast, get_args

import pytest

import opencse
from opencse.api import options
from opencse.api.declaring import Option, declared_in, defaults_of, public
from opencse.api.options.encoding import EncodeOptions
from opencse.api.options.evaluation import SuiteOptions
from opencse.api.options.shared import DeviceOptions, ModelOptions
from opencse.api.options.studies import CompareOptions
from opencse.errors import UserError
from opencse.progress import Terminal

if TYPE_CHECKING:
    from opencse.text.given import Text

MODULES = [importlib.import_module(f"{options.__name__}.{one.name}") for one in pkgutil.iter_modules(options.__path__)]
GROUPS = [
    value
    for module in MODULES
    for value in vars(module).values()
    if typing.is_typeddict(value) and value.__module__ == module.__name__
]


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


@pytest.mark.parametrize("progress", [True, False, print, Terminal, "yes"])
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


def test_type_hints_show_the_options() -> None:
    hints = typing.get_type_hints(boil)
    assert "options" not in hints
    assert hints["what"] is str
    assert hints["litres"] is float
    assert typing.get_type_hints(opencse.compare)["seeds"] is not Any


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_each_group_is_declared_completely(group: type) -> None:
    declared = declared_in(group)
    assert declared
    for one in declared.values():
        assert one.option.help.endswith((".", "]")), one.name
        assert one.option.hidden or one.option.help[0].isupper() or one.name in ("device", "layer", "dimensions")


def test_choices_are_the_choices_of_the_functions_below() -> None:
    from opencse.bulk.forms import Numbers
    from opencse.bulk.shards import FileFormat
    from opencse.engines.choice import Engine
    from opencse.evaluation.transforms import TransformKind
    from opencse.kernels.precision import PrecisionName

    written = declared_in(EncodeOptions)
    assert get_args(written["numbers"].kind) == get_args(Numbers)
    assert get_args(written["file_format"].kind) == get_args(FileFormat)
    assert get_args(written["engine"].kind) == get_args(Engine)
    assert get_args(written["precision"].kind) == ("auto", *get_args(PrecisionName))
    assert get_args(declared_in(CompareOptions)["precision"].kind) == get_args(PrecisionName)
    assert get_args(get_args(declared_in(SuiteOptions)["transform"].kind)[0]) == get_args(TransformKind)
    assert set(declared_in(ModelOptions)) == {"pooling", "device", "trust_remote_code", "progress"}


def test_groups_load_nothing_heavy() -> None:
    names = ", ".join(module.__name__ for module in MODULES)
    code = f"import sys, {names}; sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'pydantic', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
