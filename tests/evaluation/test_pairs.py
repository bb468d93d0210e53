import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, read_scored_pairs

TSV = '4.400\ta "b" c\td \'s\n0.5\te\tf\n'


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_tsv_has_no_header_and_no_quoting(tmp_path: Path) -> None:
    pairs = read_scored_pairs(write(tmp_path / "surprise.OnWN.tsv", TSV))
    assert pairs.name == "surprise.OnWN"
    assert pairs.scores.dtype == np.float64
    assert pairs.scores.tolist() == [4.4, 0.5]
    assert pairs.first == ['a "b" c', "e"]
    assert pairs.second == ["d 's", "f"]
    assert len(pairs) == 2


def test_byte_order_mark_line_ends_and_blank_lines_are_harmless(tmp_path: Path) -> None:
    pairs = read_scored_pairs(write(tmp_path / "p.tsv", "\ufeff1\ta\tb\r\n\r\n2\t c \td\r\n"))
    assert (pairs.scores.tolist(), pairs.first, pairs.second) == ([1.0, 2.0], ["a", "c"], ["b", "d"])


def test_csv_has_named_columns_quoting_and_lines_within_quotes(tmp_path: Path) -> None:
    text = 'id,sentence2,score,sentence1\n1,"b, ""b""",3,a\n2,d,1.5,"c\nc"\n'
    pairs = read_scored_pairs(write(tmp_path / "p.csv", text))
    assert pairs.name == "p"
    assert (pairs.scores.tolist(), pairs.first, pairs.second) == ([3.0, 1.5], ["a", "c\nc"], ['b, "b"', "d"])


