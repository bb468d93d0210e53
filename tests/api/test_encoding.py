"""Vectors through Python: vector i is of line i + 1 of a text file; similar and nearest texts."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import opencse
from helpers import Run
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError

TEXTS = ["The cat sleeps.", "A dog barks loudly.", "It rains."]


def in_memory(model: SentenceEncoder, text: Path, out: Path) -> NDArray[np.float32]:
    return opencse.encode(model, text)


def in_a_file(model: SentenceEncoder, text: Path, out: Path) -> NDArray[np.float32]:
    opencse.encode(model, text, out / "v.npy")
    return np.asarray(np.load(out / "v.npy"))


def in_a_folder(model: SentenceEncoder, text: Path, out: Path) -> NDArray[np.float32]:
    opencse.encode(model, text, out / "v", shard_rows=2)
    return np.concatenate([np.load(path) for path in sorted((out / "v").glob("part-*.npy"))])


def in_parquet(model: SentenceEncoder, text: Path, out: Path) -> NDArray[np.float32]:
    from pyarrow import parquet

    opencse.encode(model, text, out / "v", shard_rows=2, file_format="parquet")
    rows = [row for path in sorted((out / "v").glob("part-*")) for row in parquet.read_table(path).to_pylist()]
    assert [row["row"] for row in rows] == list(range(len(rows)))
    return np.array([row["vector"] for row in rows], np.float32)


Encoded = Callable[[SentenceEncoder, Path, Path], NDArray[np.float32]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoded", "name", "content"),
    [
        (in_memory, "plain.txt", "\n".join(TEXTS)),
        (in_a_file, "end.txt", "\n".join(TEXTS) + "\n\n \n"),
        (in_a_folder, "a.csv", "text\n" + "\n".join(TEXTS) + "\n\n"),
        (in_parquet, "a.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS) + "\n"),
    ],
)
def test_row_i_is_of_text_i(
    encoder: SentenceEncoder, tmp_path: Path, encoded: Encoded, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    np.testing.assert_allclose(encoded(encoder, tmp_path / name, tmp_path), encoder.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    ("encoded", "name", "content", "message"),
    [
        (in_memory, "middle.txt", "One.\nTwo.\n\nThree.\n", "middle.txt, line 3: is blank"),
        (in_a_file, "spaces.txt", "One.\n \t\nTwo.\n\n", "spaces.txt, line 2: is blank"),
        (in_a_folder, "cell.csv", "text,b\nOne.,x\n,x\nTwo.,x\n", "cell.csv, line 3: column 'text' is empty"),
        (in_parquet, "text.jsonl", '{"text": "One."}\n{"text": " "}\n', "text.jsonl, line 2: column 'text' is empty"),
    ],
)
def test_a_blank_text_is_refused_with_its_line(
    encoder: SentenceEncoder, tmp_path: Path, encoded: Encoded, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        encoded(encoder, tmp_path / name, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing is left behind"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_blank_line_of_a_pipe_is_refused(tiny_folder: Path, tmp_path: Path, opencse: Run) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for given, code in (("One.\nTwo.\n\n", 0), ("One.\n\nTwo.\n", 2)):
        writer = threading.Thread(target=pipe.write_text, args=[given])
        writer.start()
        found, _, err = opencse("encode", tiny_folder, pipe, "--out", tmp_path / f"{code}.npy")
        writer.join()
        assert found == code, err
        assert (tmp_path / f"{code}.npy").exists() == (code == 0)
    assert "line 2: is blank" in err


def test_a_list_of_texts_is_expected() -> None:
    with pytest.raises(UserError, match="others: give at least one text"):
        opencse.similarity("opencse-mini", "A dog barks.", "It rains.")
    with pytest.raises(UserError, match="a text is blank"):
        opencse.similarity("opencse-mini", "A dog barks.", [" "])


def test_a_read_only_model_is_refused_before_anything_is_measured(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    (tmp_path / "model").mkdir()  # no model in it: opening it would be another error
    read_only(tmp_path / "model")
    with pytest.raises(UserError, match=r"calibration.json: cannot be written \(.*Read-only.*\); .* copy the model"):
        opencse.calibrate(tmp_path / "model", ["One.", "Two."])
