"""Fixtures for the whole suite; everything is made here, nothing is fetched."""

from __future__ import annotations

import errno
import functools
import gc
import logging
import os
import random
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import devices  # noqa: F401  # before anything imports Triton
from chat_servers import ChatRule, chat_server
from cross_encoders import write_cross_encoder
from forked import Forks, forks
from fuzzing import load_profile
from helpers import Run, filled, write_small_sts, write_tiny_bert
from opencse.analysis import figures
from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.numpy_models import WordMeans
from opencse.search import hybrid
from opencse.text import sample
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer
from opencse.training import schedule
from opencse.training.questions import Guard

IN_FULL = [
    (where, name, getattr(where, name))
    for where, name in ((Guard, "built_in"), (hybrid, "_EVERY"), (schedule, "_WARM_UP"), (schedule, "_TIMED"))
]
STARTED = time.time()
SHARED = Path(__file__).resolve().parents[2] / "shared"

load_profile()


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests wait for servers and for processes of their own."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before another order is asked for (make test SEED=2)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a slow test come first, so that no worker waits at the end for one of them."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection() -> None:
    """The garbage collector rests during the imports, and then passes over what they made.

    Going through it took a fifth of the suite's time.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_runtest_teardown() -> None:
    """Once torch's ONNX exporter was used, its table of operators, which no export changes, is made once."""
    exporter = sys.modules.get("torch.onnx._internal.exporter._registration")
    if exporter is not None and not hasattr(exporter.ONNXRegistry.from_torchlib, "cache_info"):
        exporter.ONNXRegistry.from_torchlib = staticmethod(functools.cache(exporter.ONNXRegistry.from_torchlib))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Notes the time of a run of the whole suite, for `tools/counts.py`."""
    cache, workers = getattr(session.config, "cache", None), os.environ.get("PYTEST_XDIST_WORKER")
    if cache is not None and workers is None and session.config.args == session.config.getini("testpaths"):
        seconds, today = round(time.time() - STARTED), time.strftime("%Y-%m-%d")
        cache.set("opencse/suite", {"tests": session.testscollected, "seconds": seconds, "date": today})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Every test starts with the same random generators and without handlers of logs, whichever ran before it.

    A library that logs where no handler is set adds one, on the stderr of that moment.
    """
    for handler in [one for one in logging.root.handlers if isinstance(one, logging.StreamHandler)]:
        logging.root.removeHandler(handler)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def token_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tokenised corpora go to a folder of the test session, never to the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENCSE_CACHE", str(folder))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield folder


@pytest.fixture
def rule() -> Iterator[ChatRule]:
    """A server with OpenAI's chat API that answers by a rule."""
    with chat_server() as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def in_short() -> Iterator[None]:
    """What every run and every index does, with less of it.

    - Nobody pulls the plug while tests run: what `os.fsync` waits for is not seen by any process that goes on. Tests of
      what happens before and after the call, or when it fails, put their own in its place.
    - Of the built-in general questions 150 are asked by every evaluation of a run, and 98 by every index.
    - The plan of a run times one step.

    Where torch was told to compute as an older processor does (`make test-portable`), it reports no bf16 unit.
    """
    questions = functools.cache(lambda: Guard.of_pairs(Source(str(sample.PAIRS)).read().rows[:150]))
    with pytest.MonkeyPatch.context() as patch:
        if torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2"):
            without = {name: has for name, has in torch.cpu.get_capabilities().items() if "bf16" not in name}
            patch.setattr(torch.cpu, "get_capabilities", lambda: without)
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(hybrid, "_EVERY", 16)
        patch.setattr(Guard, "built_in", classmethod(lambda cls: questions()))
        patch.setattr(schedule, "_WARM_UP", 0)
        patch.setattr(schedule, "_TIMED", 1)
        patch.setattr(WordMeans._digest, "func", _hashed_once())
        yield


