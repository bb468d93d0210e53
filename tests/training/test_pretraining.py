"""Pretraining a BERT from raw text: it learns, it keeps its head, and other runs start from it."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from helpers import json_in, write_lines
from opencse import SentenceEncoder, UserError, pretrain
from opencse.kernels.states import MaskedTokens
from opencse.making.backbone import Shape, create_backbone
from opencse.making.vocabulary import train_wordpiece
from opencse.objective.vectors.masking import MaskedCopy, mask_tokens
from opencse.progress import Silent
from opencse.runs.run import Run as TrainRun
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer, Tokens

pytestmark = pytest.mark.slow

SHAPE = Shape(layers=1, hidden=64, heads=2, inner=64, positions=48, dropout=0.0)
SETTINGS = (
    "data.max_length=32",
    "training.batch_tokens=512",
    "training.epochs=1000",
    "training.log_every=1",
    "training.learning_rate=1e-2",
    "training.precision=float32",
)
HOW: dict[str, Any] = {"vocabulary": 300, "shape": SHAPE, "device": "cpu"}


@dataclass(frozen=True)
class Run:
    """A finished pretraining run and the encoder as it was in memory when it was saved."""

    text: Path
    folder: Path
    encoder: SentenceEncoder
    saved: dict[str, bool]
    verdict: str


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    """40 sentences of the sample, few enough to be learned in a hundred steps."""
    file = tmp_path_factory.mktemp("text") / "few.txt"
    write_lines(file, sentences[:40])
    return file


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pretrained")
    encoders: list[SentenceEncoder] = []
    saved: dict[str, bool] = {}
    save = SentenceEncoder.save

    def keep(self: SentenceEncoder, to: Path, **how: Any) -> None:
        encoders.append(self)
        saved[str(Path(to).relative_to(folder))] = how["masked_lm"]
        save(self, to, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SentenceEncoder, "save", keep)
        result = pretrain(text, folder, settings=[*SETTINGS, "training.max_steps=100"], **HOW)
    assert result.folder == folder
    assert (result.kept, result.scores) == ("last", {})
    return Run(text, folder, encoders[-1], saved, result.verdict)


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def masked(folder: Path, texts: list[str]) -> tuple[Tokens, Tensor, Tensor]:
    """Masked ids of ``texts``, where they are masked, and what was there."""
    tokenizer = Tokenizer.load(folder)
    tokens = tokenizer.pad(tokenizer.encode(texts, 32))
    copy = mask_tokens(tokens, tokenizer, 0.2, np.random.default_rng(7))
    return copy.masked.tokens, copy.masked.positions, copy.labels


def reference(folder: Path) -> Any:
    """Transformers' own masked-LM model; every weight must be in the folder."""
    from transformers import AutoModelForMaskedLM

    model, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    return model.eval()


