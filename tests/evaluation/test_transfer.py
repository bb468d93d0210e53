"""The transfer tasks: their files, and accuracies by the published schemes."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.metrics import f1_score  # type: ignore[import-untyped]
from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

from helpers import record_of, write_lines
from opencse.errors import UserError
from opencse.evaluation.classifiers import Classifiers
from opencse.evaluation.cross_validation import L2, MODES, kfold, nested, split
from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.transfer import Transfer, load_transfer
from vectors_of_texts import HashedWords

SEVEN = ["mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"]


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / f"{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All seven tasks, a few lines each."""
    for key in ("mr", "cr", "subj", "mpqa"):
        write(tmp_path / key, "all", f"1\tgood {key}", "0\tbad one", "0\tlow", "1\thigh")
    write(tmp_path / "sst2", "train", "1\ta whole good sentence", "0\ta whole bad sentence")
    write(tmp_path / "sst2", "train_phrases", "1\tgood", "0\tbad", "1\tvery good")
    write(tmp_path / "sst2", "dev", "1\tfine", "0\tpoor")
    write(tmp_path / "sst2", "test", "1\tgreat", "0\tweak")
    write(tmp_path / "trec", "train", "0\tHow so ?", "2\tWhat is UN ?", "5\tHow many ?", "NUM\tHow long ?")
    write(tmp_path / "trec", "test", "3\tWho ?", "4\tWhere ?", "1\tWhat ?")
    write(tmp_path / "mrpc", "train", "1\ta b\tc d", "0\ta\tb")
    write(tmp_path / "mrpc", "dev", "0\ta\tb c")
    write(tmp_path / "mrpc", "test", "1\tx\ty")
    return tmp_path


def test_examples_stand_in_senteval_s_order(folder: Path) -> None:
    """By number of words, then class, then place in the file."""
    write(folder / "mr", "all", "1\tc c c", "1\tb", "0\tz z", "1\ta", "0\ty", "0\t a  b\u00a0c ")
    part = load_transfer(folder, ["mr"]).tasks["mr"].parts["all"]
    assert part.first == ["y", "b", "a", "z z", "a b c", "c c c"]
    assert part.labels.tolist() == [0, 1, 1, 0, 0, 1]
    write(folder / "mrpc", "train", "1\ta\tb c", "0\ta b\tc", "0\ta\tb c", "1\ta\tb")
    mrpc = load_transfer(folder, ["mrpc"]).tasks["mrpc"]
    assert mrpc.files == ("train.tsv", "dev.tsv", "test.tsv")
    pairs = mrpc.parts["train"]
    assert (pairs.first, pairs.second) == (["a", "a", "a", "a", "a b"], ["b", "b c", "b c", "b c", "c"])
    assert pairs.labels.tolist() == [1, 0, 0, 1, 0]


def test_the_seven_in_published_order_whatever_the_order_asked_for(folder: Path) -> None:
    assert list(load_transfer(folder).tasks) == SEVEN
    assert load_transfer(folder).absent == ()
    assert list(load_transfer(folder, ["trec", "mr"]).tasks) == ["mr", "trec"]
    for key in ("subj", "mpqa"):
        (folder / key / "all.tsv").unlink()
        (folder / key).rmdir()
    data = load_transfer(folder)
    assert list(data.tasks) == ["mr", "cr", "sst2", "trec", "mrpc"]
    assert data.absent == ("subj", "mpqa")


def test_sst2_trains_on_the_phrases_where_they_are(folder: Path) -> None:
    task = load_transfer(folder, ["sst2"]).tasks["sst2"]
    assert task.files == ("train_phrases.tsv", "dev.tsv", "test.tsv")
    assert [len(part) for part in task.parts.values()] == [3, 2, 2]
    (folder / "sst2" / "train_phrases.tsv").unlink()
    task = load_transfer(folder, ["sst2"]).tasks["sst2"]
    assert task.files == ("train.tsv", "dev.tsv", "test.tsv")
    assert task.parts["train"].first == ["a whole bad sentence", "a whole good sentence"]


def test_a_task_of_ones_own_is_told_by_its_files(folder: Path) -> None:
    write(folder / "mood", "all", "sad\tI cry", "glad\tI sing", "sad\tI weep")
    write(folder / "twin", "train", "x\ta\tb", "y\ta\tc")
    write(folder / "twin", "test", "y\td\te")
    write(folder / "three", "train", "b\ta", "a\tb")
    write(folder / "three", "dev", "b\tc")
    write(folder / "three", "test", "a\tc")
    tasks = load_transfer(folder, ["three", "mood", "cr", "twin"]).tasks
    assert list(tasks) == ["cr", "three", "mood", "twin"]
    assert [task.task.scheme for task in tasks.values()] == ["nested", "split", "nested", "kfold"]
    assert tasks["mood"].classes == ("glad", "sad")
    assert tasks["mood"].parts["all"].labels.tolist() == [0, 1, 1]
    assert [task.task.pairs for task in tasks.values()] == [False, False, False, True]
    assert tasks["twin"].parts["test"].second == ["e"]
    assert list(load_transfer(folder).tasks) == SEVEN


