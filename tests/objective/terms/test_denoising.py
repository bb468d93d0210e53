"""Reconstruction from the sentence vector: equal to sentence-transformers, to loops, and what it goes with."""

from __future__ import annotations

import itertools
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
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.objective import Objective
from opencse.objective.terms.denoising import Denoising
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.decoder import CopiedDecoder, NewDecoder
from opencse.objective.vectors.requests import AnchorTexts
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.text.tokenizer import Tokens
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings
from steps import prepared

N = 4
COPY, UNTIED = {"kind": "copy", "tied": True}, {"kind": "copy", "tied": False}
NEW = {"kind": "new", "layers": 2, "heads": 2, "width": 24}
KINDS = [COPY, UNTIED, NEW, {**NEW, "noise": 0.0}]


@pytest.fixture
def encoder(sharp_folder: Path) -> SentenceEncoder:
    return encoder_with_head(sharp_folder)


@pytest.fixture
def tokens(encoder: SentenceEncoder, sentences: list[str]) -> Tokens:
    return rows_of(encoder, sentences, N, 1)


def begun(encoder: SentenceEncoder, decoder: dict[str, Any], **more: Any) -> Denoising:
    term = Denoising(Denoising.Settings.model_validate({"decoder": decoder, **more}))
    term.name = "terms.denoising"
    term.begin(encoder, batch_size=N, seed=0)
    return term.eval()


def loss_of(term: Denoising, tokens: Tokens, vectors: Tensor, chunks: Chunks = WHOLE) -> Tensor:
    keys = torch.zeros(N, 1, dtype=torch.int64)
    inputs = StepInputs(tokens, N, keys, {AnchorTexts(): tokens}, noise_seed=3, chunks=chunks)
    hard = vectors.unsqueeze(1)[:, :0]
    reps = Representations(vectors, vectors, hard, keys, {AnchorTexts(): tokens}, noise_seed=3)
    return term.loss(replace(reps, computed={term.name: term.compute(inputs, reps)}))


def some_vectors() -> Tensor:
    return torch.randn(N, 32, generator=torch.Generator().manual_seed(1)).double().requires_grad_()


