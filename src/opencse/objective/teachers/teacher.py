"""Frozen encoders that read the texts of a step: one, several together, and one that finds false negatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.text_encoder import Batching, usual_budget
from opencse.errors import UserError
from opencse.kernels.states import Encoded
from opencse.model_folder.backbone import load_pooler
from opencse.model_folder.locate import locate
from opencse.modules.dense import evaluating
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Role
from opencse.objective.columns import AnyColumns, FalseNegatives, VectorColumns
from opencse.objective.sides.base import SideText
from opencse.objective.similarity import at_least_float32, pairwise_similarity, rowwise_similarity
from opencse.objective.vectors.step import Forward, Representations, Request, StepInputs
from opencse.settings import AboveZero, Cosine, ModelLocation, Settings
from opencse.text.tokenizer import Tokenizer, Tokens

START = "start"
"""The name of the model that training begins with, as a teacher."""
TextsOf = Literal["anchors", "views", "all"]
"""The texts that a teacher reads: the anchors', the anchors' and positives', or those and the hard negatives'."""


class TeacherSettings(Settings):
    """Settings of `Teacher`.

    Attributes:
        model: ``start``, a copy of the encoder that training begins with; or the folder or Hub id of any encoder.
        pooling: the pooling of its vectors, in place of the model's own.
        dropout: whether its dropout is on, as where an authors' training mode reaches it.
        pooler: whether the pooler layer of the folder's weights (BERT's) comes after the pooling; not with ``start``.
    """

    model: ModelLocation = START
    pooling: Pooling | None = None
    dropout: bool = False
    pooler: bool = False

    @model_validator(mode="after")
    def _pooler_is_read_from_a_folder(self) -> TeacherSettings:
        if self.pooler and self.model == START:
            raise ValueError("pooler = true needs the folder or Hub id of a model; the start in training has no pooler")
        return self

    @property
    def teacher(self) -> TeacherSettings:
        """These settings alone, without what a part has beyond them."""
        return TeacherSettings.model_validate(self.model_dump(include=set(TeacherSettings.model_fields)))


class WeightedTeacherSettings(TeacherSettings):
    """Settings of one of several teachers.

    Attributes:
        weight: how much its similarities count; the weights of all teachers are divided by their sum.
    """

    weight: AboveZero = 1.0


class Teacher(nn.Module):
    """An encoder that is never trained and gives vectors of the texts of a step, by default without dropout.

    It reads the ids of the step where its vocabulary is the one of the encoder in training, and it has no prompt or
    template that these lack. Otherwise the ids are decoded and tokenised again, as sentence-transformers'
    ``GISTEmbedLoss`` does, with its prompt or in its template: what the encoder's tokenizer drops (capital letters of
    an uncased one, what is beyond ``data.max_length``) the teacher does not see either. Where the encoder in training
    has a template, the teacher reads the texts in it.

    The copy of the start is in the state, so a resumed run has the same one. A folder is opened again; a run is not
    resumed with other files in it (`opencse.runs.record.Identity`).

    Args:
        settings: which encoder.
        reader: the part that needs it, for messages.
    """

    def __init__(self, settings: TeacherSettings, reader: str) -> None:
        super().__init__()
        self.settings = settings
        self.reader = reader
        self.start: SentenceEncoder | None = None
        self._opened: list[SentenceEncoder] = []  # in a list, so that its weights are in no checkpoint
        self._decoder: Tokenizer | None = None

    @property
    def model(self) -> SentenceEncoder:
        """The frozen encoder, after `begin`."""
        if self.start is not None:
            return self.start
        return self._opened[0]

    def begin(self, encoder: SentenceEncoder) -> None:
        """Copies ``encoder``, or opens the folder on its device.

        Raises:
            UserError: if there is no such model, or it has another template than ``encoder``.
        """
        settings = self.settings
        if settings.model == START:
            start = encoder.twin()
            start.lm_head, start.projection = None, None
            start.pooling = settings.pooling or start.pooling
            self.start = start.requires_grad_(False).eval()
            return
        model = SentenceEncoder(settings.model, pooling=settings.pooling, device=encoder.device)
        if settings.pooler:
            model.dense.insert(0, load_pooler(locate(settings.model)).to(encoder.device))
        self._opened = [model.requires_grad_(False).eval()]
        self._decoder = None if self._reads_ids(model, encoder) else encoder.tokenizer
        if settings.dropout and self._decoder is not None:
            raise UserError(
                f"{settings.model}: the teacher of the {self.reader} has a tokenizer of its own, and is read "
                "without dropout; leave dropout out"
            )

    def close(self) -> None:
        """Frees the encoder, where all that is needed of it has been made."""
        self.start, self._opened = None, []

    def _reads_ids(self, model: SentenceEncoder, encoder: SentenceEncoder) -> bool:
        """Whether the ids of a step are those that ``model`` itself makes of the texts.

        Raises:
            UserError: for texts that would be in two templates.
        """
        frame, in_training = model.tokenizer.frame, encoder.tokenizer.frame
        same_vocabulary = model.tokenizer.hf.get_vocab() == encoder.tokenizer.hf.get_vocab()
        same = same_vocabulary and frame == in_training
        if frame is not None and in_training is not None and not same:
            raise UserError(
                f"{self.settings.model}: the teacher of the {self.reader} has a template of its own, and the texts are "
                "in that of the encoder in training; choose a teacher without one, or leave encoder.template out"
            )
        return same_vocabulary and (frame is None or same) and not model.prompts.requested(Role.PLAIN)

    def forward(self, tokens: Tokens) -> Tensor:
        """(rows, t): the vectors of some texts, float32 at least.

        Raises:
            UserError: for texts longer than the teacher reads.
        """
        model = self.model
        if self._decoder is not None:
            lengths = tokens.attention_mask.sum(dim=1).tolist()
            ids = [row[:length] for row, length in zip(tokens.input_ids.tolist(), lengths, strict=True)]
            texts: list[str] = self._decoder.hf.batch_decode(ids, skip_special_tokens=True)
            prompt = model.prompts.requested(Role.PLAIN, None, None)
            vectors = model.vectors(texts, Batching(usual_budget(model.device_kind), prompt=prompt))
            return torch.from_numpy(vectors).to(tokens.input_ids.device)
        length = tokens.input_ids.shape[1]
        if length > model.max_length:
            raise UserError(
                f"{self.settings.model}: the teacher of the {self.reader} reads {model.max_length} tokens, and a text "
                f"has {length}; set data.max_length={model.max_length}"
            )
        with evaluating(model):
            return at_least_float32(model.embed(tokens))

    def read(self, inputs: StepInputs, views: int, of: TextsOf, *, one_text: bool = False) -> TaughtVectors:
        """The vectors of a step's texts, in its chunks, of which each process encodes a share.

        Args:
            inputs: the step's texts.
            views: rows of the views, N or (1 + P) N.
            of: the texts to read.
            one_text: whether each positive is the text of its anchor, which is then read once.
        """
        tokens, n = inputs.tokens, inputs.examples
        anchor = positive = self._vectors(inputs, inputs.anchors)
        # Both views are one text: without dropout a teacher gives the same vectors twice.
        once = one_text and views == 2 * n and not self.settings.dropout
        if of != "anchors" and views > n and not once:
            positives = self._vectors(inputs, tokens.rows(n, views))  # (P N, t)
            positive = positives.reshape(-1, *anchor.shape).mean(dim=0)
        hard = anchor.unsqueeze(1)[:, :0]
        if of == "all" and len(tokens) > views:
            rest = self._vectors(inputs, tokens.rows(views, len(tokens)))
            hard = rest.reshape(-1, n, rest.shape[1]).transpose(0, 1)
        return TaughtVectors(anchor, positive, hard)

    @torch.no_grad()
    def _vectors(self, inputs: StepInputs, tokens: Tokens) -> Tensor:
        if not self.settings.dropout:
            return inputs.chunks.each(self, tokens)
        return at_least_float32(inputs.chunks.encode(self.model.train(), tokens).vectors)


@dataclass(frozen=True)
class TaughtVectors:
    """A teacher's vectors of the texts of a step, without gradient.

    Attributes:
        anchor: (N, t).
        positive: (N, t); the anchors' where the view makes the positives of the anchors' vectors, the mean where an
            anchor has several.
        hard: (N, H, t); H is 0 unless the hard negatives were read.
    """

    anchor: Tensor
    positive: Tensor
    hard: Tensor

    def of(self, text: Literal["anchor", "positive"]) -> Tensor:
        """(N, t): the vectors of the anchors or of the positives."""
        return self.anchor if text == "anchor" else self.positive


@dataclass(frozen=True)
class OneText:
    """Whether each positive of a step is the text of its anchor.

    Attributes:
        holds: whether it is.
    """

    holds: bool = False

    def to(self, device: torch.device) -> OneText:
        """The same."""
        return self


@dataclass(frozen=True)
class TeacherVectors(Request[TaughtVectors]):
    """A teacher's vectors of the texts of a step.

    Attributes:
        settings: which teacher; parts that name the same one share its vectors.
        of: the texts that it reads.
        teacher: reads them; of the parts that name the same teacher, any.
    """

    encodes: ClassVar[bool] = False
    settings: TeacherSettings
    of: TextsOf
    teacher: Teacher = field(compare=False, repr=False)

    def prepare(self, tokens: Tokens, tokenizer: Tokenizer, random: np.random.Generator) -> OneText:
        """Compares the positives' texts with the anchors', on the CPU."""
        return OneText(len(tokens) % 2 == 0 and _same_rows(tokens, len(tokens) // 2))

    def ask(self, forward: Forward) -> Callable[[Encoded], TaughtVectors]:
        """Lets the teacher read the texts; the encoder's forward pass has nothing more to do."""
        inputs, views = forward.inputs, forward.views
        prepared: OneText = inputs.prepared.get(self, OneText())
        return lambda encoded: self.teacher.read(inputs, views, self.of, one_text=prepared.holds)

    def mirrored(self, answer: TaughtVectors) -> TaughtVectors:
        """The same vectors with anchors and positives exchanged."""
        return TaughtVectors(answer.positive, answer.anchor, answer.hard[:, :0])

    def detached(self, answer: TaughtVectors) -> TaughtVectors:
        """The same vectors, which have no gradient."""
        return answer


