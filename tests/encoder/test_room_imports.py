"""Who may import whom: the inference path knows no training, and `import opencse` loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import opencse

PACKAGE = Path(opencse.__file__).parent
ABOVE = {"training", "recipes", "api", "runs", "studies", "cli", "serving"}


def imported(room: str) -> dict[str, set[str]]:
    """File -> every dotted name of this package that it imports, wherever in the file the statement is."""
    found: dict[str, set[str]] = {}
    for file in sorted((PACKAGE / room).rglob("*.py")):
        names: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: relative import"
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        found[str(file.relative_to(PACKAGE))] = {name for name in names if name.split(".")[0] == "opencse"}
    return found


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("text", ABOVE | {"objective", "encoder", "evaluation", "search", "baselines", "analysis"}),
        ("encoder", ABOVE | {"objective", "evaluation", "search", "baselines", "analysis"}),
        ("evaluation", ABOVE | {"objective"}),
        ("search", ABOVE | {"objective", "baselines", "analysis"}),
        ("objective", ABOVE | {"baselines", "analysis"}),
        ("baselines", ABOVE | {"objective", "search"}),
        ("analysis", ABOVE | {"objective", "baselines"}),
        ("integrations", ABOVE | {"objective"}),
        ("making", ABOVE | {"objective", "evaluation", "search", "baselines", "analysis"}),
        ("training", {"recipes", "api", "runs", "studies", "cli", "serving"}),
        ("recipes", {"api", "runs", "studies", "cli", "serving"}),
        ("runs", {"api", "studies", "cli", "serving"}),
    ],
)
def test_imports_run_downwards(room: str, forbidden: set[str]) -> None:
    files = imported(room)
    assert files
    wrong = {
        f"{file} imports {name}"
        for file, names in files.items()
        for name in names
        if name == "opencse.train" or (name.split(".")[1:2] and name.split(".")[1] in forbidden)
    }
    assert not wrong


def test_the_check_sees_imports() -> None:
    seen = {name.split(".")[1] for names in imported("training").values() for name in names}
    assert {"encoder", "errors", "objective"} <= seen
    assert "opencse.encoder.saving.write_folder" in imported("encoder")["encoder/encoder.py"], "inside functions too"


def test_import_of_the_package_is_light() -> None:
    program = "import sys, opencse\nassert opencse.__version__\nprint(*sys.modules)"
    environment = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "opencse" in loaded
    heavy = {"torch", "transformers", "numpy", "datasets", "pydantic", "matplotlib", "tokenizers", "huggingface_hub"}
    assert not loaded & heavy


def test_a_name_the_package_has_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = opencse.Nothing
