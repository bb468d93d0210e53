"""The rows of a step, made from its number alone, their labels and masked copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers import objective_of
from opencse.arrays import Flags
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import MaskedTokens
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.terms.graded import Cosent, Softmax
from opencse.objective.vectors.masking import MaskedCopy, mask_tokens
from opencse.objective.vectors.requests import Masked, Scores
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.plain import Pair
from opencse.text.corpus import Corpus, text_key, tokenise
from opencse.text.given import open_texts, with_labels
from opencse.text.labels import LabelKind
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer, Tokens
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
    return InputBuilder(corpus, tokenizer, objective_of(**objective), seed)


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


ROWS = [(f"Text {n}.", f"Answer {n}.", n / 8) for n in range(9)]


def labelled(folder: Path, kind: LabelKind | None, objective: Objective, left_out: Flags | None = None) -> InputBuilder:
    tokenizer = Tokenizer.load(folder)
    text = open_texts([row[:2] for row in ROWS]) if kind is None else with_labels(open_texts(ROWS, labels=True), kind)
    return InputBuilder(tokenise(text, tokenizer, 16), tokenizer, objective, 1, left_out)


def test_each_row_has_its_own_label(tiny_folder: Path) -> None:
    objective = Objective(Pair(), terms=[Cosent()])
    inputs = labelled(tiny_folder, "score", objective).build(np.array([5, 0, 8]), 3)
    assert inputs.labels is not None
    assert inputs.labels.tolist() == [5 / 8, 0.0, 1.0]
    assert inputs.to(torch.device("cpu")).labels is not None
    answer = Scores().ask(SimpleNamespace(inputs=inputs))(None)  # type: ignore[arg-type]
    assert answer.dtype == torch.float32
    left_out = np.zeros(len(ROWS), dtype=bool)
    left_out[:4] = True
    shifted = labelled(tiny_folder, "score", objective, left_out).build(np.array([0, 1]), 0)
    assert shifted.labels is not None
    assert shifted.labels.tolist() == [4 / 8, 5 / 8]


def test_what_does_not_go_together(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="a row has one label; use two data sets"):
        Objective(Pair(), terms=[Cosent(), Softmax()])
    with pytest.raises(UserError, match="its rows hold no score"):
        labelled(tiny_folder, None, Objective(Pair(), terms=[Cosent()]))
    with pytest.raises(UserError, match="its rows hold no class"):
        labelled(tiny_folder, "score", Objective(Pair(), terms=[Softmax()]))
    objective = Objective(Pair(), terms=[Cosent()])
    objective.check_data("x.tsv", 0, "score")


def padded(tokenizer: Tokenizer, texts: list[str]) -> Tokens:
    return tokenizer.pad(tokenizer.encode(texts, 24))


def draw(tokens: Tokens, tokenizer: Tokenizer, rate: float, seed: int) -> tuple[MaskedTokens, Tensor]:
    copy = mask_tokens(tokens, tokenizer, rate, np.random.default_rng(seed))
    return copy.masked, copy.labels


def test_special_and_padding_tokens_are_never_masked(tokenizer: Tokenizer, sentences: list[str]) -> None:
    tokens = padded(tokenizer, [*sentences[:10], "a", "a man"])
    tokens.input_ids[0, 2], tokens.input_ids[1, 3] = tokenizer.hf.unk_token_id, tokenizer.hf.mask_token_id
    before = tokens.input_ids.clone()
    special = torch.isin(before, torch.tensor(tokenizer.hf.all_special_ids))
    for seed in range(50):
        masked, labels = draw(tokens, tokenizer, 0.9, seed)
        assert not (masked.positions & special).any()
        assert torch.equal(labels, before[masked.positions])
        assert torch.equal(masked.tokens.input_ids[~masked.positions], before[~masked.positions])
    assert torch.equal(tokens.input_ids, before)  # a copy was masked


def test_rate_and_fates_over_many_draws(tokenizer: Tokenizer, sentences: list[str]) -> None:
    tokens, rate = padded(tokenizer, sentences[:100]), 0.15
    usable = ~torch.isin(tokens.input_ids, torch.tensor(tokenizer.hf.all_special_ids))
    fates, frequency, random_ids = torch.zeros(3), torch.zeros(tokens.input_ids.shape), []
    for seed in range(120):
        masked, labels = draw(tokens, tokenizer, rate, seed)
        new = masked.tokens.input_ids[masked.positions]
        to_mask, kept = new == tokenizer.hf.mask_token_id, new == labels
        fates += torch.stack([to_mask.sum(), (~to_mask & ~kept).sum(), kept.sum()])
        random_ids.append(new[~to_mask & ~kept])
        frequency += masked.positions
    shares = frequency[usable] / 120
    assert float(shares.mean()) == pytest.approx(rate, abs=0.005)
    assert (shares - rate).abs().max() < 6 * math.sqrt(rate * (1 - rate) / 120), "every place is as likely as any other"
    assert (fates / fates.sum()).tolist() == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    every = torch.cat(random_ids)
    counts = torch.bincount(every, minlength=tokenizer.vocabulary_size)
    assert not counts[tokenizer.hf.all_special_ids].any()
    assert counts.max() < 6 * len(every) / tokenizer.vocabulary_size + 10, "no id is favoured"
