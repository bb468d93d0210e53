"""Frozen encoders that read the texts of a step, the false negatives they find, and terms that follow them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from scipy.stats import spearmanr
from torch import Tensor, nn
from transformers import BertModel

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.backbone import load_pooler
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.teachers.teacher import (
    Panel,
    TaughtVectors,
    Teacher,
    TeacherSettings,
    TeacherVectors,
    TextsOf,
    WeightedTeacherSettings,
)
from opencse.objective.terms.distillation import (
    Consistency,
    Distill,
    RankVectors,
    jensen_shannon,
    list_mle,
    list_net,
    negative_entropy,
)
from opencse.objective.terms.imitation import turned
from opencse.objective.terms.start import NearStart
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.plain import Dropout
from opencse.settings import validate
from opencse.text.tokenizer import Tokenizer, Tokens

N = 4


def tokens_of(encoder: SentenceEncoder, texts: list[str]) -> Tokens:
    return encoder.tokenizer.pad(encoder.tokenize(texts))


def step(encoder: SentenceEncoder, sentences: list[str], *, rows: int = 4 * N, chunks: int | None = None) -> StepInputs:
    """N anchors, other positives, and two hard negatives each."""
    tokens = tokens_of(encoder, [" ".join(text.split()[: 3 + i % 5]) for i, text in enumerate(sentences[:rows])])
    keys = torch.arange(N * 4).reshape(N, 4)
    return StepInputs(tokens, N, keys, chunks=Chunks(rows=chunks))


def begun(encoder: SentenceEncoder, model: str | Path = "start", pooling: Pooling | None = None) -> Teacher:
    teacher = Teacher(TeacherSettings(model=str(model), pooling=pooling), "test")
    teacher.begin(encoder)
    return teacher


def taught(encoder: SentenceEncoder, inputs: StepInputs, teacher: Teacher, of: TextsOf) -> TaughtVectors:
    """By the step's own forward pass."""
    request = TeacherVectors(teacher.settings, of, teacher)
    return represent(encoder, inputs, [Sentences(), request])[request]


