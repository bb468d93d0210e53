"""One hash for a model wherever it stands; another for whatever changes its vectors."""

from pathlib import Path

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.modules.prompts import Prompts


@pytest.mark.parametrize("pooling", ["mean", "top2"])
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
