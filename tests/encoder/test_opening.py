"""Opening an encoder: the class itself, `load` and `from_parts` do the same."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.opening import BertEncoder
from opencse.model_folder.locate import BUILTIN, SMALL, builtin_folder, locate
from opencse.model_folder.without_torch import read_bert
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.token_modules import TokenWeights

PACKAGE = Path(opencse.__file__).parent


def test_loads_by_default_and_by_name() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    assert encoder.dimension == 448
    assert encoder.depth == 0
    assert encoder.tokenizer.vocabulary_size == 16_384
    assert encoder.pooling is Pooling.MEAN
    assert encoder.max_length == 128
    assert not encoder.training
    assert locate(BUILTIN) == builtin_folder() != locate(SMALL) == builtin_folder(SMALL)
    assert np.array_equal(SentenceEncoder.load(BUILTIN, device="cpu").encode("A dog."), encoder.encode("A dog."))
    short = SentenceEncoder.load(max_length=4, device="cpu")
    assert np.array_equal(short.encode("A dog runs."), short.encode("A dog"))


def test_the_network_of_the_built_in_encoder_is_built_when_it_is_asked_for() -> None:
    encoder, built = SentenceEncoder.load(device="cpu"), SentenceEncoder.load(device="cpu")
    expected, known = built.encode(["A dog."]), sum(weights.numel() for weights in built.parameters())
    assert np.array_equal(encoder.encode(["A dog."]), expected)
    assert (encoder.dimension, encoder.fingerprint()) == (built.dimension, built.fingerprint())
    encoder.prompts, encoder.normalize = Prompts({"default": "query: "}, "default"), True
    encoder.train()
    assert sum(weights.numel() for weights in encoder.parameters()) == known > 7_000_000
    assert all(part.training for part in encoder.modules())
    assert np.array_equal(encoder.encode(["A dog."]), built.encode(["query: A dog."], normalize_embeddings=True))
    with torch.no_grad():
        next(encoder.parameters()).zero_()
    assert not np.array_equal(encoder.encode(["A dog."]), expected)
    assert list(SentenceEncoder.load(device="cpu").state_dict()) == list(built.state_dict())
    weighed = SentenceEncoder.load(device="cpu")
    weighed.token_weights = TokenWeights(torch.linspace(0, 1, weighed.id_count))
    assert np.abs(weighed.encode(["A dog."]) - expected).max() > 1e-3


@pytest.mark.slow
def test_loads_without_connection_and_without_training_code(tmp_path: Path) -> None:
    program = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('a connection was tried')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "import sys, opencse\n"
        "print(opencse.SentenceEncoder.load(device='cpu').encode(['A dog.', 'A cat.']).shape)\n"
        "assert 'transformers' not in sys.modules, 'word vectors need no network'\n"
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
        "files",
        "folder_kinds",
        "foreign",
        "home",
        "markdown",
        "numerals",
    ]
    expected = sorted([*encoding, *ground, "processes", "progress", "settings", "version", "workers"])
    assert packages.split() == expected, "nothing of training, objective, evaluation"


def test_threads_that_ask_at_once_get_the_same_network() -> None:
    encoder = SentenceEncoder.load(BUILTIN, device="cpu")
    with ThreadPoolExecutor(8) as pool:
        weights = [*pool.map(lambda _: next(iter(encoder.parameters())), range(8))]
    assert len({id(one) for one in weights}) == 1


@pytest.mark.parametrize("name", [BUILTIN, SMALL])
def test_sentence_transformers_opens_it_with_the_same_vectors(sentences: list[str], name: str) -> None:
    texts = [*sentences[:40], "", "dog " * 300]
    ours = SentenceEncoder.load(name, device="cpu").encode(texts)
    theirs = SentenceTransformer(str(builtin_folder(name)), device="cpu").encode(texts, show_progress_bar=False)
    assert np.ptp(ours, axis=0).max() > 0.1
    assert np.abs(ours - theirs).max() < 1e-5
    if name == SMALL:  # the first answers of an index come without torch
        light = BertEncoder(read_bert(builtin_folder(name)))  # type: ignore[arg-type]
        assert np.abs(ours - light.encode(texts)).max() < 1e-5


@pytest.mark.slow
def test_scores_of_the_seven_sts_tasks(shared_data: Path) -> None:
    """As the model's card says; that of opencse-small takes half a minute."""
    result = opencse.evaluate(BUILTIN, shared_data / "sts", device="cpu")
    assert result.values()["sts.average"] == pytest.approx(67.76, abs=0.1)


def test_saving_and_dropout_change_nothing(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu", pooling="top2")
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
