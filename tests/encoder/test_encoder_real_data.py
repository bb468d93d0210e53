"""On a real model and real sentences; skipped where the shared data is not beside the checkout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from opencse.encoder.encoder import SentenceEncoder

pytestmark = pytest.mark.slow


def test_wikipedia_sentences_have_the_vectors_of_sentence_transformers(shared_data: Path) -> None:
    model, file = shared_data.parent / "models" / "wikibert-mini", shared_data / "wiki" / "heldout10k.txt"
    if not model.is_dir() or not file.is_file():
        pytest.skip("the shared model or its held-out sentences are not beside this checkout")
    texts = file.read_text(encoding="utf-8").splitlines()[:500]
    assert len(texts) == 500
    encoder = SentenceEncoder.load(model, device="cpu")
    ours = encoder.encode(texts)
    theirs = SentenceTransformer(str(model), device="cpu").encode(texts, show_progress_bar=False)
    assert len({len(ids) for ids in encoder.tokenize(texts)}) > 20
    assert np.abs(ours - ours[0]).max() > 0.1
    assert np.abs(ours - theirs).max() < 1e-5
