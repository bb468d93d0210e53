"""Every suite: where its data is, texts that are encoded once, pairs of any format."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation import TASKS, EmbeddingModel, ScoredPairs, Sts, StsData, TaskPairs, read_scored_pairs
from opencse.evaluation.embedding import Remembered
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import SUITES, suite_folder


def hashed(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[text.count(letter) for letter in "abcdefghij"] for text in texts], dtype=np.float64) + 0.1


def test_where_a_suite_is(tmp_path: Path) -> None:
    (tmp_path / "sts").mkdir()
    assert suite_folder(tmp_path, "sts") == tmp_path / "sts"
    assert suite_folder(tmp_path, "transfer") == tmp_path
    together = ["sts", "dev", "sts-regressor"]  # of one folder
    assert {suite_folder(tmp_path / "sts", one, together) for one in together} == {tmp_path / "sts"}
    with pytest.raises(UserError, match="unknown suite 'stss'"):
        suite_folder(tmp_path, "stss")
    with pytest.raises(UserError, match="no folder 'transfer' in it"):
        suite_folder(tmp_path, "transfer", ["sts", "transfer"])
    for name in ("corpus.jsonl.gz", "queries.jsonl"):
        (tmp_path / "sts" / name).touch()
    with pytest.raises(UserError, match="queries with relevant documents, not sts; evaluate it with --suite retrieval"):
        suite_folder(tmp_path / "sts", "sts")
    with pytest.raises(UserError, match="is a file, and a suite's tasks are in a folder"):
        suite_folder(tmp_path / "sts" / "queries.jsonl", "sts")


def test_the_development_pairs_are_scored_as_a_task_is(small_sts: Path, tmp_path: Path) -> None:
    (tmp_path / "sts" / "stsb").mkdir(parents=True)
    folder = suite_folder(tmp_path, "dev")
    with pytest.raises(UserError, match=r"dev.tsv: missing; the dev suite reads"):
        SUITES["dev"].open(folder, Options())
    text = (small_sts / "stsb" / "test.tsv").read_text()
    (folder / "stsb" / "dev.tsv").write_text(text)
    model = EmbeddingModel("letters", hashed, "counted")
    found = SUITES["dev"].open(folder, Options(tasks=["stsb"])).evaluate(model)
    same = SUITES["sts"].open(small_sts, Options(tasks=["stsb"])).evaluate(model)
    assert found.values() == {"dev.stsb": same.values()["sts.stsb"]}
    assert np.array_equal(found.arrays()["stsb.cosine"], same.arrays()["stsb.cosine"])


LAYOUTS = {
    "retrieval": "mine/corpus.jsonl",
    "sts": "sts12/MSRpar.tsv",
    "transfer": "mr/all.tsv",
    "probing": "bigram_shift.txt",
}


def test_a_folder_of_another_suite_is_recognised(tmp_path: Path) -> None:
    for suite, layout in zip(SUITES, ["retrieval", "transfer", "probing", "sts", "retrieval", "sts"], strict=True):
        folder = tmp_path / suite
        (folder / LAYOUTS[layout]).parent.mkdir(parents=True)
        (folder / LAYOUTS[layout]).touch()
        with pytest.raises(UserError, match=f"--suite {layout} --data ") as caught:
            suite_folder(folder, suite)
        assert ("queries with relevant documents" in str(caught.value)) is (layout == "retrieval")
        own = folder / LAYOUTS[SUITES[suite].folder]
        own.parent.mkdir(parents=True, exist_ok=True)
        own.touch()
        assert suite_folder(folder, suite) == folder, "data of both"


def pairs(name: str) -> TaskPairs:
    return TaskPairs(TASKS[name], (ScoredPairs(name, np.array([1.0, 5.0]), ["a", name], ["b", name]),))


def test_texts_are_encoded_together_or_apart() -> None:
    data = StsData("here", "unknown", {"stsb": pairs("stsb"), "sickr": pairs("sickr")}, absent=("sts12",))
    for apart, calls in ((False, 1), (True, 2)):
        encoded: list[list[str]] = []

        def encode(texts: Sequence[str], encoded: list[list[str]] = encoded) -> NDArray[np.float64]:
            encoded.append(list(texts))
            return np.array([[len(text), text.count("a") + 1.0] for text in texts])

        lines: list[str] = []
        found = Sts().evaluate(EmbeddingModel("m", encode, device="cpu"), data, lines.append, apart=apart)
        assert len(encoded) == calls
        assert encoded[0][:3] == ["a", "stsb", "b"]
        assert lines[:2] == ["STS: m on stsb, sickr from here, text unknown", "STS: sts12 not in here"]
        assert Sts().score_names(data) == list(found.values())
        assert found.arrays()["stsb.gold"].tolist() == [1.0, 5.0]


TEXTS = ["a cat sat on the mat", "dogs", "it rains in the town", "a"]


@pytest.fixture
def passes(encoder: SentenceEncoder) -> list[int]:
    """The rows of every forward of ``encoder``."""
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, arguments, named: rows.append(len(named["input_ids"])), with_kwargs=True
    )
    return rows


def test_a_text_is_asked_for_once() -> None:
    calls: list[str] = []

    def counting(texts: Sequence[str]) -> NDArray[np.float64]:
        calls.extend(texts)
        return hashed(texts)

    for most, again in ((10**6, []), (4 * 10 * 8, ["new"])):
        calls.clear()
        remembered = Remembered(counting, most=most)
        for texts in (TEXTS, TEXTS[1:3], ["new"], ["new", *TEXTS], []):
            np.testing.assert_array_equal(np.asarray(remembered(texts)).reshape(-1, 10), hashed(texts).reshape(-1, 10))
        assert calls == [*TEXTS, "new", *again]


@pytest.mark.slow
def test_several_layers_and_suites_give_the_records_of_one_at_a_time(
    encoder: SentenceEncoder, passes: list[int], small_sts: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(small_sts, data / "sts")
    for task, part in product(("stsb", "sickr"), ("train", "dev")):
        shutil.copy(data / "sts" / task / "test.tsv", data / "sts" / task / f"{part}.tsv")
    several = dict(opencse.evaluate_all([encoder], data, ["sts", "sts-regressor"], layers=[0, 3]))
    once = sum(passes)
    passes.clear()
    for suite, results in several.items():
        for layer, (name, record) in zip((0, 3), results.items(), strict=True):
            assert name == f"BertModel, layer {layer}"
            alone = opencse.evaluate(encoder, data, suite, layer=layer)
            assert record.values() == pytest.approx(alone.values(), abs=1e-3)
    assert sum(passes) > 2 * once, "two layers, and texts of two suites"


def test_first_dimensions_are_scored_of_vectors_that_are_made_once(encoder: SentenceEncoder, small_sts: Path) -> None:
    asked: list[str] = []

    def encode(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return encoder.encode(texts)

    ((_, results),) = opencse.evaluate_all([encode], small_sts, dimensions=[4, 32])
    assert len(asked) == len(set(asked)), "a text was encoded again"
    alone = opencse.evaluate(lambda texts: encoder.encode(texts)[:, :4], small_sts)
    assert results["encode, 4 dimensions"].values() == pytest.approx(alone.values(), abs=1e-6)
    assert results["encode, 4 dimensions"].values() != results["encode, 32 dimensions"].values()
    with pytest.raises(UserError, match="from 1 to the 32 of encode, not 33"):
        list(opencse.evaluate_all([encode], small_sts, dimensions=[33]))


TSV = '4.400\ta "b" c\td \'s\n0.5\te\tf\n'


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_tsv_has_no_header_and_no_quoting(tmp_path: Path) -> None:
    path = tmp_path / "surprise.OnWN.tsv.gz"
    path.write_bytes(gzip.compress(TSV.encode()))
    pairs = read_scored_pairs(path)
    assert (pairs.name, pairs.scores.tolist()) == ("surprise.OnWN", [4.4, 0.5])
    assert (pairs.first, pairs.second) == (['a "b" c', "e"], ["d 's", "f"])


def test_csv_has_named_columns_quoting_and_lines_within_quotes(tmp_path: Path) -> None:
    text = 'id,sentence2,score,sentence1\n1,"b, ""b""",3,a\n2,d,1.5,"c\nc"\n'
    pairs = read_scored_pairs(write(tmp_path / "p.csv", text))
    assert pairs.name == "p"
    assert (pairs.scores.tolist(), pairs.first, pairs.second) == ([3.0, 1.5], ["a", "c\nc"], ['b, "b"', "d"])


