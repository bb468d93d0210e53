"""Reads and writes the weight of a hybrid search in a model's folder.

It is in ``config_sentence_transformers.json`` as ``{"hybrid_search": {"weight": 0.4, "source": "..."}}``;
sentence-transformers ignores the key.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opencse import io
from opencse.errors import UserError
from opencse.model_folder.layout import SENTENCE_CONFIG, entry, read_config
from opencse.modules.hybrid_weight import HybridWeight

_KEY = "hybrid_search"


def read_hybrid_weight(folder: Path) -> HybridWeight | None:
    """The weight of the vectors in a hybrid search that a model's folder names, or None.

    Raises:
        UserError: for a weight outside [0, 1], with the file and the key.
    """
    path = folder / SENTENCE_CONFIG
    stated = entry(path, read_config(path), _KEY, dict, {})
    if not stated:
        return None
    weight = stated.get("weight")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise UserError(f"{path}: {_KEY}: the weight of the vectors is a number from 0 to 1, not {weight!r}")
    return HybridWeight(float(weight), entry(path, stated, "source", str, "from the model's folder"))


def hybrid_entry(weight: HybridWeight | None) -> dict[str, Any]:
    """The entry for the configuration; empty for None.

    Example:
        >>> hybrid_entry(HybridWeight(0.4, "300 questions"))
        {'hybrid_search': {'weight': 0.4, 'source': '300 questions'}}
    """
    return {} if weight is None else {_KEY: {"weight": weight.value, "source": weight.source}}


def write_hybrid_weight(folder: Path, weight: HybridWeight) -> None:
    """Writes the weight into a model's folder; the other entries of its configuration stay as they are.

    Raises:
        UserError: if the folder holds no sentence-transformers model.
    """
    path = folder / SENTENCE_CONFIG
    if not (folder / "modules.json").is_file():
        raise UserError(f"{folder}: no model in sentence-transformers' layout, so a weight cannot be saved with it")
    config = {**read_config(path), **hybrid_entry(weight)}
    io.write_text(path, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