def same(vectors: Tensor, model: SentenceEncoder, tokens: Tokens) -> None:
    with torch.no_grad():
        torch.testing.assert_close(vectors, model.embed(tokens), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunks", [None, 3])
@pytest.mark.parametrize("of", ["anchors", "views", "all"])
def test_a_folder_reads_the_rows_without_dropout(
    encoder: SentenceEncoder, sharp_folder: Path, sentences: list[str], of: TextsOf, chunks: int | None
) -> None:
    inputs = step(encoder, sentences, chunks=chunks)
    teacher = begun(encoder, sharp_folder)
    vectors = taught(encoder, inputs, teacher, of)
    model = SentenceEncoder(sharp_folder, device="cpu")
    same(vectors.anchor, model, inputs.anchors)
    same(vectors.positive, model, inputs.anchors if of == "anchors" else inputs.tokens.rows(N, 2 * N))
    assert vectors.hard.shape == (N, 2 if of == "all" else 0, 32)
    if of == "all":
        same(vectors.hard[:, 1], model, inputs.tokens.rows(3 * N, 4 * N))
    assert not vectors.anchor.requires_grad
    assert encoder.training, "the encoder's mode is its own"


def test_the_start_is_a_copy_without_the_training_head(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.projection = Dense(32, 8)
    inputs = step(encoder, sentences)
    teacher = begun(encoder, pooling=Pooling.CLS)
    plain = encoder.twin()
    plain.projection, plain.pooling = None, Pooling.CLS
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1.0)
    same(taught(encoder, inputs, teacher, "anchors").anchor, plain.eval(), inputs.anchors)
    assert not [p for p in teacher.parameters() if p.requires_grad]
    state = teacher.state_dict()
    assert state.keys() == {f"start.{name}" for name in plain.state_dict()}, "a resumed run has the same copy"


def test_another_tokenizer_reads_the_decoded_texts(
    encoder: SentenceEncoder, sharp_folder: Path, tmp_path: Path, sentences: list[str], byte_level: Tokenizer
) -> None:
    other = SentenceEncoder(sharp_folder, device="cpu")
    words = nn.Embedding(byte_level.vocabulary_size, 32)
    nn.init.normal_(words.weight)
    other.backbone.set_input_embeddings(words)
    other.backbone.config.vocab_size = byte_level.vocabulary_size
    other.tokenizer = byte_level
    other.save(tmp_path / "other")
    inputs = step(encoder, sentences)
    vectors = taught(encoder, inputs, begun(encoder, tmp_path / "other"), "views")
    texts = encoder.tokenizer.hf.batch_decode(inputs.anchors.input_ids, skip_special_tokens=True)
    read = SentenceEncoder(tmp_path / "other", device="cpu")
    torch.testing.assert_close(vectors.anchor, torch.from_numpy(read.encode(texts)), rtol=1e-4, atol=1e-5)
    assert vectors.anchor.std(dim=0).min() > 0


def test_a_template_or_prompt_of_its_own_is_around_the_texts(
    encoder: SentenceEncoder, sharp_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    templated = SentenceEncoder(sharp_folder, template='The text "{text}" is {mask}.', pooling="mask", device="cpu")
    templated.save(tmp_path / "templated")
    prompted = SentenceEncoder(sharp_folder, device="cpu")
    prompted.prompts = Prompts({"any": "search: "}, "any")
    prompted.save(tmp_path / "prompted")
    inputs = step(encoder, sentences)
    texts = encoder.tokenizer.hf.batch_decode(inputs.anchors.input_ids, skip_special_tokens=True)
    for name in ("templated", "prompted"):
        vectors = taught(encoder, inputs, begun(encoder, tmp_path / name), "views")
        wanted = torch.from_numpy(SentenceEncoder(tmp_path / name, device="cpu").encode(texts))
        torch.testing.assert_close(vectors.anchor, wanted, rtol=1e-4, atol=1e-5)
        assert (
            vectors.anchor - taught(encoder, inputs, begun(encoder, sharp_folder), "views").anchor
        ).abs().max() > 1e-3
    inside = step(templated, sentences)
    same(
        taught(templated, inside, begun(templated, tmp_path / "templated"), "anchors").anchor, templated, inside.anchors
    )
    other = SentenceEncoder(sharp_folder, template="{text} is {mask}.", pooling="mask", device="cpu")
    with pytest.raises(UserError, match="the teacher of the test has a template of its own"):
        begun(other, tmp_path / "templated")


def test_the_pooler_of_the_weights_is_read_and_dropout_can_be_on(
    encoder: SentenceEncoder, sharp_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    bert: Any = BertModel.from_pretrained(sharp_folder)
    bert.eval()
    torch.nn.init.normal_(bert.pooler.dense.weight)
    bert.save_pretrained(tmp_path)
    encoder.tokenizer.hf.save_pretrained(tmp_path)
    inputs = step(encoder, sentences)

    def read(one_text: bool = False, **how: bool) -> TaughtVectors:
        teacher = Teacher(TeacherSettings(model=str(tmp_path), pooling=Pooling.CLS, **how), "test")
        teacher.begin(encoder)
        return teacher.read(inputs, 2 * N, "views", one_text=one_text)

    with torch.no_grad():
        rows = inputs.anchors
        theirs = bert(rows.input_ids, rows.attention_mask).pooler_output
    torch.testing.assert_close(read(pooler=True).anchor, theirs, rtol=1e-4, atol=1e-5)
    noisy, again = read(dropout=True, one_text=True), read(dropout=True)
    distances = [(noisy.anchor - other).abs().max() for other in (read().anchor, again.anchor, noisy.positive)]
    assert min(distances) > 1e-2, "each row of each step has a mask of its own"
    assert not noisy.anchor.requires_grad
    with pytest.raises(UserError, match=r"1 weights of BertModel are missing|pooler"):
        load_pooler(sharp_folder)
    with pytest.raises(ValidationError, match="pooler = true needs the folder"):
        TeacherSettings(pooler=True)


def test_texts_longer_than_the_teacher_reads_are_refused(
    encoder: SentenceEncoder, sharp_folder: Path, sentences: list[str]
) -> None:
    teacher = begun(encoder, sharp_folder)
    teacher.model.max_length = 4
    with pytest.raises(UserError, match=r"reads 4 tokens, and a text has .*; set data.max_length=4"):
        taught(encoder, step(encoder, sentences), teacher, "anchors")


def test_the_weighted_mean_of_cosines() -> None:
    random = torch.Generator().manual_seed(0)
    settings = [WeightedTeacherSettings(weight=1.0), WeightedTeacherSettings(pooling=Pooling.CLS, weight=3.0)]
    panel = Panel(settings, "test", "views")
    taught = []
    for size in (3, 5):
        left, right = torch.randn(2, N, size, generator=random)
        taught.append(TaughtVectors(left, right, torch.zeros(N, 0, size)))
    reps = replace(
        Representations.of(torch.eye(N), torch.eye(N)), answers=dict(zip(panel.requests, taught, strict=True))
    )
    first, second = (every_cosine(one.anchor, one.positive) for one in taught)
    torch.testing.assert_close(panel.cosines(reps, "anchor", "positive"), 0.25 * first + 0.75 * second)


def every_cosine(left: Tensor, right: Tensor) -> Tensor:
    return torch.cosine_similarity(left.unsqueeze(1), right.unsqueeze(0), dim=2)


def same_with_gradients(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10, check_dtype=False)
    gradients = [torch.autograd.grad(loss, leaves, retain_graph=True) for loss in (ours, theirs)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-10)


G, D, T, TAU = 8, 5, 6, 0.3


def vectors(seed: int = 0) -> tuple[Representations, TaughtVectors]:
    random = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    anchors, positives, hard = (leaf(*shape).requires_grad_() for shape in ((G, D), (G, D), (G, 1, D)))
    reps = Representations.of(anchors, positives, hard)
    anchor = leaf(G, T)
    return reps, TaughtVectors(anchor, anchor + 0.7 * leaf(G, T), leaf(G, 1, T))


def losses(objective: Objective, reps: Representations, taught: TaughtVectors) -> Tensor:
    requests = [request for request in objective.reads if isinstance(request, TeacherVectors)]
    assert requests
    loss: Tensor = objective(replace(reps, answers=dict.fromkeys(requests, taught))).losses["contrast"]
    return loss


@pytest.mark.parametrize("strategy", ["absolute", "relative"])
@pytest.mark.parametrize("margin", [0.0, 0.2])
@pytest.mark.parametrize("hard", [False, True])
def test_the_loss_of_sentence_transformers(strategy: str, margin: float, hard: bool) -> None:
    from sentence_transformers.sentence_transformer.losses import gist_embed

    reps, taught = vectors()
    guide = {"strategy": strategy, "margin": margin}
    negatives: list[dict[str, Any]] = [
        {"kind": "in_batch", "columns": "positives_and_anchors", "guide": guide},
        {"kind": "in_batch", "of": {"kind": "positives"}, "guide": guide},
        *([{"kind": "hard", "guide": guide}] if hard else []),
    ]
    loss = losses(objective_of(negatives=negatives, temperature=TAU), reps, taught)
    theirs = gist_embed.GISTEmbedLoss.__new__(gist_embed.GISTEmbedLoss)
    torch.nn.Module.__init__(theirs)
    columns = [reps.anchor, reps.positive, *([reps.hard[:, 0]] if hard else [])]
    guided = [taught.anchor, taught.positive, *([taught.hard[:, 0]] if hard else [])]
    attributes = {
        "model": columns,
        "guide": guided,
        "temperature": TAU,
        "similarity_fct": torch.nn.CosineSimilarity(dim=-1),
        "must_retokenize": False,
        "margin_strategy": strategy,
        "margin": margin,
        "contrast_anchors": True,
        "contrast_positives": True,
        "gather_across_devices": False,
        "cross_entropy_loss": torch.nn.CrossEntropyLoss(),
    }
    for name, value in attributes.items():
        object.__setattr__(theirs, name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gist_embed, "embed_columns", lambda model, features: list(model))
        expected = theirs.forward([{}] * len(columns), torch.zeros(G))
    same_with_gradients(loss, expected, [reps.anchor, reps.positive, reps.hard][: len(columns)])


@pytest.mark.parametrize("guide", [{"strategy": "fixed", "margin": 0.1}, {"limit": 0.5}])
def test_a_number_without_effect_is_refused(guide: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="has no effect with strategy"):
        objective_of(negatives=[{"kind": "in_batch", "guide": guide}])


def test_in_the_other_direction_the_positives_are_the_anchors() -> None:
    reps, taught = vectors()
    negatives = [{"kind": "in_batch", "guide": {"margin": 0.3}}]
    guided = objective_of(negatives=negatives, temperature=TAU)
    columns = losses(objective_of(negatives=negatives, temperature=TAU, directions="columns"), reps, taught)
    swapped = Representations.of(reps.positive, reps.anchor)
    exchanged = TaughtVectors(taught.positive, taught.anchor, taught.hard)
    torch.testing.assert_close(columns, losses(guided, swapped, exchanged))
    assert abs(float(columns.detach() - losses(guided, reps, taught).detach())) > 1e-6


E, W = 6, 4


def term(**data: Any) -> Distill:
    made = Distill(validate(Distill.Settings, {"kind": "distill", **data}, "test"))
    made.name = "terms.distill"
    return made


def taught_step(made: Distill, n: int = E) -> Representations:
    random = torch.Generator().manual_seed(0)
    anchor, positive = (torch.randn(n, W, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    answers: dict[Request[Any], Any] = {}
    for request in made.panel.requests:
        left, right = (torch.randn(n, 3, generator=random, dtype=torch.float64) for _ in range(2))
        answers[request] = TaughtVectors(left, right, left.unsqueeze(1)[:, :0])
    return replace(Representations.of(anchor, positive), answers=answers)


def cosines(left: Tensor, right: Tensor, own: bool) -> Tensor:
    square = every_cosine(left, right)
    return square if own else square[~torch.eye(E, dtype=torch.bool)].reshape(E, E - 1)


@pytest.mark.parametrize(
    ("loss", "of", "own"), [("list_net", "anchors", False), ("list_net", "views", True), ("list_mle", "views", False)]
)
def test_the_compared_similarities(loss: str, of: str, own: bool) -> None:
    made = term(loss=loss, of=of, own=own, student_temperature=0.3, teacher_temperature=0.2)
    reps = taught_step(made)
    taught = reps[made.panel.requests[0]]
    student = cosines(reps.anchor, reps.anchor if of == "anchors" else reps.positive, own)
    teacher = cosines(taught.anchor, taught.anchor if of == "anchors" else taught.positive, own)
    wanted = (
        list_net(student, teacher, student_temperature=0.3, teacher_temperature=0.2)
        if loss == "list_net"
        else list_mle(student, teacher, student_temperature=0.3)
    )
    same_with_gradients(made.loss(reps), wanted, [reps.anchor])


@pytest.mark.slow
@pytest.mark.parametrize("width", [2, 3, 5])
def test_turned_vectors_keep_the_cosines_that_the_width_can_hold(width: int) -> None:
    random = torch.Generator().manual_seed(0)
    own, taught = (torch.randn(40, n, generator=random, dtype=torch.float64) for n in (width, 3))
    turn = turned(taught, own).double()
    turns = turn @ turn.T if width >= 3 else turn.T @ turn
    torch.testing.assert_close(turns, torch.eye(min(width, 3), dtype=torch.float64), atol=1e-6, rtol=0)
    others = [
        turn @ torch.linalg.qr(torch.randn(width, width, generator=random, dtype=torch.float64))[0] for _ in range(10)
    ]
    assert all((taught @ turn - own).square().sum() < (taught @ other - own).square().sum() for other in others)


def test_shuffling_exchanges_the_students_similarities() -> None:
    plain, shuffled = term(), term(shuffle=1.0)
    reps = taught_step(shuffled)
    first = shuffled.loss(reps)
    assert first == shuffled.loss(reps), "the draws are those of the step"
    assert first != shuffled.loss(replace(reps, noise_seed=1))
    assert first != plain.loss(reps)
    torch.testing.assert_close(term(shuffle=1e-3).loss(reps), plain.loss(reps))


def test_the_log_says_how_far_student_and_teachers_agree() -> None:
    made = term()
    reps = taught_step(made)
    request = made.panel.requests[0]
    same = TaughtVectors(reps.anchor.detach(), reps.positive.detach(), reps.anchor.detach()[:, None, :0])
    assert made.diagnose(replace(reps, answers={request: same}))["teacher_agreement"] == 1
    assert 0 < made.diagnose(reps)["teacher_agreement"] < 1


def test_too_few_examples_and_an_anchor_with_itself_are_refused() -> None:
    made = term()
    with pytest.raises(UserError, match="at least 3 in a batch"):
        made.loss(taught_step(made, n=2))
    with pytest.raises(UserError, match="an anchor has cosine 1 with itself"):
        term(own=True)


def near_start(**data: Any) -> NearStart:
    return NearStart(validate(NearStart.Settings, {"kind": "near_start", **data}, "test"))


def near(encoder: SentenceEncoder, **data: Any) -> NearStart:
    made = near_start(**data)
    made.begin(encoder, batch_size=N, seed=0)
    return made


@pytest.mark.parametrize(("distance", "normalised"), [("cosine", False), ("mse", False), ("mse", True)])
def test_the_distance_of_vectors_by_loops(encoder: SentenceEncoder, distance: str, normalised: bool) -> None:
    encoder.normalize = normalised
    made = near(encoder, vectors=0.5, distance=distance)
    random = torch.Generator().manual_seed(0)
    a, b, c, d = torch.randn(4, N, D, generator=random, dtype=torch.float64).unbind()
    leaves = [a.requires_grad_(), b.requires_grad_()]
    reps = replace(Representations.of(a, b), answers={made.request: TaughtVectors(c, d, c.unsqueeze(1)[:, :0])})
    vectors, start = torch.cat([a, b]), torch.cat([c, d])
    if normalised:
        vectors = vectors / vectors.square().sum(dim=1, keepdim=True).sqrt()
    squares = (vectors - start).square().mean(dim=1)
    wanted = (1 - torch.cosine_similarity(vectors, start)) if distance == "cosine" else squares
    same_with_gradients(made.loss(reps), 0.5 * wanted.mean(), leaves)
    told = float(made.diagnose(reps.detached())["start_distance"])
    assert told == pytest.approx(float(wanted.detach().mean()))


def test_the_distance_of_weights(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.double()
    made = near(encoder, vectors=0.0, weights=0.1)
    inputs = StepInputs(tokens_of(encoder, sentences[: 2 * N]), N, torch.arange(2 * N).reshape(N, 2))
    assert float(made.loss(represent(encoder, inputs, made.reads)).detach()) == 0
    before = {name: p.detach().clone() for name, p in encoder.backbone.named_parameters()}
    with torch.no_grad():
        for number, parameter in enumerate(encoder.backbone.parameters()):
            parameter.add_(0.01 * (number % 3))
    loss = made.loss(represent(encoder, inputs, made.reads))
    moved = {name: p.detach() - before[name] for name, p in encoder.backbone.named_parameters()}
    assert float(loss.detach()) == pytest.approx(0.1 * sum(float(m.square().sum()) for m in moved.values()), rel=1e-10)
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in encoder.backbone.named_parameters():
        torch.testing.assert_close(parameter.grad, 0.2 * moved[name], rtol=1e-10, atol=1e-10)


def test_a_training_head_is_refused(encoder: SentenceEncoder) -> None:
    encoder.projection = Dense(32, 32)
    objective = Objective(Dropout(), negatives=[InBatch()], terms=[near_start()])
    with pytest.raises(
        UserError, match=r"a head that is dropped after training; set it with --set encoder\.head\.kind=none"
    ):
        objective.check_encoder(encoder)
    weights = Objective(Dropout(), negatives=[InBatch()], terms=[near_start(vectors=0, weights=1)])
    weights.check_encoder(encoder)


R, W, FULL = 5, 4, 32


def ranking(encoder: SentenceEncoder, **data: Any) -> RankVectors:
    term = RankVectors(validate(RankVectors.Settings, {"kind": "rank_vectors", **data}, "test"))
    term.begin(encoder.double(), batch_size=R, seed=0)
    return term


def ranked_step(term: RankVectors, seed: int) -> Representations:
    random = torch.Generator().manual_seed(seed)
    anchor, positive = (torch.randn(R, W, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    taught = torch.randn(R, FULL, generator=random, dtype=torch.float64)
    taught[1] = taught[0] + 0.3 * taught[1]
    answers: dict[Request[Any], Any] = {term.request: TaughtVectors(taught, taught, taught.unsqueeze(1)[:, :0])}
    return replace(Representations.of(anchor, positive), answers=answers)


def test_the_loss_by_loops(encoder: SentenceEncoder) -> None:
    term = ranking(encoder, corpus=12, least=10, low=0.4, high=0.999)
    earlier = [ranked_step(term, seed) for seed in range(3)]
    for number, reps in enumerate(earlier):
        assert float(term.loss(reps).detach()) == 0 or number == 2
        assert (term.diagnose(reps)["rank_pairs"] > 0) == (number == 2)
        term.after_backward(encoder, [], [reps.detached()])
    reps = ranked_step(term, 9)
    corpus = torch.cat([one[term.request].anchor for one in earlier])[-12:]
    taught = reps[term.request].anchor
    ranks = every_cosine(taught, corpus)
    terms = []
    for i in range(R):
        for j in range(R):
            rho = spearmanr(ranks[i], ranks[j]).statistic
            if 0.4 <= rho <= 0.999:
                terms.append((torch.cosine_similarity(reps.anchor[i], reps.positive[j], dim=0) - rho) ** 2)
    assert 2 <= len(terms) < R * (R - 1)
    wanted = torch.stack(terms).mean()
    same_with_gradients(term.loss(reps), wanted, [reps.anchor, reps.positive])


@pytest.mark.parametrize(
    ("data", "words"), [({"low": 0.9, "high": 0.5}, "is above high"), ({"corpus": 10}, "least .* is above corpus")]
)
def test_settings_that_contradict_each_other(data: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        validate(RankVectors.Settings, {"kind": "rank_vectors", **data}, "test")


@pytest.mark.parametrize(("scaling", "function"), [("paper", jensen_shannon), ("reference", negative_entropy)])
def test_rows_of_anchors_and_rows_of_positives(scaling: str, function: Any) -> None:
    random = torch.Generator().manual_seed(0)
    leaves = [torch.randn(R, W, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2)]
    rows = every_cosine(*leaves) / 0.2
    data = {"kind": "consistency", "scaling": scaling, "temperature": 0.2}
    loss = Consistency(validate(Consistency.Settings, data, "test")).loss(Representations.of(*leaves))
    same_with_gradients(loss, function(rows, rows.T), leaves)