FAULTS = {
    "1 good": r"line 2: 1 field\(s\); a line is label<TAB>sentence",
    "1\t  ": "line 2: the sentence is empty",
    "2\tgood": r"line 2: unknown label '2'; the classes are 0, 1; correct or drop",
}


def test_faults_name_file_and_line(folder: Path) -> None:
    for line, message in FAULTS.items():
        path = write(folder / "mr", "all", "1\tgood", line)
        with pytest.raises(UserError, match=f"{path}, {message}"):
            load_transfer(folder)


def test_test_rows_that_are_also_fitted_on_are_counted(folder: Path) -> None:
    assert not any(task.repeated for task in load_transfer(folder).tasks.values())
    write(folder / "mr", "all", "1\tgood", "0\tgood", "1\tgood", "0\tbad", "1\tbad", "0\tlow")
    write(folder / "sst2", "test", "1\tvery good", "0\tfine", "1\tgreat", "0\tgreat")
    write(folder / "mrpc", "test", "1\ta b\tc d", "0\tb\ta", "0\ta\tb c")
    tasks = load_transfer(folder, ["mr", "sst2", "mrpc"]).tasks
    assert {name: task.repeated for name, task in tasks.items()} == {"mr": 5, "sst2": 2, "mrpc": 2}


def test_complete_is_told_by_the_published_numbers(folder: Path) -> None:
    assert not load_transfer(folder, ["cr"]).tasks["cr"].complete
    write(folder / "cr", "all", *[f"{n % 2}\tsentence {n}" for n in range(3775)])
    assert load_transfer(folder, ["cr"]).tasks["cr"].complete


evaluate_transfer = partial(record_of, Transfer)
"""The record of a plain function of texts."""


WORDS = ["good", "fine", "great", "bad", "poor", "weak", "the", "film", "was", "a", "so", "it", "plot", "cast"]
WIDTH = 16
bag_of_words = HashedWords(WIDTH)


def lines(n: int, seed: int, classes: int = 2, *, pairs: bool = False) -> list[str]:
    """Sentences whose first word tells the class, most of the time."""
    numbers = np.random.default_rng(seed)

    def sentence(label: int) -> str:
        told = label if numbers.random() < 0.8 else int(numbers.integers(classes))
        return " ".join([WORDS[told], *numbers.choice(WORDS, size=int(numbers.integers(1, 6)))])

    made = []
    for _ in range(n):
        label = int(numbers.integers(classes))
        sides = [sentence(0), sentence(label)] if pairs else [sentence(label)]
        made.append("\t".join([str(label), *sides]))
    return made


