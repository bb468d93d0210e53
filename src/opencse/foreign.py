"""Runs the code of a model's folder only where the user trusts it, and reports where it is run."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from opencse.errors import UserError

FLAG = "--trust-remote-code"
_FILES = ("config.json", "tokenizer_config.json")
_CLASSES = ("AutoConfig", "AutoModel", "AutoTokenizer")
MASKED_LM, CLASSIFIER = "AutoModelForMaskedLM", "AutoModelForSequenceClassification"
"""Keys of ``auto_map`` for the two heads that are opened: of pretraining, and of a cross-encoder."""
_ATTENTION_KEYS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
_ATTENTION = ("eager", "sdpa", "flex_attention")
# Where the package is not installed, transformers downloads a compiled kernel from the Hub instead.
_FLASH = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_3"}


P = ParamSpec("P")
R = TypeVar("R")


def checks_trust(function: Callable[P, R]) -> Callable[P, R]:
    """Makes ``function`` refuse a ``trust_remote_code`` that is no bool before it does anything.

    Words such as ``"false"`` count as true in Python, and a stranger's code would be run.

    Raises:
        TypeError: when the function is called with another value.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        require_bool(kwargs.get("trust_remote_code", False))
        return function(*args, **kwargs)

    return checked


def require_bool(trust_remote_code: object) -> None:
    """Raises a ``TypeError`` for anything but True and False."""
    if not isinstance(trust_remote_code, bool):
        raise TypeError(f"trust_remote_code is True or False, not {trust_remote_code!r}")


def own_code(folder: Path, *heads: str) -> tuple[str, ...]:
    """The classes that ``folder`` brings or names (``auto_map``), as ``module.Class`` or ``repository--module.Class``.

    These are the classes of the configuration, the encoder, a head and the tokenizer; others are not used.

    Args:
        folder: of the model.
        heads: keys of the heads that may be opened; by default `MASKED_LM` and `CLASSIFIER`.
    """
    references: dict[str, None] = {}
    for name in _FILES:
        auto_map = _read(folder / name).get("auto_map")
        entries = auto_map if isinstance(auto_map, dict) else {"AutoTokenizer": auto_map}
        for key in (*_CLASSES, *(heads or (MASKED_LM, CLASSIFIER))):
            value = entries.get(key)
            for reference in value if isinstance(value, list) else [value]:
                if isinstance(reference, str):
                    references[reference] = None
    return tuple(references)


def own_tokenizer(folder: Path) -> bool:
    """Whether ``folder`` brings its own tokenizer class, which transformers would silently replace by a stock one."""
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    config = _read(folder / "tokenizer_config.json")
    class_name = config.get("tokenizer_class")
    if not config.get("auto_map") or not isinstance(class_name, str):
        return False
    return not any(tokenizer_class_from_name(name) for name in (class_name, f"{class_name}Fast"))


def refuse_foreign(folder: Path) -> None:
    """Refuses content for which transformers would download code or weights, or that it would silently ignore.

    These are attention kernels of the Hub, code of a model inside the model, adapters (whose base model is elsewhere;
    `opencse.model_folder.reading` opens both) and quantised weights. Trust in the folder's own code does not extend to
    them.

    Raises:
        UserError: naming the file and the key.
    """
    if (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{folder / 'adapter_config.json'}: adapters are not supported here; merge them into their model first "
            "(opencse merge) and give that"
        )
    path = folder / "config.json"
    config = _read(path)
    if config.get("quantization_config") is not None:
        raise UserError(
            f"{path}: quantization_config is not supported here; save the weights without it, in 16 or 32 bits"
        )
    for depth, key, value in _entries(config):
        if key == "auto_map" and depth and value:
            raise UserError(f"{path}: auto_map of a model inside the model is not supported here")
        if key in _ATTENTION_KEYS:
            for name in value.values() if isinstance(value, dict) else [value]:
                _require_known_attention(path, key, name)


def not_trusted(folder: Path) -> UserError:
    """The error for a ``folder`` that cannot be opened without running its `own_code`."""
    return UserError(
        f"{folder}: can be opened only with code of its own ({', '.join(own_code(folder))}), which runs only if you "
        f"trust it; read it, and then give {FLAG} (in Python trust_remote_code=True)"
    )


def code_notice(code: tuple[str, ...]) -> str:
    """The line that reports which code of a model's folder is run."""
    return f"code       of the model's folder is run ({FLAG}): {', '.join(code)}"


def _require_known_attention(path: Path, key: str, name: object) -> None:
    if name is None or name in _ATTENTION:
        return
    if not isinstance(name, str) or name not in _FLASH:
        known = ", ".join((*_ATTENTION, *_FLASH))
        raise UserError(f"{path}: {key} {name!r} is not supported here, and is not downloaded; known: {known}")
    if find_spec(_FLASH[name]) is None:
        raise UserError(f"{path}: {key} {name} needs the package {_FLASH[name]}; install it, or take the key out")


def _entries(value: object, depth: int = 0) -> Iterator[tuple[int, str, Any]]:
    """(depth, key, value) of every entry of the objects in ``value``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield depth, key, inner
            yield from _entries(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _entries(inner, depth + 1)


def _read(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where none can be read, which transformers then reports."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
