"""What `import opencse` offers: a typed function for every command, with options that are declared once."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import pytest

import opencse
from opencse.cli.app import COMMANDS
from opencse.commands.declared import Typed, command
from opencse.commands.shared import Device, Reporter, Settings, TrustRemoteCode
from opencse.errors import UserError
from opencse.progress import SILENT

FUNCTIONS = [name for name in COMMANDS if name not in {"recipes", "export", "index"}]  # commands of commands


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
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'pydantic', 'opencse.commands')))"
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
    assert set(done.stderr.split()) == {"opencse.cli.app"}
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", [name for name in opencse.__all__ if name.islower() and name != "__version__"])
def test_every_argument_is_explained(name: str) -> None:
    function = getattr(opencse, name)
    said = inspect.getdoc(function) or ""
    for argument in inspect.signature(function).parameters:
        assert f"    {argument}: " in said or name == "diff_recipes", argument
    assert ("Raises:" in said) is (name not in ("doctor", "list_recipes"))


def test_recipes_have_a_function_each() -> None:
    assert {"list_recipes", "list_presets", "show_recipe", "diff_recipes"} < set(opencse.__all__)
    assert opencse.list_recipes().keys() > {"simcse", "adapt"}
    assert opencse.list_presets("simcse").keys() == opencse.show_recipe("simcse").recipe.presets.keys()
    (found,) = [one for one in opencse.diff_recipes("simcse", "simcse:dropout-0.2") if one.key == "encoder.dropout"]
    assert found.b == "0.2"
    with pytest.raises(opencse.UserError, match="name the recipe alone"):
        opencse.list_presets("simcse:bert-base")


if TYPE_CHECKING:
    from opencse.text.given import Text


@command
def boil(
    what: str,
    *,
    litres: float = 1.5,
    seed: int = 0,
    cups: Annotated[int, Typed(least=1, most=9)] = 1,
    heat: float | None = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> tuple[object, ...]:
    """Boils something.

    Args:
        what: is boiled.
        litres: How much
            water.

    Returns:
        What was asked for.
    """
    return what, litres, seed, cups, heat, device, trust_remote_code, progress


@command
def packed(
    out: str | Path,
    texts: Sequence[str],
    models: str | Sequence[str | Path],
    *,
    dev: str | Path | None = None,
    starts: Sequence[str | Path] = (),
    name: str = "",
    text: Text | None = None,
) -> tuple[object, ...]:
    return out, texts, models, dev, starts, name, text


def test_paths_begin_with_the_home_folder_and_other_values_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    starts: list[str | Path] = ["~/a", Path("~/b"), "c"]
    values = packed("~/out", ["~/text"], models=["~/m"], dev="~/dev", starts=starts, name="~/name", text="~/text")
    expected = "/home/anna/out", ["~/text"], ["/home/anna/m"], "/home/anna/dev", ["/home/anna/a", Path("~/b"), "c"]
    assert values == (*expected, "~/name", "/home/anna/text")
    assert packed(Path("~/out"), (), "~/m")[:3] == (Path("~/out"), (), "~/m")


@command
def cooked(settings: Settings = (), names: Iterable[str] = ()) -> dict[str, object]:
    return {"settings": list(settings), "names": list(names)}


def test_numbers_are_in_the_range_that_is_declared() -> None:
    assert boil("tea", seed=2**63 - 1, cups=1, heat=-1e300, device="cpu")[1:6] == (1.5, 2**63 - 1, 1, -1e300, "cpu")
    for name, wrong, said in (
        ("seed", -1, "seed is at least 0, not -1"),
        ("cups", 0, "cups is at least 1 and at most 9, not 0"),
        ("cups", 10, "at most 9, not 10"),
        ("cups", float("nan"), "at most 9, not nan"),
    ):
        with pytest.raises(UserError, match=said):
            boil("tea", **{name: wrong})  # type: ignore[arg-type]


def test_settings_may_be_a_dictionary() -> None:
    expected = {"settings": ["stove.heat=2.5", 'stove.fuel="gas"'], "names": ["a"]}
    assert cooked(settings={"stove": {"heat": 2.5}, "stove.fuel": "gas"}, names={"a": 1}) == expected
    assert cooked(settings=["stove.heat=2.5"])["settings"] == ["stove.heat=2.5"]


def test_what_the_system_refuses_unknown_options_and_trust_by_a_word() -> None:
    with pytest.raises(UserError, match="choose a shorter name"):
        opencse.check("x" * 300 + ".txt")
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'liters'"):
        boil("water", liters=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="trust_remote_code is True or False"):
        boil("water", trust_remote_code="false")  # type: ignore[arg-type]


def test_signature_and_documentation_show_what_several_commands_have() -> None:
    parameters = inspect.signature(boil).parameters
    shown = [str(parameters[name]) for name in ("what", "litres", "cups", "device", "trust_remote_code", "progress")]
    assert shown == [
        "what: 'str'", "litres: 'float' = 1.5", "cups: 'int' = 1", "device: 'str | None' = None",
        "trust_remote_code: 'bool' = False", "progress: 'Progress' = SILENT",
    ]  # fmt: skip
    said = inspect.getdoc(boil) or ""
    for line in ("    what: is boiled.\n    litres: How much\n        water.\n", "    device: cpu, cuda or mps; by"):
        assert line in said
    assert get_type_hints(packed)["text"] == Any | None  # a class that type checkers alone import
    assert said.endswith("\n\nReturns:\n    What was asked for.")
