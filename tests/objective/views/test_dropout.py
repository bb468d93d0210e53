"""Both views under the same dropout masks (SimCSE, Table 3, "fixed 0.1")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.outputs import MaskedTokens
from opencse.model_folder.backbone import dropout_rates
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.losses import masked_lm
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Layer, Masked, Means, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text import sample
from opencse.text.readers import Source

N = 6
COPY = Masked(0.15)


@pytest.fixture
def encoder(tiny_folder: Path) -> SentenceEncoder:
    encoder = SentenceEncoder.load(tiny_folder, pooling="cls", dropout=0.2, device="cpu").train()
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    return encoder.train()


def step(encoder: SentenceEncoder, texts: list[str], *, masked: bool = False) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(texts + texts))
    keys = torch.arange(len(texts)).unsqueeze(1).expand(-1, 2)
    if not masked:
        return StepInputs(tokens, len(texts), keys)
    places = torch.zeros_like(tokens.input_ids, dtype=torch.bool)
    places[:, 1] = True
    copy = MaskedCopy(MaskedTokens(tokens, places), tokens.input_ids[places])
    return StepInputs(tokens, len(texts), keys, {COPY: copy})


def asked(inputs: StepInputs) -> set[Request[Any]]:
    return {Sentences(), *inputs.prepared}


def test_the_setting_asks_for_it() -> None:
    for shared in (False, True):
        data = {"view": {"kind": "dropout", "shared_mask": shared}}
        objective = Objective.from_settings(validate(ObjectiveSettings, data, "test"))
        assert objective.view.two_passes == ("shared_mask" if shared else "")
        assert objective.one_forward != shared
        assert objective.reads == {Sentences()}
    assert not Objective.from_settings(ObjectiveSettings()).view.two_passes


@pytest.mark.parametrize("masked", [False, True])
def test_views_are_equal_and_rows_and_steps_are_not(encoder: SentenceEncoder, masked: bool) -> None:
    inputs = step(encoder, ["a man is playing a guitar"] * N, masked=masked)
    torch.manual_seed(0)
    first, second = (represent(encoder, inputs, asked(inputs), shared_mask=True) for _ in range(2))
    for reps in (first, second):
        assert torch.equal(reps.anchor, reps.positive)
        assert torch.pdist(reps.anchor).min() > 1e-2  # one text: each row has masks of its own
    assert (first.anchor - second.anchor).abs().amax(dim=1).min() > 1e-2
    torch.manual_seed(0)
    plain = represent(encoder, inputs, asked(inputs))
    assert not torch.isclose(plain.anchor, plain.positive, atol=1e-3).all(dim=1).any()


@pytest.mark.parametrize("masked", [False, True])
def test_what_follows_is_as_after_one_forward(encoder: SentenceEncoder, sentences: list[str], masked: bool) -> None:
    inputs = step(encoder, sentences[:N], masked=masked)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    reps = represent(encoder, inputs, asked(inputs), shared_mask=True)
    after = torch.get_rng_state()
    torch.manual_seed(3)
    copy = inputs.prepared.get(COPY)
    alone = encoder(inputs.anchors, masked=None if copy is None else copy.masked)
    assert torch.equal(torch.get_rng_state(), after)
    assert not torch.equal(before, after)
    assert torch.equal(alone.sentence, reps.anchor)
    assert (COPY in reps.answers) == masked
    if masked:
        assert copy is not None
        assert torch.equal(reps[COPY], masked_lm(alone.masked_logits, copy.labels))
        assert len(reps[COPY]) == len(copy.labels) == 2 * N


def test_layers_keep_their_order(encoder: SentenceEncoder, sentences: list[str]) -> None:
    inputs = step(encoder, sentences[:N])
    reps = represent(encoder, inputs, {Sentences(), Layer(1), Layer(3)}, shared_mask=True)
    first, last = reps[Layer(1)], reps[Layer(3)]
    assert torch.equal(last, torch.cat([reps.anchor, reps.positive]))
    assert torch.equal(first[:N], first[N:])
    assert not torch.equal(first, last)
    assert reps.hard.shape == (N, 0, 32)


def test_means_over_draws_do_not_go_with_it(encoder: SentenceEncoder, sentences: list[str]) -> None:
    with pytest.raises(ValueError, match="independent masks"):
        represent(encoder, step(encoder, sentences[:N]), {Sentences(), Means(2)}, shared_mask=True)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_a_run_reports_equal_views(tiny_folder: Path, tmp_path: Path, shared: bool) -> None:
    settings = (
        "training.max_steps=3",
        "training.batch_size=8",
        "training.log_every=1",
        "training.precision=float32",
        f"objective.view.shared_mask={str(shared).lower()}",
    )
    job = TrainJob(text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=settings, dev=None)
    job.run(tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert (line["positive_similarity"] == pytest.approx(1.0, abs=1e-6)) == shared
        assert line["gradient_norm"] > 0


@pytest.mark.parametrize("packed", [False, True])
def test_each_view_has_its_own_rate(packed: bool, tiny_folder: Path, sentences: list[str]) -> None:
    encoder = SentenceEncoder.load(tiny_folder, dropout=0.1, device="cpu")
    encoder.computation = "packed" if packed else "transformers"
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:6] * 2))
    inputs = StepInputs(tokens, 6, torch.arange(6).unsqueeze(1).repeat(1, 2), noise_seed=0)

    def vectors(*rates: float) -> Representations:
        encoder.train()
        objective = Objective(Dropout(Dropout.Settings(rates=rates)), negatives=[InBatch()])
        torch.manual_seed(0)
        return objective.represent(encoder, inputs)

    with torch.no_grad(), encoder.without_dropout():
        plain = encoder(tokens.rows(0, 6)).vectors
    one, other, high = vectors(0.0, 0.5), vectors(0.5, 0.0), vectors(0.0, 0.05)
    torch.testing.assert_close(one.anchor, plain)
    torch.testing.assert_close(other.positive, plain)
    far, near = ((some.positive - plain).norm(dim=1).mean() for some in (one, high))
    assert far > 2 * near > 0
    assert set(dropout_rates(encoder.backbone.config).values()) == {0.1}, "the encoder's rates are back"
    assert {module.p for module in encoder.backbone.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}


def test_rates_of_each_view_do_not_go_with_shared_masks() -> None:
    with pytest.raises(ValueError, match="shared_mask needs one rate"):
        Dropout.Settings(shared_mask=True, rates=(0.1, 0.2))
