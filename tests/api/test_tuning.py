"""`tune_index`, and the way of a fitted weight from a model's folder to a search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.hybrid_weight import read_hybrid_weight, write_hybrid_weight
from opencse.modules.hybrid_weight import HybridWeight
from opencse.progress import Silent
from opencse.text import sample

LINES = list(dict.fromkeys(line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line))[:240]
DOCUMENTS = [f"{one} {other}" for one, other in zip(LINES[::2], LINES[1::2], strict=True)]
QUERIES = ["a man with a guitar", "rain in the city"]


class Lines(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def ranked(index: str | Path, **options: object) -> list[list[str]]:
    result = opencse.query_index(index, QUERIES, hybrid=True, device="cpu", **options)  # type: ignore[arg-type]
    return [[hit.id for hit in hits] for hits in result]


def test_a_weight_travels_from_the_model_through_the_index_to_the_search(tmp_path: Path) -> None:
    SentenceEncoder.load("opencse-mini", device="cpu").save(tmp_path / "model")
    write_hybrid_weight(tmp_path / "model", HybridWeight(0.9, "someone's queries"))
    built = opencse.build_index(tmp_path / "index", tmp_path / "model", DOCUMENTS, device="cpu")
    assert built.info.hybrid == HybridWeight(0.9, "someone's queries")
    progress = Lines()
    by_default = ranked(tmp_path / "index", progress=progress)
    assert progress.lines == ["hybrid     weight of the vectors 0.90 (someone's queries)"]
    assert by_default == ranked(tmp_path / "index", hybrid_weight=0.9)
    assert by_default != ranked(tmp_path / "index", hybrid_weight=0.1, progress=progress)
    assert progress.lines[-1] == "hybrid     weight of the vectors 0.10 (as requested)"


def test_an_index_is_tuned_without_labels_and_keeps_its_rows(tmp_path: Path) -> None:
    opencse.build_index(tmp_path / "index", "opencse-mini", DOCUMENTS, device="cpu")
    before = opencse.index_info(tmp_path / "index")
    assert before.hybrid == HybridWeight()
    fitted = opencse.tune_index(tmp_path / "index", device="cpu")
    after = opencse.index_info(tmp_path / "index")
    assert after.hybrid == fitted.weight
    assert (after.rows, after.fingerprint) == (before.rows, before.fingerprint)
    assert opencse.check_index(tmp_path / "index").faults == ()
    assert ranked(tmp_path / "index") == ranked(tmp_path / "index", hybrid_weight=fitted.weight.value)


def test_options_for_queries_need_queries(tmp_path: Path) -> None:
    opencse.build_index(tmp_path / "index", "opencse-mini", DOCUMENTS, device="cpu")
    with pytest.raises(UserError, match="--keep-identical-ids is for queries"):
        opencse.tune_index(tmp_path / "index", keep_identical_ids=True, device="cpu")


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
    progress = Lines()
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
    assert any(line.startswith(f"hybrid     weight of the vectors {weight}") for line in progress.lines)
    assert SentenceEncoder.load(tmp_path / "out", device="cpu").hybrid_weight == weight
    assert read_hybrid_weight(tmp_path / "out" / "last") is None
