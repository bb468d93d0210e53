"""Damaged runs, and models whose parts do not go together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helpers import Run
from hostile.harness import Case, cases, refuse

pytestmark = pytest.mark.slow

TRAIN = "train good.txt --model tiny --dev none --set training.max_steps=1"
RECORDS = {"empty": "", "cut": '{"identity": {', "object": "{}", "list": "[]", "binary": "\0\1\2"}
RUNS = [
    Case(line.format(run=f"run-{kind}"), ("run.json",))
    for line in (f"{TRAIN} --resume --out {{run}}", "analyze {run} --out new")
    for kind in RECORDS
]

BROKEN = {
    "sentence-config": ("sentence_bert_config.json", "{"),
    "sentence-config-list": ("sentence_bert_config.json", "[1]"),
    "length-word": ("sentence_bert_config.json", '{"max_seq_length": "many"}'),
    "modalities": ("sentence_bert_config.json", '{"modality_config": 5}'),
    "prompts": ("config_sentence_transformers.json", '{"default_prompt_name": "x", "prompts": 5}'),
    "vocabulary": ("config.json", None),
}
MODELS = [
    Case(line.format(model=f"broken-{kind}"), (f"broken-{kind}",))
    for line in ("encode {model} good.txt --out new.npy", "train good.txt --out new --dev none --model {model}")
    for kind in BROKEN
]


@pytest.fixture
def damaged(world: Path) -> Path:
    """The world with damaged runs and models in it; they go with the test."""
    for kind, text in RECORDS.items():
        (world / f"run-{kind}").mkdir()
        (world / f"run-{kind}" / "run.json").write_text(text)
    for kind, (name, content) in BROKEN.items():
        folder = world / f"broken-{kind}"
        shutil.copytree(world / "tiny", folder)
        if content is None:  # the tokenizer has more pieces than the embedding
            from safetensors.torch import load_file, save_file

            config = json.loads((folder / name).read_text()) | {"vocab_size": 40}
            (folder / name).write_text(json.dumps(config))
            weights = load_file(folder / "model.safetensors")
            fewer = {key: t[:40].clone() if t.shape[:1] == (len_of(weights),) else t for key, t in weights.items()}
            save_file(fewer, folder / "model.safetensors", metadata={"format": "pt"})
        else:
            (folder / name).write_text(content)
    return world


def len_of(weights: dict[str, object]) -> int:
    """Pieces in the vocabulary."""
    words = next(tensor for key, tensor in weights.items() if "word_embeddings" in key)
    return int(words.shape[0])  # type: ignore[attr-defined]


@cases(RUNS)
def test_damaged_runs(case: Case, opencse: Run, damaged: Path) -> None:
    refuse(case, opencse, damaged)


@cases(MODELS)
def test_broken_models(case: Case, opencse: Run, damaged: Path) -> None:
    refuse(case, opencse, damaged)
