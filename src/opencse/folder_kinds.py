"""Recognises folders that hold no text: models, and what commands write (runs, indexes, exports, vectors)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

_NAMES = ("adapter_config", "building", "config", "export", "index", "manifest", "modules", "run")
MARKS = frozenset(f"{name}.json" for name in _NAMES)
"""Names of files of which such a folder has at least one."""

TABLE = "opencse-table"
"""`model_type` of a backbone that is a table of word vectors."""


def kind_of_folder(folder: Path) -> str | None:
    """What a folder that holds no text is; None for any other folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> print(kind_of_folder(folder))
        None
        >>> _ = (folder / "index.json").write_text('{"format": 1, "rows": "rows-1.sqlite"}')
        >>> kind_of_folder(folder)
        'an index'
    """
    if is_index(folder):
        return "an index"
    if (folder / "run.json").is_file() and (folder / "metrics.jsonl").is_file():
        return "a run of training"
    if _is_model(folder):
        return "a model"
    if (folder / "export.json").is_file() and _any(folder, "*.onnx"):
        return "an ONNX export"
    if (folder / "manifest.json").is_file() and _any(folder, "part-*.npy", "part-*.parquet"):
        return "a folder of vectors"
    return None


def folders_without_text(files: Iterable[Path]) -> dict[Path, str]:
    """The folders of ``files`` that hold no text, each with its kind."""
    folders = dict.fromkeys(file.parent for file in files if file.name in MARKS)
    return {folder: kind for folder in folders if (kind := kind_of_folder(folder)) is not None}


def is_index(folder: Path) -> bool:
    """Whether ``index.json`` or ``building.json`` in the folder was written for an index, of any version."""
    values = (_read(folder / name) for name in ("index.json", "building.json"))
    return any(isinstance(value, dict) and "rows" in value for value in values)


def _is_model(folder: Path) -> bool:
    modules = _read(folder / "modules.json")
    if isinstance(modules, list) and modules and all(isinstance(one, dict) and "type" in one for one in modules):
        return True
    if (folder / "adapter_config.json").is_file():
        return _any(folder, "adapter_model.*")
    return (folder / "config.json").is_file() and _any(folder, "*.safetensors", "pytorch_model*.bin")


def _any(folder: Path, *patterns: str) -> bool:
    return any(True for pattern in patterns for _ in folder.glob(pattern))


def _read(path: Path) -> object:
    """The content of a JSON file; None where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
