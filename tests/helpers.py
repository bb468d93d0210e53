"""What several rooms' tests need, once."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError
from opencse.evaluation import TASKS, EvaluationRecord
from opencse.evaluation.embedding import EmbeddingModel, Encode
from opencse.evaluation.suite import Suite, TaskData
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.progress import SILENT, Silent
from opencse.runs.run import Run as TrainingRun
from opencse.settings import validate
from opencse.text import sample
from opencse.training.selection import Choice, DevScore, History, OwnPoolingScore, Selector

Run = Callable[..., tuple[int, str, str]]
"""The fixture ``opencse``: runs the command line with arguments, and gives its exit code, stdout and stderr."""


def refused(result: tuple[int, str, str], *parts: str) -> str:
    """Checks that a command refused its input as it should: exit code 2, and a last line that says why.

    Args:
        result: of the fixture ``opencse``.
        parts: texts that the line has.

    Returns:
        The line.
    """
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line.startswith("opencse:")]
    assert len(lines) == 1, err
    assert err.strip().endswith(lines[0]), "something was printed after the error"
    for part in parts:
        assert part in lines[0], lines[0]
    return lines[0]


def accepted(result: tuple[int, str, str]) -> tuple[str, str]:
    """Checks that a command went through; what it printed to stdout and stderr."""
    code, out, err = result
    assert code == 0, err
    return out, err


class Heard(Silent):
    """A reporter that keeps what is said, and what is shown next to its bar."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.notes: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def advance(self, done: int, note: str = "") -> None:
        self.notes += [note] if note else []


class Stopped(Heard):
    """Sends this process SIGTERM at a step, once, as a scheduler would."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step, self.sent = step, False

    def advance(self, done: int, note: str = "") -> None:
        if done == self.step and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGTERM)


class Broken(Heard):
    """Breaks a run off in the middle of a step, as a kill would: what came after the last checkpoint is lost."""

    def __init__(self, step: int, error: BaseException | None = None) -> None:
        super().__init__()
        self.step, self.error = step, error or InterruptedRunError("killed")

    def advance(self, done: int, note: str = "") -> None:
        if done == self.step:
            raise self.error


@dataclass
class Distance(Selector):
    """Selects by how near an encoder is to a distance from the start; refuses what is too far."""

    best_at: float = 0.0
    refuses_from: float = math.inf
    start: dict[str, Tensor] = field(default_factory=dict)
    name = measure = size = "distance"

    def fingerprint(self) -> str:
        return f"distance {self.best_at} {self.refuses_from}"

    def begin(self, start: SentenceEncoder) -> DevScore:
        self.start = {name: tensor.clone() for name, tensor in start.state_dict().items()}
        return DevScore(-1e9)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        weights = encoder.state_dict()
        moved = sum(float((weights[name] - tensor).norm()) for name, tensor in self.start.items())
        return DevScore(-abs(moved - self.best_at), forgets=moved >= self.refuses_from)

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        return trained.value < start.value

    def choose(
        self, history: History, steps: int, own_pooling: OwnPoolingScore | None, is_worse: Callable[[], bool]
    ) -> Choice:
        del steps, own_pooling, is_worse
        return Choice("best" if history.best_step else "start", f"step {history.best_step} is kept")


def record_of(
    suite: Callable[..., Suite[Any]],
    encode: Encode,
    data: TaskData[Any],
    *,
    model: str = "m",
    pooling: str | None = None,
    device: str | None = None,
    progress: Callable[[str], None] = SILENT.say,
    **settings: Any,
) -> EvaluationRecord:
    """The record of a plain function of texts on a suite's data."""
    return suite(**settings).evaluate(EmbeddingModel(model, encode, pooling, device), data, progress)


def resumed_is_whole(job: TrainingRun, folder: Path, progress: Heard) -> dict[str, bytes]:
    """Checks that a run which ``progress`` breaks off, and which is continued, is the uninterrupted one bit for bit.

    Returns:
        Its weights and its log.
    """
    job.train(folder / "whole")
    with pytest.raises(InterruptedRunError):
        job.train(folder / "broken", progress=progress)
    assert (folder / "broken" / "checkpoint").is_dir()
    job.train(folder / "broken", resume=True)
    whole, broken = (
        {str(file.relative_to(run)): file.read_bytes() for file in (*run.rglob("*.safetensors"), run / "metrics.jsonl")}
        for run in (folder / "whole", folder / "broken")
    )
    assert broken == whole
    return whole


def objective_of(**settings: Any) -> Objective:
    """The objective of a recipe's tables."""
    return Objective.from_settings(validate(ObjectiveSettings, settings, "test"))


def script(path: Path) -> ModuleType:
    """A program of the repository that is no module, as one."""
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))  # scripts import their neighbours
        spec.loader.exec_module(module)
    return module


def json_in(path: Path) -> Any:
    """What a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def rows_in(path: Path) -> list[Any]:
    """What each line of a file holds that is JSON by lines, such as a run's log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path: Path, rows: Iterable[object]) -> None:
    """Writes JSON by lines."""
    write_lines(path, map(json.dumps, rows))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def filled(path: Path) -> list[str]:
    """The lines of a file that are not empty."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def write_tiny_bert(folder: Path, *, sd: float = 0.02) -> Path:
    """A transformers folder: BERT, 3 layers x 32, random weights, dropout 0.1, masked-LM head, WordPiece tokenizer.

    Args:
        folder: made if it is not there.
        sd: of the random weights; at BERT's own all texts have nearly the same vector.
    """
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    text = sample.TRAIN.read_text().lower()
    letters = sorted({c for c in text if not c.isspace()})
    words = Counter(re.findall(r"[a-z]{2,}", text))
    common = sorted(words, key=lambda word: (-words[word], word))[:700]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), *common]
    write_lines(folder / "vocab.txt", pieces)
    tokenizer = BertTokenizer.from_pretrained(folder, model_max_length=64)
    (folder / "vocab.txt").unlink()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=sd,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def write_small_sts(folder: Path) -> Path:
    """A folder with the seven STS tasks and all their subsets, twelve of the sample's pairs in each."""
    lines = filled(sample.TEST)
    start = 0
    for task in TASKS.values():
        (folder / task.key).mkdir(parents=True)
        for subset in task.subsets:
            chosen = [lines[(start + i) % len(lines)] for i in range(12)]
            write_lines(folder / task.key / f"{subset}.tsv", chosen)
            start += 5
    return folder


def write_collection(
    folder: Path,
    corpus: Mapping[Any, str],
    queries: Mapping[Any, str],
    judged: Iterable[tuple[object, ...]],
    split: str = "test",
) -> Path:
    """A data set in BEIR's layout; each judgement has the id of a query, of a document, and a level."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, texts in (("corpus", corpus), ("queries", queries)):
        write_rows(folder / f"{name}.jsonl", ({"_id": str(key), "text": text} for key, text in texts.items()))
    rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)]
    write_lines(folder / "qrels" / f"{split}.tsv", rows)
    return folder
