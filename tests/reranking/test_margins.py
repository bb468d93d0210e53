"""Margins against differences of sentence-transformers' scores, and the selection against a plain loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import opencse as library
from helpers import Run, accepted, rows_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.progress import Count
from opencse.reranking.cross_encoder import CrossEncoder
from opencse.reranking.second_stage import MarginTeacher
from opencse.search.index import Index
from opencse.search.negatives import Mining
from search_texts import LINES

TEXTS = LINES[:80]
PAIRS = [(TEXTS[number].replace(" the ", " a ").rstrip("."), TEXTS[number]) for number in range(0, 40, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("negatives") / "index"
    Index.build(folder, TEXTS, SentenceEncoder.load(device="cpu"), model="opencse-mini").close()
    return folder


class Numbers:
    """Scores a pair by the number that its second text is."""

    name = "numbers"

    def __init__(self) -> None:
        self.count = 0

    def scores(
        self, pairs: Sequence[tuple[str, str]], *, logits: bool = False, progress: Count | None = None
    ) -> NDArray[np.float32]:
        assert logits
        self.count += len(pairs)
        return np.array([float(text) for _, text in pairs], dtype=np.float32)


def test_margins_are_differences_of_scores_before_the_activation(cross_encoder: Path) -> None:
    from sentence_transformers import CrossEncoder as Reference

    triples = [(TEXTS[n], TEXTS[n + 1], TEXTS[n + 2]) for n in range(20)]
    reference = Reference(str(cross_encoder), device="cpu", activation_fn=torch.nn.Identity())
    first, second = (reference.predict([(one[0], one[side]) for one in triples]) for side in (1, 2))
    margins = MarginTeacher(CrossEncoder.load(cross_encoder, device="cpu")).margins(triples)
    np.testing.assert_allclose(margins, first - second, atol=1e-5)
    assert margins.std() > 0.1


@pytest.mark.parametrize("least", [None, -3.0, 0.0, 2.0, 100.0])
def test_the_selection_matches_a_plain_loop(least: float | None) -> None:
    generator = np.random.default_rng(0)
    rows = [(f"q{n}", "5", [str(v) for v in generator.permutation(12)[: generator.integers(0, 12)]]) for n in range(30)]
    selected, left_out = MarginTeacher(Numbers(), least).select(rows, 3)
    refused = 0
    for (_, positive, candidates), some in zip(rows, selected, strict=True):
        expected: list[tuple[str, float]] = []
        for text in candidates:
            margin = float(positive) - float(text)
            if len(expected) == 3:
                break
            if least is None or margin >= least:
                expected.append((text, margin))
            else:
                refused += 1
        assert some == expected
    assert left_out == refused
    assert (left_out > 0) == (least is not None)


def test_only_what_is_needed_is_scored() -> None:
    scorer = Numbers()
    MarginTeacher(scorer).select([("q", "5", [str(n) for n in range(100)])], 2)
    assert scorer.count == 3


@pytest.mark.slow
@pytest.mark.parametrize("pick", ["hardest", "random"])
def test_mined_rows_have_margins_and_train_a_student(
    folder: Path, cross_encoder: Path, tmp_path: Path, pick: str
) -> None:
    out, how = tmp_path / "margins.jsonl", Mining(count=2, pick=pick, seed=3)
    mined = library.index_negatives(folder, PAIRS, out, how=how, teacher=cross_encoder, least_margin=0.0, device="cpu")
    rows = rows_in(out)
    expected = MarginTeacher(CrossEncoder.load(cross_encoder, device="cpu")).margins(
        [(row["anchor"], row["positive"], row["negative"]) for row in rows]
    )
    np.testing.assert_allclose([row["margin"] for row in rows], expected, atol=1e-5)
    assert mined.triples == len(rows) > 10
    assert min(row["margin"] for row in rows) >= 0
    assert mined.refused["margin"] > 5
    if pick == "hardest":
        every = tmp_path / "every.jsonl"
        library.index_negatives(folder, PAIRS, every, how=how, teacher=cross_encoder, device="cpu")
        plain = tmp_path / "plain.jsonl"
        library.index_negatives(folder, PAIRS, plain, how=how, device="cpu")
        without = rows_in(plain)
        assert [{**row, "margin": None} for row in without] == [
            {**json.loads(line), "margin": None} for line in every.read_text().splitlines()
        ]
        assert any(json.loads(line)["margin"] < 0 for line in every.read_text().splitlines())
        student = tmp_path / "student"
        library.train(
            str(out),
            student,
            recipe="margin-mse:opencse-mini",
            model="opencse-mini",
            device="cpu",
            settings=["training.epochs=1", "training.batch_size=8"],
        )
        assert (student / "run.json").is_file()


def test_a_command_writes_margins(folder: Path, cross_encoder: Path, tmp_path: Path, opencse: Run) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out.jsonl"
    pairs.write_text("anchor\tpositive\n" + "".join(f"{query}\t{answer}\n" for query, answer in PAIRS))
    command = ["index", "negatives", str(folder), str(pairs), "--out", str(out), "--device", "cpu"]
    printed, _ = accepted(opencse(*command, "--teacher", str(cross_encoder), "--least-margin", "0"))
    assert "margin " in printed
    assert set(json.loads(out.read_text().splitlines()[0])) == {"anchor", "positive", "negative", "margin"}
    out.unlink()
    code, _, error = opencse(*command, "--least-margin", "0")
    assert (code, error.count("\n")) == (2, 1)
    assert "--least-margin needs --teacher" in error
    assert not out.exists()
