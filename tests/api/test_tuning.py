"""`tune_index`, and the way of a fitted weight from a model's folder to a search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import opencse
from helpers import Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.hybrid_weight import write_hybrid_weight
from opencse.modules.hybrid_weight import HybridWeight
from search_texts import DOCUMENTS

QUERIES = ["a man with a guitar", "rain in the city"]


def ranked(index: str | Path, **options: object) -> list[list[str]]:
    result = opencse.query_index(index, QUERIES, hybrid=True, device="cpu", **options)  # type: ignore[arg-type]
    return [[hit.id for hit in hits] for hits in result]


def test_a_weight_travels_from_the_model_through_the_index_to_the_search(tmp_path: Path) -> None:
    SentenceEncoder.load("opencse-mini", device="cpu").save(tmp_path / "model")
    write_hybrid_weight(tmp_path / "model", HybridWeight(0.9, "someone's queries"))
    built = opencse.build_index(tmp_path / "index", tmp_path / "model", DOCUMENTS, device="cpu")
    assert built.info.hybrid == HybridWeight(0.9, "someone's queries")
    progress = Heard()
    by_default = ranked(tmp_path / "index", progress=progress)
    assert progress.said == ["hybrid     weight of the vectors 0.90 (someone's queries)"]
    assert by_default == ranked(tmp_path / "index", hybrid_weight=0.9)
    assert by_default != ranked(tmp_path / "index", hybrid_weight=0.1, progress=progress)
    assert progress.said[-1] == "hybrid     weight of the vectors 0.10 (as requested)"


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


def test_a_read_only_index_is_refused_before_questions_are_answered(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    opencse.build_index(tmp_path / "index", "opencse-mini", DOCUMENTS[:30], device="cpu")
    read_only(tmp_path / "index")
    progress = Heard()
    with pytest.raises(UserError, match=r"cannot be written \(.*Read-only.*\); .* tune a copy"):
        opencse.tune_index(tmp_path / "index", device="cpu", progress=progress)
    assert progress.said == []
