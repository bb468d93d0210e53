"""The masked-LM decoder as a copy of the word embeddings: ten steps against a plain loop over transformers' model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.requests import Masked
from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source

pytestmark = pytest.mark.slow

STEPS, RATE, WEIGHT, TAU = 10, 1e-3, 0.5, 0.05


def job(model: Path, tied: bool) -> Run:
    settings = (
        f"training.max_steps={STEPS}",
        "training.batch_size=8",
        f"training.learning_rate={RATE}",
        "training.precision=float32",
        "encoder.head.kind=none",
        "encoder.dropout=0",
        f'objective.terms=[{{ kind = "mlm", weight = {WEIGHT}, rate = 0.3, tied = {str(tied).lower()} }}]',
    )
    return Run(text=Source(str(sample.TRAIN)), model=str(model), settings=settings, dev=None, device="cpu")


def by_hand(model: Path, tied: bool) -> dict[str, Tensor]:
    """The word embeddings, and one matrix besides, after ten steps."""
    from transformers import BertForMaskedLM

    prepared = job(model, tied).open(Silent())
    whole = BertForMaskedLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").train(False)
    table = whole.bert.embeddings.word_embeddings.weight
    decoder = table if tied else torch.nn.Parameter(table.detach().clone())
    bias = whole.cls.predictions.bias
    others = {id(p): p for p in [*whole.bert.parameters(), *whole.cls.predictions.transform.parameters(), bias]}
    trained = list(({id(decoder): decoder} | others).values())
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.0)
    for step in range(STEPS):
        inputs = prepared.inputs.build(prepared.batches.batch(step), step)
        copy: MaskedCopy = inputs.prepared[Masked(0.3)]
        masked, labels = copy.masked, copy.labels
        read = whole.bert(input_ids=inputs.tokens.input_ids, attention_mask=inputs.tokens.attention_mask)
        vectors = functional.normalize(read.last_hidden_state[:, 0], dim=1)
        logits = vectors[: inputs.examples] @ vectors[inputs.examples :].T / TAU
        contrast = functional.cross_entropy(logits, torch.arange(inputs.examples))
        hidden = whole.bert(input_ids=masked.tokens.input_ids, attention_mask=masked.tokens.attention_mask)
        states = whole.cls.predictions.transform(hidden.last_hidden_state[masked.positions])
        guessed = functional.cross_entropy(states @ decoder.T + bias, labels)
        optimizer.zero_grad()
        torch.autograd.backward(contrast + WEIGHT * guessed)
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = RATE * (STEPS - step) / STEPS
        optimizer.step()
    query = whole.bert.encoder.layer[1].attention.self.query.weight
    return {"embeddings.word_embeddings.weight": table.detach(), "encoder.layer.1.attention.self.query.weight": query}


@pytest.mark.parametrize("tied", [True, False])
def test_ten_steps_against_a_plain_loop(tied: bool, tiny_folder: Path, tmp_path: Path) -> None:
    expected = by_hand(tiny_folder, tied)
    job(tiny_folder, tied).train(tmp_path / "run")
    found = load_file(tmp_path / "run" / "model.safetensors")
    start = load_file(tiny_folder / "model.safetensors")
    for name, weights in expected.items():
        movement = (weights - start[f"bert.{name}"]).abs().mean()
        assert movement > 0.3 * RATE
        assert (found[name] - weights).abs().mean() < 0.005 * movement, name
