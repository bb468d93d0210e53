"""The rows of a step, made from its number alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from opencse.arrays import Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.inputs import InputBuilder
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.requests import Masked
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.base import ChangesTokens, DerivesPositives, cells
from opencse.objective.views.dropout import Dropout
from opencse.settings import validate
from opencse.text.corpus import Corpus, text_key, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer
from prompted import write_prompted

MLM = {"kind": "mlm", "rate": 0.3}
HARD = [{"kind": "in_batch"}, {"kind": "hard"}]
EXAMPLES = np.array([3, 0, 5, 2], dtype=np.int64)


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


def read(tokenizer: Tokenizer, folder: Path, rows: list[tuple[str, ...]]) -> Corpus:
    names = ("anchor", "positive", "negative")[: len(rows[0])] if len(rows[0]) > 1 else ("sentence",)
    path = folder / "rows.tsv"
    path.write_text("\n".join("\t".join(row) for row in [names, *rows]))
    return tokenise(Source(str(path)), tokenizer, 16)


@pytest.fixture
def lines(tokenizer: Tokenizer, tmp_path: Path, sentences: list[str]) -> Corpus:
    return read(tokenizer, tmp_path, [(s,) for s in sentences[:8]])


@pytest.fixture
def triples(tokenizer: Tokenizer, tmp_path: Path, sentences: list[str]) -> Corpus:
    return read(tokenizer, tmp_path, list(zip(*(sentences[8 * k : 8 * k + 8] for k in range(3)), strict=True)))


def builder(corpus: Corpus, tokenizer: Tokenizer, seed: int = 1, **objective: Any) -> InputBuilder:
    return InputBuilder(
        corpus, tokenizer, Objective.from_settings(validate(ObjectiveSettings, objective, "test")), seed
    )


def texts(inputs: StepInputs, tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of each row without padding; the mask must tell exactly these."""
    ids, mask = inputs.tokens.input_ids, inputs.tokens.attention_mask
    assert torch.equal(mask, (ids != tokenizer.pad_id).long())
    return [row[m.bool()].tolist() for row, m in zip(ids, mask, strict=True)]


def encoded(tokenizer: Tokenizer, chosen: Sequence[str]) -> list[list[int]]:
    return [ids.tolist() for ids in tokenizer.encode(list(chosen), 16)]


def copy_of(inputs: StepInputs) -> MaskedCopy:
    copy = inputs.prepared[Masked(0.3)]
    assert isinstance(copy, MaskedCopy)
    return copy


def equal(a: StepInputs, b: StepInputs) -> bool:
    one, other = copy_of(a), copy_of(b)
    return (
        torch.equal(a.tokens.input_ids, b.tokens.input_ids)
        and torch.equal(a.keys, b.keys)
        and torch.equal(one.masked.tokens.input_ids, other.masked.tokens.input_ids)
        and torch.equal(one.masked.positions, other.masked.positions)
        and torch.equal(one.labels, other.labels)
    )


def test_a_sentence_stands_in_both_views(lines: Corpus, tokenizer: Tokenizer, sentences: list[str]) -> None:
    inputs = builder(lines, tokenizer)
    assert (len(inputs), inputs.hard) == (8, 0)
    made = inputs.build(EXAMPLES, 0)
    chosen = [sentences[i] for i in EXAMPLES]
    assert made.examples == 4
    assert texts(made, tokenizer) == encoded(tokenizer, chosen + chosen)
    assert made.keys.tolist() == [[text_key(s)] * 2 for s in chosen]
    assert not made.prepared


def test_triples_with_and_without_their_hard_negatives(
    triples: Corpus, tokenizer: Tokenizer, sentences: list[str]
) -> None:
    columns = [[sentences[8 * k + i] for i in EXAMPLES] for k in range(3)]
    for negatives, width in ((HARD, 3), ([{"kind": "in_batch"}], 2)):
        inputs = builder(triples, tokenizer, view={"kind": "pair"}, negatives=negatives)
        assert inputs.hard == width - 2
        made = inputs.build(EXAMPLES, 0)
        assert texts(made, tokenizer) == encoded(tokenizer, [s for column in columns[:width] for s in column])
        expected = [[text_key(column[i]) for column in columns[:width]] for i in range(4)]
        assert made.keys.tolist() == expected


def test_a_term_alone_reads_the_anchors_alone(triples: Corpus, tokenizer: Tokenizer) -> None:
    inputs = builder(triples, tokenizer, view={"kind": "pair"}, negatives=[], terms=[MLM])
    assert inputs.hard == 0
    assert len(inputs.build(EXAMPLES, 0).tokens) == len(EXAMPLES) == 4


