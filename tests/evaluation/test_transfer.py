"""The transfer tasks: their files, and accuracies by the published schemes."""

from __future__ import annotations

import io
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

from helpers import record_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.classifiers.cross_validation import kfold, nested, split
from opencse.evaluation.classifiers.settings import L2, MODES
from opencse.evaluation.classifiers.trained import Classifiers
from opencse.evaluation.transfer.data import TRANSFER_TASKS, load_transfer
from opencse.evaluation.transfer.score import Transfer, TransferResult
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


def test_tasks_are_those_published() -> None:
    assert list(TRANSFER_TASKS) == SEVEN
    assert [task.scheme for task in TRANSFER_TASKS.values()] == [*["nested"] * 4, "split", "kfold", "kfold"]


def test_examples_stand_in_senteval_s_order(folder: Path) -> None:
    """By number of words, then class, then place in the file."""
    write(folder / "mr", "all", "1\tc c c", "1\tb", "0\tz z", "1\ta", "0\ty", "0\t a  b\u00a0c ")
    part = load_transfer(folder, ["mr"]).tasks["mr"].parts["all"]
    assert part.first == ["y", "b", "a", "z z", "a b c", "c c c"]
    assert part.labels.tolist() == [0, 1, 1, 0, 0, 1]
    assert part.second is None
    write(folder / "mrpc", "train", "1\ta\tb c", "0\ta b\tc", "0\ta\tb c", "1\ta\tb")
    pairs = load_transfer(folder, ["mrpc"]).tasks["mrpc"].parts["train"]
    assert (pairs.first, pairs.second) == (["a", "a", "a", "a", "a b"], ["b", "b c", "b c", "b c", "c"])
    assert pairs.labels.tolist() == [1, 0, 0, 1, 0]


def test_the_seven_in_published_order_whatever_the_order_asked_for(folder: Path) -> None:
    assert list(load_transfer(folder).tasks) == SEVEN
    assert load_transfer(folder).absent == ()
    assert list(load_transfer(folder, ["trec", "mr", "trec"]).tasks) == ["mr", "trec"]
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


def test_mrpc_joins_dev_to_train(folder: Path) -> None:
    task = load_transfer(folder, ["mrpc"]).tasks["mrpc"]
    assert task.files == ("train.tsv", "dev.tsv", "test.tsv")
    assert {name: len(part) for name, part in task.parts.items()} == {"train": 3, "test": 1}


def test_trec_s_classes_are_senteval_s_by_number_or_name(folder: Path) -> None:
    task = load_transfer(folder, ["trec"]).tasks["trec"]
    assert task.classes == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    found = dict(zip(task.parts["train"].first, task.parts["train"].labels.tolist(), strict=True))
    assert found == {"How so ?": 1, "What is UN ?": 0, "How many ?": 5, "How long ?": 5}
    found = dict(zip(task.parts["test"].first, task.parts["test"].labels.tolist(), strict=True))
    assert found == {"Who ?": 3, "Where ?": 4, "What ?": 2}


def test_complete_is_told_by_the_published_numbers(folder: Path) -> None:
    assert not load_transfer(folder, ["cr"]).tasks["cr"].complete
    write(folder / "cr", "all", *[f"{n % 2}\tsentence {n}" for n in range(3775)])
    assert load_transfer(folder, ["cr"]).tasks["cr"].complete


def test_the_hash_is_of_the_content(folder: Path) -> None:
    first = {key: task.sha256() for key, task in load_transfer(folder).tasks.items()}
    assert first == {key: task.sha256() for key, task in load_transfer(folder).tasks.items()}
    assert len(set(first.values())) == 7
    for wrong in ("0\tgood mr", "1\tgood mrs"):
        write(folder / "mr", "all", wrong, "0\tbad one", "0\tlow", "1\thigh")
        assert load_transfer(folder).tasks["mr"].sha256() != first["mr"]


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
    "1\ta\tb": "line 2: 3 fields, 2 expected: label<TAB>sentence$",
    "\ta": "line 2: the label is empty; fill it or drop the line",
    "1\t  ": "line 2: the sentence is empty",
    "2\tgood": r"line 2: unknown label '2'; the classes are 0, 1; correct or drop",
}


def test_faults_name_file_and_line(folder: Path) -> None:
    for line, message in FAULTS.items():
        path = write(folder / "mr", "all", "1\tgood", line)
        with pytest.raises(UserError, match=f"{path}, {message}"):
            load_transfer(folder)


