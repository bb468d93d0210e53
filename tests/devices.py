"""The device of tests that run on any; where there is no GPU Triton's interpreter computes its kernels, slowly."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

if DEVICE.type == "cpu":  # Triton reads it when it is imported, which transformers does where it is installed
    os.environ.setdefault("TRITON_INTERPRET", "1")


def use_triton() -> None:
    """Skips a test module where Triton is not installed."""
    pytest.importorskip("triton", reason="Triton is not installed")
    if DEVICE.type == "cpu":
        _let_scalars_be_numbers()


def _let_scalars_be_numbers() -> None:
    """Loops over ranges of scalars: the interpreter of Triton 3.6 makes numbers of arrays, which numpy 2.4 refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor
    if patch.__module__ == __name__:
        return

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched
