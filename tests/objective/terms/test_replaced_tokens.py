"""Replaced tokens found by a discriminator: generator, loss and gradients against loops, and what goes with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from masked_cases import N, begun, edited, encoder_with_head, rows_of, step
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.terms.replaced_tokens import ReplacedTokens, _Discriminator
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.masking import MaskedCopy, mask_tokens
from opencse.objective.vectors.step import Representations
from opencse.objective.views.dropout import Dropout
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokens
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings
from steps import prepared


@pytest.fixture
def encoder(sharp_folder: Path) -> SentenceEncoder:
    return encoder_with_head(sharp_folder)


@pytest.fixture
def tokens(encoder: SentenceEncoder, sentences: list[str]) -> Tokens:
    return rows_of(encoder, sentences, N, 2)


# The generator


def test_the_masked_copy_hides_what_it_should(encoder: SentenceEncoder, tokens: Tokens) -> None:
    plain, all_masked = (
        mask_tokens(tokens, encoder.tokenizer, 0.4, np.random.default_rng(1), masking) for masking in ("bert", "all")
    )
    assert torch.equal(plain.masked.positions, all_masked.masked.positions)
    mask = encoder.tokenizer.hf.mask_token_id
    expected = tokens.input_ids.masked_fill(all_masked.masked.positions, mask)
    assert torch.equal(all_masked.masked.tokens.input_ids, expected)
    special = torch.isin(tokens.input_ids, torch.tensor(encoder.tokenizer.hf.all_special_ids))
    assert not (special & plain.masked.positions).any()


# The discriminator


def naive_logits(network: _Discriminator, ids: list[int], real: int, vector: Tensor) -> Tensor:
    """(length, 2) of one text by the formulas of BERT; ``ids`` beyond ``real`` are padding, which nobody attends to."""
    weights = dict(network.backbone.named_parameters())
    heads, hidden = network.backbone.config.num_attention_heads, len(vector)
    size = hidden // heads

    def linear(name: str, x: Tensor) -> Tensor:
        return torch.stack([weights[f"{name}.weight"] @ row + weights[f"{name}.bias"] for row in x])

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(dim=1, keepdim=True)
        scaled = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-12).sqrt()
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    words = weights["embeddings.word_embeddings.weight"]
    rows = [
        (words[token] if place < real else words[token].detach())  # the embedding of padding is not trained
        + weights["embeddings.position_embeddings.weight"][place]
        + weights["embeddings.token_type_embeddings.weight"][0]
        for place, token in enumerate(ids)
    ]
    x = norm("embeddings.LayerNorm", torch.stack(rows))
    x = torch.stack([vector, *x[1:]])
    for number in range(network.backbone.config.num_hidden_layers):
        at = f"encoder.layer.{number}"
        q, k, v = (linear(f"{at}.attention.self.{part}", x) for part in ("query", "key", "value"))
        mixed = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:real, part].T / size**0.5
            mixed.append(scores.softmax(dim=1) @ v[:real, part])
        x = norm(
            f"{at}.attention.output.LayerNorm", x + linear(f"{at}.attention.output.dense", torch.cat(mixed, dim=1))
        )
        inner = linear(f"{at}.intermediate.dense", x)
        inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
        x = norm(f"{at}.output.LayerNorm", x + linear(f"{at}.output.dense", inner))
    return torch.stack([network.classify.weight @ row + network.classify.bias for row in x])


def naive_loss(term: ReplacedTokens, tokens: Tokens, ids: Tensor, vectors: Tensor) -> Tensor:
    assert term.discriminator is not None
    losses = []
    for row, vector in enumerate(vectors):
        real = int(tokens.attention_mask[row].sum())
        read = real if term.settings.padding == "ignored" else ids.shape[1]
        logits = naive_logits(term.discriminator, ids[row, :read].tolist(), real, vector)
        for place in range(read):
            replaced = int(place < real and ids[row, place] != tokens.input_ids[row, place])
            losses.append(torch.logsumexp(logits[place], dim=0) - logits[place, replaced])
    return sum(losses, torch.zeros(())) / len(losses)


def gradients(loss: Tensor, term: ReplacedTokens, vectors: Tensor) -> dict[str, Tensor]:
    assert term.discriminator is not None
    term.zero_grad()
    vectors.grad = None
    torch.autograd.backward([loss])
    named = {name: p.grad for name, p in term.discriminator.named_parameters() if p.grad is not None}
    assert vectors.grad is not None
    return {"loss": loss.detach(), "vectors": vectors.grad.clone(), **{name: g.clone() for name, g in named.items()}}


@pytest.mark.parametrize(
    ("packed", "padding", "chunks"),
    [
        (False, "ignored", WHOLE),
        (True, "ignored", WHOLE),
        (False, "counted", WHOLE),
        (True, "counted", Chunks(3)),
        (True, "ignored", Chunks(3)),
    ],
    ids=str,
)
def test_loss_and_gradients_are_those_of_loops(
    packed: bool, padding: str, chunks: Chunks, encoder: SentenceEncoder, tokens: Tokens
) -> None:
    encoder.computation = "packed" if packed else "transformers"
    term = begun(encoder, padding=padding, rate=0.4).double().eval()
    assert term.discriminator is not None
    assert (term.discriminator.computation == "packed") is (packed and padding == "ignored")
    vectors = torch.randn(2 * N, 32, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    inputs, reps = step(term, tokens, vectors, chunks)
    ids = edited(term, inputs, reps)
    assert 10 < int((ids != tokens.input_ids).sum()) < ids.numel()
    reps = replace(reps, computed={term.name: term.compute(inputs, reps)})
    ours = gradients(term.loss(reps), term, vectors)
    theirs = gradients(naive_loss(term, tokens, ids, vectors), term, vectors)
    assert ours.keys() == theirs.keys()
    assert len(ours) > 40
    for name, one in ours.items():
        torch.testing.assert_close(one, theirs[name], atol=1e-10, rtol=1e-10, msg=name)
    assert ours["vectors"].abs().amax(dim=1).min() > 1e-8, "every text's own vector"


@pytest.mark.parametrize("padding", ["ignored", "counted"])
def test_the_order_of_the_batch_means_nothing(padding: str, encoder: SentenceEncoder, tokens: Tokens) -> None:
    term = begun(encoder, padding=padding, pick="best", places="all").double().eval()
    vectors = torch.randn(2 * N, 32, generator=torch.Generator().manual_seed(1)).double()
    inputs, reps = step(term, tokens, vectors)
    order = torch.tensor([2, 0, 3, 1])
    both = torch.cat([order, N + order])
    (request, copy), *_ = inputs.prepared.items()
    rows = copy.masked.tokens
    moved = MaskedCopy(
        replace(
            copy.masked,
            tokens=Tokens(rows.input_ids[both], rows.attention_mask[both]),
            positions=copy.masked.positions[both],
        ),
        copy.labels,
    )
    other = replace(
        inputs, tokens=Tokens(tokens.input_ids[both], tokens.attention_mask[both]), prepared={request: moved}
    )
    others = Representations(vectors[order], vectors[N + order], reps.hard, reps.keys, {request: moved}, noise_seed=3)
    found = [term.compute(inputs, reps), term.compute(other, others)]
    torch.testing.assert_close(found[0][both], found[1], atol=1e-10, rtol=1e-10)
    losses = [term.loss(replace(r, computed={term.name: f})) for r, f in zip((reps, others), found, strict=True)]
    torch.testing.assert_close(*losses, atol=1e-12, rtol=0)


def test_the_log_counts_what_is_found(encoder: SentenceEncoder, tokens: Tokens) -> None:
    term = begun(encoder, rate=0.4).eval()
    assert term.discriminator is not None
    inputs, reps = step(term, tokens, torch.randn(2 * N, 32))
    replaced = (edited(term, inputs, reps) != tokens.input_ids).sum() / tokens.attention_mask.sum()
    with torch.no_grad():
        term.discriminator.classify.weight.zero_()
        for bias, expected in (((1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0), (1.0, 0.0))):
            term.discriminator.classify.bias.copy_(torch.tensor(bias))
            told = term.diagnose(replace(reps, computed={term.name: term.compute(inputs, reps)}))
            assert told["replaced_share"] == replaced
            assert (float(told["replaced_found"]), float(told["originals_found"])) == expected
    assert term.diagnose(reps) == {}


def test_the_gradient_reaches_the_encoder_through_the_vectors_alone(
    sharp_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    run = prepared("diffcse", sharp_folder, tmp_path, sentences, "objective.negatives=[]", "encoder.dropout=0.0")
    inputs = run.inputs.build(run.batches.batch(0), 0)
    reps = run.objective.represent(run.encoder.train(), inputs)
    leaf = reps.anchor.detach().requires_grad_(), reps.positive.detach().requires_grad_()
    term = run.objective.terms[0]
    alone = replace(reps, anchor=leaf[0], positive=leaf[1])
    (found,) = [term.compute(inputs, alone)]
    torch.autograd.backward([term.weight * term.loss(replace(alone, computed={term.name: found}))])
    assert all(p.grad is None for p in run.encoder.parameters())
    wanted = [one.grad for one in leaf]
    outcome = run.objective(reps)
    assert list(outcome.losses) == ["replaced_tokens"]
    through = torch.autograd.grad(outcome.total, [reps.anchor, reps.positive], retain_graph=True)
    for one, other in zip(wanted, through, strict=True):
        assert one is not None
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    torch.autograd.backward([outcome.total])
    assert any(bool(p.grad.abs().max() > 1e-8) for p in run.encoder.parameters() if p.grad is not None)


def test_the_discriminator_is_trained_and_the_generator_is_not(encoder: SentenceEncoder) -> None:
    start = {name: weights.clone() for name, weights in encoder.backbone.state_dict().items()}
    for dropout in (False, True):
        term = begun(encoder, generator_dropout=dropout)
        assert term.discriminator is not None
        assert term.replacer is not None
        for name, weights in term.discriminator.backbone.state_dict().items():
            assert torch.equal(weights, start[name])
        term.train()
        assert term.discriminator.training
        assert all(part.training is dropout for part in term.replacer.model.modules())
        term.eval()
        assert not any(part.training for part in term.modules())
        optimizer = build_optimizer([*encoder.parameters(), *term.parameters()], TrainingSettings())
        trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
        assert trained == {id(p) for module in (encoder, term.discriminator) for p in module.parameters()}
        assert list(term.networks) == [term.discriminator]
    again, other = begun(encoder), ReplacedTokens()
    assert torch.equal(again.discriminator.classify.weight, term.discriminator.classify.weight)  # type: ignore[union-attr]
    other.begin(encoder, batch_size=N, seed=1)
    assert not torch.equal(other.discriminator.classify.weight, term.discriminator.classify.weight)  # type: ignore[union-attr]
    other.load_state_dict(again.state_dict())
    assert torch.equal(other.discriminator.classify.weight, again.discriminator.classify.weight)  # type: ignore[union-attr]


# Runs


def job(model: Path, *settings: str) -> TrainJob:
    asked = (
        "training.max_steps=3",
        "training.batch_size=4",
        "training.log_every=1",
        "training.learning_rate=1e-3",
        *settings,
    )
    return TrainJob(
        text=Source(str(sample.TRAIN)),
        recipe="diffcse:reference",
        model=str(model),
        settings=asked,
        dev=None,
        device="cpu",
    )


@pytest.mark.slow
def test_another_model_generates_in_bf16_and_in_chunks(sharp_folder: Path, tmp_path: Path, tiny_folder: Path) -> None:
    """The generator is a folder; its state is in the checkpoint."""
    settings = (
        f"objective.terms.replaced_tokens.generator={tiny_folder}",
        "training.precision=bf16",
        "training.chunk=3",
    )
    run = job(sharp_folder, *settings).prepare(Silent())
    term = run.objective.terms[0]
    assert isinstance(term, ReplacedTokens)
    assert term.replacer is not None
    theirs = SentenceEncoder(tiny_folder, device="cpu").backbone.state_dict()
    assert all(torch.equal(theirs[name], one) for name, one in term.replacer.model.backbone.state_dict().items())
    result = job(sharp_folder, *settings).run(tmp_path / "run")
    lines = (result.folder / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert all('"loss_replaced_tokens"' in line and '"replaced_found"' in line for line in lines)


def headless(model: Path) -> Path:
    """The same model without its masked-LM head."""
    folder = model.with_name("headless")
    if not folder.exists():
        SentenceEncoder(model, device="cpu").save(folder)
    return folder


REFUSED: dict[str, tuple[Callable[[Path], TrainJob], str]] = {
    "no layers": (
        lambda model: TrainJob(text=Source(str(sample.TRAIN)), recipe="diffcse", dev=None, device="cpu"),
        r"opencse-mini: has no layers, and the replaced_tokens term needs a discriminator",
    ),
    "size": (
        lambda model: job(model, "encoder.head.size=8"),
        r"8 dimensions, where tokens have 32; leave encoder\.head\.size out",
    ),
    "vocabulary": (
        lambda model: job(model, "objective.terms.replaced_tokens.generator=opencse-mini"),
        r"has another vocabulary than the model that is trained, .* choose another generator",
    ),
    "no head in the start": (
        lambda model: job(headless(model)),
        r"no masked-language-model head .* or set a generator: objective\.terms\.replaced_tokens\.generator=MODEL$",
    ),
    "no head in the generator": (
        lambda model: job(model, f"objective.terms.replaced_tokens.generator={headless(model)}"),
        r"no masked-language-model head .* or choose another generator$",
    ),
    "no model": (
        lambda model: job(model, "objective.terms.replaced_tokens.generator=./nowhere"),
        r"\./nowhere: no such folder",
    ),
    "no rate": (lambda model: job(model, "objective.terms.replaced_tokens.rate=0"), r"greater than 0"),
    "a batch of one": (lambda model: job(model, "training.batch_size=1"), r"batch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_be_combined_with_is_reported_in_one_line(case: str, sharp_folder: Path) -> None:
    made, words = REFUSED[case]
    with pytest.raises(UserError, match=words) as caught:
        made(sharp_folder).prepare(Silent())
    assert "\n" not in str(caught.value)


def test_what_it_needs_of_the_start(encoder: SentenceEncoder) -> None:
    objective = Objective(Dropout(), negatives=[InBatch()], terms=[ReplacedTokens()])
    encoder.tokenizer.hf.mask_token = None
    with pytest.raises(UserError, match="no mask token, which the replaced_tokens term needs"):
        objective.check(Context(objective, encoder=encoder, model="tiny"))


def test_a_reduced_head_is_refused_by_its_size(encoder: SentenceEncoder) -> None:
    encoder.projection = Dense.linear_head(32, torch.Generator().manual_seed(0), 8)
    objective = Objective(Dropout(), terms=[ReplacedTokens()])
    with pytest.raises(UserError, match="8 dimensions, where tokens have 32"):
        objective.check(Context(objective, encoder=encoder, model="tiny"))