def test_the_same_step_gives_the_same_inputs_in_any_order(lines: Corpus, tokenizer: Tokenizer) -> None:
    def fresh(seed: int = 1) -> InputBuilder:
        return builder(lines, tokenizer, seed, terms=[MLM])

    forwards = fresh()
    made = {step: forwards.build(EXAMPLES, step) for step in (0, 1, 2)}
    backwards = fresh()
    np.random.seed(0)  # noqa: NPY002 - the global state must not matter
    torch.manual_seed(0)
    state = torch.get_rng_state()
    for step in (2, 0, 1, 1):
        assert equal(backwards.build(EXAMPLES, step), made[step])
    assert torch.equal(torch.get_rng_state(), state)
    assert not equal(made[0], made[1])
    assert not equal(fresh(2).build(EXAMPLES, 0), made[0])


def test_window_three_is_drawn_once_from_the_seed(lines: Corpus, tokenizer: Tokenizer) -> None:
    view = {"kind": "next_sentence", "window": 3}
    places = [builder(lines, tokenizer, seed, view=view).cells for seed in (1, 1, 2, 3, 4)]
    assert (places[0] == places[1]).all()
    assert any((places[0] != other).any() for other in places[2:])


class Shortened(ChangesTokens, Dropout):
    """A view that changes the positives: all but one random token inside are dropped."""

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        return [t.ids[[0, int(random.integers(1, len(t.ids) - 1)), -1]] for t in texts]


def test_a_view_changes_the_positives_only_and_by_step(lines: Corpus, tokenizer: Tokenizer) -> None:
    inputs = builder(lines, tokenizer)
    plain = inputs.build(EXAMPLES, 0)
    inputs.view = Shortened(Dropout.Settings())
    steps = [inputs.build(EXAMPLES, step) for step in (0, 0, 1)]
    rows = [texts(made, tokenizer) for made in steps]
    assert rows[0] == rows[1] != rows[2]
    for made, row in zip(steps, rows, strict=True):
        assert row[:4] == texts(plain, tokenizer)[:4]
        assert [len(ids) for ids in row[4:]] == [3] * 4
        assert torch.equal(made.keys, plain.keys)


def test_masking_leaves_the_contrastive_input_alone(triples: Corpus, tokenizer: Tokenizer) -> None:
    view = {"kind": "pair"}
    plain = builder(triples, tokenizer, view=view, negatives=HARD).build(EXAMPLES, 5)
    made = builder(triples, tokenizer, view=view, negatives=HARD, terms=[MLM]).build(EXAMPLES, 5)
    assert torch.equal(made.tokens.input_ids, plain.tokens.input_ids)
    assert torch.equal(made.tokens.attention_mask, plain.tokens.attention_mask)
    copy = copy_of(made)
    assert len(copy.masked.tokens) == 8  # anchors and positives, no hard negatives
    chosen = copy.masked.positions
    assert chosen.any()
    assert torch.equal(made.tokens.input_ids[:8][chosen], copy.labels)
    assert torch.equal(made.tokens.input_ids[:8][~chosen], copy.masked.tokens.input_ids[~chosen])
    assert not torch.equal(copy.masked.tokens.input_ids, made.tokens.input_ids[:8])


def test_both_views_of_a_sentence_are_masked_separately(lines: Corpus, tokenizer: Tokenizer) -> None:
    made = builder(lines, tokenizer, terms=[MLM]).build(EXAMPLES, 0)
    positions = copy_of(made).masked.positions
    assert not torch.equal(positions[:4], positions[4:])


@pytest.mark.parametrize(("width", "view"), [(1, "dropout"), (1, "next_sentence"), (2, "pair")])
def test_data_without_hard_negatives_gives_that_source_no_columns(
    width: int, view: str, tokenizer: Tokenizer, tmp_path: Path, sentences: list[str]
) -> None:
    """A pair file trains under a recipe for triples; only an objective left without any negative is refused."""
    corpus = read(tokenizer, tmp_path, [tuple(sentences[width * i : width * i + width]) for i in range(4)])
    both = builder(corpus, tokenizer, view={"kind": view}, negatives=[{"kind": "in_batch"}, {"kind": "hard"}])
    assert both.hard == 0
    assert both.build(np.arange(3), 0).keys.shape == (3, 2)
    with pytest.raises(UserError, match="its rows hold none; name a third column") as caught:
        builder(corpus, tokenizer, view={"kind": view}, negatives=[{"kind": "hard"}])
    assert "\n" not in str(caught.value)


def test_a_tokenizer_without_mask_is_refused_at_the_start(lines: Corpus, tiny_folder: Path) -> None:
    tokenizer = Tokenizer.load(tiny_folder)
    tokenizer.hf.mask_token = None
    assert not builder(lines, tokenizer).build(EXAMPLES, 0).prepared
    with pytest.raises(UserError, match="no mask token, which the mlm term needs"):
        builder(lines, tokenizer, terms=[MLM]).build(EXAMPLES, 0)
    objective = Objective.from_settings(validate(ObjectiveSettings, {"terms": [MLM]}, "test"))
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    objective.check(Context(objective, encoder=encoder))
    encoder.tokenizer.hf.mask_token = None
    with pytest.raises(UserError, match="no mask token, which the mlm term needs"):
        objective.check(Context(objective, encoder=encoder))


