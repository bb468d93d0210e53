from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import opencse
from helpers import Heard
from opencse.errors import UserError
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.runs.prepare import Prepared
from opencse.text import duplicates, sample
from opencse.text.duplicates import count_duplicates, find_near_duplicates
from opencse.text.files.formats import RawRow
from opencse.text.given import GivenTexts, open_texts, with_labels
from opencse.text.labels import LabelledTexts
from opencse.text.left_out_rows import left_out_rows_of, say_left_out_rows
from opencse.text.readers import Source
from opencse.text.row_checks import checked_texts
from opencse.text.sampling import sample_rows

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


def test_exact_duplicates_are_counted_part_by_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(duplicates, "_AT_ONCE", 60)
    monkeypatch.setattr(duplicates, "_READ", 70)
    keys = np.random.default_rng(1).integers(-20, 20, (500, 2))
    np.save(tmp_path / "keys.npy", keys)
    assert count_duplicates(tmp_path / "keys.npy") == 500 - len({tuple(row) for row in keys.tolist()})


def test_rows_that_nearly_repeat_an_earlier_one() -> None:
    found = find_near_duplicates(ROWS, 0.75)
    assert found.rows.tolist() == [False, False, True, True, False, True, False]
    assert found.examples == [(2, 0), (3, 0), (5, 4)]
    assert find_near_duplicates(ROWS, 0.99).rows.tolist() == [False, False, False, True, False, True, False]


NUMBERS = np.arange(5, 105)
TEXT = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(50)))


def drawn(count: int | None = None, share: float | None = None, seed: int = 0) -> list[int]:
    sample = sample_rows(NUMBERS, count=count, share=share, seed=seed, source="a.txt")
    return [] if sample is None else [int(row) for row in sample]


def test_a_sample_depends_on_its_seed_and_nests() -> None:
    assert drawn() == []
    assert drawn(20) == drawn(20) == drawn(share=0.2) == sorted(set(drawn(20)))
    assert drawn(20) != drawn(20, seed=1)
    assert set(drawn(20)) < set(drawn(60)) < set(drawn(100)) == set(NUMBERS.tolist())
    assert len(drawn(share=0.001)) == 2
    with pytest.raises(UserError, match=r"a\.txt: data\.rows 101 is more than the 100 rows that it can train on"):
        drawn(101)


def prepared(folder: Path, *settings: str, text: GivenTexts = TEXT) -> Prepared:
    quick = ("training.batch_size=4", "training.precision=float32", *settings)
    return TrainJob(text=text, model=str(folder), settings=quick, dev=None).prepare(Silent())


def test_a_run_trains_on_the_sample(tiny_folder: Path) -> None:
    run = prepared(tiny_folder, "data.rows=20", "training.seed=1")
    assert "sample     20 of 50 rows, drawn by data.sample_seed 0" in run.plan.lines()
    assert run.plan.examples == len(run.inputs) == 20
    expected = sample_rows(np.arange(50), count=20, share=None, seed=0, source="")
    assert expected is not None
    assert run.inputs.anchor_rows.tolist() == expected.tolist()
    assert run.plan.steps == 5
    other = prepared(tiny_folder, "data.share=0.4", "data.sample_seed=3", "training.seed=1")
    assert len(other.inputs) == 20
    assert other.inputs.anchor_rows.tolist() != run.inputs.anchor_rows.tolist()
    again = prepared(tiny_folder, "data.rows=20", "training.seed=2")
    assert again.inputs.anchor_rows.tolist() == run.inputs.anchor_rows.tolist(), "training.seed draws nothing here"


COLUMNS = ("anchor", "positive")
CELLS = [("A kettle.", "It boils."), ("A train.", None), (None, "Snow."), ("A cat.", "It sleeps.")]
KEPT = [("A kettle.", "It boils."), ("A cat.", "It sleeps.")]


@pytest.fixture(params=["semicolons.csv", "jsonl", "json", "parquet", "folder", "pattern"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    """A file of each kind, with a byte-order mark where it is text."""
    kind = request.param
    path = tmp_path / f"a.{kind}"
    separator = {"tsv": "\t", "semicolons.csv": ";"}.get(kind, ",")
    table = "\n".join(separator.join(cell or "" for cell in row) for row in (COLUMNS, *CELLS)) + "\n"
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in CELLS]
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(objects), path)
    elif kind == "jsonl":
        path.write_text("".join(f"{json.dumps(one)}\n" for one in objects), encoding="utf-8")
    elif kind == "json":
        path.write_text(json.dumps(objects), encoding="utf-8")
    elif kind in ("folder", "pattern"):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "a.csv").write_text(table, encoding="utf-8")
        return Source(str(tmp_path / "folder" / ("*.csv" if kind == "pattern" else "")))
    else:
        path.write_text(table, encoding="utf-8-sig")
    return Source(str(path))


def test_rows_with_an_empty_cell_are_left_out_and_counted(source: Source) -> None:
    assert source.read().rows == KEPT
    said: list[str] = []
    say_left_out_rows(source, said.append)
    assert len(said) == 1
    assert said[0].startswith("left out   2 of 4 rows, with an empty cell (the first: ")
    assert said[0].endswith(", column 'positive')")
    say_left_out_rows(source, None)


def test_vectors_with_the_numbers_of_rows_need_all_of_them(source: Source) -> None:
    with pytest.raises(
        UserError, match=r"(line|row) \d: column 'positive' is empty, so the vectors after it would not"
    ):
        source.count_rows()


def test_a_row_without_a_label_is_left_out_with_its_label(tmp_path: Path) -> None:
    """The labels of the other rows stay with their texts."""
    path = tmp_path / "a.csv"
    path.write_text("sentence1,sentence2,score\nA,B,0.1\nC,,0.2\nD,E,\nF,G,0.4\n", encoding="utf-8")
    text = with_labels(open_texts(path), "score")
    assert isinstance(text, LabelledTexts)
    labels = text.row_labels()
    assert labels is not None
    assert text.read().rows == [("A", "B"), ("F", "G")]
    assert labels.values.tolist() == pytest.approx([0.1, 0.4])
    assert left_out_rows_of(text).startswith("left out   2 of 4 rows, with an empty cell (the first: line 3,")


def test_lines_prose_and_lists_have_no_cells(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n\nTwo.\n", encoding="utf-8")
    (tmp_path / "a.md").write_text("# One\n\nTwo.\n", encoding="utf-8")
    for text in (tmp_path / "a.txt", tmp_path / "a.md", ["One.", "Two."]):
        assert left_out_rows_of(open_texts(text)) == ""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (" ", "a.csv, line 3: column 'text' is empty; fill it or drop the line"),
        (None, "a.csv, line 3: column 'text' is empty"),
        (5, "a.csv, line 3: column 'text' holds int, not text"),
        ("\ud800", "holds half of a surrogate pair"),
    ],
)
def test_a_value_that_is_no_text_is_named(value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        checked_texts(RawRow(3, 0, ("text",), (value,)), "a.csv", "line")