@pytest.mark.parametrize("tied", [True, False])
def test_tsdae_is_that_of_sentence_transformers(
    tied: bool, sharp_folder: Path, encoder: SentenceEncoder, tokens: Tokens, sentences: list[str]
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    theirs_encoder = SentenceTransformer(modules=[Transformer(str(sharp_folder)), Pooling(32, "cls")], device="cpu")
    theirs = DenoisingAutoEncoderLoss(
        theirs_encoder, decoder_name_or_path=str(sharp_folder), tie_encoder_decoder=tied
    ).eval()
    term = begun(encoder, {"kind": "copy", "tied": tied})
    assert isinstance(term.decoder, CopiedDecoder)
    wanted = theirs.decoder.bert.state_dict()
    cross = {name: value for name, value in wanted.items() if "crossattention" in name}
    assert len(cross) > 20
    term.decoder.backbone.load_state_dict(cross, strict=False)
    for name, value in term.decoder.backbone.state_dict().items():
        assert torch.equal(value, wanted[name]), name
    damaged = encoder.tokenizer.pad(encoder.tokenizer.encode([" ".join(s.split()[::2]) for s in sentences[:N]], 24))
    batches = [{"input_ids": one.input_ids, "attention_mask": one.attention_mask} for one in (damaged, tokens)]
    vectors = encoder(damaged).vectors
    ours, their = loss_of(term, tokens, vectors), theirs(batches, None)
    torch.testing.assert_close(ours, their, atol=1e-5, rtol=1e-5)
    torch.autograd.backward([ours])
    torch.autograd.backward([their])
    backbone: Any = theirs_encoder[0].auto_model
    own = dict(encoder.backbone.named_parameters())
    reached = {name: p.grad for name, p in backbone.named_parameters() if p.grad is not None}
    assert len(reached) > 40
    for name, gradient in reached.items():
        torch.testing.assert_close(own[name].grad, gradient, atol=1e-4, rtol=1e-3, msg=name)


def naive_new(term: Denoising, tokens: Tokens, vectors: Tensor, heads: int) -> Tensor:
    """The loss of a new decoder by the formulas of a transformer decoder with normalisation after each block."""
    decoder = term.decoder
    assert isinstance(decoder, NewDecoder)
    losses = []
    for row, vector in enumerate(vectors):
        ids = tokens.input_ids[row, : int(tokens.attention_mask[row].sum())]
        read = ids[: len(ids) - decoder.ahead]
        with torch.no_grad():
            x = decoder.embeddings(read.unsqueeze(0))[0]
        seen = [list(range(t + 1 if decoder.ahead else len(read))) for t in range(len(read))]
        for layer in decoder.layers.layers:
            weights = dict(layer.named_parameters())

            def part(prefix: str, weights: dict[str, Tensor] = weights) -> dict[str, Tensor]:
                return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}

            def norm(name: str, x: Tensor, weights: dict[str, Tensor] = weights) -> Tensor:
                centred = x - x.mean(dim=1, keepdim=True)
                scaled = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
                return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

            x = norm("norm1", x + attention(x, x, part("self_attn."), heads, seen))
            memory = vector.unsqueeze(0)
            x = norm("norm2", x + attention(x, memory, part("multihead_attn."), heads, [[0]] * len(x)))
            inner = (x @ weights["linear1.weight"].T + weights["linear1.bias"]).clamp(min=0)
            x = norm("norm3", x + inner @ weights["linear2.weight"].T + weights["linear2.bias"])
        logits = decoder.head(x)
        for t in range(len(read)):
            losses.append(torch.logsumexp(logits[t], dim=0) - logits[t, ids[t + decoder.ahead]])
    return sum(losses, torch.zeros(())) / len(losses)


@pytest.mark.parametrize(("noise", "chunks"), list(itertools.product([0.0, 0.8], [WHOLE, Chunks(3)])), ids=str)
def test_a_new_decoder_is_that_of_loops(noise: float, chunks: Chunks, encoder: SentenceEncoder, tokens: Tokens) -> None:
    encoder.double()
    term = begun(encoder, {**NEW, "noise": noise}).double()
    vectors = some_vectors()
    ours = loss_of(term, tokens, vectors, chunks)
    theirs = naive_new(term, tokens, vectors, heads=2)
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
    found: list[dict[str, Tensor]] = []
    for loss in (ours, theirs):
        term.zero_grad()
        vectors.grad = None
        torch.autograd.backward([loss])
        assert vectors.grad is not None
        grads = {name: p.grad.clone() for name, p in term.named_parameters() if p.grad is not None}
        found.append({"vectors": vectors.grad.clone(), **grads})
    assert found[0].keys() == found[1].keys()
    assert len(found[0]) > 40
    for name, one in found[0].items():
        torch.testing.assert_close(one, found[1][name], atol=1e-10, rtol=1e-10, msg=name)
    assert found[0]["vectors"].abs().amax(dim=1).min() > 1e-8, "every text's own vector"


@pytest.mark.parametrize("decoder", KINDS, ids=str)
def test_chunks_and_the_order_of_the_batch_mean_nothing(
    decoder: dict[str, Any], encoder: SentenceEncoder, tokens: Tokens
) -> None:
    encoder.double()
    term = begun(encoder, decoder).double()
    vectors = some_vectors()
    plain = loss_of(term, tokens, vectors)
    torch.testing.assert_close(loss_of(term, tokens, vectors, Chunks(3)), plain, atol=1e-12, rtol=0)
    order = torch.tensor([2, 0, 3, 1])
    moved = Tokens(tokens.input_ids[order], tokens.attention_mask[order])
    torch.testing.assert_close(loss_of(term, moved, vectors[order]), plain, atol=1e-12, rtol=0)
    swapped = loss_of(term, tokens, vectors[order])
    assert (swapped - plain).abs() > 1e-6, "each text has its own vector"


