"""A training step of a GPU reads nothing back: the processor continues while the device works.

Tensors on `meta` stand for those on a GPU. They have shapes and no numbers, so whatever would wait for a number
(``item``, ``nonzero``, a copy to the CPU) fails, and so does what mixes them with tensors on the CPU.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.objective.vectors import chunks
from opencse.objective.vectors import step as made
from opencse.objective.vectors.chunks import Chunks
from opencse.progress import Silent
from opencse.text.tokenizer import Tokens
from opencse.training.trainer import Trainer
from steps import NAMES, VARIANTS, layers_of, parts_of, prepared

WAITING = {
    *{"fitted"},  # scikit-learn fits a mixture on the CPU
    *{"promptbert", "cot-bert", "denosent", "template"},  # one template row for each length of the batch
    *{"tsdae", "denoising-untied"},  # only real tokens go through the decoder's head
    *{"hardest"},  # the nearest of a pool are chosen chunk by chunk
}
ALL = [name for name in NAMES if name not in WAITING]
APART = {"mlm", "is-bert"}
"""Nothing but a masked copy, or the anchors by a term of its own, goes through the encoder in chunks."""
UNMASKED = [name for name in ALL if name not in APART and (name in VARIANTS or ("term", "mlm") not in parts_of(name))]
META = torch.device("meta")


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autocast and generators, which `meta` has not, are left out there."""
    real, enabled = torch.autocast, torch.is_autocast_enabled

    def autocast(kind: str, *others: Any, **named: Any) -> Any:
        return nullcontext() if kind == "meta" else real(kind, *others, **named)

    monkeypatch.setattr(torch, "autocast", autocast)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *kind: "meta" not in kind and enabled(*kind))
    monkeypatch.setattr(made, "_generator", lambda *_: torch.Generator())


def trainer(name: str, model: Path, folder: Path, sentences: list[str], *settings: str) -> Trainer:
    """Of a recipe or variant, on the device but for what Python counts; only the first and the last step are logged."""
    unaveraged = ("training.average_with_start=[1.0]", "training.averages_at_end=[]")
    asked = (
        "training.log_every=9",
        "training.packed=false",
        layers_of(name),
        *unaveraged,
        *settings,
    )
    p = prepared(name, model, folder, sentences, *asked)
    p.encoder.to(META)
    for module in p.objective.modules():
        for buffer, tensor in module.named_buffers(recurse=False):
            if tensor.dim():  # counters stay on the CPU
                setattr(module, buffer, tensor.to(META))
        for parameter, weight in module.named_parameters(recurse=False):
            setattr(module, parameter, torch.nn.Parameter(weight.to(META), requires_grad=weight.requires_grad))
    return Trainer(p.encoder, p.sets, 9, p.start.recipe.training, p.precision, None, folder, Silent())


@pytest.mark.slow
@pytest.mark.usefixtures("meta")
@pytest.mark.parametrize("name", ALL)
def test_no_step_reads_the_device(
    name: str, tiny_folder: Path, tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the first, in chunks where that can be, nor one that has what the parts kept of another."""
    taken = trainer(name, tiny_folder, tmp_path, sentences)
    whole = taken.chunks
    with monkeypatch.context() as patch:
        read = in_chunks(taken, patch) if name in UNMASKED else None
        assert {loss.device for loss in taken._make_step(1).losses.values()} == {META}  # it is logged, which does read
    assert read is None or len(read) > 2
    taken.chunks = whole
    assert {loss.device for loss in taken._make_step(2).losses.values()} == {META}


def in_chunks(taken: Trainer, patch: pytest.MonkeyPatch) -> list[str]:
    """Has rows encoded in chunks; what these read of the device is put into the list instead."""
    read: list[str] = []

    def cut(tokens: Tokens, start: int, stop: int, padded: bool) -> Tokens:
        del padded
        read.append("the longest text of a chunk")
        return tokens.rows(start, stop)

    patch.setattr(chunks, "_rows", cut)
    patch.setattr(Chunks, "draw", lambda self, network, device: 1 if network.training else None)
    taken.chunks = replace(taken.chunks, rows=3)
    return read
