"""Terms that let similarities follow a teacher's: its distribution, order, scores or margins, or the other view's.

A student's and a teacher's similarities are (N, K): of N texts with K others, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.negatives.stored import VectorQueue
from opencse.objective.sides.base import SideText
from opencse.objective.similarity import SimilarityKind, at_least_float32, pairwise_similarity, rowwise_similarity
from opencse.objective.teachers.teacher import (
    Panel,
    Teacher,
    TeacherSettings,
    TeacherVectors,
    WeightedTeacherSettings,
    without_diagonal,
)
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import HardNegatives, Margins, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import AboveZero, Cosine


def list_net(
    student: Tensor, teacher: Tensor, *, student_temperature: float = 0.05, teacher_temperature: float = 0.05
) -> Tensor:
    """The cross-entropy of the teacher's distribution over the others with the student's.

    With p_i and q_i the softmax over k of student_ik / tau_S and teacher_ik / tau_T::

        loss = - mean_i sum_k q_ik log p_ik

    ListNet's top-one probabilities in RankCSE (Liu et al. 2023, arXiv:2305.16726, eq. 8), and the loss of DistillCSE
    (Xu et al. 2023, arXiv:2310.13499, eq. 4).

    Args:
        student: (N, K) similarities.
        teacher: (N, K) similarities, without gradient.
        student_temperature: tau_S.
        teacher_temperature: tau_T.

    Example:
        >>> teacher = torch.tensor([[1.0, 0.0]])
        >>> good = list_net(teacher, teacher, student_temperature=1.0, teacher_temperature=1.0)
        >>> bad = list_net(-teacher, teacher, student_temperature=1.0, teacher_temperature=1.0)
        >>> good, bad
        (tensor(0.5822), tensor(1.0443))
    """
    logs = (at_least_float32(student) / student_temperature).log_softmax(dim=1)
    shares = (at_least_float32(teacher) / teacher_temperature).softmax(dim=1)
    return -(shares * logs).sum(dim=1).mean()


def list_mle(student: Tensor, teacher: Tensor, *, student_temperature: float = 0.05) -> Tensor:
    """How unlikely the teacher's order is if the student draws one (Plackett-Luce).

    With s_i1 >= s_i2 ... the student's similarities divided by tau_S, in the order of the teacher's, greatest first::

        loss = mean_i sum_k ( log sum_{l >= k} exp(s_il) - s_ik )

    ListMLE in RankCSE (Liu et al. 2023, arXiv:2305.16726, eq. 9).
    Of texts with equal similarity to the teacher the first comes first.

    Args:
        student: (N, K) similarities.
        teacher: (N, K) similarities, of which the order counts.
        student_temperature: tau_S.

    Example:
        >>> teacher = torch.tensor([[3.0, 2.0, 1.0]])
        >>> list_mle(teacher, teacher, student_temperature=1.0)
        tensor(0.7209)
        >>> list_mle(-teacher, teacher, student_temperature=1.0)
        tensor(3.7209)
    """
    order = teacher.sort(dim=1, descending=True, stable=True).indices
    logits = at_least_float32(student).gather(1, order) / student_temperature
    # The log of the sum over what is not drawn yet, at each place.
    later = logits.flip(1).logcumsumexp(dim=1).flip(1)
    return (later - logits).sum(dim=1).mean()


def shuffled_in_groups(teacher: Tensor, share: float, uniform: Tensor) -> Tensor:
    """An order of the others in which those that the teacher finds about equally near are exchanged at random.

    Row i is ordered by the teacher's similarity, greatest first, and divided into groups that hold ``share`` of the
    softmax of the similarities each; the order within each group is random. DistillCSE's group-p shuffling (Xu et al.
    2023, arXiv:2310.13499, section 4.1), as in the authors' code: no temperature in that softmax.

    Args:
        teacher: (N, K) similarities.
        share: the share of the probability in each group, above 0 and at most 1.
        uniform: (N, K) draws from 0 to 1.

    Returns:
        (N, K) numbers of columns: entry k is the column whose similarity takes the place of the k-th nearest's.

    Example:
        >>> order = shuffled_in_groups(torch.tensor([[0.0, 0.1, 0.2, 0.3]]), 0.5, torch.tensor([[0.9, 0.5, 0.1, 0.4]]))
        >>> order.tolist()  # column 3 holds the first half of the probability; the others change places
        [[3, 1, 0, 2]]
    """
    ascending = teacher.sort(dim=1, descending=True, stable=True)
    heights = at_least_float32(ascending.values).softmax(dim=1).cumsum(dim=1)
    # 1e-9: rounding of 1 / share must not make one group more.
    groups = (heights / share).floor().clamp(max=math.ceil(1 / share - 1e-9) - 1)
    shuffle = (groups.double() + uniform.double().clamp(max=1 - 1e-9)).argsort(dim=1)
    return ascending.indices.gather(1, shuffle)


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """The Jensen-Shannon divergence of the softmax of two sets of logits, row by row.

    With p_i and q_i the two distributions and m_i their mean::

        loss = mean_i ( KL(p_i || m_i) + KL(q_i || m_i) ) / 2

    RankCSE's ranking consistency (Liu et al. 2023, arXiv:2305.16726, eq. 6) of the similarities of the two views. The
    published community code clamps log m from below at 1e-7 after the logarithm. A logarithm of a probability is
    negative, so m vanishes from the loss, and what stays is the negative entropy of p and q: `negative_entropy`.

    Args:
        first: (N, K) logits.
        second: (N, K) logits.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0]])
        >>> jensen_shannon(logits, -logits)
        tensor(0.3278)
    """
    p, q = (at_least_float32(logits).log_softmax(dim=1) for logits in (first, second))
    mean = torch.logaddexp(p, q) - torch.log(torch.tensor(2.0, dtype=p.dtype, device=p.device))
    divergences = [functional.kl_div(mean, one, log_target=True, reduction="batchmean") for one in (p, q)]
    return (divergences[0] + divergences[1]) / 2


def negative_entropy(first: Tensor, second: Tensor) -> Tensor:
    """The mean over the rows of (sum_k p log p + sum_k q log q) / 2: what `jensen_shannon` is in RankCSE's code.

    It pulls both distributions towards the uniform one. Probabilities are at least 1e-7 there.

    Args:
        first: (N, K) logits of p.
        second: (N, K) logits of q.

    Example:
        >>> negative_entropy(torch.zeros(1, 2), torch.zeros(1, 2))
        tensor(-0.6931)
    """
    total = torch.zeros((), device=first.device, dtype=at_least_float32(first[:0]).dtype)
    for logits in (first, second):
        shares = at_least_float32(logits).softmax(dim=1).clamp(min=1e-7)
        total = total + (shares * (shares.log() - 1e-7)).sum(dim=1).mean() / 2
    return total


def rank_correlations(similarities: Tensor) -> Tensor:
    """Spearman's correlation of every two rows.

    RankEncoder (Seonwoo et al. 2022, arXiv:2209.04333, eq. 2 and 3): two texts are near if all texts of a corpus are in
    nearly the same order by nearness to the one and to the other. Of equal similarities the first has the lower rank.

    Args:
        similarities: (N, K) of each text with each of K texts of a corpus, K at least 2.

    Returns:
        (N, N).

    Example:
        >>> rank_correlations(torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [3.0, 2.0, 1.0]]))[0]
        tensor([ 1.0000,  1.0000, -1.0000])
    """
    n, k = similarities.shape
    order = similarities.sort(dim=1, stable=True).indices
    steps = torch.arange(k, device=similarities.device, dtype=at_least_float32(similarities[:0]).dtype)
    steps = (steps - (k - 1) / 2) / (k * (k * k - 1) / 12) ** 0.5  # mean 0, norm 1
    ranks = torch.zeros(n, k, device=similarities.device, dtype=steps.dtype).scatter(1, order, steps.expand(n, k))
    with torch.autocast(similarities.device.type, enabled=False):
        return ranks @ ranks.T


def bounded_mse(student: Tensor, teacher: Tensor, low: float, high: float) -> Tensor:
    """The mean squared difference where the teacher's similarity is from ``low`` to ``high``; 0 if it is nowhere.

    RankEncoder's training loss (Seonwoo et al. 2022, arXiv:2209.04333, eq. 5 and 6).

    Args:
        student: (N, K) cosines.
        teacher: (N, K) similarities.
        low: the least that counts.
        high: the most that counts.

    Example:
        >>> bounded_mse(torch.tensor([[0.5, 0.0]]), torch.tensor([[0.7, 0.1]]), low=0.5, high=0.9)
        tensor(0.0400)
    """
    counts = (teacher >= low) & (teacher <= high)
    squares = (at_least_float32(student) - teacher).square()
    return (squares * counts).sum() / counts.sum().clamp(min=1)


def vector_distance(student: Tensor, teacher: Tensor, kind: Literal["cosine", "mse"]) -> Tensor:
    """The mean over the rows of ``1 - cos``, or of the mean squared difference per dimension.

    Args:
        student: (N, d).
        teacher: (N, d).
        kind: the kind of distance.

    Example:
        >>> vector_distance(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]]), "cosine")
        tensor(1.)
        >>> vector_distance(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]]), "mse")
        tensor(2.5000)
    """
    if kind == "cosine":
        return (1 - rowwise_similarity(student, teacher, "cosine")).mean()
    return (at_least_float32(student) - at_least_float32(teacher)).square().mean()


def margin_mse(positive: Tensor, negatives: Tensor, margins: Tensor) -> Tensor:
    """The mean squared difference of the margins of positives above negatives from given ones.

    With p_i the similarity of anchor and positive, n_ih of anchor and negative h, m_ih the given margin::

        loss = mean over i and h of (p_i - n_ih - m_ih)^2

    Hofstaetter et al. 2021, arXiv:2010.02666, eq. 9; sentence-transformers' ``MarginMSELoss``.

    Args:
        positive: (N,) similarities, the dot product in the paper.
        negatives: (N, H) similarities.
        margins: (N, H), for instance a cross-encoder's score of the positive less its score of the negative.

    Example:
        >>> margin_mse(torch.tensor([3.0]), torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 3.0]]))
        tensor(0.5000)
    """
    differences = at_least_float32(positive).unsqueeze(1) - at_least_float32(negatives)
    return (differences - margins).square().mean()


def score_kl(student: Tensor, teacher: Tensor, *, temperature: float = 1.0) -> Tensor:
    """The divergence of the student's distribution over a row's candidates from the one of given scores.

    With p_i and q_i the softmax over k of student_ik / T and teacher_ik / T::

        loss = T^2 * mean_i sum_k q_ik (log q_ik - log p_ik)

    Lin et al. 2020, arXiv:2010.11386, eq. 3; sentence-transformers' ``DistillKLDivLoss``. A number added to all scores
    of a row changes nothing, so of two candidates their margin is enough.

    Args:
        student: (N, K) similarities of the anchor with its candidates.
        teacher: (N, K) given scores of the same.
        temperature: T.

    Example:
        >>> score_kl(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
        tensor(1.5232)
    """
    logs = (at_least_float32(student) / temperature).log_softmax(dim=1)
    expected = (at_least_float32(teacher) / temperature).log_softmax(dim=1)
    # Gradients of soft targets shrink with the temperature squared (Hinton et al. 2015, section 2).
    return temperature**2 * functional.kl_div(logs, expected, log_target=True, reduction="batchmean")


class Distill(Term):
    """Lets the cosines within a batch follow the cosines of frozen teachers: their distribution, or their order.

    The student's are ``cos(a_i, a_j)`` with ``of = "anchors"`` (DistillCSE, Xu et al. 2023, arXiv:2310.13499), or
    ``cos(a_i, b_j)`` with ``"views"`` (RankCSE, Liu et al. 2023, arXiv:2305.16726); the teachers' are those of the same
    texts, averaged by their weights. ``loss`` is one of

    - ``list_net``: the cross-entropy of the teachers' softmax with the student's, `losses.list_net`;
    - ``list_mle``: the likelihood of the teachers' order, `losses.list_mle`.

    A text's similarity with itself (j = i) is left out unless ``own`` is set, as RankCSE's code has it for ListMLE.

    ``shuffle`` exchanges texts that the teachers find about equally near, at random, in each step: DistillCSE's
    group-p shuffling, `losses.shuffled_in_groups`. So the student is not made as sure as a single teacher is.

    The log has ``teacher_agreement``: the share of pairs of columns that student and teachers put in the same order, in
    the mean over neighbours of the teachers' order.

    Example:
        >>> from dataclasses import replace
        >>> from opencse.objective.teachers.teacher import TaughtVectors
        >>> vectors = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> term = Distill(Distill.Settings(student_temperature=1.0, teacher_temperature=1.0))
        >>> answers = {request: TaughtVectors(vectors, vectors, vectors[:, :0]) for request in term.panel.requests}
        >>> term.loss(replace(Representations.of(vectors, vectors), answers=answers))
        tensor(0.6525)
    """

    class Settings(Term.Settings):
        """Settings of `Distill`.

        Attributes:
            teachers: the frozen encoders, and their weights.
            loss: what the student follows.
            of: the student's similarities.
            own: whether a text's similarity with itself counts.
            student_temperature: divides the student's cosines.
            teacher_temperature: divides the teachers'; only their order counts in ``list_mle``.
            shuffle: share of the probability in a group that is shuffled; 0 shuffles nothing.
        """

        kind: Literal["distill"] = "distill"
        teachers: tuple[WeightedTeacherSettings, ...] = Field(default=(WeightedTeacherSettings(),), min_length=1)
        loss: Literal["list_net", "list_mle"] = "list_net"
        of: Literal["anchors", "views"] = "anchors"
        own: bool = False
        student_temperature: AboveZero = 0.05
        teacher_temperature: AboveZero = 0.05
        shuffle: float = Field(default=0.0, ge=0, le=1)

        @model_validator(mode="after")
        def _others_are_compared(self) -> Distill.Settings:
            if self.own and self.of == "anchors":
                raise ValueError('own = true needs of = "views": an anchor has cosine 1 with itself')
            return self

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.panel = Panel(self.settings.teachers, f"{self.kind} term", self.settings.of)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views, and the teachers'."""
        return {*super().reads, *self.panel.reads}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Opens the teachers."""
        self.panel.begin(encoder)

    def loss(self, reps: Representations) -> Tensor:
        """The loss of the settings.

        Raises:
            UserError: for a batch of fewer than three examples, in which nothing can be compared.
        """
        if len(reps.anchor) < 3:
            raise UserError(f"the {self.kind} term compares examples, at least 3 in a batch; set training.batch_size")
        settings = self.settings
        student, teacher = self._cosines(reps)
        if settings.shuffle:
            draws = torch.rand(teacher.shape, generator=self.noise(reps), device=teacher.device)
            student = student.gather(1, shuffled_in_groups(teacher, settings.shuffle, draws))
            teacher = teacher.sort(dim=1, descending=True, stable=True).values
        if settings.loss == "list_mle":
            return list_mle(student, teacher, student_temperature=settings.student_temperature)
        return list_net(
            student,
            teacher,
            student_temperature=settings.student_temperature,
            teacher_temperature=settings.teacher_temperature,
        )

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``teacher_agreement``."""
        student, teacher = self._cosines(reps)
        ordered = student.gather(1, teacher.sort(dim=1, descending=True, stable=True).indices)
        return {"teacher_agreement": (ordered[:, :-1] > ordered[:, 1:]).float().mean()}

    def _cosines(self, reps: Representations) -> tuple[Tensor, Tensor]:
        """The student's and the teachers'."""
        right: SideText = "anchor" if self.settings.of == "anchors" else "positive"
        others = reps.anchor if right == "anchor" else reps.positive
        student = pairwise_similarity(reps.anchor, others, "cosine")
        teacher = self.panel.cosines(reps, "anchor", right)
        return (student, teacher) if self.settings.own else (without_diagonal(student), without_diagonal(teacher))


class RankVectors(Term):
    """Draws the cosines of similar texts towards a frozen teacher's similarity of ranks (RankEncoder).

    The teacher's cosines of text i with the texts of a corpus, as ranks, are its rank vector r_i; rho_ij is Spearman's
    correlation of r_i and r_j. Where rho is from ``low`` to ``high`` (Seonwoo et al. 2022, arXiv:2209.04333)::

        loss = mean over these pairs of ( cos(a_i, b_j) - rho_ij )^2

    The corpus is the last ``corpus`` anchors that were trained on: the teacher is frozen, so their vectors stay right.
    In the first steps it is smaller; as long as it has fewer than ``least`` texts, the loss is 0. The authors take
    10,000 to 100,000 texts before training starts.

    What RankEncoder does at test time is not built: there the similarity itself is a mean of the cosine and of rho over
    the corpus, which no saved folder of sentence vectors can give.

    Example:
        >>> RankVectors.Settings(low=0.4).corpus
        10000
    """

    class Settings(Term.Settings):
        """Settings of `RankVectors`.

        Attributes:
            teacher: the frozen encoder.
            corpus: the most texts that rank vectors are over.
            least: texts from which on the term counts.
            low: the least rho of a pair that counts.
            high: the most.
        """

        kind: Literal["rank_vectors"] = "rank_vectors"
        weight: AboveZero = 0.05
        teacher: TeacherSettings = TeacherSettings()
        corpus: int = Field(default=10_000, ge=2, le=1_000_000)
        least: int = Field(default=1_000, ge=2, le=1_000_000)
        low: Cosine = 0.5
        high: Cosine = 0.9999

        @model_validator(mode="after")
        def _in_order(self) -> RankVectors.Settings:
            if self.low > self.high:
                raise ValueError(f"low ({self.low}) is above high ({self.high})")
            if self.least > self.corpus:
                raise ValueError(f"least ({self.least}) is above corpus ({self.corpus})")
            return self

    settings: Settings
    queue: VectorQueue

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.teacher = Teacher(self.settings.teacher, f"{self.kind} term")
        self.request = TeacherVectors(self.settings.teacher, "views", self.teacher)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views, and the teacher's."""
        return {*super().reads, self.request}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Opens the teacher, and makes the empty corpus."""
        self.teacher.begin(encoder)
        model = self.teacher.model
        self.queue = VectorQueue(
            self.settings.corpus, model.dimension, device=encoder.device, dtype=model.backbone.dtype
        )

    def loss(self, reps: Representations) -> Tensor:
        """`losses.bounded_mse` of the cosines and rho; 0 while the corpus is too small."""
        student = pairwise_similarity(reps.anchor, reps.positive, "cosine")
        correlations = self._correlations(reps)
        if correlations is None:
            # 0 with a graph, so that the backward pass finds one.
            return student.sum() * 0.0
        return bounded_mse(student, correlations, self.settings.low, self.settings.high)

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Adds the teacher's vectors of this step's anchors to the corpus."""
        for batch in reps:
            self.queue.push(batch[self.request].anchor, batch.keys[:, 0])

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``rank_pairs``: how many pairs count per anchor."""
        correlations = self._correlations(reps)
        if correlations is None:
            return {"rank_pairs": torch.zeros((), device=reps.anchor.device)}
        counts = (correlations >= self.settings.low) & (correlations <= self.settings.high)
        return {"rank_pairs": counts.sum() / len(counts)}

    def _correlations(self, reps: Representations) -> Tensor | None:
        """(N, N): rho of each two anchors; None while the corpus is too small."""
        if len(self.queue) < self.settings.least:
            return None
        taught = reps[self.request].anchor
        return rank_correlations(pairwise_similarity(taught, self.queue.vectors, "cosine"))


class Margin(Term):
    """Lets the margin of positive above hard negative follow the one in the data, as a stronger model has it.

    Each row has an anchor, a positive, a hard negative, and by how much the stronger model, mostly a cross-encoder,
    scores the positive above the negative. ``loss = "mse"`` is `losses.margin_mse` (Hofstaetter et al. 2021,
    arXiv:2010.02666; GPL, Wang et al. 2022), ``"kl"`` is `losses.score_kl`. The divergence of two scores is a function
    of their margin, so both read the same data. ``factor`` multiplies the encoder's similarities: cosines do not reach
    the margins of most cross-encoders.

    The log has ``margin_gap``, the mean absolute difference of the margins.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), 2 * torch.eye(1), torch.zeros(1, 1, 1))
        >>> Margin().loss(replace(reps, answers={Margins(): torch.tensor([3.0])}))  # (2 - 0 - 3)^2
        tensor(1.)
    """

    class Settings(Term.Settings):
        """Settings of `Margin`.

        Attributes:
            loss: ``mse`` or ``kl``.
            similarity: the similarity of two vectors.
            factor: multiplies the similarities.
            temperature: the temperature of ``kl``.
        """

        kind: Literal["margin"] = "margin"
        loss: Literal["mse", "kl"] = "mse"
        similarity: SimilarityKind = "dot"
        factor: AboveZero = 1.0
        temperature: AboveZero = 1.0

    settings: Settings
    compares_examples = False

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs and of the hard negatives, and the margins."""
        return {Sentences(), HardNegatives(), Margins()}

    def check_data(self, source: str, hard: int, only_hard: bool) -> None:
        """Refuses rows with another number of hard negatives than one: a row has one margin."""
        if hard != 1:
            raise UserError(
                f"{source}: the {self.kind} term needs one hard negative in each row, and its rows hold "
                f"{hard}; name three columns of texts, and the margin's last: "
                "--columns query,positive,negative,margin"
            )

    def loss(self, reps: Representations) -> Tensor:
        """The loss of the settings."""
        positive, negative, margins = self._similarities(reps)
        if self.settings.loss == "mse":
            return margin_mse(positive, negative.unsqueeze(1), margins.unsqueeze(1))
        student = torch.stack([positive, negative], dim=1)
        teacher = torch.stack([margins, torch.zeros_like(margins)], dim=1)
        return score_kl(student, teacher, temperature=self.settings.temperature)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``margin_gap``."""
        positive, negative, margins = self._similarities(reps)
        return {"margin_gap": (positive - negative - margins).abs().mean()}

    def _similarities(self, reps: Representations) -> tuple[Tensor, Tensor, Tensor]:
        """(N,) each: of anchor and positive, of anchor and hard negative; and the margins."""
        settings = self.settings
        positive, negative = (
            settings.factor * rowwise_similarity(reps.anchor, other, settings.similarity)
            for other in (reps.positive, reps.hard[:, 0])
        )
        return positive, negative, reps[Margins()].to(positive)


class Consistency(Term):
    """The divergence of each example's similarities as its anchor and as its positive has them (RankCSE, eq. 6).

    With ``s_i = cos(a_i, b_j) / temperature`` over j, and ``t_i = cos(b_i, a_j) / temperature``, the loss is
    `losses.jensen_shannon` of their softmax (Liu et al. 2023, arXiv:2305.16726). ``scaling = "reference"`` is what the
    published community code computes in its place: `losses.negative_entropy`, in which the two views do not meet.

    Example:
        >>> import torch
        >>> views = torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 1.0]])
        >>> Consistency(Consistency.Settings(temperature=1.0)).loss(Representations.of(*views))
        tensor(0.0144)
    """

    class Settings(Term.Settings):
        """Settings of `Consistency`.

        Attributes:
            temperature: divides the cosines.
            scaling: ``paper`` or ``reference``.
        """

        kind: Literal["consistency"] = "consistency"
        temperature: AboveZero = 0.05
        scaling: Literal["paper", "reference"] = "paper"

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """The divergence, the mean over the examples."""
        rows = pairwise_similarity(reps.anchor, reps.positive, "cosine") / self.settings.temperature
        function = jensen_shannon if self.settings.scaling == "paper" else negative_entropy
        return function(rows, rows.T)
