import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from helpers import record_of
from opencse.errors import UserError
from opencse.evaluation import TASKS, Sts, load_sts, read_scored_pairs
from scores import spearman_of
from vectors_of_texts import HashedWords

evaluate_sts = partial(record_of, Sts)
"""The record of a plain function of texts."""


WORDS = ("a", "man", "woman", "dog", "plays", "runs", "eats", "the", "guitar", "in", "park", "red", "ball")
YEARS = ["sts12", "sts13", "sts14", "sts15", "sts16"]


bag_of_words = HashedWords(64)


def rows(seed: int, n: int) -> list[tuple[float, str, str]]:
    rng = np.random.default_rng(seed)

    def sentence() -> str:
        return " ".join(rng.choice(WORDS, size=int(rng.integers(1, 7))))

    return [(round(float(rng.uniform(0, 5)), 2), sentence(), sentence()) for _ in range(n)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All seven tasks; subset k of a task holds 6 + 3 k pairs."""
    for t, task in enumerate(TASKS.values()):
        for k, subset in enumerate(task.subsets):
            path = tmp_path / task.key / f"{subset}.tsv"
            path.parent.mkdir(exist_ok=True)
            lines = ["\t".join(map(str, row)) for row in rows(100 * t + k, 6 + 3 * k)]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def oracle(path: Path) -> tuple[list[float], list[float]]:
    """Cosines, pair by pair in plain Python, and gold scores."""
    cosines, gold = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        score, first, second = line.split("\t")
        u, v = bag_of_words([first, second]).astype(np.float64)
        cosines.append(round(float(u @ v / np.linalg.norm(u) / np.linalg.norm(v)), 12))
        gold.append(float(score))
    return cosines, gold


def test_tasks_are_those_published() -> None:
    assert list(TASKS) == [*YEARS, "stsb", "sickr"]
    assert [task.pairs for task in TASKS.values()] == [3108, 1500, 3750, 3000, 1186, 1379, 4927]
    assert [len(task.subsets) for task in TASKS.values()] == [5, 3, 6, 5, 5, 1, 1]


def test_all_mean_and_wmean_by_hand(folder: Path) -> None:
    result = evaluate_sts(bag_of_words, load_sts(folder))
    values = []
    for key, task in TASKS.items():
        parts = [oracle(folder / key / f"{subset}.tsv") for subset in task.subsets]
        score = result.sts.tasks[key]
        sizes = [len(gold) for _, gold in parts]
        assert score.n == sum(sizes)
        assert list(score.subsets) == list(task.subsets)
        cosines = [c for part in parts for c in part[0]]
        gold = [g for part in parts for g in part[1]]
        for name, correlate in (("spearman", spearmanr), ("pearson", pearsonr)):
            each = [100 * float(correlate(c, g).statistic) for c, g in parts]
            got = score.spearman if name == "spearman" else score.pearson
            assert got.all == pytest.approx(100 * float(correlate(cosines, gold).statistic), abs=1e-6)
            assert got.mean == pytest.approx(sum(each) / len(each), abs=1e-6)
            weighted = sum(n * r for n, r in zip(sizes, each, strict=True)) / sum(sizes)
            assert got.wmean == pytest.approx(weighted, abs=1e-6)
            for subset, value, n in zip(task.subsets, each, sizes, strict=True):
                part = score.subsets[subset]
                assert (part.spearman if name == "spearman" else part.pearson) == pytest.approx(value, abs=1e-6)
                assert part.n == n
        values.append(score.spearman.all)
        if len(sizes) > 1:
            assert len({round(v, 6) for v in (got.all, got.mean or 0, got.wmean or 0)}) == 3
        else:
            assert score.spearman.all == score.spearman.mean == score.spearman.wmean
    assert result.sts.average == pytest.approx(sum(values) / 7)


def test_encode_is_called_once_on_the_distinct_sentences_of_all_tasks(folder: Path) -> None:
    encode = HashedWords(64)
    data = load_sts(folder)
    evaluate_sts(encode, data)
    (call,) = encode.calls
    every = [
        text
        for pairs in data.tasks.values()
        for part in pairs.parts
        for side in (part.first, part.second)
        for text in side
    ]
    assert len(call) == len(set(call)) < len(every)
    assert set(call) == set(every)


def test_some_tasks_only_have_no_average(folder: Path) -> None:
    data = load_sts(folder, ["stsb", "sts13"])
    assert list(data.tasks) == ["sts13", "stsb"]
    assert evaluate_sts(bag_of_words, data).sts.average is None


def test_other_counts_than_published_are_told(folder: Path) -> None:
    lines: list[str] = []
    result = evaluate_sts(bag_of_words, load_sts(folder, ["stsb"]), progress=lines.append)
    assert not result.sts.tasks["stsb"].complete
    assert any("1,379" in line and "does not compare" in line for line in lines)


def test_metadata_is_recorded(folder: Path) -> None:
    result = evaluate_sts(bag_of_words, load_sts(folder), model="bow", pooling="sum", device="cpu")
    assert (result.model, result.pooling, result.environment.device) == ("bow", "sum", "cpu")
    assert (result.data.source, result.data.text) == (str(folder), "prepared")
    assert result.seconds > 0
    assert set(result.data.sha256) == set(TASKS)
    again = load_sts(folder)
    assert {key: pairs.sha256() for key, pairs in again.tasks.items()} == result.data.sha256
    assert len(set(result.data.sha256.values())) == len(TASKS)


def test_capitals_mean_raw_text_but_in_sick_they_tell_nothing(folder: Path) -> None:
    path = folder / "sickr" / "test.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("man", "Man"), encoding="utf-8")
    assert load_sts(folder).text == "prepared"
    assert load_sts(folder, ["sickr"]).text == "unknown"
    path = folder / "stsb" / "test.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("man", "Man"), encoding="utf-8")
    assert load_sts(folder).text == "raw"


def test_collapsed_model_scores_zero_without_a_warning(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate_sts(lambda texts: np.full((len(texts), 8), 0.3, dtype=np.float32), load_sts(folder))
    assert result.sts.average == 0.0
    assert result.sts.tasks["sts12"].pearson.wmean == 0.0


def test_vectors_that_are_not_finite_are_told_with_the_sentence(folder: Path) -> None:
    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = bag_of_words(texts)
        vectors[5, 2] = np.nan
        vectors[7, 0] = np.inf
        return vectors

    data = load_sts(folder)
    recorder = HashedWords(64)
    evaluate_sts(recorder, data)
    with pytest.raises(UserError) as caught:
        evaluate_sts(encode, data)
    assert "NaN or infinite values for 2 of" in str(caught.value)
    assert repr(recorder.calls[0][5][:60]) in str(caught.value)


def test_more_pairs_than_one_block_score_the_same(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    pairs = read_scored_pairs(folder / "sts14" / "images.tsv")
    whole = spearman_of(bag_of_words, pairs)
    monkeypatch.setattr("opencse.evaluation.embedding.BLOCK", 4)
    assert len(pairs) > 4
    assert spearman_of(bag_of_words, pairs) == whole


def test_the_folder_around_the_tasks_folder(small_sts: Path, tmp_path: Path) -> None:
    (tmp_path / "all" / "papers").mkdir(parents=True)
    (tmp_path / "all" / "sts").symlink_to(small_sts)
    with pytest.raises(UserError, match=r"MSRpar.tsv: missing; .*all.sts holds sts12: give that folder"):
        load_sts(tmp_path / "all")


def test_missing_file_missing_task_missing_folder(folder: Path) -> None:
    (folder / "sts14" / "images.tsv").unlink()
    (folder / "sts14" / "deft-news.tsv").rename(folder / "sts14" / "deftnews.tsv")
    with pytest.raises(UserError) as caught:
        load_sts(folder)
    line = str(caught.value)
    assert line.startswith(str(folder / "sts14" / "deft-news.tsv"))
    assert "missing; found in" in line
    assert "deftnews.tsv" in line
    with pytest.raises(
        UserError, match=r"sts14: OnWN.tsv, deft-forum.tsv, .*; STS14 needs deft-forum.tsv, deft-news.tsv"
    ):
        load_sts(folder)
    (folder / "sts13").rename(folder / "STS-13")
    with pytest.raises(
        UserError, match=r"FNWN.tsv: missing; folders in .*STS-13, sickr, sts12.*; add sts13, .*\(--tasks sts12,sts14,"
    ):
        load_sts(folder)
    with pytest.raises(UserError, match="no such folder; give a folder that holds sts12, "):
        load_sts(folder / "absent")


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (["sts1"], r"unknown STS task 'sts1' \(did you mean 'sts1\d'\?\); tasks: sts12, "),
        ([], "no STS task chosen"),
    ],
)
def test_unknown_or_no_task(folder: Path, tasks: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_sts(folder, tasks)


def test_fault_within_a_task_names_file_and_line(folder: Path) -> None:
    path = folder / "sts16" / "plagiarism.tsv"
    path.write_text("1\ta\tb\n2\tc\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"plagiarism.tsv, line 2: 2 field\(s\)"):
        load_sts(folder)
