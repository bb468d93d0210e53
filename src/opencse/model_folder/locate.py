"""Finds the folder of a model by its name, its path or its Hub id, and uploads one to the Hub."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from opencse.errors import UserError, explaining, reason
from opencse.folder_kinds import kind_of_folder
from opencse.home import in_home
from opencse.markdown import public_name, without_home
from opencse.model_folder.layout import ADAPTER, ADAPTER_CONFIG, THIS_FOLDER, read_config, read_json

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd


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
    name = str(model)
    if name in BUILTINS:
        return builtin_folder(name)
    folder = Path(in_home(model))
    problem = "no such folder"
    try:
        if not name:
            problem = f"no model is named; give a folder, a Hub id, {SMALL} or {BUILTIN}"
        elif folder.is_dir():
            problem = _no_model(folder)
            if not problem:
                return folder
        elif folder.is_file():
            problem = "is a file; give the folder of a model"
        elif name == BAG_OF_WORDS or (":" in name and name.startswith((WORDS, *DITTO))):
            problem = (
                "is a baseline that opencse evaluate computes; no folder holds it, so it cannot be trained, saved or "
                f"served; name a folder, a Hub id, {SMALL} or {BUILTIN}"
            )
        elif name.count("/") <= 1 and not name.startswith((".", "/", "~")):
            return _download(name, [*_PATTERNS, "*.py"] if code else _PATTERNS, weights)
    except OSError as error:
        problem = f"no such folder ({error.strerror})"
    raise UserError(f"{name[:200]}: {problem}" if name else problem)


def _no_model(folder: Path) -> str:
    """Why a folder holds no model that can be opened; empty where it does."""
    files = {name: (folder / name).is_file() for name in ("modules.json", "config.json", "adapter_config.json")}
    if (folder / "run.json").is_file() and not files["config.json"]:
        return "this run has not finished; continue it with the command that began it and --resume"
    if any(files.values()):
        return ""
    if (folder / "export.json").is_file():
        return "is an export (ONNX); give the folder of the model that was exported"
    if kind := kind_of_folder(folder):
        return f"is {kind}, not a model; give the folder of a model"
    return "the folder holds no model (neither modules.json nor config.json)"


def _download(hub_id: str, patterns: list[str], weights: bool) -> Path:
    from huggingface_hub import snapshot_download

    all_patterns = [*patterns, *_WEIGHTS] if weights else patterns
    with explaining(
        f"{hub_id}: neither a folder here nor a model that could be fetched from the Hub",
        Exception,
        fix=f"the built-in encoders are {SMALL} and {BUILTIN}",
    ):
        folder = Path(snapshot_download(hub_id, allow_patterns=all_patterns, ignore_patterns=["onnx/*", "openvino/*"]))
        if weights and not any(folder.glob("**/*.safetensors")):
            folder = Path(snapshot_download(hub_id, allow_patterns=[*patterns, "*.bin"]))
    return folder


_CARD = "README.md"
_NAMES = frozenset(
    {
        "added_tokens.json", "adapter_config.json", "adapter_model.safetensors", "bpe.codes", "chat_template.jinja",
        "config.json", "config_sentence_transformers.json", "export.json", "generation_config.json", "merges.txt",
        "model.onnx", "model.onnx.data", "model.safetensors", "model.safetensors.index.json", "modules.json",
        "preprocessor_config.json", "processor_config.json", "router_config.json", "sentence_bert_config.json",
        "sentencepiece.bpe.model", "sentencepiece.model", "special_tokens_map.json", "spiece.model", "tokenizer.json",
        "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt",
    }
)  # fmt: skip
"""The files that an encoder is made of; nothing else of a folder is sent."""
_PART = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_MODULE = re.compile(r"\d+_\w+")
_PATH = re.compile(r"(?:file:/*)?(?:~\w*|[A-Za-z]:|[/\\])[/\\]?[^/\\\n]+[/\\][^\n]+")
"""An absolute path of two components or more, on any system; a text such as ``/`` or ``</s>`` is none."""
_RECORDED = re.compile(r"_?name_or_path|.*_name_or_path")


class HubOptions(TypedDict, total=False):
    """Options of every upload to the Hub.

    Attributes:
        token: with write access; by default that of ``hf auth login`` or ``HF_TOKEN``.
        private: make the repository private; by default as the owner has it set.
        exist_ok: add a version to a repository that exists.
        revision: branch to write to, made if it does not exist; the main one by default.
        create_pr: open a pull request instead of writing to the branch.
        commit_message: of the commit.
    """

    token: str | None
    private: bool | None
    exist_ok: bool
    revision: str | None
    create_pr: bool
    commit_message: str | None


def upload(folder: Path, repo_id: str, **options: Unpack[HubOptions]) -> str:
    """Puts the model files of ``folder`` and its card on the Hub, in one commit.

    Args:
        folder: of the model.
        repo_id: ``owner/name``; a bare name is put under the token's owner.
        options: see `HubOptions`.

    Returns:
        The address of the commit, or of the pull request.

    Raises:
        UserError: in one line, for a wrong name, no token, no network, or what the Hub refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    if not any((folder / name).is_file() for name in ("modules.json", "config.json", "adapter_config.json")):
        raise UserError(f"{folder}: the folder holds no model, so there is nothing to put on the Hub")
    if _names_local_model(folder):
        raise UserError(
            f"{folder / ADAPTER_CONFIG}: base_model_name_or_path is a folder of this machine, so these would open "
            "nowhere else; put that model on the Hub and name it there, or merge them (opencse merge)"
        )
    _require_no_links(folder)
    token, revision, create_pr = options.get("token"), options.get("revision"), options.get("create_pr", False)
    exist_ok = options.get("exist_ok", False) or create_pr or revision is not None
    try:
        validate_repo_id(repo_id)
        api = HfApi(token=token)
        repository = api.create_repo(repo_id, private=options.get("private"), exist_ok=exist_ok)
        if revision is not None:
            api.create_branch(repository.repo_id, branch=revision, exist_ok=True)
        commit = api.create_commit(
            repository.repo_id,
            _operations(folder, repository.repo_id),
            commit_message=options.get("commit_message") or "Add a sentence encoder written by OpenCSE",
            revision=revision,
            create_pr=create_pr,
        )
    except UserError:
        raise
    except Exception as error:  # of the library that huggingface_hub asks with, which is not always the same
        raise UserError(f"{repo_id}: {_why_not_sent(error, token)}") from None
    return str(commit.pr_url or commit.commit_url)


