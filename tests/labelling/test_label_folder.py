"""The folder of labels: what is written, what is refused, and what a kill leaves behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.labelling.labels import CorpusState, LabelFolder, LabelledQuery, Labels, Level, PooledText

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


@pytest.mark.parametrize("name", ["mine.txt", "qrels/test.tsv"])
def test_folders_of_other_files_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "out" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    with pytest.raises(UserError, match="is not empty"), LabelFolder(tmp_path / "out").opened():
        pass
    (tmp_path / "out" / "labels.json").write_text('{"format": "other", "queries": []}')
    with pytest.raises(UserError, match=r"labels\.json"), LabelFolder(tmp_path / "out").opened():
        pass
    assert file.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["qrels/test.tsv", "corpus.jsonl"])
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


class KilledError(BaseException):
    """Stands for a kill."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Runs ``work`` until the file of that number would be renamed into place."""
    replace, renames = os.replace, iter(range(99))

    def counted(path: Path, target: Path) -> Path:
        if next(renames) == step:
            raise KilledError
        replace(path, target)
        return target

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", counted)
        with pytest.raises(KilledError):
            work()


def test_after_a_kill_between_two_files_readers_see_the_last_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = some(split=0.5).with_text(1, "changed")
    with LabelFolder(tmp_path / "reference").opened():
        LabelFolder(tmp_path / "reference").save(changed)
    complete = files_in(tmp_path / "reference")
    for step in range(1, 4):  # the first file is that of the labels
        for read in (LabelFolder.catch_up, lambda folder: folder.opened().__enter__()):
            folder = LabelFolder(tmp_path / f"{step}{len(list(tmp_path.iterdir()))}")
            with folder.opened():
                saved = folder.save(some())
            killed_at(step, monkeypatch, partial(folder.save, changed.model_copy(update={"files": saved.files})))
            assert folder.read().queries == changed.queries
            read(folder)
            written = files_in(folder.path)
            assert {*written} == {*complete}
            assert all(written[name] == complete[name] for name in {*complete} - {"labels.json"})


def test_documents_that_a_kill_left_behind_are_written_again_by_the_session_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, state = LabelFolder(tmp_path), CorpusState(stamp="1", documents=1, query_prefix="query-")
    with folder.opened() as labels:
        labels = folder.write_corpus(labels, lambda path: path.write_text("old"), lambda _: some())
        newer = labels.model_copy(update={"corpus": state})
        killed_at(
            1, monkeypatch, lambda: folder.write_corpus(labels, lambda path: path.write_text("new"), lambda _: newer)
        )
    with pytest.raises(UserError, match="stopped while it wrote the documents; start it again"):
        folder.catch_up()
    with folder.opened() as labels:
        assert labels.corpus is None
        folder.write_corpus(labels, lambda path: path.write_text("new"), lambda _: newer)
    folder.catch_up()
    assert (tmp_path / "corpus.jsonl").read_text() == "new"


def test_unfinished_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    folder = LabelFolder(tmp_path)
    with folder.opened():
        folder.save(some())
    for name in (".writing-999-corpus.jsonl", "qrels/.writing-999-test.tsv"):
        (tmp_path / name).write_text("half")
    with folder.opened():
        assert {*files_in(tmp_path)} == {*NAMES}
