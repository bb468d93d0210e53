"""Shares models: pushes them to the Hub, and merges adapters into their model."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from opencse.api.cards import merged_card
from opencse.api.declaring import public
from opencse.api.options.shared import ProgressOptions
from opencse.api.options.sharing import PushOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.io import require_folder
from opencse.model_folder.hub import upload
from opencse.model_folder.locate import locate
from opencse.model_folder.reading import find_adapters
from opencse.outputs import paths_of, require_apart, require_empty
from opencse.progress import Silent


@public
def merge(adapters: str | Path, out: str | Path, **options: Unpack[ProgressOptions]) -> SentenceEncoder:
    """Merges adapters (LoRA, in peft's layout) into the model they belong to; the folder opens anywhere.

    Each adapted weight W becomes W + (alpha / r) B A (Hu et al. 2021, arXiv:2106.09685, equation 3).

    Example:
        >>> import opencse
        >>> encoder = opencse.merge("my-run/adapter", "merged")  # doctest: +SKIP

    Args:
        adapters: folder or Hub id with ``adapter_config.json``, for instance ``adapter/`` in the folder of a run with
            ``encoder.lora``.
        out: folder for the merged encoder; a new or empty one.
        **options: see `ProgressOptions`.

    Raises:
        UserError: where there are no adapters, their model is not found, they do not fit, or peft is not installed.
    """
    folder, progress = Path(out), options["progress"] or Silent()
    require_apart(folder, models=paths_of(adapters))
    require_empty(folder)
    adapter = find_adapters(adapters)
    if adapter is None:
        raise UserError(f"{adapters}: holds no adapters (adapter_config.json); it is a complete model already")
    encoder = SentenceEncoder.load(adapters, device="cpu")
    encoder.save(folder, card=merged_card(str(adapters), adapter.base, encoder))
    progress.say(f"merged     {adapters} with {adapter.base}")
    return encoder


@public
def push(folder: str | Path, repo_id: str, **options: Unpack[PushOptions]) -> str:
    """Puts an encoder's folder on the Hub with its card, in one commit.

    The model's files go there; the other files of a run (``run.json``, logs, the report, ``last/``) stay here.

    Example:
        >>> import opencse
        >>> opencse.push("my-model", "my-account/my-model")  # doctest: +SKIP
        'https://huggingface.co/my-account/my-model/commit/...'

    Args:
        folder: of a run, an encoder, or adapters.
        repo_id: ``owner/name``; a name alone is a repository of the token's owner.
        **options: see `PushOptions`.

    Returns:
        The address of the commit, or of the pull request.

    Raises:
        UserError: in one line, for a folder without a model, a wrong name, no token, no network, or what the Hub
            refuses.
    """
    path = Path(folder)
    require_folder(path, "give the folder of an encoder")
    locate(path)
    (options["progress"] or Silent()).say(f"sending    {folder} to {repo_id}")
    return upload(
        path,
        repo_id,
        token=options["token"],
        private=options["private"],
        exist_ok=options["exist_ok"],
        revision=options["revision"],
        create_pr=options["create_pr"],
        commit_message=options["commit_message"],
    )
