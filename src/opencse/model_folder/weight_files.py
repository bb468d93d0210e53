"""Checks the weight files of a transformers folder: inside the folder, and as large as its config.json says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from opencse.errors import UserError
from opencse.model_folder.layout import SINGLE, read_binary, read_config

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_INDEXES = tuple(f"{name}.index.json" for name in SINGLE)
_MOST_REPEATS = 256
"""Most layers (or groups, heads, experts) without a tensor for each; ALBERT's layers share their tensors."""
_COUNTED = ("layer", "layers", "groups", "head", "heads", "experts", "group_num")
"""Last words of the keys that say how often a part of the network is repeated."""
_SMALL = 2**26
"""Networks up to this many numbers (256 MiB) are built whatever the weight files hold."""


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files that transformers reads the weights of ``folder`` from, in its order; empty where there are none.

    Raises:
        UserError: if config.json or an index names a file that is not a plain name inside the folder. The file itself
            may be a link: the Hub's cache is made of links to another folder.
    """
    file_name = read_config(folder / "config.json").get("transformers_weights")
    if file_name is not None:
        _refuse_outside(folder / "config.json", "transformers_weights", file_name)
        return (folder / file_name,)
    shards = {}
    for index in _INDEXES:
        weight_map = read_config(folder / index).get("weight_map", {})
        if not isinstance(weight_map, dict):
            raise UserError(f"{folder / index}: weight_map is no JSON object; save the model again")
        for name, file in weight_map.items():
            _refuse_outside(folder / index, f"weight_map of {name}", file)
        shards[index] = tuple(dict.fromkeys(folder / file for file in weight_map.values()))
    for single, index in zip(SINGLE, _INDEXES, strict=True):
        if (folder / single).is_file():
            return (folder / single,)
        if shards[index]:
            return shards[index]
    return ()


def require_repeats(folder: Path) -> int:
    """Compares how many layers config.json names with the number of tensors, before anything is built.

    Returns:
        Bytes of all weight files; 0 where there are none.

    Raises:
        UserError: naming the key and both numbers.
    """
    files = [file for file in weight_files(folder) if file.is_file()]
    tensors = sum(map(_tensor_count, files))
    path = folder / "config.json"
    for key, value in _numbers(read_config(path)):
        if key.endswith(_COUNTED) and value > max(_MOST_REPEATS, tensors):
            _too_large(path, f"{key} is {value:,}", f"the weight files hold {tensors:,} tensors")
    return sum(file.stat().st_size for file in files)


def require_sizes(
    folder: Path,
    opener: Any,  # noqa: ANN401 - a class of transformers that opens models
    config: PretrainedConfig,
    stored_bytes: int,
    *,
    trust_remote_code: bool,
) -> None:
    """Refuses sizes in config.json that make a network much larger than the stored weights, before it is allocated.

    Args:
        folder: transformers' folder.
        opener: builds the network, such as `AutoModel`.
        config: its configuration.
        stored_bytes: of all weight files; a stored number takes a byte at least.
        trust_remote_code: run the code that the folder names, where it names any.

    Raises:
        UserError: with both numbers.
    """
    with torch.device("meta"):  # shapes alone, no memory
        model = opener.from_config(config, trust_remote_code=trust_remote_code)
    numbers = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    pooler = sum(tensor.numel() for name, tensor in model.named_parameters() if name.startswith("pooler."))
    if numbers - pooler > max(_SMALL, stored_bytes):
        sizes = {key: value for key, value in _numbers(read_config(folder / "config.json")) if "id" not in key}
        largest = max(sizes, key=lambda key: sizes[key], default="")
        problem = f"its sizes make a network of {numbers:,} numbers"
        _too_large(folder / "config.json", problem, f"the weight files have {stored_bytes:,} bytes", largest)


def _too_large(path: Path, problem: str, weights: str, key: str = "") -> NoReturn:
    where = f" (the largest size is {key})" if key else ""
    raise UserError(f"{path}: {problem}, but {weights}{where}; take config.json and weights from the same model")


def _tensor_count(file: Path) -> int:
    """Tensors in a weight file; a broken file of safetensors counts as one and is reported by what loads it."""
    from safetensors import SafetensorError, safe_open

    if file.suffix != ".safetensors":
        return len(read_binary(file, "meta"))
    try:
        with safe_open(file, framework="pt") as opened:
            return len(opened.keys())
    except (OSError, SafetensorError):
        return 1


def _numbers(config: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The whole numbers of a configuration and of the configurations in it."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield key, value


def _refuse_outside(path: Path, key: str, file: object) -> None:
    text = file if isinstance(file, str) else ""
    absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).anchor
    if not text or absolute or ".." in PureWindowsPath(text).parts or "\0" in text:
        raise UserError(
            f"{path}: {key} is {file!r}; the name of a file inside {path.parent} was expected. Copy the file there"
        )
