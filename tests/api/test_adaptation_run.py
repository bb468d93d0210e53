"""What `opencse.adapt` adds to a run: the weight of hybrid search is fitted to the encoder that it keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.hybrid_weight import read_hybrid_weight
from search_texts import DOCUMENTS, LINES


@pytest.mark.slow
def test_adapting_fits_the_weight_of_the_encoder_it_keeps(tmp_path: Path) -> None:
    folder = tmp_path / "queries"
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{row}", "text": text} for row, text in enumerate(DOCUMENTS)]
    queries = [{"_id": f"q{row}", "text": " ".join(LINES[2 * row].split()[::2])} for row in range(60)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    judged = "".join(f"q{row}\td{row}\t1\n" for row in range(60))
    (folder / "qrels" / "dev.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    progress = Heard()
    settings = ["training.max_steps=2"]
    pairs = [(queries[row]["text"], DOCUMENTS[row]) for row in range(10)]
    opencse.adapt(DOCUMENTS, tmp_path / "pairs", dev=folder, pairs=pairs, settings=settings, device="cpu", report=False)
    weight = read_hybrid_weight(tmp_path / "pairs")
    assert weight is not None
    assert weight.source == "50 queries of queries", "the ten that are trained on are ignored"
    opencse.adapt(
        DOCUMENTS, tmp_path / "out", dev=folder, settings=settings, device="cpu", report=False, progress=progress
    )
    weight = read_hybrid_weight(tmp_path / "out")
    assert weight is not None
    assert weight.source == "60 queries of queries"
    assert any(line.startswith(f"hybrid     weight of the vectors {weight}") for line in progress.said)
    assert SentenceEncoder.load(tmp_path / "out", device="cpu").hybrid_weight == weight
    assert read_hybrid_weight(tmp_path / "out" / "last") is None
