"""STS: files and the Hub's data sets, and scores against loops over the pairs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import datasets
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from helpers import json_in, record_of, write_lines
from opencse.errors import UserError
from opencse.evaluation import (
    TASKS,
    EmbeddingModel,
    EvaluationRecord,
    ScoredPairs,
    Sts,
    StsData,
    TaskPairs,
    load_sts,
    load_sts_hub,
)
from vectors_of_texts import HashedWords

evaluate_sts = partial(record_of, Sts)
"""The record of a plain function of texts."""


WORDS = ("a", "man", "woman", "dog", "plays", "runs", "eats", "the", "guitar", "in", "park", "red", "ball")


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
            write_lines(path, lines)
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


def test_all_mean_and_wmean_by_hand(folder: Path) -> None:
    result = evaluate_sts(bag_of_words, load_sts(folder))
    values = []
    for key, task in TASKS.items():
        parts = [oracle(folder / key / f"{subset}.tsv") for subset in task.subsets]
        sizes = [len(gold) for _, gold in parts]
        assert (result[key, "spearman"].n, result[key, "spearman"].complete) == (sum(sizes), False)
        cosines = [c for part in parts for c in part[0]]
        gold = [g for part in parts for g in part[1]]
        for name, correlate in (("spearman", spearmanr), ("pearson", pearsonr)):
            each = [100 * float(correlate(c, g).statistic) for c, g in parts]
            together, mean, wmean = (result[key, name + way].value for way in ("", ".mean", ".wmean"))
            assert together == pytest.approx(100 * float(correlate(cosines, gold).statistic), abs=1e-6)
            assert mean == pytest.approx(sum(each) / len(each), abs=1e-6)
            weighted = sum(n * r for n, r in zip(sizes, each, strict=True)) / sum(sizes)
            assert wmean == pytest.approx(weighted, abs=1e-6)
            for subset, value, n in zip(task.subsets, each, sizes, strict=True):
                part = result[key, f"{name}.{subset}"]
                assert part.value == pytest.approx(value, abs=1e-6)
                assert part.n == n
            assert len({round(v, 6) for v in (together, mean, wmean)}) == (3 if len(sizes) > 1 else 1)
        values.append(result[key, "spearman"].value)
    assert result.values()["sts.average"] == pytest.approx(sum(values) / 7)


def test_collapsed_model_scores_zero_without_a_warning(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate_sts(lambda texts: np.full((len(texts), 8), 0.3, dtype=np.float32), load_sts(folder))
    assert result.values()["sts.average"] == 0.0
    assert result["sts12", "pearson.wmean"].value == 0.0


def test_missing_file_missing_task_missing_folder(folder: Path) -> None:
    (folder / "sts14" / "images.tsv").unlink()
    (folder / "sts14" / "deft-news.tsv").rename(folder / "sts14" / "deftnews.tsv")
    with pytest.raises(UserError) as caught:
        load_sts(folder)
    line = str(caught.value)
    assert line.startswith(str(folder / "sts14" / "deft-news.tsv"))
    assert "missing; found in" in line
    assert "deftnews.tsv" in line
    (folder / "sts13").rename(folder / "STS-13")
    with pytest.raises(
        UserError, match=r"FNWN.tsv: missing; folders in .*STS-13, sickr, sts12.*; add sts13, .*\(--tasks sts12,sts14,"
    ):
        load_sts(folder)


LENGTH_WORDS = ("cat", "dog", "rain", "sun", "tree", "house", "red")


def encode(texts: Sequence[str]) -> NDArray[np.float64]:
    """Counts of words, each with its own weight."""
    return np.array(
        [[text.split().count(word) * (1 + n / 7) + 0.01 for n, word in enumerate(LENGTH_WORDS)] for text in texts]
    )


def scored(data: StsData) -> EvaluationRecord:
    return Sts().evaluate(EmbeddingModel("words", encode), data)


def random_pairs(name: str, n: int, seed: int) -> ScoredPairs:
    random = np.random.default_rng(seed)

    def sentence() -> str:
        return "  ".join(random.choice(LENGTH_WORDS, size=random.integers(1, 10)))

    return ScoredPairs(
        name, random.integers(0, 11, n) / 2, [sentence() for _ in range(n)], [sentence() for _ in range(n)]
    )


def naive(parts: Sequence[ScoredPairs]) -> dict[bool, tuple[float, int]]:
    """Whether the lengths differ by more than 3 -> Spearman and n, pair by pair."""
    halves: dict[bool, tuple[list[float], list[float]]] = {False: ([], []), True: ([], [])}
    for part in parts:
        for gold, one, two in zip(part.scores.tolist(), part.first, part.second, strict=True):
            u, v = encode([one, two])
            cosine = round(float(u @ v / np.sqrt((u @ u) * (v @ v))), 12)
            difference = len(one.split("  ")) - len(two.split("  "))
            half = halves[difference > 3 or difference < -3]
            half[0].append(cosine)
            half[1].append(gold)
    return {key: (100 * float(spearmanr(*half).statistic), len(half[0])) for key, half in halves.items()}


def test_split_of_a_task_equals_a_loop_over_its_subsets() -> None:
    task = TASKS["sts13"]
    parts = tuple(random_pairs(name, 40, seed) for seed, name in enumerate(task.subsets))
    record = scored(StsData("here", "raw", {"sts13": TaskPairs(task, parts)}))
    expected = naive(parts)
    halves = [record["sts13", f"spearman.{half}"] for half in ("up_to_3", "over_3")]
    for half, over in zip(halves, (False, True), strict=True):
        assert half.value == pytest.approx(expected[over][0], abs=1e-9)
        assert half.n == expected[over][1] > 20
    assert sum(half.n for half in halves) == record["sts13", "spearman"].n == 120


def test_a_record_is_read_again_and_one_of_before_is_refused(tmp_path: Path) -> None:
    parts = (random_pairs("test", 60, 5),)
    result = scored(StsData("here", "raw", {"stsb": TaskPairs(TASKS["stsb"], parts)}))
    result.write_json(tmp_path / "new.json")
    again = EvaluationRecord.read_json(tmp_path / "new.json")
    assert again.to_dict() == result.to_dict()
    assert not again.arrays()
    assert set(result.arrays()) == {"stsb.gold", "stsb.cosine"}
    data = json_in(tmp_path / "new.json")
    assert {"interval", "extras", "arrays"}.isdisjoint(data["scores"][0]), "what is not there is left out"
    del data["scores"]
    for version, message in (
        (1, "old.json: written by an earlier version, .*; evaluate the model again"),
        (3, "schema"),
    ):
        (tmp_path / "old.json").write_text(json.dumps(data | {"schema_version": version, "sts": {}}), encoding="utf-8")
        with pytest.raises(UserError, match=message):
            EvaluationRecord.read_json(tmp_path / "old.json")


def hub_encode(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[len(text), text.count("a"), 1.0] for text in texts])


def hub_rows(n: int) -> list[dict[str, object]]:
    return [
        {"split": "x", "sentence1": f"A {'a' * i}", "sentence2": "b" * (i + 1), "score": float(i % 5)} for i in range(n)
    ]


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local stand-in for the Hub's space: seven data sets, jsonl or parquet, a train split beside."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    root = tmp_path / "space"
    for number, task in enumerate(TASKS.values()):
        folder = root / task.hub
        folder.mkdir(parents=True)
        table = datasets.Dataset.from_list(hub_rows(10 + number))
        if number % 2:
            table.to_parquet(folder / "test.parquet")
            table.select(range(3)).to_parquet(folder / "train.parquet")
        else:
            table.to_json(folder / "test.jsonl")
            table.select(range(3)).to_json(folder / "train.jsonl")
    return root


def test_hub_gives_raw_text_and_no_subsets(space: Path, tmp_path: Path) -> None:
    data = load_sts_hub(root=space)
    assert data.text == "raw"
    assert [pairs.n for pairs in data.tasks.values()] == list(range(10, 17))
    result = Sts().evaluate(EmbeddingModel("m", hub_encode), data)
    for key, of_one_file in ((key, key in ("stsb", "sickr")) for key in TASKS):
        assert (result.find(key, "spearman.test") is not None) is of_one_file
        assert (result.find(key, "spearman.mean") is not None) is of_one_file
    assert "sts.average" in result.values()
    hub = load_sts_hub(["stsb"], root=space).tasks["stsb"]
    (tmp_path / "stsb").mkdir()
    lines = [f"{row['score']:g}\t{row['sentence1']}\t{row['sentence2']}\n" for row in hub_rows(hub.n)]
    (tmp_path / "stsb" / "test.tsv").write_text("".join(lines), encoding="utf-8")
    assert load_sts(tmp_path, ["stsb"]).tasks["stsb"].sha256() == hub.sha256()


def test_faulty_rows_and_columns_are_told(space: Path) -> None:
    path = space / "sts12-sts" / "test.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    bad = json.loads(lines[3]) | {"sentence2": "  "}
    write_lines(path, [*lines[:3], json.dumps(bad), *lines[4:]])
    with pytest.raises(UserError, match=r"sts12-sts, row 4: sentence2 is empty"):
        load_sts_hub(["sts12"], root=space)
    path = space / "sts14-sts" / "test.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"score"', '"label"'), encoding="utf-8")
    (space / "sts14-sts" / "train.jsonl").unlink()
    with pytest.raises(UserError, match=r"sts14-sts: no column 'score'; columns there: split, sentence1"):
        load_sts_hub(["sts14"], root=space)
