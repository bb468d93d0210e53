"""Which texts make an example, and how two views of one sentence differ."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import build as build_part
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.base import ChangesTokens, View
from opencse.objective.views.dropout import Dropout
from opencse.objective.views.next_sentence import NextSentence
from opencse.objective.views.pair import Pair
from opencse.text.corpus import Corpus, CorpusFacts, tokenise
from opencse.text.readers import Source

# Rows of four documents: 0-4, 5, 6-7 and 8-10.
DOCUMENTS = [0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3]


def corpus(documents: list[int], width: int = 1) -> Corpus:
    texts = len(documents) * width
    facts = CorpusFacts("toy.txt", "", len(documents), width, texts, 0, 0, len(set(documents)), 8)
    keys = np.arange(texts, dtype=np.int64).reshape(-1, width)
    return Corpus(np.arange(texts), np.arange(texts + 1), keys, np.asarray(documents, dtype=np.int32), facts)


def pairs_of(view: View, documents: list[int], seed: int = 0) -> list[tuple[int, int]]:
    """(row of the anchor, row of the positive) of every example."""
    made = view.examples(corpus(documents), np.random.default_rng(seed))
    assert made.shape[1:] == (2, 2)
    assert (made[:, :, 1] == 0).all()
    return [(int(anchor), int(positive)) for anchor, positive in made[:, :, 0]]


def test_every_settings_class_has_its_view() -> None:
    for part in (Dropout, NextSentence, Pair):
        assert type(build_part(part.Settings())) is part


def test_dropout_alone_needs_a_backbone_with_dropout(tiny_folder: Path) -> None:
    """The other views differ by their texts; whoever set the rate to 0 gets equal views, as asked."""
    still, lively = (SentenceEncoder.load(tiny_folder, dropout=rate, device="cpu") for rate in (0.0, 0.1))
    for view in (NextSentence(), Pair()):
        objective = Objective(view, negatives=[InBatch()])
        objective.check(Context(objective, encoder=still, model="tiny"))
    objective = Objective(Dropout(), negatives=[InBatch()])
    objective.check(Context(objective, encoder=lively, model="tiny"))
    objective.check(Context(objective, encoder=still, model="tiny", own_dropout=False))
    with pytest.raises(UserError, match=r"^tiny: this backbone has no dropout, so both views .*encoder\.dropout=0\.1"):
        objective.check(Context(objective, encoder=still, model="tiny"))
    alone = Objective(Dropout(), terms=[MaskedLM()])
    alone.check(Context(alone, encoder=still, model="tiny"))


def test_dropout_takes_every_sentence_twice() -> None:
    view = build_part(Dropout.Settings())
    assert pairs_of(view, DOCUMENTS) == [(row, row) for row in range(11)]
    assert not isinstance(view, ChangesTokens), "the positive's tokens are the anchor's"


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("view", [Dropout.Settings(), NextSentence.Settings()], ids=["dropout", "next_sentence"])
def test_views_of_sentences_refuse_pairs(view: Dropout.Settings | NextSentence.Settings, width: int) -> None:
    with pytest.raises(UserError) as caught:
        build_part(view).examples(corpus(DOCUMENTS, width), np.random.default_rng(0))
    message = str(caught.value)
    assert message.startswith(f"toy.txt: the {view.kind} view reads one text per row, not {width}; ")
    assert "\n" not in message


@pytest.mark.parametrize("width", [2, 3])
def test_a_pair_is_a_row_with_its_columns(width: int) -> None:
    made = build_part(Pair.Settings()).examples(corpus([0] * 3, width), np.random.default_rng(0))
    assert made.tolist() == [[[row, column] for column in range(width)] for row in range(3)]


def test_the_pair_view_refuses_sentences() -> None:
    with pytest.raises(UserError, match=r"^toy\.txt: the pair view needs two or three texts per row, .*--columns"):
        build_part(Pair.Settings()).examples(corpus(DOCUMENTS), np.random.default_rng(0))


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
        view.examples(corpus(documents), np.random.default_rng(0))
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


def two_views(folder: Path, texts: list[str], dropout: float) -> Representations:
    encoder = SentenceEncoder.load(folder, pooling="cls", dropout=dropout, device="cpu").train()
    tokens = encoder.tokenizer.pad(encoder.tokenize(texts + texts))
    keys = torch.arange(len(texts)).unsqueeze(1).expand(-1, 2)
    torch.manual_seed(0)
    with torch.no_grad():
        return represent(encoder, StepInputs(tokens, len(texts), keys), {Sentences()})


def test_dropout_masks_are_independent_between_views_and_rows(tiny_folder: Path) -> None:
    reps = two_views(tiny_folder, ["a man is playing a guitar"] * 8, 0.1)
    every = torch.cat([reps.anchor, reps.positive])
    distances = torch.pdist(every)  # one sentence sixteen times: all that differs is the mask
    assert distances.min() > 1e-2
    # No pair shares its mask with another: were a mask shared by a row's views or by rows, distances would repeat.
    assert len(set(distances.tolist())) == 16 * 15 // 2
    assert not torch.isclose(reps.anchor, reps.positive, atol=1e-6).all(dim=1).any()


def test_without_dropout_the_views_are_equal(tiny_folder: Path, sentences: list[str]) -> None:
    reps = two_views(tiny_folder, sentences[:8], 0.0)
    torch.testing.assert_close(reps.anchor, reps.positive, rtol=0, atol=1e-6)  # other rows of one product
    assert torch.pdist(reps.anchor).min() > 1e-3  # the sentences are not
    assert not torch.equal(*(two_views(tiny_folder, sentences[:8], 0.1).__dict__[k] for k in ("anchor", "positive")))


def test_a_view_that_only_has_the_method_of_another_base_is_refused() -> None:
    with pytest.raises(TypeError, match="Halved has a method derive; derive it from DerivesPositives too"):

        class Halved(Dropout):
            def derive(self, anchors: torch.Tensor, noise: torch.Generator) -> torch.Tensor:
                return anchors / 2
