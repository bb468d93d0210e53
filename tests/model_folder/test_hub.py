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
