"""Scores of pairs: equal to those of sentence-transformers' CrossEncoder, whatever the batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cross_encoders import write_sentence_transformers
from opencse.errors import UserError
from opencse.reranking import cross_encoder as module
from opencse.reranking.cross_encoder import CrossEncoder


@pytest.fixture(scope="module")
def pairs(sentences: list[str]) -> list[tuple[str, str]]:
    long = " ".join(sentences[:12])
    some = list(zip(sentences[:40], sentences[40:80], strict=True))
    return [*some, (sentences[0], long), (long, sentences[0]), (long, long), ("", sentences[1])]


def predicted(cross_encoder: Path, pairs: Sequence[tuple[str, str]], **options: object) -> NDArray[np.float32]:
    from sentence_transformers import CrossEncoder as Reference

    scores: NDArray[np.float32] = Reference(str(cross_encoder), device="cpu", **options).predict(pairs)
    return scores


def test_scores_equal_those_of_sentence_transformers(cross_encoder: Path, pairs: list[tuple[str, str]]) -> None:
    scores = CrossEncoder.load(cross_encoder, device="cpu").scores(pairs)
    np.testing.assert_allclose(scores, predicted(cross_encoder, pairs), atol=1e-6)
    assert scores.std() > 0.05
    assert 0 < scores.min() < scores.max() < 1  # the sigmoid, which is the default


def test_prompt_activation_and_length_of_a_sentence_transformers_folder(
    cross_encoder: Path, tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    saved = write_sentence_transformers(
        tmp_path / "saved",
        cross_encoder,
        activation_fn=torch.nn.Identity(),
        prompts={"web": "a dog in the snow "},
        default_prompt_name="web",
        max_length=24,
    )
    reranker = CrossEncoder.load(saved, device="cpu")
    scores = reranker.scores(pairs)
    np.testing.assert_allclose(scores, predicted(saved, pairs), atol=1e-5)
    assert reranker.max_length == 24
    plain = CrossEncoder.load(cross_encoder, device="cpu")
    assert np.abs(scores - plain.scores(pairs, logits=True)).max() > 0.01  # the prompt and the length matter
    assert scores.min() < 0 or scores.max() > 1


def test_logits_are_the_scores_before_the_activation(cross_encoder: Path, pairs: list[tuple[str, str]]) -> None:
    reranker = CrossEncoder.load(cross_encoder, device="cpu")
    logits = reranker.scores(pairs, logits=True)
    np.testing.assert_allclose(reranker.scores(pairs), 1 / (1 + np.exp(-logits)), atol=1e-6)
    assert np.abs(logits).max() > 0.1


def test_batches_windows_and_progress_change_no_score(
    cross_encoder: Path, pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reranker = CrossEncoder.load(cross_encoder, device="cpu")
    expected = [float(reranker.scores([pair])[0]) for pair in pairs]
    monkeypatch.setattr(module, "_WINDOW", 7)
    done: list[tuple[int, ...]] = []
    scores = reranker.scores(pairs, progress=lambda *counts: done.append(counts))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert done[-1] == (len(pairs), len(pairs))
    assert reranker.scores([]).shape == (0,)


def test_bf16_is_close_and_other_precisions_are_refused(cross_encoder: Path, pairs: list[tuple[str, str]]) -> None:
    exact = CrossEncoder.load(cross_encoder, device="cpu").scores(pairs)
    rough = CrossEncoder.load(cross_encoder, device="cpu", precision="bf16").scores(pairs)
    assert 0 < np.abs(exact - rough).max() < 0.1
    with pytest.raises(UserError, match="unknown precision 'int8'"):
        CrossEncoder.load(cross_encoder, device="cpu", precision="int8")  # type: ignore[arg-type]


def test_scores_that_are_no_numbers_are_refused(cross_encoder: Path, pairs: list[tuple[str, str]]) -> None:
    reranker = CrossEncoder.load(cross_encoder, device="cpu")
    with torch.no_grad():
        next(reranker._network.parameters()).fill_(float("nan"))
    with pytest.raises(UserError, match="is NaN or infinite; the weights of the model are damaged"):
        reranker.scores(pairs)
