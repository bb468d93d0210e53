"""Names in sentence-transformers' folder layout, and functions that read its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zipfile import is_zipfile

from numpy.typing import NDArray

from opencse.errors import UserError, explaining, reason
from opencse.modules.pooling import Pooling

if TYPE_CHECKING:
    from torch import Tensor


# `pooling_mode` in the pooling configuration (sentence-transformers 6).
POOLING_MODES = {
    "cls": Pooling.CLS,
    "mean": Pooling.MEAN,
    "max": Pooling.MAX,
    "lasttoken": Pooling.LAST_TOKEN,
    "weightedmean": Pooling.WEIGHTED_MEAN,
    "mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
}
# The same as one flag per mode (before 6); every release reads these, so they are what is written.
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


SINGLE = ("model.safetensors", "pytorch_model.bin")
"""The files of weights, in transformers' order."""
ADAPTER, ADAPTER_CONFIG = "adapter", "adapter_config.json"
"""The subfolder of adapters that were merged into the model around it; their configuration."""
CALIBRATION = "calibration.json"
"""The file that `opencse calibrate` writes next to a model; it holds for that model alone."""
SENTENCE_CONFIG = "config_sentence_transformers.json"
"""The file with prompts, similarity function and versions."""
SIMILARITY = "similarity_fn_name"
"""The key of the similarity function in ``SENTENCE_CONFIG``."""
TEMPLATE = "template"
"""The key of the template in ``SENTENCE_CONFIG``; see `opencse.model_folder.writing`."""
WRITTEN_BY = "opencse"
"""The key among the versions in ``SENTENCE_CONFIG`` of folders that this library wrote."""
LAYER_NORM_PREFIX = "norm."
"""What the tensors of a LayerNorm module begin with."""
TOKEN_WEIGHTS = "WordWeights"
"""sentence-transformers' name of the module that holds token weights."""
TOKEN_WEIGHTS_TENSOR = "emb_layer.weight"
"""The tensor of that module."""
THIS_FOLDER = "path/to/this/folder"
"""The name of its own folder in a model card; replaced by the model's name when it is uploaded to the Hub."""

JsonType = TypeVar("JsonType", str, int, bool, dict[str, Any])
_KINDS: dict[type, str] = {str: "a string", int: "a whole number", bool: "true or false", dict: "a JSON object"}


def read_json(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """The value in a JSON file.

    Raises:
        UserError: naming the file and the line.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not valid JSON ({error.msg})") from None
    except (OSError, ValueError, RecursionError) as error:  # digits without end are a ValueError of their own
        raise UserError(f"{path}: cannot be read ({error})") from None


def read_config(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is no such file."""
    if not path.is_file():
        return {}
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: a JSON object was expected, not a {type(value).__name__}")
    return value


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a module's folder, by name: of model.safetensors, or else of pytorch_model.bin.

    Raises:
        UserError: where there is neither file, or it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file, binary = (folder / name for name in SINGLE)
    if not file.is_file() and binary.is_file():
        return read_binary(binary)
    try:
        return dict(load_file(file))
    except FileNotFoundError:
        raise UserError(f"{folder}: model.safetensors is missing") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from None


MORE_THAN_TENSORS = (
    "is damaged, or holds more than tensors by name, which is not opened here (it could run code); fetch it again, or "
    "save the weights as model.safetensors"
)


def read_binary(file: Path) -> dict[str, Tensor]:
    """The tensors of a file that torch pickled, by name; ``weights_only``, so that nothing else is made of it.

    Raises:
        UserError: for a damaged file, and for one that holds anything but tensors.
    """
    import torch

    try:
        state = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    except Exception:  # the unpickler of a damaged file raises anything; of the rest it advises to run the file's code
        state = None
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise UserError(f"{file}: {MORE_THAN_TENSORS}")
    return state


def entry(path: Path, config: dict[str, Any], key: str, kind: type[JsonType], default: JsonType) -> JsonType:
    """The value of ``key`` in ``config``, which was read from ``path``; ``default`` where it is not there, or null.

    Raises:
        UserError: for a value of another kind, naming the file and the key.
    """
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UserError(f"{path}: {key} is {value!r}; {_KINDS[kind]} was expected")
    return value


def refuse_others(path: Path, stated: Mapping[str, Any], understood: Mapping[str, Any]) -> None:
    """Refuses what a configuration says beyond what is understood here; null and empty values say nothing.

    Raises:
        UserError: naming the file and the key.
    """
    for key, value in stated.items():
        if value not in (None, {}, [], understood.get(key)):
            raise UserError(f"{path}: {key} = {value!r} is not supported here; delete it if the model works without")


def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """The tensors of ``file`` by name, without torch.

    Raises:
        UserError: if it cannot be read, is no safetensors file, or holds numbers in a format that numpy does not have
            (bfloat16).
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    with explaining(f"{file}: cannot be read", OSError, SafetensorError, TypeError):
        return dict(load_file(file))


def module_folder(listing: Path, path: object) -> Path:
    """The folder of a module, which is in the model's folder or the folder itself.

    Args:
        listing: the file modules.json.
        path: of the module, as it is written there.

    Raises:
        UserError: for a path that leads out of the model's folder.
    """
    folder = listing.parent
    if not isinstance(path, str) or Path(path).is_absolute() or ".." in Path(path).parts or "\0" in path:
        raise UserError(f"{listing}: path is {path!r}; the name of a folder inside {folder} was expected")
    return folder / path
