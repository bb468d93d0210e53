"""Hidden tokens predicted by layers that read the sentence vector: loss and gradients against loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from masked_cases import encoder_with_head, rows_of
from naive_attention import attention
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import plain_states
from opencse.modules.dense import Dense, Projection
from opencse.objective.context import Context
from opencse.objective.objective import Objective
from opencse.objective.terms.conditional_mlm import ConditionalMLM
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import MaskedViews, Pooled, Sentences
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.text.tokenizer import Tokens

N = 3


@pytest.fixture
def encoder(sharp_folder: Path) -> SentenceEncoder:
    return encoder_with_head(sharp_folder)


@pytest.fixture
def tokens(encoder: SentenceEncoder, sentences: list[str]) -> Tokens:
    return rows_of(encoder, sentences, N, 2)


def begun(encoder: SentenceEncoder, **chosen: Any) -> ConditionalMLM:
    term = ConditionalMLM(ConditionalMLM.Settings.model_validate(chosen))
    term.name = "terms.conditional_mlm"
    term.begin(encoder, batch_size=N, seed=0)
    return term


def step(
    term: ConditionalMLM, encoder: SentenceEncoder, tokens: Tokens, vectors: Tensor, chunks: Chunks = WHOLE
) -> Representations:
    (request,) = (one for one in term.reads if isinstance(one, MaskedViews))
    copy = request.prepare(tokens, encoder.tokenizer, np.random.default_rng(1))
    keys = torch.zeros(N, 2, dtype=torch.int64)
    inputs = StepInputs(tokens, N, keys, {request: copy}, noise_seed=3, chunks=chunks)
    head = torch.zeros(N, 5)  # what the head makes of them does not count
    reps = Representations(head, head, head.unsqueeze(1)[:, :0], keys, {request: copy, Pooled(): vectors})
    return replace(reps, computed={term.name: term.compute(inputs, reps)})


def some_vectors() -> Tensor:
    return torch.randn(2 * N, 32, generator=torch.Generator().manual_seed(1)).double().requires_grad_()


def naive_loss(term: ConditionalMLM, encoder: SentenceEncoder, reps: Representations, vectors: Tensor) -> Tensor:
    (request,) = (one for one in term.reads if isinstance(one, MaskedViews))
    copy, reader = reps[request], term.reader
    assert reader is not None
    labels, losses = copy.labels.tolist(), []
    with torch.no_grad():
        lower = plain_states(encoder.backbone, copy.masked.tokens, need_all=True)[encoder.depth // 2]
    for row, vector in enumerate(vectors):
        real = int(copy.masked.tokens.attention_mask[row].sum())
        x = torch.stack([vector, *lower[row, 1:real]])
        for layer in reader.layers.layers:
            weights = dict(layer.named_parameters())

            def norm(name: str, x: Tensor, weights: dict[str, Tensor] = weights) -> Tensor:
                centred = x - x.mean(dim=1, keepdim=True)
                scaled = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-12).sqrt()
                return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

            own = {k.removeprefix("self_attn."): w for k, w in weights.items() if k.startswith("self_attn.")}
            x = norm("norm1", x + attention(x, x, own, 2, [list(range(real))] * real))
            inner = x @ weights["linear1.weight"].T + weights["linear1.bias"]
            inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
            x = norm("norm2", x + inner @ weights["linear2.weight"].T + weights["linear2.bias"])
        logits = reader.head(x)
        for t in range(real):
            if copy.masked.positions[row, t]:
                losses.append(torch.logsumexp(logits[t], dim=0) - logits[t, labels.pop(0)])
    return sum(losses, torch.zeros(())) / len(losses)


@pytest.mark.parametrize("chunks", [WHOLE, Chunks(4)], ids=str)
def test_loss_and_gradients_are_those_of_loops(chunks: Chunks, encoder: SentenceEncoder, tokens: Tokens) -> None:
    encoder.double()
    term = begun(encoder).double().eval()
    vectors = some_vectors()
    reps = step(term, encoder, tokens, vectors, chunks)
    results: list[dict[str, Tensor]] = []
    for loss in (term.loss(reps), naive_loss(term, encoder, reps, vectors)):
        term.zero_grad()
        vectors.grad = None
        torch.autograd.backward([loss])
        assert vectors.grad is not None
        grads = {name: p.grad.clone() for name, p in term.named_parameters() if p.grad is not None}
        results.append({"loss": loss.detach(), "vectors": vectors.grad.clone(), **grads})
    assert results[0].keys() == results[1].keys()
    assert len(results[0]) > 25
    assert not any("lower" in name for name in results[0])
    for name, one in results[0].items():
        torch.testing.assert_close(one, results[1][name], atol=1e-10, rtol=1e-10, msg=name)
    hidden = reps.computed[term.name][:, 1] > 0
    assert hidden.sum() > 3
    assert vectors.grad is not None
    assert (vectors.grad.abs().amax(dim=1)[hidden] > 1e-8).all(), "every text's own vector"


def test_every_setting_changes_the_loss(encoder: SentenceEncoder, tokens: Tokens) -> None:
    cases: list[dict[str, Any]] = [{}, {"depth": 2}, {"layers": 1}, {"rate": 0.2}, {"masking": "all"}]
    losses = []
    for chosen in cases:
        term = begun(encoder, **chosen).eval()
        losses.append(float(term.loss(step(term, encoder, tokens, some_vectors().float()))))
    assert len({round(loss, 6) for loss in losses}) == len(cases)


def test_the_frozen_layers_are_those_of_the_start_without_dropout(encoder: SentenceEncoder) -> None:
    term = begun(encoder)
    assert term.reader is not None
    term.train()
    assert term.reader.layers.training
    assert not any(module.training for module in term.reader.lower.modules())
    assert not any(p.requires_grad for p in term.reader.lower.parameters())
    assert not {id(p) for p in encoder.parameters()} & {id(p) for p in term.parameters()}
    assert list(term.networks) == [term.reader]
    again, other = begun(encoder), ConditionalMLM()
    other.begin(encoder, batch_size=N, seed=1)
    weights = [one.reader.layers.state_dict()["layers.0.linear1.weight"] for one in (term, again, other)]  # type: ignore[union-attr]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_vectors_that_are_read_are_those_before_the_head(encoder: SentenceEncoder, tokens: Tokens) -> None:
    encoder.eval()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        expected = encoder(tokens).sentence
    for head in (Dense.linear_head(32, random, 8), Projection(32, random)):
        encoder.projection = head
        for chunks in (WHOLE, Chunks(4)):
            inputs = StepInputs(tokens, N, torch.zeros(N, 2, dtype=torch.int64), chunks=chunks)
            reps = represent(encoder, inputs, [Sentences(), Pooled()])
            torch.testing.assert_close(reps[Pooled()], expected)
            assert reps.anchor.shape == (N, head.out_features)
            encoder.zero_grad()
            torch.autograd.backward([reps[Pooled()].square().sum()])
            assert all(p.grad is None for p in head.parameters())
            assert any(p.grad is not None for p in encoder.backbone.parameters())


def test_what_it_cannot_be_combined_with(encoder: SentenceEncoder) -> None:
    objective = Objective(Dropout(), terms=[ConditionalMLM(ConditionalMLM.Settings(depth=9))])
    with pytest.raises(UserError, match=r"fewer than the 9 .*leave objective\.terms\.conditional_mlm\.depth"):
        objective.check(Context(objective, encoder=encoder, model="tiny"))
    objective = Objective(Dropout(), terms=[ConditionalMLM()])
    mini = SentenceEncoder("opencse-mini", device="cpu")
    with pytest.raises(UserError, match="has no layers, and the conditional_mlm term"):
        objective.check(Context(objective, encoder=mini, model="opencse-mini"))
