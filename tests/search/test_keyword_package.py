"""bm25s is imported without jax, which would take most of a GPU's memory, and does not fill the program's log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_jax_is_neither_imported_nor_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("print('jax was imported')\n")
    (tmp_path / "jax" / "lax.py").write_text("raise MemoryError('took the GPU')\n")
    code = (
        "from opencse.search.stems import keyword_package; package = keyword_package(); "
        "print(package.__name__, package.selection.JAX_IS_AVAILABLE); import jax"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.splitlines() == ["bm25s False", "jax was imported"]
