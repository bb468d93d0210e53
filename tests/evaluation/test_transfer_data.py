from pathlib import Path

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.evaluation.transfer.data import TRANSFER_TASKS, load_transfer

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
    assert [task.title for task in TRANSFER_TASKS.values()] == ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC"]
    assert [task.scheme for task in TRANSFER_TASKS.values()] == [*["nested"] * 4, "split", "kfold", "kfold"]
    assert [task.pairs for task in TRANSFER_TASKS.values()] == [False] * 6 + [True]
    assert [task.f1 for task in TRANSFER_TASKS.values()] == [False] * 6 + [True]


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
    "one field": ("1 good", r"line 2: 1 field\(s\); a line is label<TAB>sentence"),
    "four fields": ("1\ta\tb\tc", r"line 2: 4 field\(s\)"),
    "a pair": ("1\ta\tb", "line 2: 3 fields, 2 expected: label<TAB>sentence$"),
    "no label": ("\ta", "line 2: the label is empty; fill it or drop the line"),
    "no sentence": ("1\t  ", "line 2: the sentence is empty"),
    "unknown label": ("2\tgood", r"line 2: unknown label '2'; the classes are 0, 1; correct or drop"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_faults_name_file_and_line(folder: Path, fault: str) -> None:
    line, message = FAULTS[fault]
    path = write(folder / "mr", "all", "1\tgood", line)
    with pytest.raises(UserError, match=message) as error:
        load_transfer(folder)
    assert str(error.value).startswith(f"{path}, ")
    assert "\n" not in str(error.value)


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
    write(folder / "mood", "test", "", " ")
    with pytest.raises(UserError, match=r"test.tsv: no lines but blank ones"):
        load_transfer(folder, ["mood"])


def test_faults_of_the_folder(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        load_transfer(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no folder 'mrr' \(did you mean 'mr'\?\); folders there: cr, mpqa"):
        load_transfer(folder, ["mrr"])
    with pytest.raises(UserError, match="no transfer task chosen"):
        load_transfer(folder, [])
    (tmp_path / "void").mkdir()
    with pytest.raises(UserError, match=r"no transfer task there; .* folders there: none"):
        load_transfer(tmp_path / "void")
    (folder / "sst2" / "dev.tsv").unlink()
    with pytest.raises(UserError, match=r"dev.tsv: missing; needed: train_phrases.tsv, dev.tsv, test.tsv"):
        load_transfer(folder)


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
