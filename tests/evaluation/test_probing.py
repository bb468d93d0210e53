"""The probing tasks: their files and splits, and accuracies against loops."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console

from helpers import record_of
from opencse.errors import UserError
from opencse.evaluation.classifiers.cross_validation import split
from opencse.evaluation.classifiers.settings import MODES, Mode
from opencse.evaluation.classifiers.trained import Classifiers
from opencse.evaluation.embedding import distinct, embed
from opencse.evaluation.probing import data as probing_data
from opencse.evaluation.probing.data import PROBING_TASKS, ProbingData, ProbingExamples, load_probing
from opencse.evaluation.probing.score import Probing, ProbingResult
from vectors_of_texts import HashedWords

Lines = list[tuple[str, str]]  # sentence, label
TEN = [
    "sentence_length",
    "word_content",
    "tree_depth",
    "top_constituents",
    "bigram_shift",
    "past_present",
    "subj_number",
    "obj_number",
    "odd_man_out",
    "coordination_inversion",
]
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


def test_tasks_are_the_published_ten() -> None:
    assert list(PROBING_TASKS) == TEN
    assert [task.key for task in PROBING_TASKS.values() if task.linear] == ["word_content"]


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
    assert data.absent == tuple(key for key in TEN if key != "past_present")
    assert data.source == str(tmp_path)


def test_a_repeated_sentence_is_nothing_to_a_given_split(tmp_path: Path) -> None:
    lines = ["tr\tA\tsame", "tr\tB\tother", "va\tA\tsame", "te\tA\tsame"]
    write(tmp_path / "odd_man_out.txt", lines)
    task = load_probing(tmp_path).tasks["odd_man_out"]
    assert (task.dropped, [len(part) for part in task.parts.values()]) == (0, [2, 1, 1])
    for name, part in (("tr", lines[:2]), ("va", lines[2:3]), ("te", lines[3:])):
        write_part(tmp_path / "x" / "odd_man_out" / f"{name}.txt", [(p.split("\t")[2], p.split("\t")[1]) for p in part])
    folder = load_probing(tmp_path / "x").tasks["odd_man_out"]
    assert (folder.split, folder.files) == ("given", tuple(f"odd_man_out/{name}.txt" for name in ("tr", "va", "te")))
    assert content(folder) == content(task)
    assert folder.sha256() == task.sha256()


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


def test_complete_is_the_published_form_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing_data, "PUBLISHED", {"train": 300, "dev": 100, "test": 100})

    def made(train: int, dev: int, test: int) -> bool:
        counts = (("tr", train), ("va", dev), ("te", test))
        lines = [f"{name}\t{label}\t{text}" for name, n in counts for text, label in labelled(n)]
        write(tmp_path / "bigram_shift.txt", lines)
        return load_probing(tmp_path).tasks["bigram_shift"].complete

    assert made(300, 100, 100)
    assert made(303, 99, 101)
    assert not made(304, 100, 100)
    assert not made(300, 100, 98)


def test_the_published_order_and_the_folder_within(tmp_path: Path) -> None:
    for key in ("obj_number", "tree_depth", "bigram_shift"):
        write(tmp_path / "inner" / f"{key}.txt", PUBLISHED)
    write(tmp_path / "readme" / "notes.txt", ["nothing"])
    data = load_probing(tmp_path)
    assert data.source == str(tmp_path / "inner")
    assert list(data.tasks) == ["tree_depth", "bigram_shift", "obj_number"]
    assert list(load_probing(tmp_path, ["obj_number", "tree_depth"]).tasks) == ["tree_depth", "obj_number"]
    assert load_probing(tmp_path, ["obj_number"]).absent == ()
    write(tmp_path / "other" / "obj_number.txt", PUBLISHED)
    with pytest.raises(UserError, match="several folders hold probing tasks: inner, other; give one"):
        load_probing(tmp_path)
    write(tmp_path / "obj_number.txt", PUBLISHED)
    assert load_probing(tmp_path).source == str(tmp_path)


FAULTS = {
    "tr\tPAST": r"line 2: 2 field\(s\); a line is tr, va or te",
    "dev\tPAST\ta": "line 2: unknown part 'dev'",
    "tr\t \ta": "line 2: the label is empty",
    "tr\tPAST\t ": "line 2: the sentence is empty",
    "te\tPRE\ta": r"line 2: unknown label 'PRE' \(did you mean 'PRES'\?\)",
}


def test_faults_name_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "past_present.txt"
    for line, message in FAULTS.items():
        write(path, [PUBLISHED[0], line, *PUBLISHED[1:]])
        with pytest.raises(UserError, match=f"{path}, {message}"):
            load_probing(tmp_path)
    write(path, PUBLISHED[:-1])
    with pytest.raises(UserError, match="no line of 'te', nothing is left for test; add some"):
        load_probing(tmp_path)
    write(path, [PUBLISHED[0], *PUBLISHED[3:]])
    with pytest.raises(UserError, match="every training label is 'PRES'; a task needs two classes or more"):
        load_probing(tmp_path)
    path.unlink()
    write_part(tmp_path / "past_present" / "te.txt", labelled(30))
    with pytest.raises(UserError, match=r"va.txt: missing; needed: va.txt and te.txt; add it"):
        load_probing(tmp_path)
    write_part(tmp_path / "past_present" / "va.txt", labelled(20))
    with pytest.raises(UserError, match=r"without the sentences that are in test, .*, nothing is left for train; add"):
        load_probing(tmp_path)


def test_faults_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such folder; give a folder that holds SentEval's <task>.txt"):
        load_probing(tmp_path / "nowhere")
    write(tmp_path / "past_present.txt", PUBLISHED)
    with pytest.raises(UserError, match=r"unknown probing task 'tree_deep' \(did you mean 'tree_depth'\?\); tasks: "):
        load_probing(tmp_path, ["tree_deep"])
    with pytest.raises(UserError, match=r"no task 'tree_depth'; there are: past_present; add tree_depth.txt or leave"):
        load_probing(tmp_path, ["tree_depth"])


def test_real_data(shared_data: Path) -> None:
    data = load_probing(shared_data / "probing", ["tree_depth", "odd_man_out", "word_content", "sentence_length"])
    assert data.source.endswith("xprobe_en")
    splits = {key: task.split for key, task in data.tasks.items()}
    assert splits == {
        "sentence_length": "two_files",
        "word_content": "two_files",
        "tree_depth": "one_file",
        "odd_man_out": "two_files",
    }
    sizes = {key: [*(len(part) for part in task.parts.values()), task.dropped] for key, task in data.tasks.items()}
    assert sizes == {
        "sentence_length": [4500, 495, 4998, 3],
        "word_content": [9016, 952, 9990, 42],
        "tree_depth": [4497, 496, 5007, 0],
        "odd_man_out": [8585, 974, 10_000, 441],
    }
    assert [len(task.classes) for task in data.tasks.values()] == [6, 999, 5, 2]
    assert not any(task.complete for task in data.tasks.values())


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


def by_loops(task: ProbingExamples, mode: Mode, *, linear: bool) -> tuple[float, float, int, float, float]:
    """The first best of the grid; the classifiers have an oracle of their own."""
    x = np.concatenate([bag_of_words(part.first) for part in task.parts.values()])
    y = np.concatenate([part.labels for part in task.parts.values()])
    ends = np.cumsum([len(part) for part in task.parts.values()])
    train, dev, test = (np.arange(start, end) for start, end in zip((0, *ends), ends, strict=False))
    best = (0.0, -1.0, 0, 0.0, 0.0)
    for hidden, dropout in [(0, 0.0)] if linear else product((50, 100, 200), (0.0, 0.1, 0.2)):
        settings = replace(MODES[mode], hidden=hidden, dropout=dropout)
        found = split(Classifiers(x, y, settings), y, train, dev, test, L2)
        if found.dev_accuracy > best[1]:
            best = (found.accuracy, found.dev_accuracy, hidden, dropout, found.selected[0])
    return best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "mode", "classifier"),
    [("top_constituents", "test", "softmax"), ("top_constituents", "fast", "mlp"), ("word_content", "fast", "mlp")],
)
def test_the_choice_and_the_accuracy_by_loops(folder: Path, key: str, mode: Mode, classifier: str) -> None:
    linear = classifier == "softmax" or key == "word_content"
    data = load_probing(folder, [key])
    result = evaluate_probing(bag_of_words, data, mode=mode, classifier="softmax" if classifier == "softmax" else "mlp")
    score = result.probing.tasks[key]
    found = (score.accuracy, score.dev_accuracy, score.hidden, score.dropout, score.l2)
    assert found == by_loops(data.tasks[key], mode, linear=linear)
    assert (score.hidden == 0) == linear
    assert 34 < score.accuracy < 100


@pytest.mark.slow
def test_majority_and_counts(folder: Path) -> None:
    data = load_probing(folder)
    result = evaluate_probing(bag_of_words, data, mode="fast", classifier="softmax")
    for key, task in data.tasks.items():
        score = result.probing.tasks[key]
        labels = task.parts["test"].labels.tolist()
        assert score.majority == 100 * max(labels.count(label) for label in set(labels)) / len(labels)
        assert score.examples == {name: len(part.first) for name, part in task.parts.items()}
        assert (score.classes, score.files) == (len(task.classes), list(task.files))
        assert (score.split, score.dropped, score.complete) == (task.split, task.dropped, False)
    assert {score.split for score in result.probing.tasks.values()} == {"given", "two_files", "one_file"}


def accuracies(result: ProbingResult) -> dict[str, float]:
    return {key: score.accuracy for key, score in result.probing.tasks.items()}


@pytest.mark.slow
def test_a_task_s_score_depends_on_no_other_task_nor_on_the_global_generators(folder: Path) -> None:
    data = load_probing(folder)
    wanted = accuracies(evaluate_probing(bag_of_words, data, mode="fast"))
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state().clone(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    turned = ProbingData(data.source, data.text, dict(reversed(data.tasks.items())))
    assert accuracies(evaluate_probing(bag_of_words, turned, mode="fast")) == wanted
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index]  # noqa: NPY002
    alone = load_probing(folder, ["tree_depth"]).tasks["tree_depth"]
    embedded = embed(bag_of_words, distinct(part.first for part in alone.parts.values()))
    assert Probing(mode="fast").score(alone, embedded).accuracy == wanted["tree_depth"]
    assert len(set(wanted.values())) > 2


@pytest.mark.slow
def test_what_was_done_is_recorded_and_read_again(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    data = load_probing(folder)
    result = evaluate_probing(
        bag_of_words, data, mode="fast", model="bow", pooling="sum", device="cpu", progress=said.append
    )
    assert (result.model, result.pooling, result.environment.device) == ("bow", "sum", "cpu")
    assert (result.mode, result.classifier) == ("fast", "mlp")
    assert result.data.source == str(folder)
    assert result.data.sha256 == {key: task.sha256() for key, task in data.tasks.items()}
    assert said[3].startswith("WC: accuracy ")
    assert "not the published parts, so this does not compare with published values" in said[3]
    values = result.values()
    assert values.pop("probing.average") == pytest.approx(np.mean(list(values.values())))
    assert list(values) == [
        "probing.word_content",
        "probing.tree_depth",
        "probing.top_constituents",
        "probing.past_present",
    ]
    result.write_json(tmp_path / "result.json")
    assert ProbingResult.read_json(tmp_path / "result.json") == result


@pytest.mark.slow
def test_table(folder: Path) -> None:
    first = evaluate_probing(bag_of_words, load_probing(folder), mode="fast", classifier="softmax")
    console = Console(width=180, record=True, file=io.StringIO())
    console.print(Probing.table({"[first]": first}))
    text = console.export_text()
    (row,) = (line for line in text.splitlines() if "[first]" in line)
    assert all(f"{score.accuracy:.2f}*" in row for score in first.probing.tasks.values())
    assert f"{first.probing.average:.2f} (4)" in row
    assert row.count(" - ") == 6
    for note in ("fast, softmax", "* not the published parts", "(k) the mean of only k of the ten"):
        assert note in " ".join(text.split())


@pytest.mark.slow
def test_faults_are_told_before_anything_is_encoded(folder: Path) -> None:
    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError("nothing is to be encoded")

    data = load_probing(folder)
    with pytest.raises(UserError, match=r"unknown mode 'fats' \(did you mean 'fast'\?\)"):
        evaluate_probing(encode, data, mode="fats")
    with pytest.raises(UserError, match=r"unknown classifier 'logistic'; known: mlp, softmax"):
        evaluate_probing(encode, data, classifier="logistic")
