import io
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.metrics import f1_score  # type: ignore[import-untyped]
from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

from helpers import record_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.classifiers.cross_validation import kfold, nested, split
from opencse.evaluation.classifiers.settings import L2, MODES, Mode
from opencse.evaluation.classifiers.trained import Classifiers
from opencse.evaluation.transfer import score as transfer
from opencse.evaluation.transfer.data import TRANSFER_TASKS, TransferData, load_transfer
from opencse.evaluation.transfer.score import Transfer, TransferResult, f1
from vectors_of_texts import HashedWords

evaluate_transfer = partial(record_of, Transfer)
"""The record of a plain function of texts."""

pytestmark = pytest.mark.slow

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
def folder(tmp_path: Path) -> Path:
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


@pytest.mark.parametrize("mode", ["test", "fast"])
def test_each_task_by_its_scheme(folder: Path, mode: Mode) -> None:
    """The schemes and classifiers have oracles of their own; here, that each task is given to them as published."""
    data = load_transfer(folder)
    result = evaluate_transfer(bag_of_words, data, mode=mode)
    settings = MODES[mode]
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
    assert Transfer().score_names(load_transfer(folder)) == list(result.values())


def test_logistic_against_scikit_learn_in_a_loop(folder: Path) -> None:
    data = load_transfer(folder, ["cr", "trec", "sst2"])
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

    parts = data.tasks["trec"].parts
    x, y = bag_of_words(parts["train"].first), parts["train"].labels
    c = best(x, y, [2.0**t for t in range(-1, 6)])
    assert result.transfer.tasks["trec"].regularisation == [c]
    score = fitted(x, y, c).score(bag_of_words(parts["test"].first), parts["test"].labels)
    assert result.transfer.tasks["trec"].accuracy == pytest.approx(100 * score)

    parts = data.tasks["sst2"].parts
    x, y = bag_of_words(parts["train"].first), parts["train"].labels
    grid = [2.0**t for t in range(-2, 4)]
    dev = [fitted(x, y, c).score(bag_of_words(parts["dev"].first), parts["dev"].labels) for c in grid]
    c = grid[int(np.argmax(np.round(dev, 4)))]
    assert result.transfer.tasks["sst2"].regularisation == [c]
    score = fitted(x, y, c).score(bag_of_words(parts["test"].first), parts["test"].labels)
    assert result.transfer.tasks["sst2"].accuracy == pytest.approx(100 * score)


def test_a_task_s_score_depends_on_no_other_task(folder: Path) -> None:
    data = load_transfer(folder)
    wanted = accuracies(evaluate_transfer(bag_of_words, data, mode="fast"))
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    turned = TransferData(data.source, data.text, dict(reversed(data.tasks.items())))
    assert accuracies(evaluate_transfer(bag_of_words, turned, mode="fast")) == wanted
    for key in ("cr", "mrpc"):
        assert accuracies(evaluate_transfer(bag_of_words, load_transfer(folder, [key]), mode="fast")) == {
            key: wanted[key]
        }
    assert len(set(wanted.values())) == 7


def test_encode_is_called_once_on_the_distinct_sentences(folder: Path) -> None:
    encode = HashedWords(WIDTH)
    evaluate_transfer(encode, load_transfer(folder), mode="fast")
    (call,) = encode.calls
    texts = [
        text
        for path in folder.rglob("*.tsv")
        for line in path.read_text().splitlines()
        for text in line.split("\t")[1:]
    ]
    assert len(call) == len(set(call)) < len(texts)
    assert set(call) == set(texts)


def test_without_all_seven_there_is_no_average(folder: Path) -> None:
    for key in ("subj", "mpqa"):
        (folder / key / "all.tsv").unlink()
        (folder / key).rmdir()
    said: list[str] = []
    result = evaluate_transfer(bag_of_words, load_transfer(folder), mode="fast", progress=said.append)
    assert result.transfer.average is None
    assert result.transfer.present == ["mr", "cr", "sst2", "trec", "mrpc"]
    assert result.transfer.average_of_present == pytest.approx(np.mean(list(accuracies(result).values())))
    assert any("subj, mpqa not in" in line for line in said)
    assert Transfer().score_names(load_transfer(folder)) == list(result.values())
    values = result.values()
    assert set(values) == {
        *(f"transfer.{key}" for key in result.transfer.present),
        "transfer.mrpc.f1",
        "transfer.average_of_present",
    }
    assert values["transfer.trec"] == result.transfer.tasks["trec"].accuracy


