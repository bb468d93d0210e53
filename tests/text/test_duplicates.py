from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import Heard
from opencse.errors import UserError
from opencse.runs.job import TrainJob
from opencse.text import duplicates, sample
from opencse.text.duplicates import count_duplicates, find_near_duplicates, pieces
from opencse.text.readers import Source

ROWS = [
    ("The committee will meet on Monday at nine o'clock in the main hall of the library.",),
    ("A cat sleeps on the warm stones behind the bakery.",),
    ("The committee will meet on Tuesday at nine o'clock in the main hall of the library.",),
    ("the committee  WILL meet on monday at nine o'clock in the main hall of the library.",),
    ("Short.",),
    ("short.",),
    ("Nobody in the village had seen the river so low since the summer of the drought.",),
]


def overlap(a: str, b: str) -> float:
    """The definition, as sets."""
    left, right = (
        {" ".join(text.lower().split())[i : i + 5] for i in range(max(1, len(" ".join(text.split())) - 4))}
        for text in (a, b)
    )
    return len(left & right) / len(left | right)


def test_pieces_are_those_of_the_definition() -> None:
    assert pieces("A  cat Sat") == sorted(["a cat", " cat ", "cat s", "at sa", "t sat"])
    assert pieces("Ab") == ["ab"]


def test_rows_that_nearly_repeat_an_earlier_one() -> None:
    assert overlap(ROWS[2][0], ROWS[0][0]) > 0.8
    found = find_near_duplicates(ROWS, 0.75)
    assert found.rows.tolist() == [False, False, True, True, False, True, False]
    assert found.examples == [(2, 0), (3, 0), (5, 4)]
    assert find_near_duplicates(ROWS, 0.99).rows.tolist() == [False, False, False, True, False, True, False]
    assert len(find_near_duplicates(ROWS, 0.75, examples=1).examples) == 1


def test_the_estimate_follows_the_overlap() -> None:
    """Of sentences with one word exchanged those over the threshold are found, those under it are not."""
    random = np.random.default_rng(0)
    lines = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if len(line.split()) > 9][:400]
    changed = []
    for line in lines:
        words = line.split()
        for place in random.choice(len(words), random.integers(1, 4), replace=False):
            words[place] = "exchanged"
        changed.append(" ".join(words))
    near = find_near_duplicates([(line,) for line in [*lines, *changed]], 0.7).rows
    assert not near[: len(lines)].any()
    truth = np.array([overlap(a, b) for a, b in zip(lines, changed, strict=True)])
    clear = [truth >= 0.82, truth <= 0.58]
    assert min(part.sum() for part in clear) > 10
    assert near[len(lines) :][clear[0]].all()
    assert not near[len(lines) :][clear[1]].any()


def test_rows_of_a_run_are_left_out(tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.txt"
    path.write_text("\n".join(row[0] for row in ROWS) + "\n")

    def prepared(*settings: str) -> tuple[int, str]:
        job = TrainJob(
            text=Source(str(path)), recipe="simcse", model=str(tiny_folder), settings=settings, dev=None, device="cpu"
        )
        made = job.prepare(Heard())
        return len(made.inputs), "\n".join(made.plan.lines())

    examples, plan = prepared("data.near_duplicates=0.75")
    assert examples == 4
    assert "near       3 rows that nearly repeat an earlier one, left out" in plan
    examples, plan = prepared()
    assert examples == 7
    assert "nearly repeat" not in plan


def test_check_reports_them() -> None:
    found = opencse.check([row[0] for row in ROWS], near_duplicates=0.75)
    assert found.near_duplicates == pytest.approx(3 / 7)
    assert found.nearly_repeated[2] == ("short.", "Short.")
    assert any("data.near_duplicates" in line for line in found.advice)
    assert opencse.check([row[0] for row in ROWS]).near_duplicates is None
    with pytest.raises(UserError, match="above 0 and at most 1"):
        opencse.check([row[0] for row in ROWS], near_duplicates=1.5)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rensa", None)
    with pytest.raises(UserError, match=r'pip install "opencse\[dedup\]"'):
        find_near_duplicates(ROWS)


@pytest.mark.parametrize("width", [1, 2])
def test_exact_duplicates_are_counted_part_by_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, width: int) -> None:
    keys = np.random.default_rng(1).integers(-20, 20, (500, width))
    np.save(tmp_path / "keys.npy", keys)
    expected = 500 - len({tuple(row) for row in keys.tolist()})
    assert count_duplicates(tmp_path / "keys.npy") == expected
    monkeypatch.setattr(duplicates, "_AT_ONCE", 60)
    monkeypatch.setattr(duplicates, "_READ", 70)
    assert count_duplicates(tmp_path / "keys.npy") == expected
