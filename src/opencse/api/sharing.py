"""Models for other people and places: `push` to the Hub, `merge` adapters into their model."""

from __future__ import annotations

from pathlib import Path

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError, plain_failures
from opencse.model_folder.hub import upload
from opencse.model_folder.locate import locate
from opencse.model_folder.reading import find_adapters
from opencse.outputs import paths_of, require_apart, require_empty
from opencse.progress import Progress, Silent
from opencse.runs.card import merged_card


@plain_failures
def merge(adapters: str | Path, out: str | Path, *, progress: Progress | None = None) -> SentenceEncoder:
    """Merges adapters (LoRA, in peft's layout) into the model they belong to; the folder opens anywhere.

    W + (alpha / r) B A takes the place of each adapted weight W (Hu et al. 2021, arXiv:2106.09685, equation 3).

    Args:
        adapters: folder or Hub id with ``adapter_config.json``, for instance ``adapter/`` in the folder of a run with
            ``encoder.lora``.
        out: folder for the merged encoder; a new or empty one.
        progress: hears of it.

    Raises:
        UserError: where there are no adapters, their model is not found, they do not fit, or peft is not installed.
    """
    folder, tell = Path(out), progress or Silent()
    require_apart(folder, models=paths_of(adapters))
    require_empty(folder)
    found = find_adapters(adapters)
    if found is None:
        raise UserError(f"{adapters}: holds no adapters (adapter_config.json); it is a complete model already")
    encoder = SentenceEncoder.load(adapters, device="cpu")
    encoder.save(folder, card=merged_card(str(adapters), found.base, encoder))
    tell.say(f"merged     {adapters} into {found.base}")
    return encoder


@plain_failures
def push(
    folder: str | Path,
    repo_id: str,
    *,
    token: str | None = None,
    private: bool | None = None,
    exist_ok: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    commit_message: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Puts an encoder's folder on the Hub with its card, in one commit.

    The model's files go there; what a run left beside them (``run.json``, logs, the report, ``last/``) stays here.

    Args:
        folder: of a run, an encoder, or adapters.
        repo_id: ``owner/name``; a bare name is put under the token's owner.
        token: with write access; by default that of ``hf auth login`` or ``HF_TOKEN``.
        private: make the repository private; by default as the owner has it set.
        exist_ok: add a version to a repository that is there.
        revision: branch to write to, made if it is not there; the main one by default.
        create_pr: open a pull request instead of writing to the branch.
        commit_message: of the commit.
        progress: hears of it.

    Returns:
        The address of the commit, or of the pull request.

    Raises:
        UserError: in one line, for a folder without a model, a wrong name, no token, no network, or what the Hub
            refuses.
    """
    path = Path(folder)
    if not path.is_dir():
        raise UserError(f"{folder}: no such folder; give the folder of an encoder")
    locate(path)
    (progress or Silent()).say(f"sending    {folder} to {repo_id}")
    return upload(
        path,
        repo_id,
        token=token,
        private=private,
        exist_ok=exist_ok,
        revision=revision,
        create_pr=create_pr,
        commit_message=commit_message,
    )