@pytest.fixture
def seven(tmp_path: Path) -> Path:
    """All seven tasks, small."""

    def write(task: str, part: str, text: list[str]) -> None:
        (tmp_path / task).mkdir(exist_ok=True)
        write_lines(tmp_path / task / f"{part}.tsv", text)

    for seed, key in enumerate(("mr", "cr", "subj", "mpqa")):
        write(key, "all", lines(90 + seed, seed))
    for part, n in (("train", 60), ("dev", 30), ("test", 40)):
        write("sst2", part, lines(n, n))
    write("trec", "train", lines(150, 7, classes=6))
    write("trec", "test", lines(40, 8, classes=6))
    write("mrpc", "train", lines(100, 9, pairs=True))
    write("mrpc", "dev", lines(20, 10, pairs=True))
    write("mrpc", "test", lines(51, 11, pairs=True))
    return tmp_path


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of a few passes, to be quick."""
    monkeypatch.setitem(MODES, "test", replace(MODES["test"], max_epoch=8, folds=4, batch_size=20))
    monkeypatch.setitem(MODES, "fast", replace(MODES["fast"], max_epoch=8, folds=3, batch_size=20))


@pytest.mark.slow
def test_each_task_by_its_scheme(seven: Path) -> None:
    """The schemes and classifiers have oracles of their own; here, that each task is given to them as published."""
    data = load_transfer(seven)
    result = evaluate_transfer(bag_of_words, data, mode="fast")
    settings = MODES["fast"]
    for key, task in data.tasks.items():
        sides = [[bag_of_words([text])[0] for part in task.parts.values() for text in part.sides[s]] for s in (0, -1)]
        u, v = np.array(sides[0]), np.array(sides[1])
        x = np.concatenate([np.abs(u - v), u * v], axis=1) if key == "mrpc" else u
        y = np.array([label for part in task.parts.values() for label in part.labels])
        fitter = Classifiers(x, y, settings, classes=6 if key == "trec" else 2)
        n = [len(part) for part in task.parts.values()]
        if key == "sst2":
            rows = np.arange(n[0]), np.arange(n[0], n[0] + n[1]), np.arange(n[0] + n[1], sum(n))
            wanted, gold = split(fitter, y, *rows, (1e-5, 1e-4, 1e-3, 1e-2)), y[rows[2]]
        elif key in ("trec", "mrpc"):
            train, test = np.arange(n[0]), np.arange(n[0], sum(n))
            wanted, gold = kfold(fitter, y, train, test, settings.folds, L2), y[test]
        else:
            wanted, gold = nested(fitter, y, settings.folds, L2), y
        score, f1 = result[key, "accuracy"], result.find(key, "f1")
        assert (score.value, score.extras["dev_accuracy"]) == (wanted.accuracy, wanted.dev_accuracy)
        assert score.extras["regularisation"] == list(wanted.selected)
        assert (f1 is not None) is (key == "mrpc")
        if f1 is not None:
            assert f1.value == pytest.approx(100 * f1_score(gold, wanted.predicted))
        assert 0 < score.value < 100
    accuracies = [result[key, "accuracy"].value for key in data.tasks]
    assert result.values()["transfer.average"] == pytest.approx(np.mean(accuracies))
    assert Transfer().score_names(load_transfer(seven)) == list(result.values())


@pytest.mark.slow
def test_logistic_against_scikit_learn_in_a_loop(seven: Path) -> None:
    data = load_transfer(seven, ["cr"])
    result = evaluate_transfer(bag_of_words, data, mode="fast", classifier="logistic")
    assert result.settings == {"mode": "fast", "classifier": "logistic"}

    def best(x: NDArray[np.float32], y: NDArray[np.intp], grid: list[float]) -> float:
        folds = list(StratifiedKFold(3, shuffle=True, random_state=1111).split(x, y))
        scores = [
            round(100 * float(np.mean([fitted(x[a], y[a], c).score(x[b], y[b]) for a, b in folds])), 2) for c in grid
        ]
        return grid[int(np.argmax(scores))]

    def fitted(x: NDArray[np.float32], y: NDArray[np.intp], c: float) -> LogisticRegression:
        return LogisticRegression(C=c, max_iter=1000).fit(x, y)

    part = data.tasks["cr"].parts["all"]
    x, y = bag_of_words(part.first), part.labels
    shares, chosen = [], []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=1111).split(x, y):
        chosen.append(best(x[train], y[train], [2.0**t for t in range(-2, 4)]))
        shares.append(100 * fitted(x[train], y[train], chosen[-1]).score(x[test], y[test]))
    assert result["cr", "accuracy"].extras["regularisation"] == chosen
    assert result["cr", "accuracy"].value == pytest.approx(np.mean(shares))


@pytest.mark.slow
def test_faults_are_told_before_anything_is_encoded(seven: Path) -> None:
    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError("nothing is to be encoded")

    path = seven / "cr" / "all.tsv"
    for zeros, ones, message in (
        (30, 4, r"cr.all.tsv: .*class '1' has 4 example\(s\), too few for 3 folds within folds"),
        (12, 10, "22 examples are too few: 5 % of a training set"),
    ):
        path.write_text("\n".join([*["0\ta"] * zeros, *["1\tb"] * ones]), encoding="utf-8")
        with pytest.raises(UserError, match=message):
            evaluate_transfer(encode, load_transfer(seven, ["cr"]), mode="fast")


@pytest.mark.slow
def test_without_all_seven_there_is_no_average(seven: Path, tmp_path: Path) -> None:
    for key in ("subj", "mpqa"):
        shutil.rmtree(seven / key)
    (seven / "mood").mkdir()
    (seven / "mood" / "all.tsv").write_text("\n".join(lines(80, 3, classes=3)), encoding="utf-8")
    assert load_transfer(seven).absent == ("subj", "mpqa")
    said: list[str] = []
    data = load_transfer(seven, ["mood", "trec", "mrpc"])
    result = evaluate_transfer(bag_of_words, data, mode="fast", model="bow", progress=said.append)
    mean = (result["trec", "accuracy"].value + result["mrpc", "accuracy"].value) / 2
    partial = result["average_of_present", "accuracy"]
    assert partial.value == pytest.approx(mean)
    assert partial.n == 2, "a task of one's own has no part in a mean"
    assert [result[key, "accuracy"].complete for key in ("trec", "mood")] == [False, None]
    assert Transfer().score_names(data) == list(result.values())
    assert f"; {data.tasks['trec'].repeated} test rows are also in train or dev, so it may be too high" in " ".join(
        said
    )
    assert "published: train 4,076, test 1,725, so this does not compare" in " ".join(said)
    result.write_json(tmp_path / "result.json")
    assert EvaluationRecord.read_json(tmp_path / "result.json") == result
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(Transfer.table({"[part]": result}))
    (row,) = (line for line in console.export_text().splitlines() if "[part]" in line)
    assert f" {result['trec', 'accuracy'].value:.2f}*" in row
    assert f"{mean:.2f} (2)" in row
