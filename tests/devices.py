"""The device of tests that run on any; where there is no GPU Triton's interpreter computes its kernels, slowly."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

if DEVICE.type == "cpu":  # Triton reads it when it is imported, which transformers does where it is installed
    os.environ.setdefault("TRITON_INTERPRET", "1")


def use_triton() -> None:
    """Skips a test module where Triton is not installed."""
    pytest.importorskip("triton", reason="Triton is not installed")
    if DEVICE.type == "cpu":
        _correct_the_interpreter()


def _correct_the_interpreter() -> None:
    """Two faults of Triton 3.6: bounds of loops are numbers of arrays, which numpy 2.4 refuses, and bf16 is multiplied
    as if its bits were integers."""
    from triton.runtime import interpreter

    patch, dot = interpreter._patch_lang_tensor, interpreter.InterpreterBuilder.create_dot
    if patch.__module__ == __name__:
        return

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    def float_dot(self: Any, a: Any, b: Any, *others: Any) -> Any:
        return dot(self, as_float(a), as_float(b), *others)

    def as_float(handle: Any) -> Any:
        if handle.data.dtype != np.uint16:
            return handle
        data = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(data, interpreter.tl.float32)

    interpreter._patch_lang_tensor = patched
    interpreter.InterpreterBuilder.create_dot = float_dot