def _same_rows(tokens: Tokens, n: int) -> bool:
    """Whether each of rows n to 2n is the same text as the row n before it."""
    first, second = tokens.rows(0, n), tokens.rows(n, 2 * n)
    same = torch.equal(first.input_ids, second.input_ids) and torch.equal(first.attention_mask, second.attention_mask)
    if not same or first.unpooled is None or second.unpooled is None:
        return same
    return torch.equal(first.unpooled, second.unpooled)


class Panel(nn.Module):
    """The weighted mean of several teachers' cosines (RankCSE, Liu et al. 2023: .33 of one and .67 of another).

    Args:
        settings: the settings of each teacher.
        reader: the part that needs them, for messages.
        of: the texts that they read.
    """

    def __init__(self, settings: Sequence[WeightedTeacherSettings], reader: str, of: TextsOf) -> None:
        super().__init__()
        plain = [one.teacher for one in settings]
        self.teachers = nn.ModuleList([Teacher(one, reader) for one in plain])
        self.weights = [one.weight / sum(other.weight for other in settings) for one in settings]
        self.requests = [
            TeacherVectors(one, of, teacher)
            for one, teacher in zip(plain, self.teachers, strict=True)
            if isinstance(teacher, Teacher)
        ]

    @property
    def reads(self) -> Set[Request[Any]]:
        """The teachers' vectors."""
        return set(self.requests)

    def begin(self, encoder: SentenceEncoder) -> None:
        """Opens the teachers."""
        for request in self.requests:
            request.teacher.begin(encoder)

    def cosines(self, reps: Representations, first: SideText, right: SideText) -> Tensor:
        """(N, N): the mean cosine of each example's text ``left`` with each one's text ``right``."""
        taught = [reps[request] for request in self.requests]
        cosines = [
            weight * pairwise_similarity(one.of(first), one.of(right), "cosine")
            for weight, one in zip(self.weights, taught, strict=True)
        ]
        return torch.stack(cosines).sum(dim=0)


