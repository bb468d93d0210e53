"""The next_sentence view: which sentences follow one another, and which one is drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.registry import build as build_part
from opencse.objective.views.next_sentence import NextSentence
from opencse.text import sample
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from toy_documents import DOCUMENTS, corpus_of, pairs_of


def test_the_next_sentence_exactly() -> None:
    made = pairs_of(build_part(NextSentence.Settings()), DOCUMENTS)
    assert made == [(0, 1), (1, 2), (2, 3), (3, 4), (6, 7), (8, 9), (9, 10)]


def test_one_of_the_next_three_is_drawn_uniformly_from_those_left() -> None:
    view, draws = build_part(NextSentence.Settings(window=3)), 3_000
    counts: dict[int, Counter[int]] = {}
    for seed in range(draws):
        made = pairs_of(view, DOCUMENTS, seed)
        assert [anchor for anchor, _ in made] == [0, 1, 2, 3, 6, 8, 9]
        for anchor, positive in made:
            counts.setdefault(anchor, Counter())[positive] += 1
    left = {0: [1, 2, 3], 1: [2, 3, 4], 2: [3, 4], 3: [4], 6: [7], 8: [9, 10], 9: [10]}
    assert {anchor: sorted(seen) for anchor, seen in counts.items()} == left  # so never across documents
    for anchor, choices in left.items():
        share = 1 / len(choices)
        allowed = 4.5 * (draws * share * (1 - share)) ** 0.5
        for choice in choices:
            assert abs(counts[anchor][choice] - draws * share) <= allowed
    assert sum(counts[anchor][anchor + 1] for anchor in counts) < 0.8 * draws * len(left)  # window 1 would give all


def test_sentences_draw_independently_of_each_other() -> None:
    gaps = {positive - anchor for anchor, positive in pairs_of(build_part(NextSentence.Settings(window=3)), [0] * 40)}
    assert gaps == {1, 2, 3}


def test_the_same_seed_draws_the_same() -> None:
    view = build_part(NextSentence.Settings(window=3))
    documents = [0] * 50
    assert pairs_of(view, documents, 7) == pairs_of(view, documents, 7)
    assert pairs_of(view, documents, 7) != pairs_of(view, documents, 8)


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("documents", [[0], [0, 1], [0, 1, 2, 3, 4]], ids=str)
def test_text_without_following_sentences_is_refused(documents: list[int], window: int) -> None:
    view = build_part(NextSentence.Settings.model_validate({"window": window}))
    with pytest.raises(UserError) as caught:
        view.examples(corpus_of(documents), np.random.default_rng(0))
    assert str(caught.value).startswith("toy.txt: no two sentences follow one another in a document; ")


@pytest.mark.parametrize("window", [1, 3])
def test_the_shortest_text_with_a_pair(window: int) -> None:
    view = build_part(NextSentence.Settings.model_validate({"window": window}))
    assert pairs_of(view, [0, 1, 1, 2]) == [(1, 2)]


def test_blank_lines_of_a_file_end_documents(tiny_folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "running.txt"
    text.write_text("\na dog runs\na cat sleeps\n\n\na man sings\n\nit rains\nit snows\nit is dry\n\n")
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    made = tokenise(Source(str(text)), encoder.tokenizer, 16)
    examples = build_part(NextSentence.Settings()).examples(made, np.random.default_rng(0))
    assert examples[:, :, 0].tolist() == [[0, 1], [3, 4], [4, 5]]


def test_shuffled_lines_are_a_doubt(tmp_path: Path, encoder: SentenceEncoder) -> None:
    view = NextSentence(NextSentence.Settings())
    lines = filled(sample.TRAIN)
    file = tmp_path / "lines.txt"
    for seed, doubted in ((None, False), (1, True)):
        order = range(len(lines)) if seed is None else np.random.default_rng(seed).permutation(len(lines))
        file.write_text("\n".join(lines[i] for i in order), encoding="utf-8")
        doubts = view.doubts(tokenise(Source(str(file)), encoder.tokenizer, 32))
        assert len(doubts) == doubted
        assert all(f"{file}: the lines seem to be shuffled" in doubt for doubt in doubts)