@pytest.fixture(autouse=True)
def as_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many questions and timed steps as a user has, and figures that are drawn, where a test is marked so.

    Drawing takes most of the time of a short run with a report.
    """
    for where, name, value in IN_FULL if request.node.get_closest_marker("in_full") is not None else ():
        monkeypatch.setattr(where, name, value)
    if request.node.get_closest_marker("drawn") is None:
        monkeypatch.setattr(figures, "to_svg", lambda figure, legend=None: '<svg role="img"></svg>')
        monkeypatch.setattr(Figure, "draw_without_rendering", lambda figure: None)


def _hashed_once() -> Callable[[WordMeans], str]:
    """Hashes the built-in encoder's numbers, as hundreds of commands do, once in a test session.

    What was hashed before is known by a checksum of all its numbers, which takes a tenth of the time.
    """
    digest, known = WordMeans._digest.func, {}  # type: ignore[attr-defined]

    def remembered(words: WordMeans) -> str:
        eps = None if words.norm is None else words.norm.eps
        key: tuple[object, ...] = (eps,)
        for name, array in words._arrays():
            numbers = np.ascontiguousarray(array)
            key += (name, numbers.shape, numbers.dtype, zlib.crc32(numbers.reshape(-1).view(np.uint8).data))
        if key not in known:
            known[key] = digest(words)
        return str(known[key])

    return remembered


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformers folder: BERT, 3 layers x 32, random weights, dropout 0.1, masked-LM head, WordPiece tokenizer."""
    return write_tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def lively_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same BERT with larger weights, so that different texts have vectors of their own."""
    return write_tiny_bert(tmp_path_factory.mktemp("lively"), sd=0.1)


@pytest.fixture(scope="session")
def sharp_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same BERT with still larger weights, whose guesses are far from uniform."""
    return write_tiny_bert(tmp_path_factory.mktemp("sharp"), sd=0.3)


@pytest.fixture(scope="session")
def mini() -> SentenceEncoder:
    """The smaller built-in encoder; no test changes it."""
    return SentenceEncoder.load(device="cpu")


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small cross-encoder."""
    return write_cross_encoder(tmp_path_factory.mktemp("cross") / "my-cross-encoder")


@pytest.fixture(scope="session")
def tiny_encoder(tiny_folder: Path) -> SentenceEncoder:
    """The tiny model with mean pooling, ready to encode; shared by all tests, so no test changes it."""
    return SentenceEncoder.load(tiny_folder, device="cpu")


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with mean pooling, ready to encode; a new copy for each test."""
    return tiny_encoder.twin()


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a folder one of a read-only disk for new files, which permissions cannot do for every user."""

    def protect(folder: Path) -> None:
        make = tempfile.TemporaryFile

        def refusing(**options: Any) -> Any:
            if Path(options["dir"]) == folder.resolve():
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return make(**options)

        monkeypatch.setattr(tempfile, "TemporaryFile", refusing)

    return protect


@pytest.fixture(scope="session")
def parent_of_commands() -> Iterator[Forks]:
    """A process that has made the imports, of which commands are forked."""
    with forks() as started:
        yield started


@pytest.fixture
def forked(parent_of_commands: Forks) -> Iterator[Forks]:
    """Starts commands in processes of their own; those that still run are killed at the end of the test."""
    yield parent_of_commands
    parent_of_commands.close()


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """RoBERTa's kind: byte-level BPE, where a word's first piece holds the space before it."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(sample.TRAIN.read_text().splitlines(), trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), special, strict=True))
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, **names))  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """The sample's training sentences."""
    return filled(sample.TRAIN)


@pytest.fixture(scope="session")
def small_sts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder ``sts`` with the seven tasks and all their subsets, twelve of the sample's pairs in each."""
    return write_small_sts(tmp_path_factory.mktemp("data") / "sts")


@pytest.fixture(scope="session")
def hostile_world(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, small_sts: Path) -> Path:
    """A folder of good files and of bad ones, made once; no command may change it."""
    from hostile.worlds import build_world

    return build_world(tmp_path_factory.mktemp("hostile") / "world", tiny_folder, small_sts)


@pytest.fixture
def world(hostile_world: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The hostile world as working folder; what a command leaves there in spite of all is gone before the next."""
    monkeypatch.chdir(hostile_world)
    there = set(hostile_world.iterdir())
    yield hostile_world
    for left in set(hostile_world.iterdir()) - there:
        shutil.rmtree(left) if left.is_dir() else left.unlink()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real evaluation data beside the checkout; tests that read it are skipped without it."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the shared evaluation data is not beside this checkout")
    return folder


@pytest.fixture
def opencse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: exit code, stdout, stderr."""

    from opencse.cli import main

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["opencse", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
