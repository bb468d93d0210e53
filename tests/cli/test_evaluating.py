"""`opencse evaluate`, `compare`, `reproduce` and `calibrate` as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import Run, accepted, json_in, write_collection
from opencse import SentenceEncoder
from opencse.commands.studies import seeds_of
from opencse.errors import UserError
from opencse.text import sample


def test_retrieval_is_scored(opencse: Run, tmp_path: Path) -> None:
    documents, queries = {1: "A dog barks.", 2: "Rain falls."}, {"q": "barking dogs"}
    folder = write_collection(tmp_path / "animals", documents, queries, [("q", 1, 1)])
    command = ("evaluate", "opencse-mini", "--suite", "retrieval", "--data", folder)
    stdout, _ = accepted(opencse(*command))
    assert "100.0" in stdout
    _, err = accepted(opencse(*command, "--hybrid", "--json", tmp_path / "rows.json"))
    assert "opencse-mini + BM25: weight of the vectors 0.50 (the default)" in err
    rows = json_in(tmp_path / "rows.json")
    assert [row["scores"][0]["extras"]["ranked_by"] for row in rows] == ["BM25", "cosine", "0.5 cosine + 0.5 BM25"]
    assert rows[2]["compared"][0]["n"] == 1


QUICK = [
    part
    for setting in ("training.max_steps=2", "training.batch_size=8", "encoder.pooling=mean")
    for part in ("--set", setting)
]


@pytest.mark.slow
def test_compare(opencse: Run, tiny_folder: Path, small_sts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        "compare", sample.TRAIN, "--out", out, "--recipes", "simcse,esimcse-repetition", "--starts", tiny_folder,
        "--seeds", "1-2", "--data", small_sts.parent, "--resamples", "50", *QUICK,
    ]  # fmt: skip
    stdout, stderr = accepted(opencse(*command))
    assert stdout.strip().endswith(str(out / "comparison.md"))
    assert "run 4 of 4" in stderr
    text = (out / "comparison.md").read_text()
    assert "    opencse compare" in text
    assert "--seeds 1-2" in text
    assert "| esimcse-repetition | 2 |" in text
    found = json_in(out / "comparison.json")
    assert found["metric"] == "sts.average"
    assert found["rows"][1]["over_pairs"]["1"]["bootstrap"]["resamples"] == 50
    assert found["judged"] == "last"
    assert "Scored: the encoder of each run's last step" in text
    assert "| (untrained, mean) |" in text
    assert (out / "comparison.svg").read_text().startswith("<svg")


@pytest.mark.slow
def test_seeds() -> None:
    assert seeds_of("42") == [42]
    assert seeds_of("1, 5-7,9") == [1, 5, 6, 7, 9]
    for wrong in ("a", "3-", "-3", "5-3", "1.5"):
        with pytest.raises(UserError, match="neither a number nor a range"):
            seeds_of(wrong)


@pytest.mark.slow
def test_reproduce(opencse: Run, tiny_folder: Path, small_sts: Path, tmp_path: Path) -> None:
    command = [
        "reproduce", "simcse:bert-base", sample.TRAIN, "--out", tmp_path / "out", "--model", tiny_folder,
        "--data", small_sts.parent, *QUICK,
    ]  # fmt: skip
    stdout, stderr = accepted(opencse(*command))
    assert "differs    the start is" in stderr
    assert "76.25" in stdout
    assert "82.50" in stdout, "dev.stsb"
    average = next(line for line in stdout.splitlines() if "sts.average" in line)
    got = json_in(next((tmp_path / "out").rglob("42/record.json")))["results"]["sts.average"]
    assert f"{got:.2f}" in average
    assert f"{got - 76.25:+.2f}" in average


@pytest.mark.slow
def test_a_study_file(opencse: Run, tiny_folder: Path, small_sts: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        f"text = {json.dumps(str(sample.TRAIN))}\nout = {json.dumps(str(tmp_path / 'table'))}\n"
        f'recipes = ["simcse"]\nstarts = [{json.dumps(str(tiny_folder))}]\nseeds = [1, 2]\n'
        f"data = {json.dumps(str(small_sts.parent))}\nresamples = 0\n"
        '[settings]\ntraining = { max_steps = 2, batch_size = 8 }\nencoder.pooling = "mean"\n'
    )
    stdout, stderr = accepted(opencse("compare", study, "--seeds", "1"))
    assert "run 1 of 1" in stderr
    assert stdout.strip().endswith(str(tmp_path / "table" / "comparison.md"))
    _, stderr = accepted(opencse("compare", "--study", study))
    assert "1 of 2 runs were finished before" in stderr
    assert "study.toml" in (tmp_path / "table" / "comparison.md").read_text()


@pytest.fixture
def model(tiny_folder: Path, tmp_path: Path) -> Path:
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu").save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_a_cosine_gets_a_meaning(opencse: Run, model: Path, tmp_path: Path) -> None:
    plain = opencse("similarity", model, "The kettle is boiling.", "The kettle is boiling.", "Snow.")[1]
    assert "random pairs" not in plain
    stdout, _ = accepted(opencse("calibrate", model, sample.TRAIN, "--pairs", sample.DEV, "--cut", "3.5"))
    assert "random pairs   1 %:" in stdout
    assert "by best F1: precision" in stdout
    assert (model / "calibration.json").is_file()
    stdout, _ = accepted(opencse("similarity", model, "The kettle is boiling.", "The kettle is boiling.", "Snow."))
    first, second = stdout.splitlines()
    assert "above 100.0 % of random pairs  similar  The kettle" in first
    assert "% of random pairs" in second
