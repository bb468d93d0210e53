"""Terms that read tokens, against loops: hidden and replaced tokens, reconstruction, mutual information."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from masked_cases import N, begun, edited, encoder_with_head, rows_of, step
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import plain_states
from opencse.model_folder.reading import load_masked_lm_head
from opencse.modules.dense import Dense, Projection
from opencse.modules.token_modules import MaskedLMHead
from opencse.objective.losses import mutual_information
from opencse.objective.objective import Objective
from opencse.objective.terms.networks import ConditionalMLM, CopiedDecoder, Denoising, LocalGlobal, New, NewDecoder
from opencse.objective.terms.tokens import ReplacedTokens, _Discriminator
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import AnchorTexts, MaskedViews, Pooled, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.plain import Dropout
from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokens
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings
from steps import prepared


@pytest.fixture
def sharp(sharp_folder: Path) -> SentenceEncoder:
    return encoder_with_head(sharp_folder)


@pytest.fixture
def tokens(sharp: SentenceEncoder, sentences: list[str]) -> Tokens:
    return rows_of(sharp, sentences, N, 2)


def conditional(encoder: SentenceEncoder, **chosen: Any) -> ConditionalMLM:
    term = ConditionalMLM(ConditionalMLM.Settings.model_validate(chosen))
    term.name = "terms.conditional_mlm"
    term.begin(encoder, batch_size=N, seed=0)
    return term


def conditional_step(
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
    labels, losses = copy.labels.tolist(), []
    with torch.no_grad():
        lower = plain_states(encoder.backbone, copy.masked.tokens, need_all=True)[encoder.depth // 2]
    for row, vector in enumerate(vectors):
        real = int(copy.masked.tokens.attention_mask[row].sum())
        logits = reader.head(reader.layers(torch.stack([vector, *lower[row, 1:real]]).unsqueeze(0))[0])
        for t in range(real):
            if copy.masked.positions[row, t]:
                losses.append(torch.logsumexp(logits[t], dim=0) - logits[t, labels.pop(0)])
    return sum(losses, torch.zeros(())) / len(losses)


@pytest.mark.parametrize("chunks", [WHOLE, Chunks(4)], ids=str)
def test_loss_and_gradients_are_those_of_loops(chunks: Chunks, sharp: SentenceEncoder, tokens: Tokens) -> None:
    sharp.double()
    term = conditional(sharp).double().eval()
    vectors = some_vectors()
    reps = conditional_step(term, sharp, tokens, vectors, chunks)
    ours, theirs = (
        gradients(loss, term, vectors) for loss in (term.loss(reps), naive_loss(term, sharp, reps, vectors))
    )
    same_gradients(ours, theirs, 25)
    assert not any("lower" in name for name in ours)
    hidden = reps.computed[term.name][:, 1] > 0
    assert hidden.sum() > 3
    assert (ours["vectors"].abs().amax(dim=1)[hidden] > 1e-8).all(), "every text's own vector"


def test_the_vectors_that_are_read_are_those_before_the_head(sharp: SentenceEncoder, tokens: Tokens) -> None:
    sharp.eval()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        expected = sharp(tokens).sentence
    for head in (Dense.linear_head(32, random, 8), Projection(32, random)):
        sharp.projection = head
        for chunks in (WHOLE, Chunks(4)):
            inputs = StepInputs(tokens, N, torch.zeros(N, 2, dtype=torch.int64), chunks=chunks)
            reps = represent(sharp, inputs, [Sentences(), Pooled()])
            torch.testing.assert_close(reps[Pooled()], expected)
            assert reps.anchor.shape == (N, head.out_features)
            sharp.zero_grad()
            torch.autograd.backward([reps[Pooled()].square().sum()])
            assert all(p.grad is None for p in head.parameters())
            assert any(p.grad is not None for p in sharp.backbone.parameters())


def test_what_it_cannot_be_combined_with(sharp: SentenceEncoder) -> None:
    objective = Objective(Dropout(), terms=[ConditionalMLM(ConditionalMLM.Settings(depth=9))])
    with pytest.raises(UserError, match=r"fewer than the 9 .*leave objective\.terms\.conditional_mlm\.depth"):
        objective.check_encoder(sharp, "tiny")


def naive_logits(network: _Discriminator, ids: list[int], real: int, vector: Tensor) -> Tensor:
    """(length, 2) of one text by the backbone, after whose embeddings the first token is exchanged."""
    mask = (torch.arange(len(ids)) < real).long().unsqueeze(0)
    backbone: Any = network.backbone
    hook = backbone.embeddings.register_forward_hook(lambda *a: torch.cat([vector.view(1, 1, -1), a[2][:, 1:]], dim=1))
    states = backbone(torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
    hook.remove()
    return torch.stack([network.classify.weight @ row + network.classify.bias for row in states])


def naive_replaced(term: ReplacedTokens, tokens: Tokens, ids: Tensor, vectors: Tensor) -> Tensor:
    losses = []
    for row, vector in enumerate(vectors):
        real = int(tokens.attention_mask[row].sum())
        read = real if term.settings.padding == "ignored" else ids.shape[1]
        logits = naive_logits(term.discriminator, ids[row, :read].tolist(), real, vector)
        for place in range(read):
            replaced = int(place < real and ids[row, place] != tokens.input_ids[row, place])
            losses.append(torch.logsumexp(logits[place], dim=0) - logits[place, replaced])
    return sum(losses, torch.zeros(())) / len(losses)


def gradients(loss: Tensor, network: nn.Module, vectors: Tensor) -> dict[str, Tensor]:
    """The loss, and the gradients of the network's weights and of the vectors."""
    network.zero_grad()
    vectors.grad = None
    torch.autograd.backward([loss])
    found = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    return {"loss": loss.detach(), **found, **({} if vectors.grad is None else {"vectors": vectors.grad.clone()})}


