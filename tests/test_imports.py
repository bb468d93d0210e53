"""`import opencse` loads nothing heavy; who may import whom is in pyproject.toml's contracts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import opencse

PACKAGE = Path(opencse.__file__).parent


@pytest.mark.slow
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