def test_every_setting_changes_the_loss(encoder: SentenceEncoder, tokens: Tokens) -> None:
    cases = [COPY, NEW, {**NEW, "noise": 0.0}, {**NEW, "layers": 3}, {**NEW, "heads": 1}, {**NEW, "width": 48}]
    cases += [{**NEW, "noise": 0.3}, {**NEW, "dropout": 0.5}]
    losses = []
    for decoder in cases:
        term = begun(encoder, decoder).train()
        torch.manual_seed(0)
        losses.append(float(loss_of(term, tokens, some_vectors().float())))
    assert len({round(loss, 6) for loss in losses}) == len(cases)


def test_tied_weights_are_trained_once_and_the_anchors_alone_are_encoded(
    sharp_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    run = prepared("tsdae", sharp_folder, tmp_path, sentences)
    inputs = run.inputs.build(run.batches.batch(0), 0)
    assert len(inputs.tokens) == inputs.examples
    texts = inputs.prepared[AnchorTexts()]
    assert (inputs.tokens.attention_mask.sum(dim=1) < texts.attention_mask.sum(dim=1)).any()
    term = run.objective.terms[0]
    assert isinstance(term, Denoising)
    shared = {id(p) for p in run.encoder.parameters()} & {id(p) for p in term.parameters()}
    assert len(shared) > 40
    parameters = [*run.encoder.parameters(), *run.objective.parameters()]
    optimizer = build_optimizer(parameters, TrainingSettings())
    trained = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert len(trained) == len(set(trained)) == len(set(map(id, parameters)))
    losses = run.objective(run.objective.represent(run.encoder, inputs))
    assert list(losses.losses) == ["denoising"]
    assert run.encoder.lm_head is None
    untied = prepared("tsdae:untied", sharp_folder, tmp_path, sentences)
    assert not {id(p) for p in untied.encoder.parameters()} & {id(p) for p in untied.objective.parameters()}


def test_pairs_reconstruct_the_other_text(sharp_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    settings = ('objective.terms=[{kind="denoising", target="positive"}]', "encoder.head.kind=none")
    run = prepared("simcse-supervised", sharp_folder, tmp_path, sentences, *settings)
    inputs = run.inputs.build(run.batches.batch(0), 0)
    (texts,) = inputs.prepared.values()
    n = inputs.examples
    assert torch.equal(texts.input_ids, inputs.tokens.input_ids[n : 2 * n])
    assert run.objective(run.objective.represent(run.encoder, inputs)).total.isfinite()


def test_the_log_counts_what_is_reconstructed() -> None:
    reps = Representations.of(torch.eye(1), torch.eye(1))
    sums = torch.tensor([[2.0, 4.0, 1.0], [2.0, 4.0, 3.0]])
    told = Denoising().diagnose(replace(reps, computed={"denoising": sums}))
    assert {name: float(value) for name, value in told.items()} == {"reconstructed": 0.5}
    assert Denoising().diagnose(reps) == {}


def test_what_it_cannot_be_combined_with(encoder: SentenceEncoder) -> None:
    objective = Objective(Dropout(), terms=[Denoising()])
    encoder.projection = Dense.linear_head(32, torch.Generator().manual_seed(0), 8)
    with pytest.raises(UserError, match="as to a token: 8 dimensions, where tokens have 32"):
        objective.check(Context(objective, encoder=encoder, model="tiny"))
    mini = SentenceEncoder("opencse-mini", device="cpu")
    with pytest.raises(UserError, match="has no layers, and the denoising term needs a decoder"):
        objective.check(Context(objective, encoder=mini, model="opencse-mini"))
    with pytest.raises(UserError, match=r"dual_encoder is about the positives, and no part .* reads them"):
        Objective(Dropout(), terms=[Denoising()], dual_encoder=True)
    random = np.random.default_rng(0)
    assert AnchorTexts().prepare("texts", None, random) == "texts"  # type: ignore[arg-type, comparison-overlap]