def test_a_task_of_ones_own_has_no_part_in_a_mean(folder: Path) -> None:
    (folder / "mood").mkdir()
    (folder / "mood" / "all.tsv").write_text("\n".join(lines(80, 3, classes=3)), encoding="utf-8")
    result = evaluate_transfer(bag_of_words, load_transfer(folder, ["mood"]), mode="fast")
    assert result.transfer.present == []
    assert result.transfer.average is result.transfer.average_of_present is None
    assert list(result.values()) == ["transfer.mood"]
    everything = evaluate_transfer(bag_of_words, load_transfer(folder, [*TRANSFER_TASKS, "mood"]), mode="fast")
    assert everything.transfer.average == pytest.approx(
        np.mean([everything.values()[f"transfer.{key}"] for key in TRANSFER_TASKS])
    )
    assert everything.values()["transfer.mood"] == result.values()["transfer.mood"]


def test_what_was_done_is_recorded_and_read_again(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    data = load_transfer(folder)
    result = evaluate_transfer(
        bag_of_words, data, mode="fast", model="bow", pooling="sum", device="cpu", progress=said.append
    )
    assert (result.model, result.pooling, result.environment.device) == ("bow", "sum", "cpu")
    assert (result.mode, result.classifier) == ("fast", "softmax")
    assert result.data.source == str(folder)
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


def test_table(folder: Path) -> None:
    full = evaluate_transfer(bag_of_words, load_transfer(folder), mode="fast")
    part = evaluate_transfer(bag_of_words, load_transfer(folder, ["cr", "trec"]), classifier="logistic")
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(Transfer.table({"[full]": full, "part": part}))
    text = console.export_text()
    first, second = (line for line in text.splitlines() if "[full]" in line or "part " in line)
    assert [f"{score.accuracy:.2f}*" in first for score in full.transfer.tasks.values()] == [True] * 7
    assert f"{full.transfer.average:.2f} " in first
    assert f"{part.transfer.average_of_present:.2f} (2)" in second
    assert second.count(" - ") == 5
    assert "test, logistic" in second
    for note in ("* not the published number", "(k) the mean of only k", "fast: fewer folds"):
        assert note in " ".join(text.split())


@pytest.mark.parametrize(
    ("predicted", "gold", "wanted"),
    [
        ([1, 1, 0, 0], [1, 0, 1, 0], 50.0),
        ([1, 1, 1], [1, 1, 1], 100.0),
        ([0, 0], [1, 1], 0.0),
        ([0, 0], [0, 0], 0.0),
        ([1, 1, 1, 0, 0], [1, 1, 0, 1, 1], 100 * 4 / 7),
    ],
)
def test_f1(predicted: list[int], gold: list[int], wanted: float) -> None:
    assert f1(np.array(predicted), np.array(gold)) == pytest.approx(wanted)


def test_faults_are_told_before_anything_is_encoded(folder: Path) -> None:
    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError("nothing is to be encoded")

    data = load_transfer(folder)
    with pytest.raises(UserError, match=r"unknown mode 'fats' \(did you mean 'fast'\?\)"):
        evaluate_transfer(encode, data, mode="fats")
    with pytest.raises(UserError, match=r"unknown classifier 'mlp'; known: softmax, logistic"):
        evaluate_transfer(encode, data, classifier="mlp")
    path = folder / "cr" / "all.tsv"
    path.write_text("\n".join([*["0\ta"] * 30, *["1\tb"] * 4]), encoding="utf-8")
    with pytest.raises(UserError, match=r"class '1' has 4 example\(s\), too few for 3 folds within folds") as error:
        evaluate_transfer(encode, load_transfer(folder, ["cr"]), mode="fast")
    assert str(error.value).startswith(f"{path}: ")
    path.write_text("\n".join([*["0\ta"] * 12, *["1\tb"] * 10]), encoding="utf-8")
    with pytest.raises(UserError, match="22 examples are too few: 5 % of a training set"):
        evaluate_transfer(encode, load_transfer(folder, ["cr"]), mode="fast")


@pytest.mark.parametrize("few", range(3, 9))
@pytest.mark.parametrize("k", [2, 3])
def test_the_check_of_sizes_is_the_folds_own(tmp_path: Path, few: int, k: int) -> None:
    """What passes it can be folded within folds, and what does not cannot."""
    (tmp_path / "mr").mkdir()
    (tmp_path / "mr" / "all.tsv").write_text("\n".join([*["0\ta"] * 41, *["1\tb"] * few]), encoding="utf-8")
    task = load_transfer(tmp_path).tasks["mr"]
    x, y = np.random.default_rng(0).normal(size=(41 + few, 2)), task.parts["all"].labels
    try:
        transfer._require_large_enough(task, k)
    except UserError:
        with pytest.raises(UserError):
            nested(Classifiers(x, y, MODES["fast"]), y, k, L2)
    else:
        assert nested(Classifiers(x, y, MODES["fast"]), y, k, L2).accuracy > 0


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
