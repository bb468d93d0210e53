"""What the readers of folders without torch share; what each of them leaves alone is tested in its own file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from opencse.errors import UserError
from opencse.model_folder.listing import list_modules
from opencse.model_folder.locate import builtin_folder
from opencse.model_folder.torchless_parts import bert_tensors, is_plain_bert, needs_complete_reader


def test_the_prefix_of_tensors_is_removed_where_no_other_has_the_name(tmp_path: Path) -> None:
    row = np.ones(2, dtype=np.float32)
    save_file({"bert.a": row, "b": row}, tmp_path / "model.safetensors")
    assert sorted(bert_tensors(tmp_path)) == ["a", "b"]
    save_file({"bert.a": row, "a": row + 1}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="both with and without the prefix"):
        bert_tensors(tmp_path)


def test_a_plain_bert() -> None:
    assert is_plain_bert({"model_type": "bert"})
    for unusual in ("add_cross_attention", "is_decoder", "auto_map"):
        assert not is_plain_bert({"model_type": "bert", unusual: True})
    assert not is_plain_bert({"model_type": "bert", "position_embedding_type": "relative_key"})
    assert not is_plain_bert({"model_type": "roberta"})


def test_adapters_need_the_complete_reader(tmp_path: Path) -> None:
    folder = shutil.copytree(builtin_folder(), tmp_path / "model")
    modules = list_modules(folder)
    assert not needs_complete_reader(folder, modules)
    (folder / "adapter_config.json").write_text("{}")
    assert needs_complete_reader(folder, modules)
    assert needs_complete_reader(folder, None)
