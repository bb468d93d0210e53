"""``opencse encode``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers import Run


def test_a_file_a_folder_and_options_that_need_a_folder(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "texts.txt"
    text.write_text("The kettle boils.\nSnow fell.\n")
    code, stdout, err = opencse("encode", "opencse-mini", text, "--out", tmp_path / "v.npy", "--dimensions", 8)
    assert code == 0, err
    assert "2 vectors of 8 dimensions" in stdout
    assert np.load(tmp_path / "v.npy").shape == (2, 8)
    code, _, err = opencse("encode", "opencse-mini", text, "--out", tmp_path / "w.npy", "--format", "parquet")
    assert (code, "--format, --shard-rows and --processes need --out FOLDER" in err) == (2, True)


def test_a_column_has_the_name_that_messages_advise(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "texts.jsonl"
    text.write_text('{"body": "The kettle boils."}\n')
    code, _, err = opencse("encode", "opencse-mini", text, "--out", tmp_path / "v.npy")
    assert (code, "name yours with --columns, for instance --columns body" in err) == (2, True)
    assert opencse("encode", "opencse-mini", text, "--columns", "body", "--out", tmp_path / "v.npy")[0] == 0