def test_jsonl_has_named_columns(tmp_path: Path) -> None:
    text = '{"sentence1": "a", "sentence2": "b", "score": 3, "x": null}\n\n'
    text += '{"score": "1.5", "sentence2": "é", "sentence1": "c"}'
    pairs = read_scored_pairs(write(tmp_path / "p.jsonl", text))
    assert (pairs.scores.tolist(), pairs.first, pairs.second) == ([3.0, 1.5], ["a", "c"], ["b", "é"])


JSON = '{"score": 1, "sentence1": "a", "sentence2": "b"}\n'

FAULTS = {
    "p.txt": ("1\ta\tb\n", "unknown kind of pair file '.txt'; known: .tsv, .csv, .jsonl"),
    "b.tsv": ("1\ta\tb\n2\tc\n", "line 2: 2 field(s), 3 expected; a .tsv line is score<TAB>sentence1<TAB>"),
    "c.tsv": ("1\ta\tb\nx\tc\td\n", "line 2: the score 'x' is not a number"),
    "f.tsv": ("1\ta\tb\n2\tc\t\n", "line 2: sentence2 is empty"),
    "h.tsv": ("3\ta\tb\n3.0\tc\td\n", "all 2 gold scores are 3, so no correlation is defined"),
    "a.csv": ("scores,sentence1,sentence2\n1,a,b\n", "no column 'score' (did you mean 'scores'?); columns there"),
    "b.csv": ("score,sentence1,sentence2\n1,a,b,c\n", "line 2: 4 columns, but line 1 has 3; put a text that holds"),
    "c.jsonl": (JSON + JSON.replace("1,", "true,"), "line 2: the score is bool, not a number"),
}


def test_faults_are_told_in_one_line(tmp_path: Path) -> None:
    for name, (text, message) in FAULTS.items():
        with pytest.raises(UserError) as caught:
            read_scored_pairs(write(tmp_path / name, text))
        line = str(caught.value)
        assert line.startswith(str(tmp_path / name))
        assert message in line
        assert "\n" not in line
    with pytest.raises(UserError, match="no such file"):
        read_scored_pairs(tmp_path / "absent.tsv")
