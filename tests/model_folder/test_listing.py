"""The modules that modules.json lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.listing import list_modules


def test_the_folders_of_a_saved_encoder(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.normalize = True
    encoder.save(tmp_path)
    modules = list_modules(tmp_path)
    assert modules is not None
    assert (modules.transformer, modules.pooling.name) == (tmp_path, "1_Pooling")
    assert modules.normalize is not None
    assert (modules.layers, modules.weighted_layers, modules.table) == ((), None, False)
    (tmp_path / "modules.json").unlink()
    with pytest.raises(UserError, match=r"modules\.json is missing"):
        list_modules(tmp_path)


def test_a_plain_folder_has_no_list(tiny_folder: Path) -> None:
    assert list_modules(tiny_folder) is None


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        ([{"type": "sentence_transformers.models.CLIPModel", "path": ""}], "CLIPModel is not supported here"),
        ([{"type": "sentence_transformers.models.Transformer", "path": ""}], "lacks a Transformer or a Pooling"),
        ([{"path": ""}], "a list of objects with type and path"),
        ([{"type": "sentence_transformers.models.Transformer", "path": "../x"}], "inside"),
    ],
)
def test_other_lists_are_refused(listing: list[dict[str, str]], message: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps(listing))
    with pytest.raises(UserError, match=message):
        list_modules(tmp_path)