def without_diagonal(square: Tensor) -> Tensor:
    """(N, N) -> (N, N - 1): each row without its own column, in the order of the columns.

    Example:
        >>> without_diagonal(torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])).tolist()
        [[2, 3], [4, 6], [7, 8]]
    """
    n = len(square)
    return square.flatten()[1:].reshape(n - 1, n + 1)[:, :-1].reshape(n, n - 1)


_AT_ONCE = 16
"""Anchors whose similarities are made at once for the log."""


class GuideSettings(TeacherSettings):
    """Settings of `Guide`.

    Attributes:
        strategy: what the teacher's similarity of anchor and column is compared with: the one of anchor and positive
            less the margin (``absolute``), less that share of it (``relative``), or ``limit`` (``fixed``).
        margin: the margin of the first two.
        limit: the limit of the third.
        centred: subtract the batch's mean vector from the teacher's first: vectors of an encoder that was never trained
            on sentences have high cosines throughout.
        effect: the column is left out, or its logit is 0, as in DCLR's code, where its weight multiplies the logit;
            ``hardness`` is of the similarity 0 then.
    """

    strategy: Literal["absolute", "relative", "fixed"] = "absolute"
    margin: float = Field(default=0.0, ge=-2, le=2)
    limit: Cosine = 0.9
    centred: bool = False
    effect: Literal["left_out", "zero_logit"] = "left_out"

    @model_validator(mode="after")
    def _one_number(self) -> GuideSettings:
        unused = "margin" if self.strategy == "fixed" else "limit"
        if unused in self.model_fields_set and getattr(self, unused) != type(self).model_fields[unused].default:
            raise ValueError(f'{unused} has no effect with strategy = "{self.strategy}"')
        return self


