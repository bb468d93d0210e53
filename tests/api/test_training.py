"""Training from Python values, what `opencse.adapt` adds to it, and `opencse.finish`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import opencse
from helpers import Broken, Heard, json_in, write_collection
from opencse import UserError, train
from opencse.documents.continuing import FILE as DOCUMENTS
from opencse.documents.dev_choice import QUESTIONS_FILE as QUESTIONS
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import InterruptedRunError
from opencse.model_folder.description import Stated
from search_texts import DOCUMENTS as TOPICS
from search_texts import LINES

TEXTS = ["The kettle boils.", "Snow fell all night.", "A dog barks.", "He reads a book.", "Rain again.", "Tea, please."]


DEV = [(5, "A dog barks.", "A dog is barking."), (1.5, "Rain again.", "He reads."), (0, "Tea.", "Snow fell.")]


QUICK = ["training.batch_size=2", "training.max_steps=2", "objective.view.kind=dropout", "encoder.pooling=mean"]


@pytest.mark.slow
def test_from_values_alone(tiny_folder: Path, tmp_path: Path) -> None:
    start = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    before = fingerprint(start)
    result = train(TEXTS, tmp_path / "out", model=start, dev=DEV, settings=QUICK, device="cpu")
    assert set(result.scores) == {0, 2}
    record = json_in(result.folder / "run.json")
    assert record["source"] == "6 given sentences"
    assert record["identity"]["dev"].startswith("3 given pairs, ")
    assert fingerprint(start) == before, "what was given stays as it is"
    assert fingerprint(SentenceEncoder.load(result.folder / "start", device="cpu")) == before
    assert fingerprint(SentenceEncoder.load(result.folder / "last", device="cpu")) != before

    again = train(TEXTS, tmp_path / "out", model=start, dev=DEV, settings=QUICK, device="cpu", resume=True)
    assert again == result
    for what, changed in (
        ("another text", {"text": TEXTS[1:]}),
        ("other dev data", {"dev": [(4, *DEV[0][1:]), *DEV[1:]]}),
    ):
        given: dict[str, Any] = {"text": TEXTS, "dev": DEV, "model": start, "settings": QUICK, "device": "cpu"}
        with pytest.raises(UserError, match=what):
            train(out=tmp_path / "out", resume=True, **(given | changed))


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("text", 5, "text is a path"),
        ("dev", 5, "dev is a file, or a list"),
        ("dev", [5], r"dev\[0\] is \(score, sentence, sentence\), not 5"),
    ],
)
def test_arguments_of_another_kind_are_named(argument: str, value: object, message: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"text": TEXTS, "out": tmp_path / "out", "dev": None, "settings": QUICK, argument: value}
    with pytest.raises(TypeError, match=message):
        train(**given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dev", "message"),
    [
        ([(1, "a", "b"), (1, "c", "d")], "all 2 gold scores are 1"),
        ([(1, "a", "b"), ("x", "c", "d")], r"dev\[1\]: the score 'x' is not a number"),
        ([(1, "a", " "), (2, "c", "d")], r"dev\[0\]: sentence2 is empty"),
    ],
)
def test_wrong_dev_pairs_are_told_with_their_place(dev: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        train(TEXTS, tmp_path / "out", dev=dev, settings=QUICK)


@pytest.mark.slow
def test_adapting_fits_the_weight_of_the_encoder_it_keeps(tmp_path: Path) -> None:
    documents = {f"d{row}": text for row, text in enumerate(TOPICS)}
    queries = {f"q{row}": " ".join(LINES[2 * row].split()[::2]) for row in range(60)}
    judged = [(f"q{row}", f"d{row}", 1) for row in range(60)]
    folder = write_collection(tmp_path / "queries", documents, queries, judged, "dev")
    progress = Heard()
    settings = ["training.max_steps=2"]
    pairs = [(queries[f"q{row}"], TOPICS[row]) for row in range(10)]
    how: dict[str, Any] = {"model": "opencse-mini", "dev": folder, "device": "cpu", "report": False}
    opencse.adapt(TOPICS, tmp_path / "pairs", pairs=pairs, settings=settings, **how)
    weight = Stated(tmp_path / "pairs").hybrid_weight
    assert weight is not None
    assert weight.source == "50 queries of queries", "the ten that are trained on are ignored"
    opencse.adapt(TOPICS, tmp_path / "out", settings=settings, progress=progress, **how)
    weight = Stated(tmp_path / "out").hybrid_weight
    assert weight is not None
    assert weight.source == "60 queries of queries"
    assert any(
        line.startswith(f"hybrid     weight of the vectors {weight}") and "alone 0.00" not in line
        for line in progress.said
    )
    assert SentenceEncoder.load(tmp_path / "out", device="cpu").hybrid_weight == weight
    assert Stated(tmp_path / "out" / "last").hybrid_weight is None


@pytest.mark.slow
def test_a_stopped_adapt_run_is_finished_as_one_that_ends_by_itself(tmp_path: Path) -> None:
    documents = [
        (
            f"The {noun} of house {n}",
            f"The {noun} {n} is made of part {7 * n}. It weighs {n} grams with its box {3 * n}.",
        )
        for n in range(30)
        for noun in ("kettle", "lantern")
    ]
    settings = [
        "training.max_steps=6", "training.evaluate_every=2", "training.checkpoint_every=2", "training.batch_size=8",
    ]  # fmt: skip

    asked = {f"q{n}": f"how heavy is {text.split('.')[0]}" for n, (_, text) in enumerate(documents[:40])}
    texts = {f"d{n}": f"{title} {text}" for n, (title, text) in enumerate(documents)}
    queries = write_collection(tmp_path / "queries", texts, asked, [(f"q{n}", f"d{n}", 1) for n in range(40)], "dev")

    def adapt(name: str, **options: Any) -> None:
        how: dict[str, Any] = {"model": "opencse-mini", "dev": queries, "settings": settings, "device": "cpu"}
        opencse.adapt(documents, tmp_path / name, report=False, **how, **options)

    adapt("complete")
    assert not (tmp_path / "complete" / QUESTIONS).exists()
    with pytest.raises((InterruptedRunError, RuntimeError)):
        adapt("stopped", progress=Broken(4, RuntimeError("killed")))
    stopped, heard = tmp_path / "stopped", Heard()
    assert Stated(stopped).hybrid_weight is None
    assert (stopped / QUESTIONS).is_file()
    opencse.finish(stopped, report=False, progress=heard)
    names = {one.name for one in (tmp_path / "complete").iterdir()}
    assert {one.name for one in stopped.iterdir()} == names | {"checkpoint"}
    assert (stopped / DOCUMENTS).read_bytes() == (tmp_path / "complete" / DOCUMENTS).read_bytes()
    weight, other = Stated(stopped).hybrid_weight, Stated(tmp_path / "complete").hybrid_weight
    assert weight is not None
    assert other is not None
    assert weight.source == other.source
    assert sum(line.startswith("hybrid ") for line in heard.said) == 1
    assert SentenceEncoder.load(stopped, device="cpu").hybrid_weight == weight
    adapt("stopped", resume=True)
    for name in ("model.safetensors", "metrics.jsonl", DOCUMENTS, "config_sentence_transformers.json"):
        assert (stopped / name).read_bytes() == (tmp_path / "complete" / name).read_bytes()
    assert {one.name for one in stopped.iterdir()} == names
