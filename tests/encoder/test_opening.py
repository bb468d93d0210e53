"""Opening an encoder: the class itself, `load` and `from_parts` do the same."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import opencse
from opencse.encoder.batches import LoadOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint, hash_files, hash_model
from opencse.model_folder.locate import BUILTIN, builtin_folder, locate
from opencse.modules.dense import Dense, Projection
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts

TEXTS = ["The kettle boils.", "Snow fell on the fells.", ""]


class Subclass(SentenceEncoder):
    """A class that a user derives."""


def test_a_folder_opens_as_in_sentence_transformers(tiny_folder: Path, tmp_path: Path) -> None:
    SentenceEncoder(tiny_folder, pooling="mean", device="cpu").save(tmp_path)
    vectors = SentenceEncoder(str(tmp_path), device="cpu").encode(TEXTS)
    assert np.abs(vectors - SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS)).max() < 1e-5
    assert np.array_equal(vectors, SentenceEncoder.load(tmp_path, device="cpu").encode(TEXTS))


def test_a_saved_encoder_has_the_parts_that_it_was_built_of(encoder: SentenceEncoder) -> None:
    encoder.projection = Dense(encoder.dimension, 3)
    encoder.dense.append(Projection(encoder.dimension, torch.Generator().manual_seed(0), 5))
    built = SentenceEncoder.from_parts(encoder.parts).eval()
    assert [type(layer) for layer in built.dense] == [Dense, Dense]
    assert built.projection is None
    assert built.backbone is encoder.backbone
    assert np.abs(built.encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-6


def test_the_class_and_load_take_the_same_arguments() -> None:
    model, *options = inspect.signature(SentenceEncoder).parameters.values()
    assert model == inspect.signature(Subclass.load).parameters["model"]
    assert {option.name: option.annotation for option in options} == {
        name: annotation.__forward_arg__ for name, annotation in LoadOptions.__annotations__.items()
    }
    assert SentenceEncoder(device="cpu").dimension == SentenceEncoder("opencse-mini", device="cpu").dimension == 448


@pytest.mark.parametrize(
    "cls",
    [
        Subclass,
    ],
)
def test_parts_make_the_encoder_that_they_came_from(cls: type[SentenceEncoder], tiny_folder: Path) -> None:
    encoder = SentenceEncoder(tiny_folder, pooling="cls", device="cpu")
    parts = Parts(encoder.backbone, encoder.tokenizer, pooling=Pooling.CLS, max_length=encoder.max_length)
    built = cls.from_parts(parts).eval()
    assert type(built) is type(built.twin()) is cls
    assert type(cls(tiny_folder, device="cpu")) is type(cls.load(tiny_folder, device="cpu")) is cls
    assert np.array_equal(built.encode(TEXTS), encoder.encode(TEXTS))
    assert built.state_dict().keys() == encoder.state_dict().keys()


PACKAGE = Path(opencse.__file__).parent


def test_loads_by_default_and_by_name() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    assert encoder.dimension == 448
    assert encoder.depth == 0
    assert encoder.tokenizer.vocabulary_size == 16_384
    assert encoder.pooling is Pooling.MEAN
    assert encoder.max_length == 128
    assert not encoder.training
    assert locate(BUILTIN) == builtin_folder()
    assert np.array_equal(SentenceEncoder.load(BUILTIN, device="cpu").encode("A dog."), encoder.encode("A dog."))


@pytest.mark.slow
def test_loads_without_connection_and_without_training_code(tmp_path: Path) -> None:
    program = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('a connection was tried')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "import sys, opencse\n"
        "print(opencse.SentenceEncoder.load(device='cpu').encode(['A dog.', 'A cat.']).shape)\n"
        "print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('opencse.')}))\n"
    )
    environment = {"PYTHONPATH": str(PACKAGE.parent), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shape, packages = done.stdout.splitlines()
    assert shape == "(2, 448)"
    encoding = ["encoder", "kernels", "model_folder", "modules", "text"]
    ground = [
        "arrays",
        "environment",
        "errors",
        "folder_kinds",
        "foreign",
        "home",
        "io",
        "markdown",
        "moving_in",
        "numerals",
    ]
    expected = sorted([*encoding, *ground, "processes", "progress", "settings", "version", "workers"])
    assert packages.split() == expected, "nothing of training, objective, evaluation"


def test_sentence_transformers_opens_it_with_the_same_vectors(sentences: list[str]) -> None:
    texts = [*sentences[:40], "", "dog " * 300]
    ours = SentenceEncoder.load(device="cpu").encode(texts)
    theirs = SentenceTransformer(str(builtin_folder()), device="cpu").encode(texts, show_progress_bar=False)
    assert np.abs(ours - ours[0]).max() > 0.1
    assert np.abs(ours - theirs).max() < 1e-5


def test_scores_of_the_seven_sts_tasks(shared_data: Path) -> None:
    """The model card says 67.76, and 69.04 on STS-B test."""
    result = opencse.evaluate(BUILTIN, shared_data / "sts", device="cpu")
    assert result.sts.average is not None
    assert result.sts.average > 67
    assert result.sts.tasks["stsb"].spearman.all > 68


@pytest.mark.slow
def test_package_is_below_sixteen_megabytes() -> None:
    """As it is downloaded: a wheel holds every file deflated."""
    files = [p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert len(files) > 40
    assert sum(len(zlib.compress(path.read_bytes())) for path in files) < 16 * 2**20


@pytest.mark.parametrize(
    "pooling",
    [
        "top2",
    ],
)
def test_saving_and_dropout_change_nothing(tiny_folder: Path, tmp_path: Path, pooling: str) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu", pooling=pooling)
    known = fingerprint(encoder)
    assert len(known) == 16
    encoder.save(tmp_path / "moved")
    assert fingerprint(SentenceEncoder.load(tmp_path / "moved", device="cpu")) == known
    assert fingerprint(SentenceEncoder.load(tmp_path / "moved", dropout=0.3, device="cpu")) == known


def test_what_changes_vectors_changes_it(tiny_folder: Path) -> None:
    def loaded(pooling: str = "mean", max_length: int | None = None) -> SentenceEncoder:
        return SentenceEncoder.load(tiny_folder, device="cpu", pooling=pooling, max_length=max_length)

    weights, prompt, unit = loaded(), loaded(), loaded()
    with torch.no_grad():
        next(weights.backbone.parameters())[5, 3] += 1e-3
    prompt.prompts = Prompts({"default": "query: "}, "default")
    unit.normalize = True
    others = [weights, prompt, unit, loaded("cls"), loaded(max_length=9)]
    assert len({fingerprint(encoder) for encoder in [loaded(), *others]}) == 6


@pytest.mark.parametrize(
    "name",
    [
        "modules/mean",
    ],
)
def test_the_files_of_every_module_are_hashed_whatever_its_folder_is_called(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(builtin_folder(), tmp_path / "model")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / "1_Pooling").rename(folder / name)
    listing = (folder / "modules.json").read_text(encoding="utf-8").replace("1_Pooling", name)
    (folder / "modules.json").write_text(listing, encoding="utf-8")
    assert f"{name}/config.json" in hash_model(folder)
    before = hash_files(folder)
    (folder / "notes").mkdir()
    (folder / "notes" / "config.json").write_text("{}", encoding="utf-8")
    assert hash_files(folder) == before, "a folder that is no module changes no vector"
    config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
    (folder / name / "config.json").write_text(json.dumps(config | {"include_prompt": False}), encoding="utf-8")
    assert hash_files(folder) != before