def test_indices_may_repeat(lines: Corpus, tokenizer: Tokenizer) -> None:
    twice: NDArray[np.int64] = np.array([6, 6], dtype=np.int64)
    rows = texts(builder(lines, tokenizer).build(twice, 0), tokenizer)
    assert rows[0] == rows[1] == rows[2] == rows[3]


def test_the_seed_of_the_noise_is_of_seed_and_step_alone(
    lines: Corpus, triples: Corpus, tokenizer: Tokenizer, sentences: list[str]
) -> None:
    made = builder(lines, tokenizer, 1)
    seeds = [made.build(EXAMPLES, step).noise_seed for step in range(50)]
    assert len(set(seeds)) == 50
    assert all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**60
    other = builder(lines, tokenizer, 2)
    assert not set(seeds) & {other.build(EXAMPLES, step).noise_seed for step in range(50)}
    again = builder(triples, tokenizer, 1, view={"kind": "pair"}, negatives=HARD, terms=[MLM])
    for step in (7, 0):  # other data, other examples, another order of the steps, another objective
        inputs = again.build(EXAMPLES[:2], step)
        assert inputs.noise_seed == seeds[step]
        assert inputs.to(torch.device("meta")).noise_seed == seeds[step]


class Derived(DerivesPositives, ChangesTokens, Dropout):
    """A view whose positives are made of the anchors' vectors; `positives` is not asked."""

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        raise AssertionError("no vector is made here")

    def examples(self, corpus: Corpus, random: np.random.Generator) -> Integers:
        return cells(np.arange(len(corpus)), list(range(corpus.width)) if corpus.width > 1 else [0, 0])

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        raise AssertionError("no positive is read")


def test_a_view_that_derives_its_positives_reads_the_anchors_alone(
    lines: Corpus, triples: Corpus, tokenizer: Tokenizer, sentences: list[str]
) -> None:
    anchors, hard = ([sentences[8 * k + i] for i in EXAMPLES] for k in (0, 2))
    for corpus, negatives, read in ((lines, [InBatch()], anchors), (triples, [InBatch(), Hard()], anchors + hard)):
        objective = Objective(Derived(), negatives=negatives, terms=[MaskedLM(MaskedLM.Settings(rate=0.3))])
        inputs = InputBuilder(corpus, tokenizer, objective, 1)
        made = inputs.build(EXAMPLES, 0)
        assert made.examples == 4
        assert texts(made, tokenizer) == encoded(tokenizer, read)
        assert made.keys.shape == (4, len(read) // 4 + 1), "the positive has a key all the same"
        assert made.keys[:, 0].tolist() == [text_key(s) for s in anchors]
        assert len(copy_of(made).masked.tokens) == 4
        assert torch.equal(made.anchors.input_ids, made.tokens.input_ids[:4])
        rows = encoded(tokenizer, read)
        assert inputs.lengths[EXAMPLES].tolist() == [sum(map(len, rows[i::4])) for i in range(4)]


def test_prompts_that_pooling_leaves_out_are_left_out_in_training_too(tmp_path: Path, tokenizer: Tokenizer) -> None:
    encoder = SentenceEncoder.load(write_prompted(tmp_path / "m", "e5", include_prompt=False), device="cpu")
    rows = [("a dog runs", "the dog is running"), ("it rains", "there is rain"), ("tea", "a cup of tea")]
    path = tmp_path / "rows.tsv"
    path.write_text("\n".join("\t".join(row) for row in [("anchor", "positive"), *rows]))
    prompts = encoder.prompts.columns
    corpus = tokenise(Source(str(path)), encoder.tokenizer, 32, prompts=prompts)
    unpooled = tuple(encoder.unpooled(prompt) for prompt in prompts.of(2))
    assert unpooled == (7, 6), "[CLS] and the pieces of each prompt"
    made = builder(replace(corpus, unpooled=unpooled), encoder.tokenizer, view={"kind": "pair"})
    inputs = made.build(np.array([2, 0, 1]), 0)
    with torch.no_grad():
        vectors = nn.functional.normalize(encoder(inputs.tokens).sentence, dim=-1).numpy()
        anchors = nn.functional.normalize(encoder(inputs.anchors).sentence, dim=-1).numpy()
    first, second = ([rows[i][side] for i in (2, 0, 1)] for side in (0, 1))
    expected = np.concatenate([encoder.encode_query(first), encoder.encode_document(second)])
    assert np.abs(vectors - expected).max() < 1e-5
    assert np.abs(anchors - expected[:3]).max() < 1e-5
