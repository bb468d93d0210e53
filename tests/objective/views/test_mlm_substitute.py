"""Tokens replaced by the guesses of a frozen copy of the backbone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.modules.dense import Dense
from opencse.modules.masked_lm import MaskedLMHead
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.requests import LmHead, Sentences
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.mlm_substitute import MlmSubstitute
from opencse.settings import validate
from opencse.text.tokenizer import TokenisedText
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings


@pytest.fixture
def encoder(encoder: SentenceEncoder, tiny_folder: Path) -> SentenceEncoder:
    """The tiny model with guesses that are far from uniform."""
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, torch.nn.Embedding)
    words.weight.data *= 10
    encoder.lm_head = load_masked_lm_head(tiny_folder, words)
    with torch.no_grad():  # special tokens are the likeliest guess everywhere
        encoder.lm_head.lm.get_output_embeddings().bias[:5] = 50
    return encoder.train()


@pytest.fixture
def texts(encoder: SentenceEncoder, sentences: list[str]) -> list[TokenisedText]:
    made = encoder.tokenizer.encode_words([*sentences[:30], "the sea", "a small dog, by the sea"], 20)
    assert len({len(text.ids) for text in made}) > 2  # so padding is there
    return made


def begun(encoder: SentenceEncoder, **chosen: float | str) -> MlmSubstitute:
    view = MlmSubstitute(MlmSubstitute.Settings.model_validate(chosen))
    view.begin(encoder, batch_size=4, seed=0)
    return view


@torch.no_grad()
def guesses(encoder: SentenceEncoder, masked: list[int]) -> Tensor:
    """(length, vocabulary) probabilities of one text without padding, special tokens left out, by hand."""
    assert encoder.lm_head is not None
    with encoder.without_dropout():
        hidden = encoder.backbone(input_ids=torch.tensor([masked])).last_hidden_state[0]
        logits = encoder.lm_head(hidden).double()
    logits[:, [0, 1, 2, 3, 4]] = -torch.inf
    probabilities: Tensor = logits.softmax(dim=1)
    return probabilities


def test_every_token_at_once_becomes_its_best_guess(encoder: SentenceEncoder, texts: list[TokenisedText]) -> None:
    mask = int(encoder.tokenizer.hf.mask_token_id)
    made = begun(encoder, rate=1.0, pick="best").positives(texts, np.random.default_rng(0))
    differing = 0
    for text, ids in zip(texts, made, strict=True):
        inside = range(1, len(text.ids) - 1)
        masked = [mask if place in inside else i for place, i in enumerate(text.ids.tolist())]
        best = guesses(encoder, masked).argmax(dim=1)
        assert ids.tolist() == [int(best[p]) if p in inside else i for p, i in enumerate(text.ids.tolist())]
        differing += len(set(ids[1:-1].tolist())) > 1
    assert differing > 10  # a guess depends on its place and its text


def test_the_rate_is_the_share_of_tokens_replaced(encoder: SentenceEncoder, texts: list[TokenisedText]) -> None:
    """The others stay, and are read: a replaced one is the best guess with exactly the replaced ones masked."""
    view = begun(encoder, pick="best")
    mask = int(encoder.tokenizer.hf.mask_token_id)
    tokens, replaced, explained, rows = 0, 0, 0, 0
    places: Counter[int] = Counter()
    for seed in range(10):
        for text, ids in zip(texts, view.positives(texts, np.random.default_rng(seed)), strict=True):
            assert len(ids) == len(text.ids)
            changed = np.flatnonzero(ids != text.ids)
            tokens += len(ids) - 2
            replaced += len(changed)
            places.update(changed.tolist())
            if seed == 0 and len(changed):
                masked = text.ids.copy()
                masked[changed] = mask
                best = guesses(encoder, masked.tolist()).argmax(dim=1).numpy()
                rows += 1
                explained += bool((best[changed] == ids[changed]).all())
    assert abs(replaced - 0.15 * tokens) < 4 * (0.15 * 0.85 * tokens) ** 0.5
    assert set(places) == set(range(1, 19))
    assert rows > 20
    assert explained >= 0.9 * rows  # a token that was masked and guessed again cannot be told from one that was not


def test_a_sample_follows_the_softmax(encoder: SentenceEncoder) -> None:
    text = encoder.tokenizer.encode_words(["water"], None)[0]
    assert len(text.ids) == 3
    draws = 5_000
    made = begun(encoder, rate=1.0).positives([text] * draws, np.random.default_rng(0))
    counts = Counter(int(ids[1]) for ids in made)
    expected = guesses(encoder, [2, 4, 3])[1].numpy() * draws
    common = np.flatnonzero(expected > 20)
    assert len(common) > 5
    observed = [counts[int(i)] for i in common]
    rest = draws - sum(observed)
    assert chisquare([*observed, rest], [*expected[common], draws - expected[common].sum()]).pvalue > 1e-3
    assert not set(counts) & {0, 1, 2, 3, 4}


def test_samples_are_drawn_again_each_step(encoder: SentenceEncoder, texts: list[TokenisedText]) -> None:
    """With every token masked, the sampled guesses are all that differs from step to step."""
    view = begun(encoder, rate=1.0)
    one, same, other = (
        [ids.tolist() for ids in view.positives(texts, np.random.default_rng(step))] for step in (1, 1, 2)
    )
    assert one == same != other


def test_nothing_chosen_is_no_forward(encoder: SentenceEncoder, texts: list[TokenisedText]) -> None:
    view = begun(encoder, rate=1e-9)
    assert view.frozen is not None
    view.frozen.lm_head = None  # a forward would fail
    made = view.positives(texts, np.random.default_rng(0))
    assert [ids.tolist() for ids in made] == [text.ids.tolist() for text in texts]


def test_ids_beyond_the_vocabulary_are_never_put_in(encoder: SentenceEncoder, texts: list[TokenisedText]) -> None:
    """An embedding table is often rounded up."""
    size = encoder.tokenizer.vocabulary_size
    encoder.backbone.resize_token_embeddings(size + 11)
    assert encoder.lm_head is not None
    words = encoder.backbone.get_input_embeddings()
    decoder = encoder.lm_head.lm.get_output_embeddings()
    decoder.weight = words.weight
    decoder.bias = torch.nn.Parameter(torch.cat([decoder.bias.detach(), torch.full((11,), 90.0)]))
    for pick in ("sample", "best"):
        made = begun(encoder, rate=1.0, pick=pick).positives(texts, np.random.default_rng(0))
        assert max(int(ids.max()) for ids in made) < size


def test_the_copy_is_frozen_and_never_trained(encoder: SentenceEncoder, texts: list[TokenisedText]) -> None:
    settings = validate(ObjectiveSettings, {"view": {"kind": "mlm_substitute", "rate": 0.5}}, "test")
    encoder.projection = Dense.mlp_head(32, torch.Generator().manual_seed(0))
    encoder.dense.append(Dense.mlp_head(32, torch.Generator().manual_seed(1)))
    objective = Objective.from_settings(settings)
    assert objective.reads == {Sentences(), LmHead(instead="choose another view than mlm_substitute")}
    objective.begin(encoder, batch_size=4, seed=0)
    encoder.lm_head = None  # as a run does, where nothing else reads it
    view = objective.view
    assert isinstance(view, MlmSubstitute)
    assert view.frozen is not None
    objective.train()
    assert objective.training
    assert view.training
    assert not any(part.training for part in view.frozen.modules())
    objective.eval()
    assert not view.training

    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    assert {name.split(".")[2] for name in before if name.startswith("view.frozen.")} == {"backbone", "lm_head"}
    objective.train()
    optimizer = build_optimizer([*encoder.parameters(), *objective.parameters()], TrainingSettings(learning_rate=1e-2))
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in encoder.parameters()}
    first = [ids.tolist() for ids in view.positives(texts, np.random.default_rng(3))]
    rows = [text.ids for text in texts] + list(view.positives(texts, np.random.default_rng(0)))
    keys = torch.arange(len(texts)).unsqueeze(1).expand(-1, 2)
    reps = objective.represent(encoder, StepInputs(encoder.tokenizer.pad(rows), len(texts), keys))
    objective(reps).total.backward()
    moved = next(encoder.backbone.parameters()).detach().clone()
    optimizer.step()
    assert not torch.equal(moved, next(encoder.backbone.parameters()))
    after = objective.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [ids.tolist() for ids in view.positives(texts, np.random.default_rng(3))] == first

    # Another run, begun with the trained encoder, goes on with the copy of the first.
    encoder.lm_head = MaskedLMHead(*_fresh_head(encoder))
    resumed = Objective.from_settings(settings)
    resumed.begin(encoder, batch_size=4, seed=0)
    assert [ids.tolist() for ids in resumed.view.positives(texts, np.random.default_rng(3))] != first
    resumed.load_state_dict(before)
    assert [ids.tolist() for ids in resumed.view.positives(texts, np.random.default_rng(3))] == first


def _fresh_head(encoder: SentenceEncoder) -> tuple[torch.nn.Module, torch.nn.Embedding]:
    from transformers import AutoModelForMaskedLM

    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, torch.nn.Embedding)
    model = AutoModelForMaskedLM.from_config(encoder.backbone.config)  # type: ignore[no-untyped-call]
    return model, words


def test_what_it_cannot_work_without(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.tokenizer.hf.mask_token = None
    with pytest.raises(UserError, match="no mask token, which the mlm_substitute view needs"):
        begun(encoder)
