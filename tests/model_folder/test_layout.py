"""Reading the files of a model folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.model_folder.layout import (
    ACTIVATION_PATHS,
    POOLING_FLAGS,
    POOLING_MODES,
    entry,
    read_config,
    read_json,
    read_weights,
)
from opencse.modules.dense import ACTIVATIONS


def test_every_activation_and_pooling_has_a_name_on_disk() -> None:
    assert ACTIVATION_PATHS.keys() == ACTIVATIONS.keys()
    for name, path in ACTIVATION_PATHS.items():
        assert path.rpartition(".")[2] == ACTIVATIONS[name].__name__
    assert POOLING_MODES.keys() <= set(POOLING_FLAGS.values())


def test_broken_files_are_refused_with_name_and_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert read_config(path) == {}
    path.write_text('{"a": 1,\n}')
    with pytest.raises(UserError, match=r"config.json, line 2: not valid JSON"):
        read_json(path)
    path.write_text("[1]")
    with pytest.raises(UserError, match="a JSON object was expected, not a list"):
        read_config(path)
    with pytest.raises(UserError, match=r"model\.safetensors is missing"):
        read_weights(tmp_path)


def test_entries_have_the_expected_type() -> None:
    path = Path("config.json")
    assert entry(path, {}, "size", int, 3) == entry(path, {"size": None}, "size", int, 3) == 3
    with pytest.raises(UserError, match=r"config\.json: size is True; a whole number was expected"):
        entry(path, {"size": True}, "size", int, 3)
