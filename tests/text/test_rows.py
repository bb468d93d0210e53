from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from helpers import Heard, write_lines
from opencse.errors import UserError
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.duplicates import find_near_duplicates
from opencse.text.files.formats import RawRow
from opencse.text.given import LabelledTexts, open_texts, say_left_out_rows, with_labels
from opencse.text.readers import Source
from opencse.text.values import checked_texts
from opencse.training.batches import sample_rows

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
    write_lines(path, (row[0] for row in ROWS))

    def prepared(*settings: str) -> tuple[int, str]:
        job = Run(
            text=Source(str(path)), recipe="simcse", model=str(tiny_folder), settings=settings, dev=None, device="cpu"
        )
        made = job.open(Heard())
        return len(made.inputs), "\n".join(made.describe())

    examples, plan = prepared("data.near_duplicates=0.75")
    assert examples == 4
    assert "near       3 rows that nearly repeat an earlier one, left out" in plan
    examples, plan = prepared()
    assert examples == 7
    assert "nearly repeat" not in plan


NUMBERS = np.arange(5, 105)


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
    (line,) = said
    assert line.startswith("left out   2 of 4 rows, with an empty cell (the first: ")
    assert ", column 'positive'" in line
    with pytest.raises(UserError, match="column 'positive' is empty, so the vectors after it would not"):
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
    assert text.left_out_rows.startswith("left out   2 of 4 rows, with an empty cell (the first: line 3,")


def test_a_value_that_is_no_text_is_named() -> None:
    for value, message in (
        (" ", "a.csv, line 3: column 'text' is empty; fill it or drop the line"),
        (5, "a.csv, line 3: column 'text' is int, not text"),
        ("\ud800", "holds half of a surrogate pair"),
    ):
        with pytest.raises(UserError, match=message):
            checked_texts(RawRow(3, 0, ("text",), (value,)), "a.csv", "line")
