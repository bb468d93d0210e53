"""The folder of labels: what is written, what is refused, and what a kill leaves behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.labelling.label_folder import LabelFolder
from opencse.labelling.labels import LabelledQuery, Labels, Level, PooledText

NAMES = ["labels.json", "qrels/test.tsv", "queries.jsonl"]


def some(split: float | None = None) -> Labels:
    def query(number: int, level: Level | None) -> LabelledQuery:
        pool = (PooledText(id="a\tb", digest="", ranks={}, level=level),)
        return LabelledQuery(number=number, text=f"query {number}", pool=pool)

    return Labels(split=split, next_number=5, queries=(query(1, 2), query(2, 1), query(4, None)))


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.lock"
    }


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    folder = LabelFolder(tmp_path / "new" / "out")
    with folder.opened() as empty:
        assert empty == Labels()
        saved = folder.save(some())
        assert sorted(files_in(folder.path)) == NAMES
        assert folder.read() == saved
    assert (folder.path / "qrels" / "test.tsv").read_text().splitlines() == [
        "query-id\tcorpus-id\tscore", "query-1\tescaped:a%09b\t2", "query-2\tescaped:a%09b\t1",
    ]  # fmt: skip
    with folder.opened() as labels:
        assert labels == saved
        folder.save(labels.model_copy(update={"split": 0.5}))
    assert (folder.path / "qrels" / "dev.tsv").read_text().splitlines()[1:] == ["query-2\tescaped:a%09b\t1"]
    with folder.opened() as labels:
        folder.save(labels.without(1).without(2).without(4))
    assert list(files_in(folder.path)) == ["labels.json"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        LabelFolder(tmp_path / "out").opened(),
        pytest.raises(UserError, match="another process is labelling there"),
        LabelFolder(tmp_path / "out").opened(),
    ):
        pass
    assert not (tmp_path / "out").exists(), "an empty folder is removed again"


@pytest.mark.parametrize("name", ["mine.txt", "corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "qrels/dev.tsv"])
def test_folders_of_other_files_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "out" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    with pytest.raises(UserError, match="is not empty"), LabelFolder(tmp_path / "out").opened():
        pass
    assert files_in(tmp_path / "out") == {name: b"mine\n"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "other", "queries": []}', '{"queries": 7}'])
def test_labels_of_another_program_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(UserError, match=r"labels\.json"), LabelFolder(tmp_path).opened():
        pass
    assert files_in(tmp_path) == {"labels.json": content.encode()}


@pytest.mark.parametrize("name", ["queries.jsonl", "qrels/test.tsv", "qrels/dev.tsv", "corpus.jsonl"])
def test_files_that_were_changed_by_others_are_never_replaced(tmp_path: Path, name: str) -> None:
    folder = LabelFolder(tmp_path)
    with folder.opened():
        saved = folder.save(some())

        def write() -> None:
            if name == "corpus.jsonl":
                folder.write_corpus(saved, lambda path: path.write_text("x"), lambda _: saved)
            else:
                folder.save(some(split=0.5))

        file = tmp_path / name
        file.write_text("mine\n")
        before = files_in(tmp_path)
        with pytest.raises(UserError, match=r"was changed or made by another program.*move it"):
            write()
        assert files_in(tmp_path) == before
        file.unlink()
        file.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_text("mine\n")
        with pytest.raises(UserError, match="another program"):
            write()
        assert (tmp_path / "elsewhere").read_text() == "mine\n"
    (tmp_path / "other.txt").write_text("stays\n")
    file.unlink()
    with folder.opened() as labels:
        folder.save(labels)
    assert (tmp_path / "other.txt").read_text() == "stays\n"


@pytest.mark.parametrize("step", range(5))
def test_a_kill_between_two_files_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Killed before the file of that number is renamed into place; the next start writes what is missing."""
    folder, renames = LabelFolder(tmp_path), 0
    with folder.opened():
        folder.save(some())
        changed = some(split=0.5).with_text(1, "changed")
        replace = os.replace

        class Killed(BaseException):
            pass

        def counted(path: Path, target: Path) -> Path:
            nonlocal renames
            if renames == step:
                raise Killed
            renames += 1
            replace(path, target)
            return target

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", counted)
            if step < 4:
                with pytest.raises(Killed):
                    folder.save(changed.model_copy(update={"files": folder.read().files}))
            else:
                folder.save(changed.model_copy(update={"files": folder.read().files}))
        assert renames == step, "this test reaches every file"
    with folder.opened() as labels:
        expected = some() if step == 0 else changed
        assert labels.queries == expected.queries
        folder.save(labels)
    reference = LabelFolder(tmp_path / "reference")
    with reference.opened():
        reference.save(expected)
    written, complete = files_in(tmp_path), files_in(tmp_path / "reference")
    for name in {*complete} - {"labels.json"}:
        assert written[name] == complete[name]


def test_unfinished_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    folder = LabelFolder(tmp_path)
    with folder.opened():
        folder.save(some())
    for name in (".writing-999-corpus.jsonl", "qrels/.writing-999-test.tsv"):
        (tmp_path / name).write_text("half")
    (tmp_path / ".writing-999-mine.txt").write_text("not ours")
    with folder.opened():
        assert {*files_in(tmp_path)} == {*NAMES, ".writing-999-mine.txt"}


def test_the_file_of_labels_is_plain_json(tmp_path: Path) -> None:
    folder = LabelFolder(tmp_path)
    with folder.opened():
        folder.save(some())
    data = json.loads((tmp_path / "labels.json").read_text())
    assert data["format"] == "opencse labels"
    assert data["queries"][0]["pool"][0] == {
        "id": "a\tb", "digest": "", "ranks": {}, "level": 2, "is_current": True,
    }  # fmt: skip
