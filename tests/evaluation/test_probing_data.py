from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.errors import UserError
from opencse.evaluation.labelled import LabelledLine
from opencse.evaluation.probing import data as probing_data
from opencse.evaluation.probing.data import PROBING_TASKS, ProbingExamples, load_probing

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


def test_the_order_is_by_words_then_class_then_place(tmp_path: Path) -> None:
    lines = ["tr\tb\tz z", "tr\ta\ty y", "tr\tb\tx", "tr\ta\tw w", "va\ta\tw", "te\ta\tw"]
    write(tmp_path / "subj_number.txt", lines)
    part = load_probing(tmp_path).tasks["subj_number"].parts["train"]
    assert (part.first, part.labels.tolist()) == (["x", "y y", "w w", "z z"], [1, 0, 0, 1])


def test_labels_are_sorted_as_text(tmp_path: Path) -> None:
    write(tmp_path / "tree_depth.txt", [*(f"tr\t{n}\ts" for n in range(5, 13)), "va\t5\ts", "te\t12\ts"])
    task = load_probing(tmp_path).tasks["tree_depth"]
    assert task.classes == ("10", "11", "12", "5", "6", "7", "8", "9")
    assert task.parts["test"].labels.tolist() == [2]


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


@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from("AB")), max_size=120), st.sampled_from([2, 10]))
def test_the_draw_takes_of_each_class_its_share(made: list[tuple[int, str]], k: int) -> None:
    lines = [(str(text), label) for text, label in made]
    found = probing_data._draw(read(lines), k)
    assert found == set(drawn(lines, k))
    first = dict(reversed(lines))
    for label, n in Counter(first.values()).items():
        assert sum(first[text] == label for text in found) == n // k


def read(lines: Lines) -> list[LabelledLine]:
    return [LabelledLine("x, line 1", label, (text,)) for text, label in lines]


@given(
    st.lists(st.tuples(st.sampled_from("uvwxyzabcdefgh"), st.sampled_from("AB")), min_size=2, max_size=60),
    st.one_of(st.none(), st.lists(st.tuples(st.sampled_from("uvwx"), st.sampled_from("AB")), max_size=8)),
)
def test_no_sentence_is_in_two_parts(pool: Lines, test: Lines | None) -> None:
    parts, dropped = probing_data._divided(read(pool), None if test is None else read(test))
    train, dev, tested = ({line.texts[0] for line in parts[name]} for name in ("train", "dev", "test"))
    assert not train & dev
    assert not (train | dev) & tested
    everything = sum(len(part) for part in parts.values()) + dropped
    assert everything == len(pool) + len(test or ())


def test_the_parts_do_not_depend_on_the_global_generator(tmp_path: Path) -> None:
    write_part(tmp_path / "obj_number" / "va.txt", labelled(100))
    write_part(tmp_path / "obj_number" / "te.txt", labelled(20, 200))
    before = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    first = load_probing(tmp_path).tasks["obj_number"]
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    assert load_probing(tmp_path).tasks["obj_number"].sha256() == first.sha256()


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
    (tmp_path / "bigram_shift.txt").unlink()
    write_part(tmp_path / "bigram_shift" / "va.txt", labelled(333))
    write_part(tmp_path / "bigram_shift" / "te.txt", labelled(100, 1000))
    task = load_probing(tmp_path).tasks["bigram_shift"]
    assert [len(part) for part in task.parts.values()] == [300, 33, 100]
    monkeypatch.setattr(probing_data, "PUBLISHED", {"train": 300, "dev": 33, "test": 100})
    assert not task.complete


def test_the_hash_is_of_the_content(tmp_path: Path) -> None:
    seen = set()
    for number, swap in enumerate((None, ("sang", "rang"), ("tr\tPAST\tsang", "tr\tPRES\tsang"), ("va\t", "te\t"))):
        lines = [line if swap is None else line.replace(*swap) for line in PUBLISHED]
        lines += ["va\tPAST\tone", "te\tPAST\ttwo"]
        write(tmp_path / str(number) / "past_present.txt", lines)
        seen.add(load_probing(tmp_path / str(number)).tasks["past_present"].sha256())
    assert len(seen) == 4


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


PUBLISHED_FAULTS = {
    "fields": ("tr\tPAST", r"line 2: 2 field\(s\); a line is tr, va or te<TAB>label<TAB>sentence"),
    "part": ("dev\tPAST\ta", "line 2: unknown part 'dev'; the first field is tr, va or te"),
    "label": ("tr\t \ta", "line 2: the label is empty; fill it or drop the line"),
    "sentence": ("tr\tPAST\t ", "line 2: the sentence is empty; fill it or drop the line"),
    "unknown": ("te\tPRE\ta", r"line 2: unknown label 'PRE' \(did you mean 'PRES'\?\); no training sentence has it"),
}


@pytest.mark.parametrize("fault", list(PUBLISHED_FAULTS))
def test_faults_of_a_published_file_name_its_line(tmp_path: Path, fault: str) -> None:
    line, message = PUBLISHED_FAULTS[fault]
    path = write(tmp_path / "past_present.txt", [PUBLISHED[0], line, *PUBLISHED[1:]])
    with pytest.raises(UserError, match=message) as error:
        load_probing(tmp_path)
    assert str(error.value).startswith(f"{path}, ")
    assert "\n" not in str(error.value)


def test_faults_of_files_and_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "past_present.txt", PUBLISHED[:-1])
    with pytest.raises(UserError, match="no line of 'te', nothing is left for test; add some") as error:
        load_probing(tmp_path)
    assert str(error.value).startswith(f"{path}: ")
    write(path, [PUBLISHED[0], *PUBLISHED[3:]])
    with pytest.raises(UserError, match="every training label is 'PRES'; a task needs two classes or more"):
        load_probing(tmp_path)
    path.unlink()
    te = write_part(tmp_path / "past_present" / "te.txt", labelled(30))
    with pytest.raises(UserError, match=r"va.txt: missing; needed: va.txt and te.txt; add it"):
        load_probing(tmp_path)
    va = write_part(tmp_path / "past_present" / "va.txt", [*labelled(3), ("a", "B\tC")])
    with pytest.raises(UserError, match=r"line 4: 3 field\(s\); a line is sentence<TAB>label") as error:
        load_probing(tmp_path)
    assert str(error.value).startswith(f"{va}, ")
    write_part(va, labelled(20))
    with pytest.raises(
        UserError, match=r"va.txt: without the sentences that are in test, .*, nothing is left for train; add"
    ):
        load_probing(tmp_path)
    write_part(te, [("new", "Z")])
    with pytest.raises(
        UserError, match=r"without the sentences that are in test, .*, nothing is left for dev; add some"
    ):
        load_probing(tmp_path)
    write_part(va, labelled(40))
    with pytest.raises(UserError, match=r"te.txt, line 1: unknown label 'Z'; no training sentence has it"):
        load_probing(tmp_path)


def test_faults_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such folder; give a folder that holds SentEval's <task>.txt"):
        load_probing(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no probing task there; tasks: sentence_length, "):
        load_probing(tmp_path)
    write(tmp_path / "past_present.txt", PUBLISHED)
    with pytest.raises(UserError, match=r"unknown probing task 'tree_deep' \(did you mean 'tree_depth'\?\); tasks: "):
        load_probing(tmp_path, ["tree_deep"])
    with pytest.raises(UserError, match=r"no task 'tree_depth'; there are: past_present; add tree_depth.txt or leave"):
        load_probing(tmp_path, ["tree_depth"])
    with pytest.raises(UserError, match="no probing task chosen; there are: past_present"):
        load_probing(tmp_path, [])


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
