"""One hash for a model wherever it stands; another for whatever changes its vectors."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint, hash_files, hash_model
from opencse.model_folder.locate import builtin_folder
from opencse.modules.prompts import Prompts


@pytest.mark.parametrize("pooling", ["mean", "top2"])
def test_saving_and_dropout_change_nothing(tiny_folder: Path, tmp_path: Path, pooling: str) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu", pooling=pooling)
    known = fingerprint(encoder)
    assert len(known) == 16
    encoder.save(tmp_path / "moved")
    assert fingerprint(SentenceEncoder.load(tmp_path / "moved", device="cpu")) == known
    assert fingerprint(SentenceEncoder.load(tmp_path / "moved", dropout=0.3, device="cpu")) == known


def test_what_changes_vectors_changes_it(tiny_folder: Path) -> None:
    def loaded(pooling: str = "mean", max_length: int | None = None) -> SentenceEncoder:
        return SentenceEncoder.load(tiny_folder, device="cpu", pooling=pooling, max_length=max_length)

    weights, prompt, unit = loaded(), loaded(), loaded()
    with torch.no_grad():
        next(weights.backbone.parameters())[5, 3] += 1e-3
    prompt.prompts = Prompts({"default": "query: "}, "default")
    unit.normalize = True
    others = [weights, prompt, unit, loaded("cls"), loaded(max_length=9)]
    assert len({fingerprint(encoder) for encoder in [loaded(), *others]}) == 6


@pytest.mark.parametrize("name", ["1_Pooling", "pool", "modules/mean"])
def test_the_files_of_every_module_are_hashed_whatever_its_folder_is_called(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(builtin_folder(), tmp_path / "model")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / "1_Pooling").rename(folder / name)
    listing = (folder / "modules.json").read_text(encoding="utf-8").replace("1_Pooling", name)
    (folder / "modules.json").write_text(listing, encoding="utf-8")
    assert f"{name}/config.json" in hash_model(folder)
    before = hash_files(folder)
    (folder / "notes").mkdir()
    (folder / "notes" / "config.json").write_text("{}", encoding="utf-8")
    assert hash_files(folder) == before, "a folder that is no module changes no vector"
    config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
    (folder / name / "config.json").write_text(json.dumps(config | {"include_prompt": False}), encoding="utf-8")
    assert hash_files(folder) != before
