"""The Spark example encodes as this library does."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from joined import environment
from numbered import LINES, numbered
from opencse import SentenceEncoder

SCRIPT = Path(__file__).parents[2] / "examples" / "spark_encode.py"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_a_pandas_udf_gives_the_vectors_of_encode(tmp_path: Path, tiny_folder: Path) -> None:
    import pyarrow.parquet

    source = numbered(tmp_path)
    env = environment(
        PYSPARK_SUBMIT_ARGS="--master local[2] --conf spark.ui.enabled=false pyspark-shell",
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    command = [sys.executable, str(SCRIPT), str(tiny_folder), source.location, str(tmp_path / "vectors")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = pyarrow.parquet.read_table(tmp_path / "vectors").to_pylist()
    found = {row["text"]: row["vector"] for row in rows}
    assert len(rows) == len(LINES)
    vectors = SentenceEncoder.load(tiny_folder, device="cpu").encode(LINES)
    assert np.allclose([found[line] for line in LINES], vectors, atol=1e-6)
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)
