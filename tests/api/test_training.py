"""Training from Python values: texts, dev pairs and the encoder itself; anything else is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opencse import SentenceEncoder, UserError, adapt, evaluate, pretrain, train
from opencse.encoder.fingerprint import fingerprint
from opencse.text import sample

pytestmark = pytest.mark.slow

TEXTS = ["The kettle boils.", "Snow fell all night.", "A dog barks.", "He reads a book.", "Rain again.", "Tea, please."]
DEV = [(5, "A dog barks.", "A dog is barking."), (1.5, "Rain again.", "He reads."), (0, "Tea.", "Snow fell.")]
QUICK = ["training.batch_size=2", "training.max_steps=2", "objective.view.kind=dropout", "encoder.pooling=mean"]


def test_from_values_alone(tiny_folder: Path, tmp_path: Path) -> None:
    start = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    before = fingerprint(start)
    result = train(TEXTS, tmp_path / "out", model=start, dev=DEV, settings=QUICK, device="cpu")
    assert set(result.scores) == {0, 2}
    record = json.loads((result.folder / "run.json").read_text())
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


def test_values_train_as_the_same_file_does(tiny_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    given, from_file = (
        train(text, tmp_path / name, model=tiny_folder, dev=None, settings=QUICK, device="cpu")
        for text, name in ((TEXTS, "given"), (path, "file"))
    )
    vectors = [SentenceEncoder.load(result.folder, device="cpu").encode(TEXTS) for result in (given, from_file)]
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_another_encoder_than_that_of_the_run_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    mean, cls = (SentenceEncoder.load(tiny_folder, pooling=pooling, device="cpu") for pooling in ("mean", "cls"))
    train(TEXTS, tmp_path / "out", model=mean, dev=None, settings=QUICK, device="cpu")
    with pytest.raises(UserError, match="start: the run began with another encoder"):
        train(TEXTS, tmp_path / "out", model=cls, dev=None, settings=QUICK, device="cpu", resume=True)


def test_a_wrong_setting_leaves_nothing_behind(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    with pytest.raises(UserError, match="epochs"):
        train(TEXTS, tmp_path / "out", model=encoder, settings=["training.epochs=-1"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("text", 5, "text is a path"),
        ("text", None, "text is a path"),
        ("out", None, "out is a path, not NoneType"),
        ("model", 5, "model is a path, not int"),
        ("model", None, "model is a path, not NoneType"),
        ("dev", 5, "dev is a file, or a list"),
        ("dev", {"a": 1}, "dev is a file, or a list"),
        ("dev", [5], r"dev\[0\] is \(score, sentence, sentence\), not 5"),
        ("dev", [(1, "a")], r"dev\[0\] is \(score, sentence, sentence\)"),
        ("settings", "training.epochs=2", "settings is a list"),
        ("settings", [5], "settings is a list"),
    ],
)
def test_arguments_of_another_kind_are_named(argument: str, value: object, message: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"text": TEXTS, "out": tmp_path / "out", "dev": None, "settings": QUICK, argument: value}
    with pytest.raises(TypeError, match=message):
        train(**given)
    assert list(tmp_path.iterdir()) == []


def test_pretraining_and_evaluation_name_theirs(tmp_path: Path) -> None:
    for argument in ({"text": 5}, {"out": 5}, {"model": 5}, {"settings": "a=1"}):
        given: dict[str, Any] = {"text": TEXTS, "out": tmp_path / "out", **argument}
        with pytest.raises(TypeError, match=f"^{next(iter(argument))} is a"):
            pretrain(**given)
    with pytest.raises(TypeError, match="data is a path, not list"):
        evaluate(SentenceEncoder.load(device="cpu"), DEV)  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dev", "message"),
    [
        ([], "0 pair"),
        ([(1, "a", "b"), (1, "c", "d")], "all 2 gold scores are 1"),
        ([(1, "a", "b"), (float("nan"), "c", "d")], r"dev\[1\]: the score is nan"),
        ([(1, "a", "b"), ("x", "c", "d")], r"dev\[1\]: the score 'x' is not a number"),
        ([(1, "a", " "), (2, "c", "d")], r"dev\[0\]: sentence2 is empty"),
        ([(1, "a", 5), (2, "c", "d")], r"dev\[0\]: sentence2 is int"),
    ],
)
def test_wrong_dev_pairs_are_told_with_their_place(dev: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        train(TEXTS, tmp_path / "out", dev=dev, settings=QUICK)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"model": "./nowhere"}, r"^\./nowhere: no such folder$"),
        ({"recipe": "adapd"}, r"^unknown recipe 'adapd' \(did you mean 'adapt'\?\)"),
    ],
)
def test_a_wrong_model_or_recipe_is_refused_before_the_corpus_is_read(
    options: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opencse.api.training.plan_adaptation", lambda *args, **named: pytest.fail("read"))
    with pytest.raises(UserError, match=problem):
        adapt(sample.TRAIN, tmp_path / "out", **options)
