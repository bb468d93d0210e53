"""Removal of dominant components: against naive loops, any rotation, and the saved encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import Heard
from opencse import SentenceEncoder, UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.all_but_the_top import AllButTheTop
from opencse.evaluation.transforms import postprocessed, refitted_each_call

VECTORS = np.random.default_rng(0).normal(size=(200, 6)) * [9, 5, 3, 1, 0.5, 0.2] @ np.random.default_rng(1).normal(
    size=(6, 6)
) + np.arange(6)
TEXTS = [f"{word} number {n} is here." for n in range(8) for word in ("Lamp", "Snow", "A dog", "The train")]


def test_it_is_what_naive_loops_give() -> None:
    removed = 2
    mean = [sum(float(row[k]) for row in VECTORS) / len(VECTORS) for k in range(6)]
    centred = [[float(row[k]) - mean[k] for k in range(6)] for row in VECTORS]
    _, _, directions = np.linalg.svd(np.array(centred), full_matrices=False)
    expected = []
    for row in centred:
        left = list(row)
        for direction in directions[:removed]:
            share = sum(row[k] * direction[k] for k in range(6))
            left = [left[k] - share * direction[k] for k in range(6)]
        expected.append(left)
    top = AllButTheTop.fit(VECTORS, removed)
    assert (VECTORS - top.mean) @ top.matrix == pytest.approx(np.array(expected), abs=1e-10)
    assert top.apply(VECTORS) == pytest.approx(np.array(expected), abs=1e-5)


def test_the_removed_directions_are_gone_and_the_others_stay() -> None:
    before = np.sort(np.linalg.eigvalsh(np.cov(VECTORS.T)))
    for removed in range(5):
        after = np.sort(
            np.linalg.eigvalsh(np.cov(((VECTORS - VECTORS.mean(0)) @ AllButTheTop.fit(VECTORS, removed).matrix).T))
        )
        assert after[removed:] == pytest.approx(before[: 6 - removed], rel=1e-8)
        assert after[:removed] == pytest.approx(np.zeros(removed), abs=1e-8)
    assert AllButTheTop.fit(VECTORS, 0).matrix == pytest.approx(np.eye(6), abs=1e-15)


def test_a_hundredth_is_removed_by_default_and_too_many_refused() -> None:
    assert AllButTheTop.fit(VECTORS).removed == 1
    assert AllButTheTop.fit(np.random.default_rng(2).normal(size=(400, 300))).removed == 3
    with pytest.raises(
        UserError, match=r"removing 6 components would leave nothing: these 200 vectors of 6 dimensions"
    ):
        AllButTheTop.fit(VECTORS, 6)
    with pytest.raises(UserError, match="all-but-the-top is fitted on finite vectors"):
        AllButTheTop.fit(np.full((5, 3), np.nan))
    with pytest.raises(ValueError, match="vectors are expected"):
        AllButTheTop.fit(np.zeros(3))


def test_it_is_a_transform_of_any_model(tmp_path: Path) -> None:
    rows = {str(number): vector for number, vector in enumerate(VECTORS)}
    model = EmbeddingModel("rows", lambda texts: np.stack([rows[text] for text in texts]))
    names, said = list(rows), Heard()
    mapped = postprocessed(model, "all-but-the-top", "target", remove=2, say=said.say)
    assert mapped.encode(names) == pytest.approx(AllButTheTop.fit(VECTORS, 2).apply(VECTORS))
    assert "2 of 6 components removed" in said.said[0]
    again = refitted_each_call(model, "all-but-the-top", remove=2)
    assert again.encode(names[:50]) == pytest.approx(AllButTheTop.fit(VECTORS[:50], 2).apply(VECTORS[:50]))
    with pytest.raises(UserError, match="all-but-the-top keeps all dimensions"):
        postprocessed(model, "all-but-the-top", "target", dimension=3)
    with pytest.raises(UserError, match="is for the transform all-but-the-top, not flow"):
        postprocessed(model, "flow", "target", remove=3)
    with pytest.raises(UserError, match="--remove 2 needs --transform all-but-the-top"):
        opencse.evaluate("opencse-mini", tmp_path, remove=2)


def test_the_saved_encoder_gives_the_same_vectors(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")
    before = encoder.encode(TEXTS)
    opencse.whiten(encoder, TEXTS, tmp_path / "top", remove=2)
    opened = SentenceEncoder.load(tmp_path / "top", device="cpu")
    expected = AllButTheTop.fit(before, 2).apply(before)
    assert opened.encode(TEXTS) == pytest.approx(expected, abs=1e-4)
    assert opened.dimension == encoder.dimension
    assert "2 components removed" in (tmp_path / "top" / "README.md").read_text()
    from sentence_transformers import SentenceTransformer

    assert SentenceTransformer(str(tmp_path / "top"), device="cpu").encode(TEXTS) == pytest.approx(expected, abs=1e-4)
    with pytest.raises(UserError, match="--remove keeps all dimensions; leave --dimension out"):
        opencse.whiten(encoder, TEXTS, tmp_path / "other", remove=2, dimension=3)
