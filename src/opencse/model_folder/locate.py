"""Finds the folder of a model by its name, its path or its Hub id."""

from __future__ import annotations

from pathlib import Path

from opencse.errors import UserError, reason
from opencse.folder_kinds import kind_of_folder
from opencse.home import in_home

BUILTIN = "opencse-mini"
SMALL = "opencse-small"
BUILTINS = (BUILTIN, SMALL)
WORDS = "words:"
BAG_OF_WORDS = "bag-of-words"
DITTO = ("ditto:", "ditto-")
_WEIGHTS = ["*.safetensors", "*/*.safetensors"]
_PATTERNS = ["*.json", "*.txt", "*.model", "*/config.json"]


def builtin_folder(name: str = BUILTIN) -> Path:
    """The folder of a built-in encoder inside the installed package."""
    return Path(__file__).parent / name


def locate(model: str | Path, *, code: bool = False, weights: bool = True) -> Path:
    """A local folder for ``model``: a built-in encoder's name, a folder, or a Hub id (downloaded to the Hub cache).

    The folder of a training run is that of its best model.

    Args:
        model: the name, folder or id.
        code: fetch the model's own Python files too, which are left on the Hub otherwise.
        weights: fetch its weights; without them it is a tokenizer and configurations.

    Raises:
        UserError: if there is no such folder and no such model on the Hub, or for a baseline, which has no folder.
        TypeError: for anything but a name or a path.
    """
    if not isinstance(model, str | Path):
        raise TypeError(f"model is a name or a folder (str or Path), not {type(model).__name__}")
    if not str(model):
        raise UserError(f"no model is named; give a folder, a Hub id, {SMALL} or {BUILTIN}")
    if str(model) in BUILTINS:
        return builtin_folder(str(model))
    folder = Path(in_home(model))
    try:
        a_file, a_folder = folder.is_file(), folder.is_dir()
    except OSError as error:
        raise UserError(f"{str(model)[:80]}: no such folder ({error.strerror})") from None
    if a_file:
        raise UserError(f"{model}: is a file; give the folder of a model")
    if a_folder:
        if (folder / "run.json").is_file() and not (folder / "config.json").is_file():
            raise UserError(
                f"{model}: this run has not finished; continue it with the command that began it and --resume"
            )
        if any((folder / name).is_file() for name in ("modules.json", "config.json", "adapter_config.json")):
            return folder
        if (folder / "export.json").is_file():
            raise UserError(f"{model}: is an export (ONNX); give the folder of the model that was exported")
        if kind := kind_of_folder(folder):
            raise UserError(f"{model}: is {kind}, not a model; give the folder of a model")
        raise UserError(f"{model}: the folder holds no model (neither modules.json nor config.json)")
    if str(model) == BAG_OF_WORDS or (":" in str(model) and str(model).startswith((WORDS, *DITTO))):
        raise UserError(
            f"{model}: is a baseline that opencse evaluate computes; no folder holds it, so it cannot be trained, "
            f"saved or served; name a folder, a Hub id, {SMALL} or {BUILTIN}"
        )
    if str(model).count("/") > 1 or str(model).startswith((".", "/", "~")):
        raise UserError(f"{model}: no such folder")
    return _download(str(model), [*_PATTERNS, "*.py"] if code else _PATTERNS, weights)


def _download(hub_id: str, patterns: list[str], weights: bool) -> Path:
    from huggingface_hub import snapshot_download

    all_patterns = [*patterns, *_WEIGHTS] if weights else patterns
    try:
        folder = Path(snapshot_download(hub_id, allow_patterns=all_patterns, ignore_patterns=["onnx/*", "openvino/*"]))
        if weights and not any(folder.glob("**/*.safetensors")):
            folder = Path(snapshot_download(hub_id, allow_patterns=[*patterns, "*.bin"]))
    except Exception as error:
        raise UserError(
            f"{hub_id}: neither a folder here nor a model that could be fetched from the Hub ({reason(error)}); "
            f"the built-in encoders are {SMALL} and {BUILTIN}"
        ) from None
    return folder
