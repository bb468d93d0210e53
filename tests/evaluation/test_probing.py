"""The probing tasks: their files and splits, and accuracies against loops."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import record_of
from opencse.errors import UserError
from opencse.evaluation import probing as probing_data
from opencse.evaluation.classifiers import Classifiers
from opencse.evaluation.cross_validation import MODES, Mode, split
from opencse.evaluation.probing import Probing, ProbingData, ProbingExamples, load_probing
from opencse.evaluation.record import EvaluationRecord
from vectors_of_texts import HashedWords

Lines = list[tuple[str, str]]  # sentence, label
PUBLISHED = ["tr\tPRES\tshe sings", "tr\tPAST\ta b  c", "tr\tPAST\tsang", "va\tPAST\tx\tit rained", "te\tPRES\the runs"]


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_part(path: Path, lines: Lines) -> Path:
    return write(path, [f"{sentence}\t{label}" for sentence, label in lines])


def labelled(n: int, start: int = 0, labels: str = "BAC") -> Lines:
    return [(f"sentence {number}", labels[number % len(labels)]) for number in range(start, start + n)]


def content(task: ProbingExamples) -> dict[str, list[tuple[str, str]]]:
    return {
        name: sorted((text, task.classes[label]) for text, label in zip(part.first, part.labels.tolist(), strict=True))
        for name, part in task.parts.items()
    }


def test_senteval_s_own_file(tmp_path: Path) -> None:
    write(tmp_path / "past_present.txt", ["", *PUBLISHED])
    data = load_probing(tmp_path)
    task = data.tasks["past_present"]
    assert (task.split, task.dropped, task.files) == ("given", 0, ("past_present.txt",))
    assert task.classes == ("PAST", "PRES")
    assert list(task.parts) == ["train", "dev", "test"]
    train, dev, test = task.parts.values()
    assert (train.first, train.labels.tolist()) == (["sang", "she sings", "a b c"], [0, 1, 0])
    assert (dev.first, dev.labels.tolist()) == (["it rained"], [0])
    assert (test.first, test.labels.tolist()) == (["he runs"], [1])
    assert len(data.absent) == 9
    for name, part in (("tr", train), ("va", dev), ("te", test)):
        labels = [(text, task.classes[label]) for text, label in zip(part.first, part.labels.tolist(), strict=True)]
        write_part(tmp_path / "x" / "past_present" / f"{name}.txt", labels)
    folder = load_probing(tmp_path / "x").tasks["past_present"]
    assert (folder.split, content(folder), folder.sha256()) == ("given", content(task), task.sha256())


def drawn(lines: Lines, k: int) -> list[str]:
    """One in k of each class's different sentences, in a loop."""
    first = {}
    for text, label in reversed(lines):
        first[text] = label
    texts = [text for position, (text, _) in enumerate(lines) if text not in [t for t, _ in lines[:position]]]
    numbers, found = np.random.RandomState(1111), []
    for label in sorted(set(first.values())):
        own = [text for text in texts if first[text] == label]
        order = numbers.permutation(len(own))
        for turn in range(len(own) // k):
            found.append(own[order[turn]])
    return found


def test_two_files_by_a_loop(tmp_path: Path) -> None:
    va = [*labelled(200), ("shared", "A"), ("twice", "B"), ("twice", "C"), *labelled(3), *labelled(40)]
    te = [("shared", "C"), *labelled(50, 1000)]
    write_part(tmp_path / "odd_man_out" / "va.txt", va)
    write_part(tmp_path / "odd_man_out" / "te.txt", te)
    task = load_probing(tmp_path).tasks["odd_man_out"]
    kept = [line for line in va if line[0] != "shared"]
    in_dev = drawn(kept, 10)
    dev, train = [line for line in kept if line[0] in in_dev], [line for line in kept if line[0] not in in_dev]
    assert content(task) == {"train": sorted(train), "dev": sorted(dev), "test": sorted(te)}
    assert (task.split, task.files) == ("two_files", ("odd_man_out/va.txt", "odd_man_out/te.txt"))
    assert task.dropped == 1
    assert len(dev) > len(in_dev) == 6 + 6 + 6


def test_a_class_whose_training_sentences_are_all_in_the_test_set_is_not_judged(tmp_path: Path) -> None:
    write_part(tmp_path / "word_content" / "va.txt", [*labelled(60), ("both", "rare"), ("both", "rare")])
    te = write_part(tmp_path / "word_content" / "te.txt", [*labelled(9, 90), ("both", "rare"), ("else", "rare")])
    task = load_probing(tmp_path).tasks["word_content"]
    assert task.classes == ("A", "B", "C")
    assert content(task)["test"] == sorted(labelled(9, 90))
    assert task.dropped == 2 + 2
    write_part(te, [*labelled(9, 90), ("else", "new")])
    with pytest.raises(UserError, match=r"line 10: unknown label 'new'; no training sentence has it"):
        load_probing(tmp_path)


def test_one_file_by_a_loop(tmp_path: Path) -> None:
    lines = labelled(301) + labelled(30)
    write_part(tmp_path / "tree_depth" / "va.txt", lines)
    write_part(tmp_path / "tree_depth" / "te.txt", lines[::-1])
    task = load_probing(tmp_path).tasks["tree_depth"]
    in_test = drawn(lines, 2)
    kept = [line for line in lines if line[0] not in in_test]
    in_dev = drawn(kept, 10)
    assert content(task) == {
        "train": sorted(line for line in kept if line[0] not in in_dev),
        "dev": sorted(line for line in kept if line[0] in in_dev),
        "test": sorted(line for line in lines if line[0] in in_test),
    }
    assert (task.split, task.dropped) == ("one_file", 0)
    assert (len(in_test), len(in_dev)) == (150, 15)


FAULTS = {
    "tr\tPAST": r"line 2: 2 field\(s\); a line is tr, va or te",
    "dev\tPAST\ta": "line 2: unknown part 'dev'",
    "tr\tPAST\t ": "line 2: the sentence is empty",
    "te\tPRE\ta": r"line 2: unknown label 'PRE' \(did you mean 'PRES'\?\)",
}


def test_faults_name_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "past_present.txt"
    for line, message in FAULTS.items():
        write(path, [PUBLISHED[0], line, *PUBLISHED[1:]])
        with pytest.raises(UserError, match=f"{path}, {message}"):
            load_probing(tmp_path)
    with pytest.raises(UserError, match=r"unknown probing task 'tree_deep' \(did you mean 'tree_depth'\?\)"):
        load_probing(tmp_path, ["tree_deep"])
    path.unlink()
    write_part(tmp_path / "past_present" / "te.txt", labelled(30))
    with pytest.raises(UserError, match=r"va.txt: missing; needed: va.txt and te.txt; add it"):
        load_probing(tmp_path)


WIDTH = 12
bag_of_words = HashedWords(WIDTH)
WORDS = ["sing", "sang", "sung", "a", "the", "so", "it", "in", "old", "new", "cat", "dog", "sun", "sea"]
L2 = (1e-5, 1e-4, 1e-3, 1e-2)


evaluate_probing = partial(record_of, Probing)
"""The record of a plain function of texts."""


def lines(n: int, seed: int, classes: int) -> list[tuple[str, str]]:
    """Sentences whose first word tells the class, most of the time."""
    numbers = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        label = int(numbers.integers(classes))
        told = label if numbers.random() < 0.7 else int(numbers.integers(classes))
        sentence = " ".join([WORDS[told], *numbers.choice(WORDS, size=int(numbers.integers(2, 7)))])
        made.append((sentence, "BAC"[label]))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task in SentEval's form, one in two files, one in two files that are one, and the linear one."""

    def given(key: str, seed: int) -> None:
        text = [
            f"{part}\t{label}\t{sentence}"
            for step, (part, n) in enumerate((("tr", 70), ("va", 40), ("te", 60)))
            for sentence, label in lines(n, seed + step, 3)
        ]
        (tmp_path / f"{key}.txt").write_text("\n".join(text), encoding="utf-8")

    def two(key: str, first: list[tuple[str, str]], second: list[tuple[str, str]]) -> None:
        (tmp_path / key).mkdir()
        for name, part in (("va", first), ("te", second)):
            text = "\n".join(f"{sentence}\t{label}" for sentence, label in part)
            (tmp_path / key / f"{name}.txt").write_text(text, encoding="utf-8")

    given("top_constituents", 25)
    given("word_content", 4)
    two("past_present", lines(90, 7, 2), lines(50, 8, 2))
    two("tree_depth", lines(160, 9, 2), lines(160, 9, 2))
    return tmp_path


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of a few passes, to be quick."""
    monkeypatch.setitem(MODES, "test", replace(MODES["test"], max_epoch=12, tenacity=1, batch_size=16))
    monkeypatch.setitem(MODES, "fast", replace(MODES["fast"], max_epoch=6, tenacity=1, batch_size=25))


def by_loops(task: ProbingExamples, mode: Mode) -> tuple[float, float, int, float, float]:
    """The first best of the grid; the classifiers have an oracle of their own."""
    x = np.concatenate([bag_of_words(part.first) for part in task.parts.values()])
    y = np.concatenate([part.labels for part in task.parts.values()])
    ends = np.cumsum([len(part) for part in task.parts.values()])
    train, dev, test = (np.arange(start, end) for start, end in zip((0, *ends), ends, strict=False))
    best = (0.0, -1.0, 0, 0.0, 0.0)
    for hidden, dropout in [(0, 0.0)] if task.task.linear else product((50, 100, 200), (0.0, 0.1, 0.2)):
        settings = replace(MODES[mode], hidden=hidden, dropout=dropout)
        found = split(Classifiers(x, y, settings), y, train, dev, test, L2)
        if found.dev_accuracy > best[1]:
            best = (found.accuracy, found.dev_accuracy, hidden, dropout, found.selected[0])
    return best


@pytest.mark.slow
def test_the_choice_and_the_accuracy_by_loops(folder: Path) -> None:
    cases: tuple[tuple[str, Mode], ...] = (("top_constituents", "fast"), ("word_content", "fast"))
    for key, mode in cases:
        data = load_probing(folder, [key])
        result = evaluate_probing(bag_of_words, data, mode=mode)
        score = result[key, "accuracy"]
        found = (score.value, *(score.extras[name] for name in ("dev_accuracy", "hidden", "dropout", "l2")))
        assert found == by_loops(data.tasks[key], mode)
        assert (score.extras["hidden"] == 0) == (key == "word_content")
        assert 34 < score.value < 100


@pytest.mark.slow
def test_majority_and_counts(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing_data, "HIDDEN", (5,))
    data = load_probing(folder)
    result = evaluate_probing(bag_of_words, data, mode="fast")
    for key, task in data.tasks.items():
        extras = result[key, "accuracy"].extras
        labels = task.parts["test"].labels.tolist()
        assert extras["majority"] == 100 * max(labels.count(label) for label in set(labels)) / len(labels)
        assert extras["examples"] == {name: len(part.first) for name, part in task.parts.items()}
        assert (extras["split"], extras["dropped"]) == (task.split, task.dropped)
        assert result[key, "accuracy"].complete is False
    values = result.values()
    assert values.pop("probing.average") == pytest.approx(np.mean(list(values.values())))
    result.write_json(tmp_path / "result.json")
    assert EvaluationRecord.read_json(tmp_path / "result.json") == result
    turned = ProbingData(data.source, data.text, dict(reversed(data.tasks.items())))
    torch.manual_seed(5)
    again = evaluate_probing(bag_of_words, turned, mode="fast").values()
    assert {key: again[key] for key in values} == values, "no task depends on another"


def test_complete_is_the_published_form_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing_data, "PUBLISHED", {"train": 300, "dev": 100, "test": 100})
    for sizes, complete in (((303, 99, 101), True), ((304, 100, 100), False), ((300, 100, 98), False)):
        parts = zip(("tr", "va", "te"), sizes, strict=True)
        write(
            tmp_path / "bigram_shift.txt",
            [f"{part}\t{label}\t{text}" for part, n in parts for text, label in labelled(n)],
        )
        assert load_probing(tmp_path).tasks["bigram_shift"].complete is complete
