"""Mutual information with convolutions over the tokens: local vectors by loops, and what it goes with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import plain_states
from opencse.objective.context import Context
from opencse.objective.losses import mutual_information
from opencse.objective.objective import Objective
from opencse.objective.terms.local_global import LocalGlobal
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.requests import AnchorTexts
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.text.tokenizer import Tokens

N = 4


@pytest.fixture
def tokens(encoder: SentenceEncoder, sentences: list[str]) -> Tokens:
    ids = encoder.tokenizer.encode([" ".join(sentences[i].split()[: 2 + 2 * i]) for i in range(N)], 24)
    return encoder.tokenizer.pad(ids)


def begun(encoder: SentenceEncoder, **chosen: Any) -> LocalGlobal:
    term = LocalGlobal(LocalGlobal.Settings.model_validate(chosen))
    term.name = "terms.local_global"
    term.begin(encoder, batch_size=N, seed=0)
    return term.eval()


def step(term: LocalGlobal, tokens: Tokens, chunks: Chunks = WHOLE) -> Representations:
    keys = torch.zeros(len(tokens), 1, dtype=torch.int64)
    answers: dict[Request[Any], Any] = {AnchorTexts(): tokens}
    inputs = StepInputs(tokens, len(tokens), keys, answers, noise_seed=3, chunks=chunks)
    none = torch.zeros(len(tokens), 0)
    reps = Representations(none, none, none.unsqueeze(1)[:, :0], keys, answers, noise_seed=3)
    return replace(reps, computed={term.name: term.compute(inputs, reps)})


def naive_loss(term: LocalGlobal, tokens: Tokens) -> Tensor:
    network = term.network
    assert network is not None
    states = plain_states(network.backbone, tokens)[-1]
    local = torch.zeros_like(states)
    texts = []
    for row in range(len(tokens)):
        real, vectors = int(tokens.attention_mask[row].sum()), []
        for t in range(real):
            pieces: list[Tensor] = []
            for convolution in network.convolutions:
                weight, bias = (
                    dict(convolution.named_parameters())["weight"],
                    dict(convolution.named_parameters())["bias"],
                )
                reach = weight.shape[2] // 2
                piece: Tensor = bias
                for tap in range(weight.shape[2]):
                    if 0 <= t + tap - reach < real:
                        piece = piece + weight[:, :, tap] @ states[row, t + tap - reach]
                pieces.append(piece)
            vectors.append(torch.cat(pieces))
        stacked = torch.stack(vectors)
        texts.append(stacked.mean(dim=0))
        padding = torch.zeros(local.shape[1] - real, stacked.shape[1], dtype=stacked.dtype)
        local = torch.cat([local[:row], torch.cat([stacked, padding]).unsqueeze(0), local[row + 1 :]])
    return mutual_information(local, tokens.attention_mask, torch.stack(texts))


@pytest.mark.parametrize(("packed", "chunks"), [(False, WHOLE), (True, WHOLE), (False, Chunks(3))], ids=str)
def test_loss_and_gradients_are_those_of_loops(
    packed: bool, chunks: Chunks, encoder: SentenceEncoder, tokens: Tokens
) -> None:
    encoder.computation = "packed" if packed else "transformers"
    encoder.double()
    term = begun(encoder).double()
    results: list[dict[str, Tensor]] = []
    for loss in (term.loss(step(term, tokens, chunks)), naive_loss(term, tokens)):
        term.zero_grad()
        torch.autograd.backward([loss])
        assert encoder.backbone.get_parameter("encoder.layer.0.output.dense.weight").grad is not None
        grads = {name: p.grad.clone() for name, p in term.named_parameters() if p.grad is not None}
        results.append({"loss": loss.detach(), **grads})
    assert len(results[0]) > 40
    for name, one in results[0].items():
        torch.testing.assert_close(one, results[1][name], atol=1e-10, rtol=1e-10, msg=name)


def test_the_order_of_the_batch_means_nothing_and_windows_do(encoder: SentenceEncoder, tokens: Tokens) -> None:
    encoder.double()
    term = begun(encoder).double()
    order = torch.tensor([2, 0, 3, 1])
    moved = Tokens(tokens.input_ids[order], tokens.attention_mask[order])
    plain = term.loss(step(term, tokens))
    torch.testing.assert_close(term.loss(step(term, moved)), plain, atol=1e-12, rtol=0)
    other = begun(encoder, windows=(1, 3)).double()
    assert (other.loss(step(other, tokens)) - plain).abs() > 1e-6
    assert float(term.loss(step(term, tokens.rows(0, 1))).detach()) == 0


def test_the_backbone_is_the_encoders(encoder: SentenceEncoder) -> None:
    term = begun(encoder)
    shared = {id(p) for p in encoder.parameters()} & {id(p) for p in term.parameters()}
    assert len(shared) == len(list(encoder.backbone.parameters()))
    assert list(term.networks) == [term.network]
    again, other = begun(encoder), LocalGlobal()
    other.begin(encoder, batch_size=N, seed=1)
    weights = [one.network.convolutions[0].weight for one in (term, again, other)]  # type: ignore[union-attr]
    assert torch.equal(weights[0], weights[1])  # type: ignore[arg-type]
    assert not torch.equal(weights[0], weights[2])  # type: ignore[arg-type]


def test_what_it_cannot_be_combined_with() -> None:
    objective = Objective(Dropout(), terms=[LocalGlobal()])
    mini = SentenceEncoder("opencse-mini", device="cpu")
    with pytest.raises(UserError, match="has no layers, and the local_global term"):
        objective.check(Context(objective, encoder=mini, model="opencse-mini"))
