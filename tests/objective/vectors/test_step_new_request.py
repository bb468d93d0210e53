"""A new kind of request, and parts that read it: new vectors without a change to the package."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.outputs import Encoded
from opencse.objective.context import Context
from opencse.objective.inputs import InputBuilder
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.terms.base import Term
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Clean, Layer, Means, Sentences
from opencse.objective.vectors.step import Forward, Representations, Request, StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.runs.job import TrainJob
from opencse.settings import PartSettings
from opencse.text import sample
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer, Tokens

N = 5


@dataclass(frozen=True)
class Shuffled(Request[Tensor]):
    """(2N, d): the views' vectors with the tokens inside each text in a random order, one draw a step.

    Uses everything a request may: texts made beforehand, rows of the one forward, the encoder and the data to refuse.
    """

    seed: int = 0

    def check(self, context: Context) -> None:
        if context.objective.dual_encoder:
            raise UserError("shuffled texts go with one encoder")
        if context.encoder is not None and context.encoder.max_length < 5:
            raise UserError(f"{context.model}: nothing to shuffle")

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> Tokens:
        ids = tokens.input_ids.clone()
        for row, length in zip(ids, tokens.attention_mask.sum(dim=1).tolist(), strict=True):
            row[1 : length - 1] = row[1 : length - 1][torch.from_numpy(random.permutation(length - 2))]
        return Tokens(ids, tokens.attention_mask)

    def ask(self, forward: Forward) -> Callable[[Encoded], Tensor]:
        rows: Tokens = forward.inputs.prepared[self]
        start = len(forward.inputs.tokens) + sum(map(len, forward.more))
        forward.more.append(rows)
        return lambda encoded: encoded.vectors[start : start + len(rows)]


class OrderLoss(Term):
    """Pushes a sentence from itself in another order."""

    class Settings(PartSettings):
        """Its weight."""

        kind: Literal["order"] = "order"
        weight: float = 0.5

    settings: Settings

    @property
    def reads(self) -> Set[Request[Any]]:
        return {Sentences(), Shuffled()}

    def loss(self, reps: Representations) -> Tensor:
        views = torch.cat([reps.anchor, reps.positive])
        return torch.cosine_similarity(views, reps[Shuffled()], dim=1).mean()


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


def built(encoder: SentenceEncoder, objective: Objective, folder: Path, texts: list[str], step: int = 0) -> StepInputs:
    path = folder / "text.txt"
    path.write_text("\n".join(texts))
    corpus = tokenise(Source(str(path)), encoder.tokenizer, 24)
    return InputBuilder(corpus, encoder.tokenizer, objective, 1).build(np.arange(N), step)


def test_its_rows_go_through_the_one_forward_with_all_others(
    encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    objective = Objective(Dropout(), negatives=[InBatch()], terms=[OrderLoss()])
    assert objective.reads == {Sentences(), Shuffled()}
    inputs = built(encoder, objective, tmp_path, sentences[:N])
    made: Tokens = inputs.prepared[Shuffled()]
    before, after = (t.input_ids.sort(dim=1).values for t in (inputs.tokens, made))
    assert torch.equal(before, after), "the same tokens"
    assert not (made.input_ids == inputs.tokens.input_ids).all(dim=1).any(), "in another order"
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    reads: set[Request[Any]] = {*objective.reads, Layer(1), Means(2), Clean()}
    with torch.no_grad():
        reps = represent(encoder, inputs, reads)
        alone = represent(encoder, inputs, {Sentences()})
        expected = encoder(made).sentence
    assert rows == [2 * N + 2 * N + 4 * N, N, 2 * N, 2 * N], "one forward, and the clean one that cannot share it"
    assert reps.answers.keys() == reads
    torch.testing.assert_close(reps[Shuffled()], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(reps.anchor, alone.anchor, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(reps[Means(2)][0], alone.anchor, atol=1e-5, rtol=1e-4)
    assert reps[Layer(1)].shape == (2 * N, 32)
    assert (reps[Shuffled()] - torch.cat([reps.anchor, reps.positive])).abs().amax(dim=1).min() > 1e-3
    with pytest.raises(RuntimeError, match=r"no part of the objective reads Shuffled\(seed=1\)"):
        reps[Shuffled(seed=1)]


def test_what_it_prepares_moves_with_the_inputs_and_depends_on_the_step(
    encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    objective = Objective(Dropout(), terms=[OrderLoss()])
    first, again, other = (built(encoder, objective, tmp_path, sentences[:N], step) for step in (0, 0, 1))
    ids = [inputs.prepared[Shuffled()].input_ids for inputs in (first, again, other)]
    assert torch.equal(ids[0], ids[1])
    assert not torch.equal(ids[0], ids[2])
    assert first.to(torch.device("meta")).prepared[Shuffled()].input_ids.device.type == "meta"


def test_its_loss_has_a_gradient_and_its_answer_stays_for_parts_that_look_back(
    encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    objective = Objective(Dropout(), terms=[OrderLoss()])
    inputs = built(encoder, objective, tmp_path, sentences[:N])
    reps = objective.represent(encoder, inputs)
    outcome = objective(reps)
    assert list(outcome.losses) == ["order"]
    torch.autograd.backward(outcome.total)
    assert any(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters())
    kept = reps.detached()
    assert not kept[Shuffled()].requires_grad
    assert torch.equal(kept[Shuffled()], reps[Shuffled()])


def test_it_refuses_what_it_cannot_be_combined_with(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match=r"^shuffled texts go with one encoder$"):
        Objective(Dropout(), terms=[OrderLoss()], dual_encoder=True)
    objective = Objective(Dropout(), terms=[OrderLoss()])
    objective.check(Context(objective, encoder=encoder, model="tiny"))
    encoder.max_length = 4
    with pytest.raises(UserError, match=r"^tiny: nothing to shuffle$"):
        objective.check(Context(objective, encoder=encoder, model="tiny"))


def test_a_run_trains_with_it(tiny_folder: Path, tmp_path: Path) -> None:
    settings = (
        "training.max_steps=3",
        "training.batch_size=8",
        "training.log_every=1",
        "training.precision=float32",
        f'objective.terms=[{{ kind = "{__name__}:OrderLoss" }}]',
    )
    TrainJob(text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=settings, dev=None).run(tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert all('"loss_order"' in line for line in lines)
