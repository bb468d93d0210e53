"""The suites are opened alike, and tell what is wrong before anything is encoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.evaluation import StsResult
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import SUITES, suite_folder, suite_named


def hashed(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[text.count(letter) for letter in "abcdefghij"] for text in texts], dtype=np.float64) + 0.1


def test_the_names() -> None:
    assert list(SUITES) == ["sts", "dev", "sts-regressor", "transfer", "probing", "retrieval"]
    assert all(suite.name == name for name, suite in SUITES.items())
    with pytest.raises(UserError, match=r"unknown suite 'transfre' .did you mean 'transfer'"):
        suite_named("transfre")


def test_sts_keeps_what_its_scores_are_made_of(small_sts: Path) -> None:
    judge = SUITES["sts"].open(small_sts, Options(tasks=["stsb", "sts13"]))
    told: list[str] = []
    found = judge.evaluate(EmbeddingModel("letters", hashed, "counted", "cpu"), told.append)
    assert isinstance(found.record, StsResult)
    assert (found.record.model, found.record.pooling) == ("letters", "counted")
    assert set(found.arrays) == {"stsb.gold", "stsb.cosine", "sts13.gold", "sts13.cosine"}
    assert len(found.arrays["sts13.cosine"]) == 36
    assert told
    from opencse.evaluation import spearman

    score = 100 * spearman(found.arrays["sts13.cosine"], found.arrays["sts13.gold"])
    assert score == pytest.approx(found.record.values()["sts.sts13"])


def test_transfer_passes_its_options_on(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    lines = [f"{number % 2}\t{'aa' if number % 2 else 'bb'} {'c' * (number % 7)}" for number in range(60)]
    (tmp_path / "mine" / "all.tsv").write_text("\n".join(lines) + "\n")
    judge = SUITES["transfer"].open(tmp_path, Options(tasks=["mine"], fast=True))
    record = judge.evaluate(EmbeddingModel("letters", hashed), None).record
    assert record.values()["transfer.mine"] > 90
    assert record.to_dict()["mode"] == "fast"
    assert record.to_dict()["classifier"] == "softmax"
    other = SUITES["transfer"].open(tmp_path, Options(tasks=["mine"], fast=True, logistic=True))
    assert other.evaluate(EmbeddingModel("letters", hashed), None).record.to_dict()["classifier"] == "logistic"


def test_probing_passes_its_options_on(tmp_path: Path) -> None:
    lines = [
        f"{part}\t{'ab'[n % 2]}\t{'ab'[n % 2] * 3} {'c' * (n % 7)}" for part in ("tr", "va", "te") for n in range(30)
    ]
    for key in ("past_present", "word_content"):
        (tmp_path / f"{key}.txt").write_text("\n".join(lines) + "\n")
    told: list[str] = []
    judge = SUITES["probing"].open(tmp_path, Options(tasks=["word_content"], fast=True))
    record = judge.evaluate(EmbeddingModel("letters", hashed, "counted"), told.append).record
    assert record.values() == {"probing.word_content": 100, "probing.average": 100}
    assert (record.model, record.pooling, record.to_dict()["mode"]) == ("letters", "counted", "fast")
    assert told
    with pytest.raises(UserError, match="no task 'tree_depth'"):
        SUITES["probing"].open(tmp_path, Options(tasks=["tree_depth"]))


def test_the_regressor_reads_the_folder_of_sts(small_sts: Path, tmp_path: Path) -> None:
    text = (small_sts / "sickr" / "test.tsv").read_text()
    (tmp_path / "sts" / "sickr").mkdir(parents=True)
    for part in ("train", "dev", "test"):
        (tmp_path / "sts" / "sickr" / f"{part}.tsv").write_text(text)
    folder = suite_folder(tmp_path, "sts-regressor", ["sts-regressor", "transfer"])
    assert folder == tmp_path / "sts" == suite_folder(folder, "sts-regressor")
    told: list[str] = []
    judge = SUITES["sts-regressor"].open(folder, Options(tasks=["sickr"]))
    record = judge.evaluate(EmbeddingModel("letters", hashed, "counted"), told.append).record
    assert list(record.values()) == ["sts_regressor.sickr"]
    assert (record.model, record.pooling) == ("letters", "counted")
    assert told


def test_where_a_suite_is(tmp_path: Path) -> None:
    (tmp_path / "sts").mkdir()
    assert suite_folder(tmp_path, "sts") == tmp_path / "sts"
    assert suite_folder(tmp_path, "transfer") == tmp_path
    assert suite_folder("hub", "sts", ["sts", "transfer"]) == Path("hub")
    with pytest.raises(UserError, match="unknown suite 'stss'"):
        suite_folder(tmp_path, "stss")
    together = ["sts", "dev", "sts-regressor"]  # of one folder
    assert {suite_folder(tmp_path / "sts", one, together) for one in together} == {tmp_path / "sts"}
    with pytest.raises(UserError, match="no folder 'sts' in it"):
        suite_folder(tmp_path / "sts", "sts", ["sts", "transfer"])
    with pytest.raises(UserError, match="no folder 'transfer' in it"):
        suite_folder(tmp_path, "transfer", ["sts", "transfer"])


def test_the_development_pairs_are_scored_as_a_task_is(small_sts: Path, tmp_path: Path) -> None:
    (tmp_path / "sts" / "stsb").mkdir(parents=True)
    folder = suite_folder(tmp_path, "dev")
    with pytest.raises(UserError, match=r"dev.tsv: missing; the dev suite reads"):
        SUITES["dev"].open(folder, Options())
    text = (small_sts / "stsb" / "test.tsv").read_text()
    (folder / "stsb" / "dev.tsv").write_text(text)
    with pytest.raises(UserError, match=r"no task 'sickr'; its one task: stsb"):
        SUITES["dev"].open(folder, Options(tasks=["sickr"]))
    model = EmbeddingModel("letters", hashed, "counted")
    found = SUITES["dev"].open(folder, Options(tasks=["stsb"])).evaluate(model, None)
    same = SUITES["sts"].open(small_sts, Options(tasks=["stsb"])).evaluate(model, None)
    assert found.record.values() == {"dev.stsb": same.record.values()["sts.stsb"]}
    assert np.array_equal(found.arrays["stsb.cosine"], same.arrays["stsb.cosine"])
    assert len(set(found.arrays["stsb.cosine"])) > 1
    assert SUITES["dev"].table({"letters": found.record}).row_count == 1


LAYOUTS = {
    "retrieval": "mine/corpus.jsonl",
    "sts": "sts12/MSRpar.tsv",
    "transfer": "mr/all.tsv",
    "probing": "bigram_shift.txt",
}


@pytest.mark.parametrize("suite", list(SUITES))
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_a_folder_of_another_suite_is_recognised(tmp_path: Path, suite: str, layout: str) -> None:
    folder = tmp_path / "my data"
    (folder / LAYOUTS[layout]).parent.mkdir(parents=True)
    (folder / LAYOUTS[layout]).touch()
    if SUITES[suite].folder == layout:
        assert suite_folder(folder, suite) == folder
        return
    with pytest.raises(UserError, match=f"--suite {layout} --data '.*/my data'") as caught:
        suite_folder(folder, suite)
    assert ("queries with relevant documents" in str(caught.value)) is (layout == "retrieval")
    (folder / LAYOUTS.get(SUITES[suite].folder, "")).parent.mkdir(parents=True, exist_ok=True)
    (folder / LAYOUTS[SUITES[suite].folder]).touch()
    assert suite_folder(folder, suite) == folder, "data of both"


def test_a_data_set_of_queries_and_a_file_are_recognised(tmp_path: Path) -> None:
    for name in ("corpus.jsonl.gz", "queries.jsonl"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="queries with relevant documents, not sts; evaluate it with --suite retrieval"):
        suite_folder(tmp_path, "sts")
    with pytest.raises(UserError, match="is a file, and a suite's tasks are in a folder"):
        suite_folder(tmp_path / "queries.jsonl", "sts")
    assert suite_folder(tmp_path / "nowhere", "sts") == tmp_path / "nowhere"
    (tmp_path / "empty").mkdir()
    assert suite_folder(tmp_path / "empty", "sts") == tmp_path / "empty"
