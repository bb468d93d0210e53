"""What an upload refuses before it reaches the Hub; uploads are tested in tests/api/test_sharing.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.locate import locate, upload


def test_a_folder_without_model_and_a_wrong_name_are_refused(encoder: SentenceEncoder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no model"):
        upload(tmp_path, "me/model")
    encoder.save(tmp_path / "model")
    with pytest.raises(UserError, match="is no name on the Hub"):
        upload(tmp_path / "model", "a/b/c")


@pytest.mark.parametrize("name", ["ditto:opencse-mini", "ditto-1-10:a/b", "words:vectors.txt", "bag-of-words"])
def test_baselines_of_the_evaluation_have_no_folder(name: str) -> None:
    with pytest.raises(UserError, match=f"{name}: is a baseline that opencse evaluate computes; no folder holds it"):
        locate(name)
    with pytest.raises(UserError, match="neither a folder here nor a model that could be fetched"):
        locate("ditto-of-someone")


def test_everything_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UserError, match="has not finished; continue it with the command that began it and --resume"):
        locate(tmp_path)
    with pytest.raises(UserError, match="is a file"):
        locate(tmp_path / "run.json")
    (tmp_path / "run.json").unlink()
    with pytest.raises(UserError, match="holds no model"):
        locate(tmp_path)
    (tmp_path / "export.json").write_text("{}")
    with pytest.raises(UserError, match="is an export \\(ONNX\\); give the folder of the model that was exported"):
        locate(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        locate(tmp_path / "missing" / "folder")
    with pytest.raises(UserError, match="no model is named"):
        locate("")
    with pytest.raises(UserError, match="neither a folder here nor a model that could be fetched"):
        locate("someone/model-that-is-not-cached")
    number: Any = 3
    with pytest.raises(TypeError, match="not int"):
        locate(number)


def test_links_are_refused_but_those_of_the_hub_s_cache(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    secret, blobs = tmp_path / "secret", tmp_path / "models--a--b" / "blobs"
    secret.write_text("mine")
    folder = tmp_path / "models--a--b" / "snapshots" / "abc"
    encoder.save(folder)
    blobs.mkdir()
    for name in ("config.json", "model.safetensors"):  # as huggingface_hub keeps them
        (folder / name).rename(blobs / name)
        (folder / name).symlink_to(f"../../blobs/{name}")
    (folder / "notes.md").symlink_to(secret)  # is not sent
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        upload(folder, "me/model")
    (blobs / "away").symlink_to(secret)
    links = {"merges.txt": secret, "vocab.txt": blobs / "away", "README.md": secret, "2_Dense": tmp_path}
    for name, target in (links | {"vocab.json": Path("gone")}).items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        with pytest.raises(UserError, match=rf"{name}: is a link to .*, and links are not sent"):
            upload(folder, "me/model")
        (folder / name).unlink()