def test_faults_of_one_s_own_task(folder: Path) -> None:
    path = write(folder / "mood", "all", "sad\tI cry", "", "sad\tI weep")
    with pytest.raises(UserError, match="line 1: every label is 'sad'; a task needs two classes or more"):
        load_transfer(folder, ["mood"])
    path.unlink()
    write(folder / "mood", "train", "sad\tI cry", "glad\tI sing")
    with pytest.raises(UserError, match=r"test.tsv: missing; needed: train.tsv, test.tsv; .* there: train.tsv; add it"):
        load_transfer(folder, ["mood"])
    write(folder / "mood", "test", "", "gla\tI sing")
    with pytest.raises(UserError, match=r"test.tsv, line 2: unknown label 'gla' \(did you mean 'glad'\?\)"):
        load_transfer(folder, ["mood"])


def test_faults_of_the_folder(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        load_transfer(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no folder 'mrr' \(did you mean 'mr'\?\); folders there: cr, mpqa"):
        load_transfer(folder, ["mrr"])


def test_real_data_has_the_published_numbers(shared_data: Path) -> None:
    data = load_transfer(shared_data / "transfer")
    assert all(task.complete for task in data.tasks.values())
    counts = np.bincount(data.tasks["trec"].parts["test"].labels)
    assert counts.tolist() == [9, 138, 94, 65, 81, 113]


def test_test_rows_that_are_also_fitted_on_are_counted(folder: Path) -> None:
    assert not any(task.repeated for task in load_transfer(folder).tasks.values())
    write(folder / "mr", "all", "1\tgood", "0\tgood", "1\tgood", "0\tbad", "1\tbad", "0\tlow")
    write(folder / "sst2", "test", "1\tvery good", "0\tfine", "1\tgreat", "0\tgreat")
    write(folder / "mrpc", "test", "1\ta b\tc d", "0\tb\ta", "0\ta\tb c")
    tasks = load_transfer(folder, ["mr", "sst2", "mrpc"]).tasks
    assert {name: task.repeated for name, task in tasks.items()} == {"mr": 5, "sst2": 2, "mrpc": 2}


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
        (tmp_path / task / f"{part}.tsv").write_text("\n".join(text) + "\n", encoding="utf-8")

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


def accuracies(result: TransferResult) -> dict[str, float]:
    return {key: score.accuracy for key, score in result.transfer.tasks.items()}


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
        score = result.transfer.tasks[key]
        assert (score.accuracy, score.dev_accuracy) == (wanted.accuracy, wanted.dev_accuracy)
        assert score.regularisation == list(wanted.selected)
        if key == "mrpc":
            assert score.f1 == pytest.approx(100 * f1_score(gold, wanted.predicted))
        else:
            assert score.f1 is None
        assert 0 < score.accuracy < 100
    assert result.transfer.average == pytest.approx(np.mean(list(accuracies(result).values())))
    assert result.transfer.average_of_present is None
    assert Transfer().score_names(load_transfer(seven)) == list(result.values())


@pytest.mark.slow
def test_logistic_against_scikit_learn_in_a_loop(seven: Path) -> None:
    data = load_transfer(seven, ["cr"])
    result = evaluate_transfer(bag_of_words, data, mode="fast", classifier="logistic")
    assert result.classifier == "logistic"

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
    assert result.transfer.tasks["cr"].regularisation == chosen
    assert result.transfer.tasks["cr"].accuracy == pytest.approx(np.mean(shares))


@pytest.mark.slow
def test_without_all_seven_there_is_no_average(seven: Path) -> None:
    for key in ("subj", "mpqa"):
        (seven / key / "all.tsv").unlink()
        (seven / key).rmdir()
    said: list[str] = []
    result = evaluate_transfer(bag_of_words, load_transfer(seven), mode="fast", progress=said.append)
    assert result.transfer.average is None
    assert result.transfer.present == ["mr", "cr", "sst2", "trec", "mrpc"]
    assert result.transfer.average_of_present == pytest.approx(np.mean(list(accuracies(result).values())))
    assert any("subj, mpqa not in" in line for line in said)
    assert Transfer().score_names(load_transfer(seven)) == list(result.values())
    values = result.values()
    assert set(values) == {
        *(f"transfer.{key}" for key in result.transfer.present),
        "transfer.mrpc.f1",
        "transfer.average_of_present",
    }
    assert values["transfer.trec"] == result.transfer.tasks["trec"].accuracy


@pytest.mark.slow
def test_a_task_of_ones_own_has_no_part_in_a_mean(seven: Path) -> None:
    (seven / "mood").mkdir()
    (seven / "mood" / "all.tsv").write_text("\n".join(lines(80, 3, classes=3)), encoding="utf-8")
    result = evaluate_transfer(bag_of_words, load_transfer(seven, ["mood"]), mode="fast")
    assert result.transfer.present == []
    assert result.transfer.average is result.transfer.average_of_present is None
    assert list(result.values()) == ["transfer.mood"]


@pytest.mark.slow
def test_what_was_done_is_recorded_and_read_again(seven: Path, tmp_path: Path) -> None:
    said: list[str] = []
    data = load_transfer(seven)
    result = evaluate_transfer(
        bag_of_words, data, mode="fast", model="bow", pooling="sum", device="cpu", progress=said.append
    )
    assert (result.model, result.pooling, result.environment.device) == ("bow", "sum", "cpu")
    assert (result.mode, result.classifier) == ("fast", "softmax")
    assert result.data.source == str(seven)
    assert result.data.sha256 == {key: task.sha256() for key, task in data.tasks.items()}
    score = result.transfer.tasks["mrpc"]
    assert score.files == ["train.tsv", "dev.tsv", "test.tsv"]
    assert score.examples == {"train": 120, "test": 51}
    assert not score.complete
    assert len(said) == 2 + 7
    assert "kfold; train 120, test 51; from train.tsv, dev.tsv, test.tsv; " in said[-1]
    trec = result.transfer.tasks["trec"].repeated
    assert trec == data.tasks["trec"].repeated > 0
    assert f"; {trec} test rows are also in train or dev, so it may be too high (published" in said[-2]
    assert "published: train 4,076, test 1,725, so this does not compare" in said[-1]
    result.write_json(tmp_path / "result.json")
    assert TransferResult.read_json(tmp_path / "result.json") == result


@pytest.mark.slow
def test_table(seven: Path) -> None:
    part = evaluate_transfer(bag_of_words, load_transfer(seven, ["cr", "trec"]), mode="fast", classifier="logistic")
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(Transfer.table({"[part]": part}))
    text = console.export_text()
    (row,) = (line for line in text.splitlines() if "[part]" in line)
    assert all(f"{score.accuracy:.2f}*" in row for score in part.transfer.tasks.values())
    assert f"{part.transfer.average_of_present:.2f} (2)" in row
    assert row.count(" - ") == 5
    for note in ("fast, logistic", "* not the published number", "(k) the mean of only k", "fast: fewer folds"):
        assert note in " ".join(text.split())


@pytest.mark.slow
def test_faults_are_told_before_anything_is_encoded(seven: Path) -> None:
    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError("nothing is to be encoded")

    data = load_transfer(seven)
    with pytest.raises(UserError, match=r"unknown mode 'fats' \(did you mean 'fast'\?\)"):
        evaluate_transfer(encode, data, mode="fats")
    with pytest.raises(UserError, match=r"unknown classifier 'mlp'; known: softmax, logistic"):
        evaluate_transfer(encode, data, classifier="mlp")
    path = seven / "cr" / "all.tsv"
    path.write_text("\n".join([*["0\ta"] * 30, *["1\tb"] * 4]), encoding="utf-8")
    with pytest.raises(UserError, match=r"class '1' has 4 example\(s\), too few for 3 folds within folds") as error:
        evaluate_transfer(encode, load_transfer(seven, ["cr"]), mode="fast")
    assert str(error.value).startswith(f"{path}: ")
    path.write_text("\n".join([*["0\ta"] * 12, *["1\tb"] * 10]), encoding="utf-8")
    with pytest.raises(UserError, match="22 examples are too few: 5 % of a training set"):
        evaluate_transfer(encode, load_transfer(seven, ["cr"]), mode="fast")


@pytest.mark.slow
def test_the_check_of_sizes_is_the_folds_own(tmp_path: Path) -> None:
    """What passes it can be folded within folds, and what does not cannot."""
    (tmp_path / "mr").mkdir()
    refused = []
    for few in range(3, 9):
        (tmp_path / "mr" / "all.tsv").write_text("\n".join([*["0\ta"] * 41, *["1\tb"] * few]), encoding="utf-8")
        data = load_transfer(tmp_path)
        y = data.tasks["mr"].parts["all"].labels
        x = np.random.default_rng(0).normal(size=(len(y), 2))
        try:
            evaluate_transfer(lambda texts: np.eye(2)[: len(texts)], data, mode="fast")
        except UserError:
            refused.append(few)
            with pytest.raises(UserError):
                nested(Classifiers(x, y, MODES["fast"]), y, MODES["fast"].folds, L2)
        else:
            assert nested(Classifiers(x, y, MODES["fast"]), y, MODES["fast"].folds, L2).accuracy > 0
    assert 0 < len(refused) < 6


@pytest.mark.slow
def test_real_data_in_fast_mode_with_the_built_in_encoder(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert MODES["fast"].folds == 5
    encoder = SentenceEncoder.load("opencse-mini", device="cpu")
    data = load_transfer(shared_data / "transfer", ["trec"])
    result = evaluate_transfer(encoder.encode, data, mode="fast")
    score = result.transfer.tasks["trec"]
    assert score.complete
    assert 65 < score.accuracy < 95  # the largest class is 27.6
    assert abs(score.accuracy - score.dev_accuracy) < 12
