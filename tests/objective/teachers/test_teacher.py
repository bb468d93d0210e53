"""A frozen encoder that reads the texts of a step: its vectors, its ids, its state, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from transformers import BertModel

from helpers import write_tiny_bert
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.backbone import load_pooler
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.objective.teachers.teacher import TaughtVectors, Teacher, TeacherSettings, TeacherVectors, TextsOf
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import StepInputs
from opencse.text.tokenizer import Tokenizer, Tokens

N = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another encoder of the same vocabulary, with larger weights."""
    return write_tiny_bert(tmp_path_factory.mktemp("teacher"), sd=0.3)


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
    encoder: SentenceEncoder, folder: Path, sentences: list[str], of: TextsOf, chunks: int | None
) -> None:
    inputs = step(encoder, sentences, chunks=chunks)
    teacher = begun(encoder, folder)
    vectors = taught(encoder, inputs, teacher, of)
    model = SentenceEncoder(folder, device="cpu")
    same(vectors.anchor, model, inputs.anchors)
    same(vectors.positive, model, inputs.anchors if of == "anchors" else inputs.tokens.rows(N, 2 * N))
    assert vectors.hard.shape == (N, 2 if of == "all" else 0, 32)
    if of == "all":
        same(vectors.hard[:, 1], model, inputs.tokens.rows(3 * N, 4 * N))
    assert not vectors.anchor.requires_grad
    assert encoder.training, "the encoder's mode is its own"


def test_of_several_positives_the_mean_is_taken(encoder: SentenceEncoder, sentences: list[str]) -> None:
    inputs = step(encoder, sentences, rows=3 * N)
    teacher = begun(encoder)
    vectors = teacher.read(inputs, 3 * N, "views")
    with torch.no_grad():
        first, second = (teacher.model.embed(inputs.tokens.rows(a, a + N)) for a in (N, 2 * N))
    torch.testing.assert_close(vectors.positive, (first + second) / 2, rtol=1e-4, atol=1e-5)


def test_the_same_text_is_read_once(encoder: SentenceEncoder, sentences: list[str]) -> None:
    once = step(encoder, sentences, rows=N)
    ids, mask = once.tokens.input_ids, once.tokens.attention_mask
    both = Tokens(torch.cat([ids, ids]), torch.cat([mask, mask]))
    teacher = begun(encoder)
    request = TeacherVectors(teacher.settings, "views", teacher)
    random = np.random.default_rng(0)
    prepared = request.prepare(both, encoder.tokenizer, random).to(torch.device("cpu"))
    assert not request.prepare(step(encoder, sentences).tokens, encoder.tokenizer, random).holds
    twice = StepInputs(both, N, once.keys[:, :2], {request: prepared})
    rows: list[int] = []
    teacher.register_forward_pre_hook(lambda module, given: rows.append(len(given[0])))
    vectors = taught(encoder, twice, teacher, "views")
    assert rows == [N]
    assert vectors.positive is vectors.anchor


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
    encoder: SentenceEncoder, folder: Path, tmp_path: Path, sentences: list[str], byte_level: Tokenizer
) -> None:
    other = SentenceEncoder(folder, device="cpu")
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
    encoder: SentenceEncoder, folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    templated = SentenceEncoder(folder, template='The text "{text}" is {mask}.', pooling="mask", device="cpu")
    templated.save(tmp_path / "templated")
    prompted = SentenceEncoder(folder, device="cpu")
    prompted.prompts = Prompts({"any": "search: "}, "any")
    prompted.save(tmp_path / "prompted")
    inputs = step(encoder, sentences)
    texts = encoder.tokenizer.hf.batch_decode(inputs.anchors.input_ids, skip_special_tokens=True)
    for name in ("templated", "prompted"):
        vectors = taught(encoder, inputs, begun(encoder, tmp_path / name), "views")
        wanted = torch.from_numpy(SentenceEncoder(tmp_path / name, device="cpu").encode(texts))
        torch.testing.assert_close(vectors.anchor, wanted, rtol=1e-4, atol=1e-5)
        assert (vectors.anchor - taught(encoder, inputs, begun(encoder, folder), "views").anchor).abs().max() > 1e-3
    inside = step(templated, sentences)
    same(
        taught(templated, inside, begun(templated, tmp_path / "templated"), "anchors").anchor, templated, inside.anchors
    )
    other = SentenceEncoder(folder, template="{text} is {mask}.", pooling="mask", device="cpu")
    with pytest.raises(UserError, match="the teacher of the test has a template of its own"):
        begun(other, tmp_path / "templated")


def test_the_pooler_of_the_weights_is_read_and_dropout_can_be_on(
    encoder: SentenceEncoder, folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    bert: Any = BertModel.from_pretrained(folder)
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
        load_pooler(folder)
    with pytest.raises(ValidationError, match="pooler = true needs the folder"):
        TeacherSettings(pooler=True)


def test_of_a_folder_the_state_has_the_fingerprint_alone(
    encoder: SentenceEncoder, folder: Path, tmp_path: Path
) -> None:
    state = begun(encoder, folder).state_dict()
    assert list(state) == ["identity"]
    begun(encoder, folder).load_state_dict(state)
    write_tiny_bert(tmp_path / "replaced", sd=0.2)
    with pytest.raises(UserError, match="is another model than the teacher that the run began with"):
        begun(encoder, tmp_path / "replaced").load_state_dict(state)


def test_texts_longer_than_the_teacher_reads_are_refused(
    encoder: SentenceEncoder, folder: Path, sentences: list[str]
) -> None:
    teacher = begun(encoder, folder)
    teacher.model.max_length = 4
    with pytest.raises(UserError, match=r"reads 4 tokens, and a text has .*; set data.max_length=4"):
        taught(encoder, step(encoder, sentences), teacher, "anchors")


def test_requests_for_one_teacher_are_one_request() -> None:
    first, second = (TeacherVectors(TeacherSettings(), "views", Teacher(TeacherSettings(), "test")) for _ in range(2))
    assert first == second
    assert first != TeacherVectors(TeacherSettings(pooling=Pooling.CLS), "views", first.teacher)
