"""``opencse nearest`` on a small app of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from opencse.analysis.calibration import calibrate
from opencse.api.index import build_index
from opencse.cli.nearest import nearest
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.static import StaticEncoder
from opencse.errors import UserError
from opencse.text import sample
from opencse.text.readers import Source

pytestmark = pytest.mark.slow

app = typer.Typer()
app.command()(nearest)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "150"})


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = sample.TRAIN.read_text(encoding="utf-8").splitlines()[:60]
    path = tmp_path / "captions.tsv"
    path.write_text("\n".join(f"{number}.jpg\t{line}" for number, line in enumerate(lines) if line), encoding="utf-8")
    return path


def test_two_models_side_by_side(corpus: Path, tiny_folder: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.txt"
    queries.write_text("Rain falls.\n", encoding="utf-8")
    result = run(
        "opencse-mini", tiny_folder, "--corpus", corpus, "--columns", 2, "--query", "A cat sleeps.",
        "--queries", queries, "-k", 2, "--json", tmp_path / "n.json", "--device", "cpu",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "opencse-mini" in result.stdout
    assert "A cat sleeps." in result.stdout
    data = json.loads((tmp_path / "n.json").read_text(encoding="utf-8"))
    assert [asked["query"] for asked in data["queries"]] == ["A cat sleeps.", "Rain falls."]
    assert data["source"] == str(corpus)
    encoder = SentenceEncoder.load()
    texts = list(dict.fromkeys(line.split("\t")[1] for line in corpus.read_text(encoding="utf-8").splitlines()))
    for asked in data["queries"]:
        assert list(asked["models"]) == ["opencse-mini", str(tiny_folder)]
        found = asked["models"]["opencse-mini"]
        row = encoder.similarity(asked["query"], texts)[0]
        best = sorted(range(len(texts)), key=lambda place: -float(row[place]))[:2]
        assert [one["text"] for one in found] == [texts[place] for place in best]
        assert [one["score"] for one in found] == pytest.approx([float(row[place]) for place in best], abs=1e-5)
        assert asked["models"][str(tiny_folder)] != found


def test_bad_input_is_told_before_anything_is_encoded(corpus: Path, tmp_path: Path) -> None:
    column = ("--corpus", corpus, "--columns", 2)
    assert "no query" in refused("opencse-mini", *column)
    assert "named twice" in refused("opencse-mini", "opencse-mini", *column, "-q", "x")
    assert "no such folder" in refused("opencse-mini", tmp_path / "nowhere", *column, "-q", "x")
    assert "no such file" in refused("opencse-mini", "--corpus", tmp_path / "no.txt", "-q", "x")
    assert "a query is blank" in refused("opencse-mini", *column, "-q", " ")
    assert run("opencse-mini", *column, "-q", "x", "-k", 0).exit_code == 2


def test_a_calibrated_model_tells_what_its_cosines_mean(corpus: Path, tiny_folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    encoder.save(model)
    calibration = calibrate(encoder, corpus.read_text(encoding="utf-8").splitlines())
    calibration.save(model)
    asked = ("--corpus", corpus, "--columns", 2, "--query", "A cat sleeps.", "--json", tmp_path / "n.json")
    result = run(model, "opencse-mini", *asked)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "n.json").read_text(encoding="utf-8"))["queries"][0]["models"]
    for one in found[str(model)]:
        assert one["percentile"] == calibration.percentile_of(one["score"])
    alone = " ".join(run(model, *asked).stdout.replace("│", " ").split())
    assert all(f", above {one['percentile']:.1f} % of random pairs)" in alone for one in found[str(model)])
    assert [one["percentile"] for one in found["opencse-mini"]] == [None] * 3


def test_a_calibration_of_another_model_is_refused_before_anything_is_encoded(
    corpus: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    encoder.save(model)
    calibrate(encoder, ["One.", "Two.", "Three."]).save(model)
    SentenceEncoder.load(model, pooling="cls", device="cpu").save(model)
    assert "calibrate again" in refused(model, "--corpus", corpus, "--columns", 2, "-q", "x")


def test_a_corpus_is_encoded_once(corpus: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(encode: Callable[..., Any]) -> Callable[..., Any]:
        def counted_encode(self: object, texts: list[str], **named: Any) -> Any:
            counted.append(len(texts))
            return encode(self, texts, **named)

        return counted_encode

    for encoder in (SentenceEncoder, StaticEncoder):
        monkeypatch.setattr(encoder, "encode", counting(encoder.encode))
    asked = ("opencse-mini", tiny_folder, "--corpus", corpus, "--columns", 2, "-q", "A cat sleeps.", "--device", "cpu")
    first = run(*asked)
    assert sum(counted) > 100
    counted.clear()
    again = run(*asked)
    assert counted == [1, 1]  # the query, by each model
    assert again.stdout == first.stdout
    counted.clear()
    assert run(*asked, "--no-cache").stdout == first.stdout
    assert sum(counted) > 100
    lines = corpus.read_text(encoding="utf-8").splitlines()
    corpus.write_text("\n".join([*lines[:-1], "x.jpg\tA cat sleeps in the sun."]), encoding="utf-8")
    assert "A cat sleeps in the sun." in run(*asked).stdout.replace("\n", " ")
    assert len(list(corpus.with_name("captions.tsv.index").iterdir())) == 2  # one for each model


def test_indexes_in_place_of_a_corpus(corpus: Path, tiny_folder: Path, tmp_path: Path) -> None:
    source = Source(str(corpus), columns=("2",))
    build_index(tmp_path / "a", "opencse-mini", source, cut=False, device="cpu")
    build_index(tmp_path / "b", tiny_folder, source, cut=False, device="cpu")
    models = ("opencse-mini", tiny_folder, "-q", "A cat sleeps.", "--device", "cpu")
    both = run(*models, "--index", tmp_path / "a", "--index", tmp_path / "b")
    assert both.stdout == run(*models, "--corpus", corpus, "--columns", 2).stdout
    assert "1 index for 2 models" in refused(*models, "--index", tmp_path / "a")
    assert "was built with" in refused(*models, "--index", tmp_path / "b", "--index", tmp_path / "a")
    assert "give either a corpus" in refused(*models)
    assert "give either a corpus" in refused(*models, "--corpus", corpus, "--index", tmp_path / "a")
    build_index(tmp_path / "c", tiny_folder, ["Other."], device="cpu")
    assert "holds other texts" in refused(*models, "--index", tmp_path / "a", "--index", tmp_path / "c")