def _require_no_links(folder: Path) -> None:
    """Refuses links among what would be sent: they could lead to any file of this machine.

    Those of the Hub's own cache, from ``snapshots/REVISION`` to a file in ``blobs`` next to ``snapshots``, may stay.
    """
    blobs = folder.resolve().parent.parent / "blobs"
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        is_sent = _is_uploaded(inside) or inside.name in (_CARD, ADAPTER) or _MODULE.fullmatch(inside.name)
        if is_sent and path.is_symlink() and not (path.is_file() and path.resolve().parent == blobs):
            raise UserError(f"{path}: is a link to {path.readlink()}, and links are not sent; put a copy there")


def _operations(folder: Path, repo_id: str) -> list[CommitOperationAdd]:
    from huggingface_hub import CommitOperationAdd

    files = sorted(path for path in folder.rglob("*") if path.is_file() and _is_uploaded(path.relative_to(folder)))
    if _names_local_model(folder / ADAPTER):
        files = [path for path in files if ADAPTER not in path.relative_to(folder).parts]
    operations = [CommitOperationAdd(path.relative_to(folder).as_posix(), _content(path)) for path in files]
    card = folder / _CARD
    if card.is_file():
        text = without_home(card.read_text(encoding="utf-8").replace(THIS_FOLDER, repo_id))
        operations.append(CommitOperationAdd(_CARD, text.encode()))
    return operations


def _is_uploaded(path: Path) -> bool:
    """Whether a file is part of an encoder, by its path in the folder."""
    *above, name = path.parts
    inside = above[1:] if above[:1] == [ADAPTER] else above
    known = name in _NAMES or _PART.fullmatch(name) is not None
    return known and (not inside or (len(inside) == 1 and _MODULE.fullmatch(inside[0]) is not None))


def _content(path: Path) -> Path | bytes:
    """The content to upload: configurations without paths of this machine, other files unchanged."""
    if path.suffix != ".json" or path.name in ("tokenizer.json", "vocab.json"):
        return path
    values = read_json(path)
    public = _without_paths(values)
    return path if public == values else (json.dumps(public, indent=2) + "\n").encode()


def _without_paths(value: Any, key: str = "") -> Any:  # noqa: ANN401 - any value of JSON
    """A value of a configuration with the last component in place of each path of a machine."""
    if isinstance(value, dict):
        return {name: _without_paths(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_paths(one) for one in value]
    if not isinstance(value, str):
        return value
    return public_name(value) if _RECORDED.fullmatch(key) or _PATH.fullmatch(value) else without_home(value)


def _names_local_model(folder: Path) -> bool:
    """Whether ``folder`` holds adapters of a model that is no name on the Hub."""
    base = read_config(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    return isinstance(base, str) and (Path(base).is_absolute() or Path(base).exists())


def _why_not_sent(error: Exception, token: str | None) -> str:
    """What an error of the Hub, or of the way to it, means for the user."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

    unknown = "the Hub asks who you are; log in (hf auth login), or set HF_TOKEN to a token that may write"
    if isinstance(error, HfHubHTTPError):
        status, message = error.response.status_code, error.server_message or reason(error)
        return {
            401: unknown if token is None else f"the Hub does not know this token ({message})",
            403: f"the token may not write there ({message}); use a token with write access, or another owner",
            409: "is on the Hub already; give --exist-ok to add a version to it, or another name",
        }.get(status, f"the Hub refuses it with {status} ({message})")
    if isinstance(error, LocalTokenNotFoundError):
        return unknown
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so nothing is sent to the Hub; unset it"
    if isinstance(error, HFValidationError):
        return f"is no name on the Hub ({reason(error)}); give owner/name"
    if isinstance(error, ValueError):
        return f"the Hub refuses the model's card or files ({reason(error)})"
    return f"the Hub cannot be reached ({reason(error)}); try again with a network"