def test_jsonl_has_named_columns(tmp_path: Path) -> None:
    text = '{"sentence1": "a", "sentence2": "b", "score": 3, "x": null}\n\n'
    text += '{"score": "1.5", "sentence2": "é", "sentence1": "c"}'
    pairs = read_scored_pairs(write(tmp_path / "p.jsonl", text))
    assert (pairs.scores.tolist(), pairs.first, pairs.second) == ([3.0, 1.5], ["a", "c"], ["b", "é"])


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressed_files(tmp_path: Path, suffix: str, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / f"MSRpar.tsv{suffix}"
    path.write_bytes(pack(TSV.encode()))
    pairs = read_scored_pairs(path)
    assert (pairs.name, len(pairs)) == ("MSRpar", 2)


JSON = '{"score": 1, "sentence1": "a", "sentence2": "b"}\n'

FAULTS = [
    ("p.tsv", "", "p.tsv: the file is empty"),
    ("p.txt", "1\ta\tb\n", "p.txt: unknown kind of pair file '.txt'; known: .tsv, .csv, .jsonl"),
    ("p", "1\ta\tb\n", "p: unknown kind of pair file ''"),
    (
        "p.tsv",
        "1\ta\tb\n2\tc\n",
        "p.tsv, line 2: 2 field(s), 3 expected; a .tsv line is score<TAB>sentence1<TAB>",
    ),
    ("p.tsv", "1\ta\tb\n2\tc\td\te\n", "p.tsv, line 2: 4 field(s), 3 expected"),
    (
        "p.tsv",
        "score\tsentence1\tsentence2\n1\ta\tb\n",
        "p.tsv, line 1: the score 'score' is not a number; a .tsv line",
    ),
    ("p.tsv", "a\tb\t1\n", "p.tsv, line 1: the score 'a' is not a number; a .tsv line is score<TAB>"),
    ("p.tsv", "1\ta\tb\nx\tc\td\n", "p.tsv, line 2: the score 'x' is not a number"),
    ("p.tsv", "1\ta\tb\n\tc\td\n", "p.tsv, line 2: the score is empty; fill it or drop the line"),
    ("p.tsv", "1\ta\tb\nnan\tc\td\n", "p.tsv, line 2: the score is nan; a finite number is expected"),
    ("p.tsv", "1\ta\tb\n-inf\tc\td\n", "p.tsv, line 2: the score is -inf; a finite number"),
    ("p.tsv", "1\ta\tb\n1e999\tc\td\n", "p.tsv, line 2: the score is inf; a finite number"),
    ("p.tsv", "1\ta\tb\n2\t \td\n", "p.tsv, line 2: sentence1 is empty; fill it or drop the line"),
    ("p.tsv", "1\ta\tb\n2\tc\t\n", "p.tsv, line 2: sentence2 is empty"),
    ("p.tsv", "1\ta\tb\n", "p.tsv: 1 pair(s); a correlation needs at least 2"),
    ("p.tsv", "\n\n", "p.tsv: 0 pair(s); a correlation needs at least 2"),
    ("p.tsv", "3\ta\tb\n3.0\tc\td\n", "p.tsv: all 2 gold scores are 3, so no correlation is defined"),
    (
        "p.csv",
        "scores,sentence1,sentence2\n1,a,b\n",
        "p.csv: no column 'score' (did you mean 'scores'?); columns there",
    ),
    (
        "p.csv",
        "score,sentence1,other\n1,a,b\n",
        "no column 'sentence2' (did you mean 'sentence1'?); columns there: score,",
    ),
    (
        "p.csv",
        "score,sentence1,sentence2\n1,a,b,c\n",
        "p.csv, line 2: 4 columns, but line 1 has 3; put a text that holds a comma between double quotes",
    ),
    (
        "p.csv",
        'score,sentence1,sentence2\n1,"a,b\n',
        "p.csv, line 2: not valid csv (unexpected end of data); check the double quotes",
    ),
    ("p.csv", "score,sentence1,sentence2\n", "p.csv: 0 pair(s); a correlation needs at least 2"),
    ("p.csv", "score,sentence1,sentence2\n1,a,b\nhi,c,d\n", "p.csv, line 3: the score 'hi' is not a number"),
    ("p.jsonl", JSON + "{\n", "p.jsonl, line 2: not valid JSON ("),
    ("p.jsonl", JSON + "[1]\n", "p.jsonl, line 2: a JSON object per line is expected, not list"),
    (
        "p.jsonl",
        JSON + '{"score": 2, "sentence1": "c"}\n',
        "p.jsonl, line 2: no column 'sentence2' (did you mean",
    ),
    ("p.jsonl", JSON + JSON.replace("1,", "null,"), "p.jsonl, line 2: the score is empty"),
    ("p.jsonl", JSON + JSON.replace("1,", "true,"), "p.jsonl, line 2: the score is bool, not a number"),
    ("p.jsonl", JSON + JSON.replace("1,", "NaN,"), "p.jsonl, line 2: the score is nan; a finite number"),
    ("p.jsonl", JSON + JSON.replace("1,", "1" + "0" * 400 + ","), "p.jsonl, line 2: the score '1000"),
    ("p.jsonl", JSON + JSON.replace('"a"', "7"), "p.jsonl, line 2: sentence1 is int, not text"),
    (
        "p.jsonl",
        JSON + JSON.replace('"b"', '"\\ud800"'),
        "p.jsonl, line 2: sentence2 holds half of a surrogate pair",
    ),
]


@pytest.mark.parametrize(("name", "text", "message"), FAULTS)
def test_faults_are_told_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_scored_pairs(write(tmp_path / name, text))
    line = str(caught.value)
    assert message in line
    assert line.startswith(str(tmp_path / name))
    assert "\n" not in line


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_scored_pairs(tmp_path / "absent.tsv")
    with pytest.raises(UserError, match="is a folder"):
        read_scored_pairs(tmp_path)


def test_pairs_of_unequal_lengths_or_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="one of each per pair"):
        ScoredPairs("p", np.array([1.0, 2.0]), ["a", "b"], ["c"])
    with pytest.raises(UserError, match="p: a gold score is NaN or infinite"):
        ScoredPairs("p", np.array([1.0, np.nan]), ["a", "b"], ["c", "d"])
