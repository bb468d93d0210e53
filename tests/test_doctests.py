"""The examples in docstrings run and print what they say, and what users meet has one."""

from __future__ import annotations

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import opencse

PACKAGE = Path(opencse.__file__).parent
API_PAGE = Path(__file__).parents[1] / "docs" / "api.md"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text(encoding="utf-8").splitlines())
)


def names() -> dict[str, object]:
    """Everything public, and the classes and functions that docs/api.md imports."""
    page = API_PAGE.read_text(encoding="utf-8")
    shown = {f"opencse.{name}": getattr(opencse, name) for name in opencse.__all__ if name != "__version__"}
    for module, imported in re.findall(r"(?m)^from (opencse[\w.]*) import (.+)$", page):
        for name in imported.split(", "):
            shown[f"{module}.{name}"] = getattr(import_module(module), name)
    return shown


@pytest.mark.in_full
@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tried = doctest.testmod(import_module(name.removesuffix(".__init__")), optionflags=doctest.ELLIPSIS)
    assert tried.attempted > 0
    assert tried.failed == 0


def test_what_users_meet_has_an_example() -> None:
    shown = names()
    assert len(shown) > 45
    without = {name for name, value in shown.items() if ">>> " not in (inspect.getdoc(value) or "")}
    assert without == set(), "write an example into the docstring"
