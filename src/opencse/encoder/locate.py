"""From the name of a model to a folder on this machine."""

from __future__ import annotations

from pathlib import Path

from opencse.errors import UserError, reason

BUILTIN = "opencse-mini"
_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors", "*/config.json", "*/*.safetensors"]


def builtin_folder() -> Path:
    """The folder of the built-in encoder inside the installed package."""
    return Path(__file__).parent / BUILTIN


def locate(model: str | Path) -> Path:
    """A local folder for ``model``: the built-in encoder's name, a folder, or a Hub id (downloaded to the Hub cache).

    A training run's folder stands for the model it kept.

    Raises:
        UserError: if there is no such folder and no such model on the Hub.
    """
    if str(model) == BUILTIN:
        return builtin_folder()
    folder = Path(model)
    if folder.is_file():
        raise UserError(f"{model}: is a file; give the folder of a model")
    if folder.is_dir():
        if (folder / "run.json").is_file() and not (folder / "config.json").is_file():
            raise UserError(f"{model}: this run has not finished; go on with opencse train ... --resume")
        if (folder / "modules.json").is_file() or (folder / "config.json").is_file():
            return folder
        raise UserError(f"{model}: the folder holds no model (neither modules.json nor config.json)")
    if str(model).count("/") > 1 or str(model).startswith((".", "/", "~")):
        raise UserError(f"{model}: no such folder")
    return _download(str(model))


def _download(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        safetensors = snapshot_download(hub_id, allow_patterns=_PATTERNS, ignore_patterns=["onnx/*", "openvino/*"])
        folder = Path(safetensors)
        if not any(folder.glob("**/*.safetensors")):
            folder = Path(snapshot_download(hub_id, allow_patterns=[*_PATTERNS, "*.bin"]))
    except Exception as error:
        raise UserError(
            f"{hub_id}: neither a folder here nor a model that could be fetched from the Hub ({reason(error)}); "
            f"the built-in encoder is {BUILTIN}"
        ) from None
    return folder
