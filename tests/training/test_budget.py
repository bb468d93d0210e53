"""How many texts are encoded together: what fits into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch

from opencse.kernels.precision import choose_precision
from opencse.processes import ALONE
from opencse.training import schedule
from steps import prepared


def test_auto_takes_what_fits(
    lively_folder: Path, tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared("simcse", lively_folder, tmp_path, sentences)
    precision = choose_precision("float32", torch.device("cpu"))
    row = schedule.graph_bytes(run.encoder, run.inputs, precision)
    assert 1e4 < row < 1e7

    def chosen(rows: float, asked: int | Literal["auto"] | None = "auto") -> tuple[int | None, int, str]:
        monkeypatch.setattr(schedule, "free_memory", lambda device: int(2 * rows * row) + 10)
        chunks, why = schedule.choose_chunks(asked, run.encoder, run.inputs, 300, precision, ALONE)
        return chunks.rows, chunks.keep, why

    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert chosen(700)[:2] == (None, 1), "all 600 rows fit"
    assert chosen(550)[:2] == (256, 2)
    assert chosen(7)[:2] == (7, 1)
    assert chosen(0)[:2] == (1, 1)
    assert "MiB per text" in chosen(7)[2]
    assert chosen(7, asked=3)[:2] == (3, 1)
    assert chosen(7, asked=None) == (None, 1, "")
    assert torch.equal(torch.get_rng_state(), before)
    monkeypatch.undo()
    assert 2**20 < schedule.free_memory(torch.device("cpu")) < 2**50
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3, 8))
    assert schedule.free_memory(torch.device("cuda")) == 3
