from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from helpers import record_of
from opencse.errors import UserError
from opencse.evaluation.classifiers import fit
from opencse.evaluation.regression import PUBLISHED, Regression, load_sts_regressor

WORDS = ["cat", "dog", "sun", "sea", "tree", "bird", "the", "a"]


evaluate_sts_regressor = partial(record_of, Regression)
"""The record of a plain function of texts."""


def counts(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=np.float32)


def lines(n: int, seed: int) -> list[str]:
    """Pairs whose score is their share of common words, with noise."""
    numbers = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        one = list(numbers.choice(WORDS, size=int(numbers.integers(2, 7))))
        two = [word if numbers.random() < 0.6 else str(numbers.choice(WORDS)) for word in one] + ["the"]
        common = len(set(one) & set(two)) / len(set(one) | set(two))
        score = float(np.clip(5 * common + 0.4 * numbers.normal(), 0, 5))
        made.append(f"{score:.2f}\t{' '.join(one)}\t{' '.join(two)}")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, key in enumerate(("stsb", "sickr")):
        (tmp_path / key).mkdir()
        for step, (part, n) in enumerate((("train", 70), ("dev", 40), ("test", 50))):
            text = "\n".join(lines(n, 10 * seed + step))
            (tmp_path / key / f"{part}.tsv").write_text(text, encoding="utf-8")
    (tmp_path / "sts12").mkdir()
    return tmp_path


@pytest.mark.slow
def test_each_task_by_a_fit_of_its_own(folder: Path) -> None:
    """The fit has an oracle of its own; here, what it is given and what is made of it, read from the files again."""
    result = evaluate_sts_regressor(counts, load_sts_regressor(folder))
    for key in ("stsb", "sickr"):
        x: dict[str, NDArray[np.float32]] = {}
        y: dict[str, NDArray[np.float64]] = {}
        for part in ("train", "dev", "test"):
            rows = [line.split("\t") for line in (folder / key / f"{part}.tsv").read_text().splitlines()]
            rows.sort(key=lambda row: (len(row[1].split()), len(row[2].split()), float(row[0])))
            features = []
            for _, one, two in rows:
                u, v = counts([one, two])
                features.append([*(abs(a - b) for a, b in zip(u, v, strict=True)), *(u * v)])
            x[part], y[part] = np.array(features, dtype=np.float32), np.array([float(row[0]) for row in rows])
        fitted = fit(
            x["train"],
            y["train"],
            lambda r, d=x["dev"], g=y["dev"]: float(spearmanr(r.predict(d), g).statistic),  # type: ignore[misc]
        )
        grades = fitted.predict(x["test"])
        score, linear = result[key, "spearman"], result[key, "pearson"]
        assert score.value == pytest.approx(100 * spearmanr(grades, y["test"]).statistic)
        assert linear.value == pytest.approx(100 * pearsonr(grades, y["test"]).statistic)
        assert score.extras["dev_spearman"] == pytest.approx(100 * fitted.dev)
        assert score.extras["passes"] == fitted.passes
        assert (score.n, score.extras["examples"]) == (50, {"train": 70, "dev": 40, "test": 50})
        assert score.complete is False
        assert 50 < score.value < 99
        assert score.value != linear.value


def test_faults(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown task with a training set 'sts12'.*; there are: stsb, sickr"):
        load_sts_regressor(folder, ["sts12"])
    path = folder / "sickr" / "train.tsv"
    path.write_text("1.5\ta\tb\n\n6.5\tc d\te\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"pair 2 \('c d'\) has the score 6.5; the regressor's grades are from 0 to 5"):
        load_sts_regressor(folder)
    path.unlink()
    with pytest.raises(UserError, match=r"train.tsv: no such file"):
        load_sts_regressor(folder)
    assert list(load_sts_regressor(folder, ["stsb"]).tasks) == ["stsb"]


def test_the_parts_of_real_data_are_the_published_ones(shared_data: Path) -> None:
    data = load_sts_regressor(shared_data / "sts")
    assert {key: task.counts for key, task in data.tasks.items()} == PUBLISHED
