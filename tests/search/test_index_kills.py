"""A process killed at any moment of a change leaves the old index or the new one, and the next change is sound."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import Heard
from kills import kill_after
from opencse.encoder.encoder import SentenceEncoder
from opencse.search import building
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.writer import Writer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

CHANGES = (
    (os, "fsync"),
    (Path, "replace"),
    (Path, "unlink"),
    (Writer, "_write"),
    (Writer, "commit"),
    (Writer, "remove"),
)
"""The functions that change files."""
OLD, NEW = ["one", "two", "three", "four"], ["five", "six", "seven", "eight", "nine"]
SETTINGS = BuildSettings(cut=False)


@pytest.fixture
def vectors(mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder's vectors from a table, since a forked process may not run torch; and windows of two rows."""
    texts = [*OLD, *NEW]
    table = dict(zip(texts, mini.encode(texts, normalize_embeddings=True), strict=True))

    def encode(self: SentenceEncoder, texts: Sequence[str], **_: Any) -> NDArray[np.float32]:
        return np.stack([table[text] for text in texts])

    monkeypatch.setattr(SentenceEncoder, "encode", encode)
    monkeypatch.setattr(building, "WINDOW", 2)


def killed_everywhere(prepare: Callable[[], None], work: Callable[[], object], stride: int = 2) -> Iterator[int]:
    """Repeats the work, each time in a process that is killed some steps later, until it is done."""
    for step in range(1, 200, stride):
        prepare()
        child = os.fork()
        if child == 0:  # never returns from here
            try:
                kill_after(step, CHANGES)
                work()
            except BaseException:
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert step > 5
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield step
    raise AssertionError("never done")


def texts_in(folder: Path, encoder: SentenceEncoder) -> list[str]:
    with Index.open(folder, encoder=encoder) as index:
        texts = [hit.text for hit in index.rows()]
        unit = encoder.encode(texts)
        assert np.allclose(index.vectors(), unit, atol=1e-6)  # normalised once more
        assert [hits[0].text for hits in index.search(unit, 1)] == texts
    return texts


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("change", ["delete", "replace"])
def test_a_change_is_made_or_not(tmp_path: Path, mini: SentenceEncoder, change: str) -> None:
    folder, copy = tmp_path / "index", tmp_path / "copy"
    Index.build(copy, OLD, mini, how=SETTINGS).close()

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(copy, folder)

    def work() -> None:
        index = Index.open(folder, encoder=mini)
        if change == "delete":  # so many that the vectors are written anew
            index.delete(["0", "1", "3"])
        else:
            index.add([{"text": text, "id": str(number)} for number, text in enumerate(NEW)], replace=True)

    after = {"delete": ["three"], "replace": NEW}[change]
    seen = set()
    for _ in killed_everywhere(prepare, work):
        found = texts_in(folder, mini)
        assert found in (OLD, after)
        seen.add(tuple(found))
        with Index.open(folder, encoder=mini) as index:
            index.add([{"text": "one", "id": "more"}])
        assert texts_in(folder, mini) == [*found, "one"]
        assert len(list(folder.glob("vectors-*"))) == 1  # what the killed process left is gone
    assert seen == {tuple(OLD), tuple(after)}
    assert texts_in(folder, mini) == after


@pytest.mark.usefixtures("vectors")
def test_an_interrupted_build_continues_and_keeps_the_old_index_until_it_is_complete(
    tmp_path: Path, mini: SentenceEncoder
) -> None:
    folder, copy = tmp_path / "index", tmp_path / "copy"
    Index.build(copy, OLD, mini, how=SETTINGS).close()
    reporter = Heard()

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(copy, folder)

    def work() -> None:
        Index.build(folder, NEW, mini, how=SETTINGS, overwrite=True)

    states = set()
    for _ in killed_everywhere(prepare, work, 3):
        found = texts_in(folder, mini)
        assert found in (OLD, NEW)
        states.add(tuple(found))
        Index.build(folder, NEW, mini, how=SETTINGS, overwrite=True, progress=reporter).close()
        assert texts_in(folder, mini) == NEW
        assert len(list(folder.glob("*.f32"))) == len(list(folder.glob("*.sqlite"))) == 1
    assert len(states) == 2
    gone_on = {line.split()[-2] for line in reporter.said if "continuing after" in line}
    assert len(gone_on & {"0", "2", "4", "5", "all"}) >= 3