def their_loss(folder: Path, texts: list[str]) -> float:
    """The masked-LM loss by transformers' own model, in evaluation mode."""
    tokens, positions, labels = masked(folder, texts)
    assert len(labels) > 100
    with torch.no_grad():
        logits = reference(folder)(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits
    return float(torch.nn.functional.cross_entropy(logits[positions], labels))


def test_it_learns_words_from_their_context(run: Run, sentences: list[str]) -> None:
    texts = sentences[:40]
    tokenizer = Tokenizer.load(run.folder)
    counts = Counter(i for ids in tokenizer.encode(texts, None) for i in ids[1:-1].tolist())
    total = sum(counts.values())
    frequencies_alone = -sum(n / total * math.log(n / total) for n in counts.values())
    start, end = (their_loss(folder, texts) for folder in (run.folder / "start", run.folder))
    assert start == pytest.approx(math.log(300), abs=0.2), "it began knowing nothing"
    assert end < frequencies_alone - 0.4
    course = losses(run.folder)
    assert len(course) == 100
    assert course[0] == pytest.approx(start, abs=0.2)
    assert sum(course[-10:]) / 10 == pytest.approx(end, abs=0.5)
    assert course[-1] < course[0] - 0.8
    assert run.verdict.startswith(f"loss {course[0]:.3f} at the first step, {sum(course[-10:]) / 10:.3f} over")


def test_the_folders_hold_the_head_and_the_trained_encoders_logits(run: Run, sentences: list[str]) -> None:
    assert run.saved == {".": True, "last": True}
    tokens, positions, _ = masked(run.folder, sentences[:12])
    with torch.no_grad():
        ours = run.encoder.eval()(None, masked=MaskedTokens(tokens, positions)).masked_logits
        for folder in (run.folder, run.folder / "last"):
            theirs = reference(folder)(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits
            torch.testing.assert_close(ours, theirs[positions], atol=1e-5, rtol=0)
        untrained = reference(run.folder / "start")
        start = untrained(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits[positions]
    assert float((ours - start).abs().mean()) > 0.5
    assert float(torch.pdist(ours[:20]).min()) > 1e-3
    names = load_file(run.folder / "model.safetensors").keys()
    assert "cls.predictions.decoder.weight" not in names, "tied to the word embeddings, stored once"
    vectors = SentenceTransformer(str(run.folder), device="cpu").encode(sentences[:8])
    np.testing.assert_allclose(SentenceEncoder.load(run.folder, device="cpu").encode(sentences[:8]), vectors, atol=1e-5)


def test_it_continues_where_it_ended(run: Run, tmp_path: Path) -> None:
    """Without dropout the first loss of the second run is that of the first run's weights on that batch."""
    settings = (*SETTINGS, "training.max_steps=4", "training.learning_rate=1e-4", "training.seed=5")
    pretrain(run.text, tmp_path / "on", model=str(run.folder), settings=settings, device="cpu")
    assert not (tmp_path / "on" / "start").exists()
    job = TrainRun(
        text=Source(str(run.text)), recipe="pretrain", model=str(run.folder), settings=settings, dev=None, device="cpu"
    )
    prepared = job.open(Silent())
    step = prepared.inputs.build(prepared.batches.batch(0), 0)
    (copy,) = step.prepared.values()
    assert isinstance(copy, MaskedCopy)
    tokens = copy.masked.tokens
    with torch.no_grad():
        logits = reference(run.folder)(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits
    expected = float(torch.nn.functional.cross_entropy(logits[copy.masked.positions], copy.labels))
    course = losses(tmp_path / "on")
    assert course[0] == pytest.approx(expected, abs=1e-4)
    assert course[0] == pytest.approx(sum(losses(run.folder)[-10:]) / 10, abs=0.6)
    assert course[0] < losses(run.folder)[0] - 0.5
    reference(tmp_path / "on")


def test_a_start_left_by_a_kill_is_made_again_and_any_other_is_unchanged(text: Path, tmp_path: Path) -> None:
    """Its size and vocabulary may be others."""
    from opencse.outputs import LOCK

    shape = SHAPE.model_copy(update={"layers": 2})
    tokenizer = train_wordpiece(["something else"] * 5, 120)
    out = tmp_path / "out"
    create_backbone(tokenizer, shape, out / "start", seed=0)
    before = sorted(path.stat().st_mtime_ns for path in out.rglob("*"))
    how: dict[str, Any] = HOW | {"settings": [*SETTINGS, "training.max_steps=1"]}
    with pytest.raises(UserError, match=r"is not empty \(start\)"):
        pretrain(text, out, **how)
    assert sorted(path.stat().st_mtime_ns for path in out.rglob("*")) == before
    (out / LOCK).write_text("host a, process 1")
    pretrain(text, out, **how)
    config = json_in(out / "config.json")
    assert (config["num_hidden_layers"], config["vocab_size"]) == (1, 300)
    assert not (out / LOCK).exists()
    with pytest.raises(UserError, match="holds a run already; continue it with --resume"):
        pretrain(text, out, **how)
    pretrain(text, out, overwrite=True, **how | {"vocabulary": 200})
    assert json_in(out / "start" / "config.json")["vocab_size"] == 200


def test_what_cannot_be_is_refused_before_anything_is_written(text: Path, tmp_path: Path, sentences: list[str]) -> None:
    with pytest.raises(UserError, match=r"simcse: pretraining has no contrast .* see opencse train"):
        pretrain(text, tmp_path / "out", recipe="simcse", **HOW)
    with pytest.raises(UserError, match=r"data\.max_length 128 is above the 48 positions .*data\.max_length=48"):
        pretrain(text, tmp_path / "out", **HOW)
    create_backbone(train_wordpiece(sentences[:100], 200, max_length=48), SHAPE, tmp_path / "model", 1)
    for model, message in (
        (str(tmp_path / "model"), "3 layers cannot be drawn again of a model that has 1"),
        (None, "new_layers is for a model that exists"),
    ):
        with pytest.raises(UserError, match=message):
            pretrain(text, tmp_path / "out", model=model, new_layers=3, settings=SETTINGS, device="cpu")
    assert not (tmp_path / "out" / "config.json").exists()