class Guide(nn.Module):
    """Finds the false negatives of a source by a teacher's similarities.

    With t the teacher's cosines, column k is not a negative of anchor i where ``t(a_i, c_k) > limit_i``::

        absolute    limit_i = t(a_i, b_i) - margin                       GISTEmbed (Solatorio 2024, arXiv:2402.16829)
        relative    limit_i = t(a_i, b_i) - margin * |t(a_i, b_i)|       as sentence-transformers has it
        fixed       limit_i = limit                                      DCLR (Zhou et al. 2022, arXiv:2205.00656), .9

    In unsupervised training positive and anchor are one text, and t(a_i, b_i) is 1: there a margin is needed.

    Args:
        settings: the teacher and the limit.
        reader: the part that needs it, for messages.
        of: the texts that the teacher reads.
    """

    def __init__(self, settings: GuideSettings, reader: str, of: TextsOf) -> None:
        super().__init__()
        self.settings = settings
        plain = settings.teacher
        self.teacher = Teacher(plain, reader)
        self.request = TeacherVectors(plain, of, self.teacher)

    def begin(self, encoder: SentenceEncoder) -> None:
        """Opens the teacher."""
        self.teacher.begin(encoder)

    def taught(self, reps: Representations) -> TaughtVectors:
        """The teacher's vectors of a step, centred if the settings say so."""
        taught = reps[self.request]
        if not self.settings.centred:
            return taught
        mean = torch.cat([taught.anchor, taught.positive]).mean(dim=0)
        return TaughtVectors(taught.anchor - mean, taught.positive - mean, taught.hard - mean)

    def limits(self, taught: TaughtVectors) -> Tensor:
        """(N,): the highest similarity at which a column is still a negative."""
        settings = self.settings
        positive = rowwise_similarity(taught.anchor, taught.positive, "cosine")
        if settings.strategy == "fixed":
            return torch.full_like(positive, settings.limit)
        share = positive.abs() if settings.strategy == "relative" else 1.0
        return positive - settings.margin * share

    def mask(self, columns: VectorColumns, taught: TaughtVectors, anchors: Tensor, right: Tensor) -> AnyColumns:
        """Takes the false negatives out of ``columns``.

        Args:
            columns: the columns of a source.
            taught: the teacher's vectors of the step.
            anchors: (N, t) the teacher's vectors of the texts on the left side.
            right: (K, t) the teacher's vectors of the columns' texts.
        """
        false = FalseNegatives(anchors, right, self.limits(taught))
        if self.settings.effect == "left_out":
            return replace(columns, false=false)
        dense, masked = columns.dense(), false.rows(slice(0, len(anchors)))
        log_weight = dense.log_weight
        if columns.by_nearness:  # what counts as a similarity of 0 is not near either
            by_anchor = None if columns.own is None else replace(columns.own, hardness=0.0)
            plain = replace(columns, hardness=0.0, own=by_anchor).dense().log_weight
            log_weight = torch.where(masked, plain, log_weight)
        return replace(dense, logits=dense.logits.masked_fill(masked, 0.0), log_weight=log_weight)

    def per_anchor(self, reps: Representations) -> Tensor:
        """Scalar: how many of the other examples' positives are false negatives of an anchor, in the mean."""
        taught = self.taught(reps)
        n = len(taught.anchor)
        false = FalseNegatives(taught.anchor, taught.positive, self.limits(taught))
        masked = false.limits.new_zeros(())
        for start in range(0, n, _AT_ONCE):  # never all similarities of a large batch
            some = false.rows(slice(start, min(n, start + _AT_ONCE)))
            masked = masked + some.sum() - some.diagonal(start).sum()
        return masked / n
