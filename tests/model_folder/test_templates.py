"""Folders with a template and pooling at its mask: the same vectors everywhere, without code of this package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder

TWO_MASKS = 'the text "{text}" is {mask}, so it is {mask}.'


@pytest.fixture(scope="module")
def texts(sentences: list[str]) -> list[str]:
    return [*sentences[:12], "", "with a [MASK] of its own", "one two three " * 60]


@pytest.fixture(scope="module")
def templated(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder(tiny_folder, pooling="mask", template=TWO_MASKS, device="cpu", layers=1)


@pytest.fixture(scope="module")
def saved(templated: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("templated") / "model"
    templated.save(folder)
    return folder


def test_vector_is_that_of_the_last_mask(templated: SentenceEncoder, texts: list[str]) -> None:
    vectors = templated.encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        ids = templated.tokenize([text])[0]
        place = int(np.flatnonzero(ids == templated.mask_id)[-1])
        assert len(ids) <= templated.max_length
        assert place == len(ids) - 3
        with torch.no_grad():
            states = templated.backbone(torch.from_numpy(ids.astype(np.int64))[None]).last_hidden_state
        np.testing.assert_allclose(vector, states[0, place].numpy(), atol=1e-5)


@pytest.mark.slow
def test_sentence_transformers_gives_the_same_vectors(
    templated: SentenceEncoder, saved: Path, texts: list[str]
) -> None:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(saved), device="cpu").encode(texts)
    assert np.abs(theirs - templated.encode(texts)).max() < 1e-5
    plain = SentenceEncoder(saved, pooling="mean", device="cpu").encode(texts)
    assert np.abs(theirs - plain).max() > 1e-3