def same_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor], at_least: int) -> None:
    assert ours.keys() == theirs.keys()
    assert len(ours) > at_least
    for name, one in ours.items():
        torch.testing.assert_close(one, theirs[name], atol=1e-10, rtol=1e-10, msg=name)


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
def test_replaced_tokens_are_those_of_loops(
    packed: bool,
    padding: str,
    chunks: Chunks,
    sharp: SentenceEncoder,
    tokens: Tokens,
) -> None:
    sharp.computation = "packed" if packed else "transformers"
    term = begun(sharp, padding=padding, rate=0.4).double().eval()
    assert (term.discriminator.computation == "packed") is (packed and padding == "ignored")
    vectors = torch.randn(2 * N, 32, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    inputs, reps = step(term, tokens, vectors, chunks)
    ids = edited(term, inputs, reps)
    assert 10 < int((ids != tokens.input_ids).sum()) < ids.numel()
    reps = replace(reps, computed={term.name: term.compute(inputs, reps)})
    ours = gradients(term.loss(reps), term, vectors)
    same_gradients(ours, gradients(naive_replaced(term, tokens, ids, vectors), term, vectors), 40)
    assert ours["vectors"].abs().amax(dim=1).min() > 1e-8, "every text's own vector"


def test_the_log_counts_what_is_found(sharp: SentenceEncoder, tokens: Tokens) -> None:
    term = begun(sharp, rate=0.4).eval()
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


# Runs


def job(model: Path, *settings: str) -> Run:
    asked = (
        "training.max_steps=3",
        "training.batch_size=4",
        "training.log_every=1",
        "training.learning_rate=1e-3",
        *settings,
    )
    return Run(
        text=Source(str(sample.TRAIN)),
        recipe="diffcse:reference",
        model=str(model),
        settings=asked,
        dev=None,
        device="cpu",
    )


def headless(model: Path) -> Path:
    """The same model without its masked-LM head."""
    folder = model.with_name("headless")
    if not folder.exists():
        SentenceEncoder(model, device="cpu").save(folder)
    return folder


REFUSED: dict[str, tuple[Callable[[Path], Run], str]] = {
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
        made(sharp_folder).open(Silent())
    assert "\n" not in str(caught.value)


@torch.no_grad()
def guesses(encoder: SentenceEncoder, masked: list[int]) -> Tensor:
    """(length, vocabulary) logits of one text without padding."""
    assert encoder.lm_head is not None
    with encoder.without_dropout():
        hidden = encoder.backbone(input_ids=torch.tensor([masked])).last_hidden_state[0]
        logits: Tensor = encoder.lm_head(hidden)
    return logits.double()


@pytest.mark.parametrize(
    ("masking", "packed", "chunks"),
    [("bert", False, Chunks(3)), ("bert", True, WHOLE), ("all", True, Chunks(3))],
    ids=str,
)
def test_the_best_guess_everywhere(
    masking: str, packed: bool, chunks: Chunks, sharp: SentenceEncoder, tokens: Tokens
) -> None:
    sharp.computation = "packed" if packed else "transformers"
    term = begun(sharp, masking=masking, pick="best", places="all", rate=0.5)
    inputs, reps = step(term, tokens, torch.zeros(2 * N, 32), chunks)
    ids = edited(term, inputs, reps)
    copy: MaskedCopy = next(iter(inputs.prepared.values()))
    wrong = 0
    for row, length in enumerate(tokens.attention_mask.sum(dim=1).tolist()):
        best = guesses(sharp, copy.masked.tokens.input_ids[row, :length].tolist()).argmax(dim=1)
        assert ids[row, 1:length].tolist() == best[1:].tolist()
        assert torch.equal(ids[row, length:], tokens.input_ids[row, length:])
        wrong += int((best != tokens.input_ids[row, :length]).sum())
    assert torch.equal(ids[:, 0], tokens.input_ids[:, 0])
    assert wrong > 20
    hidden = copy.masked.positions
    share = (copy.masked.tokens.input_ids == sharp.tokenizer.hf.mask_token_id)[hidden].float().mean()
    assert share == 1 if masking == "all" else 0.5 < share < 1


@pytest.mark.parametrize("chunks", [WHOLE, Chunks(3)], ids=["whole", "chunks"])
def test_draws_at_the_hidden_tokens_alone(chunks: Chunks, sharp: SentenceEncoder, tokens: Tokens) -> None:
    """A draw is the first token at which the probabilities, added up, are more than its number."""
    term = begun(sharp, rate=0.5)
    inputs, reps = step(term, tokens, torch.zeros(2 * N, 32), chunks)
    ids = edited(term, inputs, reps)
    copy: MaskedCopy = next(iter(inputs.prepared.values()))
    numbers = torch.rand(ids.shape, generator=term.noise(reps))
    drawn = 0
    for row, length in enumerate(tokens.attention_mask.sum(dim=1).tolist()):
        logits = guesses(sharp, copy.masked.tokens.input_ids[row, :length].tolist())
        logits[:, sharp.tokenizer.hf.all_special_ids] = -torch.inf
        for place in range(ids.shape[1]):
            if not copy.masked.positions[row, place]:
                assert ids[row, place] == tokens.input_ids[row, place]
                continue
            total = 0.0
            token = -1
            for probability in logits[place].softmax(dim=0).tolist():
                token += 1
                total += probability
                if total > float(numbers[row, place]):
                    break
            assert int(ids[row, place]) == token
            drawn += 1
    assert drawn > 20


NEW = {"kind": "new", "layers": 2, "heads": 2, "width": 24}


@pytest.fixture
def once(sharp: SentenceEncoder, sentences: list[str]) -> Tokens:
    return rows_of(sharp, sentences, N, 1)


def denoising(encoder: SentenceEncoder, decoder: dict[str, Any], **more: Any) -> Denoising:
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


def anchor_vectors() -> Tensor:
    return torch.randn(N, 32, generator=torch.Generator().manual_seed(1)).double().requires_grad_()


@pytest.mark.parametrize("tied", [True, False])
def test_tsdae_is_that_of_sentence_transformers(
    tied: bool,
    sharp_folder: Path,
    sharp: SentenceEncoder,
    once: Tokens,
    sentences: list[str],
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    theirs_encoder = SentenceTransformer(modules=[Transformer(str(sharp_folder)), Pooling(32, "cls")], device="cpu")
    theirs = DenoisingAutoEncoderLoss(
        theirs_encoder, decoder_name_or_path=str(sharp_folder), tie_encoder_decoder=tied
    ).eval()
    term = denoising(sharp, {"kind": "copy", "tied": tied})
    assert isinstance(term.decoder, CopiedDecoder)
    wanted = theirs.decoder.bert.state_dict()
    cross = {name: value for name, value in wanted.items() if "crossattention" in name}
    assert len(cross) > 20
    term.decoder.backbone.load_state_dict(cross, strict=False)
    for name, value in term.decoder.backbone.state_dict().items():
        assert torch.equal(value, wanted[name]), name
    damaged = sharp.tokenizer.pad(sharp.tokenizer.encode([" ".join(s.split()[::2]) for s in sentences[:N]], 24))
    batches = [{"input_ids": one.input_ids, "attention_mask": one.attention_mask} for one in (damaged, once)]
    vectors = sharp(damaged).vectors
    ours, their = loss_of(term, once, vectors), theirs(batches, None)
    torch.testing.assert_close(ours, their, atol=1e-5, rtol=1e-5)
    torch.autograd.backward([ours])
    torch.autograd.backward([their])
    backbone: Any = theirs_encoder[0].auto_model
    own = dict(sharp.backbone.named_parameters())
    reached = {name: p.grad for name, p in backbone.named_parameters() if p.grad is not None}
    assert len(reached) > 40
    for name, gradient in reached.items():
        torch.testing.assert_close(own[name].grad, gradient, atol=1e-4, rtol=1e-3, msg=name)


def naive_new(term: Denoising, tokens: Tokens, vectors: Tensor) -> Tensor:
    """The loss of a new decoder text by text, without padding."""
    decoder = term.decoder
    assert isinstance(decoder, NewDecoder)
    losses = []
    for row, vector in enumerate(vectors):
        ids = tokens.input_ids[row, : int(tokens.attention_mask[row].sum())]
        read = ids[: len(ids) - decoder.ahead]
        with torch.no_grad():
            x = decoder.embeddings(read.unsqueeze(0))
        later = torch.ones(len(read), len(read), dtype=torch.bool).triu(1) if decoder.ahead else None
        logits = decoder.head(decoder.layers(x, vector.view(1, 1, -1), tgt_mask=later)[0])
        for t in range(len(read)):
            losses.append(torch.logsumexp(logits[t], dim=0) - logits[t, ids[t + decoder.ahead]])
    return sum(losses, torch.zeros(())) / len(losses)


@pytest.mark.parametrize(("noise", "chunks"), list(itertools.product([0.0, 0.8], [WHOLE, Chunks(3)])), ids=str)
def test_a_new_decoder_is_that_of_loops(noise: float, chunks: Chunks, sharp: SentenceEncoder, once: Tokens) -> None:
    sharp.double()
    term = denoising(sharp, {**NEW, "noise": noise}).double()
    vectors = anchor_vectors()
    ours = gradients(loss_of(term, once, vectors, chunks), term, vectors)
    same_gradients(ours, gradients(naive_new(term, once, vectors), term, vectors), 40)
    assert ours["vectors"].abs().amax(dim=1).min() > 1e-8, "every text's own vector"


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


def test_what_denoising_cannot_be_combined_with(sharp: SentenceEncoder) -> None:
    with pytest.raises(UserError, match=r"dual_encoder is about the positives, and no part .* reads them"):
        Objective(Dropout(), terms=[Denoising()], dual_encoder=True)


def test_what_is_no_decoder_is_refused(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    from transformers import MPNetConfig, MPNetForMaskedLM

    config = MPNetConfig(
        vocab_size=60, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2
    )
    model, other = MPNetForMaskedLM(config), encoder.twin()
    other.backbone, other.lm_head = model.mpnet, MaskedLMHead(model, model.get_input_embeddings())  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"a mpnet backbone cannot be a decoder .*decoder\.kind=new"):
        CopiedDecoder(other, 0, tied=True, reader="denoising term")
    NewDecoder(other, 0, New(layers=1, heads=2), reader="denoising term")
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    encoder.lm_head = load_masked_lm_head(tiny_folder, words)
    with pytest.raises(UserError, match="3 attention heads do not divide 32"):
        NewDecoder(encoder, 0, New(layers=1, heads=3), reader="denoising term")
    encoder.adapted = True
    with pytest.raises(UserError, match=r"trained by adapters; set objective\.terms\.denoising\.decoder\.tied=false"):
        CopiedDecoder(encoder, 0, tied=True, reader="denoising term")


def local(encoder: SentenceEncoder, **chosen: Any) -> LocalGlobal:
    term = LocalGlobal(LocalGlobal.Settings.model_validate(chosen))
    term.name = "terms.local_global"
    term.begin(encoder, batch_size=N, seed=0)
    return term.eval()


def local_step(term: LocalGlobal, tokens: Tokens, chunks: Chunks = WHOLE) -> Representations:
    keys = torch.zeros(len(tokens), 1, dtype=torch.int64)
    answers: dict[Request[Any], Any] = {AnchorTexts(): tokens}
    inputs = StepInputs(tokens, len(tokens), keys, answers, noise_seed=3, chunks=chunks)
    none = torch.zeros(len(tokens), 0)
    reps = Representations(none, none, none.unsqueeze(1)[:, :0], keys, answers, noise_seed=3)
    return replace(reps, computed={term.name: term.compute(inputs, reps)})


def naive_local(term: LocalGlobal, tokens: Tokens) -> Tensor:
    network = term.network
    states = plain_states(network.backbone, tokens)[-1]
    local, texts = torch.zeros_like(states), []
    for row in range(len(tokens)):
        real = int(tokens.attention_mask[row].sum())
        read = states[row, :real].T.unsqueeze(0)
        vectors = torch.cat([convolution(read)[0] for convolution in network.convolutions]).T
        texts.append(vectors.mean(dim=0))
        local = torch.cat(
            [local[:row], nn.functional.pad(vectors, (0, 0, 0, len(states[row]) - real))[None], local[row + 1 :]]
        )
    return mutual_information(local, tokens.attention_mask, torch.stack(texts))


@pytest.mark.parametrize(("packed", "chunks"), [(False, WHOLE), (True, WHOLE), (False, Chunks(3))], ids=str)
def test_local_vectors_are_those_of_loops(
    packed: bool, chunks: Chunks, encoder: SentenceEncoder, sentences: list[str]
) -> None:
    encoder.computation = "packed" if packed else "transformers"
    encoder.double()
    term = local(encoder).double()
    none, tokens = torch.zeros(0), rows_of(encoder, sentences, N, 1)
    ours = gradients(term.loss(local_step(term, tokens, chunks)), term, none)
    assert encoder.backbone.get_parameter("encoder.layer.0.output.dense.weight").grad is not None
    same_gradients(ours, gradients(naive_local(term, tokens), term, none), 40)
