"""Maps the tensors of a safetensors file into memory as numpy arrays, so that only what is used is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, reason

_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?"}
_KINDS |= {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
"""The number formats that numpy has, by their names in the file."""
_LONGEST_HEADER = 100_000_000


def map_tensors(file: Path) -> dict[str, NDArray[Any]]:
    """The tensors of ``file`` by name.

    Arrays that are written to are copied page by page; the file never changes.

    Raises:
        UserError: if it cannot be read, is no safetensors file, or holds numbers in a format that numpy does not have
            (bfloat16).
    """
    try:
        raw = np.memmap(file, dtype=np.uint8, mode="c")
        size = int(raw[:8].view("<u8")[0])
        if size > min(_LONGEST_HEADER, len(raw) - 8):
            raise ValueError("the header is longer than the file")
        header: dict[str, dict[str, Any]] = json.loads(raw[8 : 8 + size].tobytes())
        tensors = {}
        for name, about in header.items():
            if name == "__metadata__":
                continue
            if about["dtype"] not in _KINDS:
                raise ValueError(f"{name} is in {about['dtype']}, which numpy does not have")
            kind, (start, end) = np.dtype(_KINDS[about["dtype"]]), about["data_offsets"]
            if not 0 <= start <= end <= len(raw) - 8 - size or end - start != kind.itemsize * math.prod(about["shape"]):
                raise ValueError(f"{name} does not fit the file")
            tensors[name] = raw[8 + size + start : 8 + size + end].view(kind).reshape(about["shape"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from None
    return tensors
