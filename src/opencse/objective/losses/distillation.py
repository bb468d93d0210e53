"""Losses that let similarities follow a teacher's: its distribution, its order, its scores, or those of the other view.

A student's and a teacher's similarities are (N, K): of N texts with K others, in the same order.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from opencse.objective.losses.similarity import at_least_float32, rowwise_similarity


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
    later = logits.flip(1).logcumsumexp(dim=1).flip(1)
    return (later - logits).sum(dim=1).mean()


def shuffled_in_groups(teacher: Tensor, share: float, uniform: Tensor) -> Tensor:
    """An order of the others in which those that the teacher finds about equally near are exchanged at random.

    Row i is ordered by the teacher's similarity, greatest first, and divided into groups that hold ``share`` of the
    softmax of the similarities each; the order within each group is random. DistillCSE's group-p shuffling (Xu et al.
    2023, arXiv:2310.13499, section 4.1), as in the authors' code: no temperature in that softmax.

    Args:
        teacher: (N, K) similarities.
        share: of the probability in each group, above 0 and at most 1.
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
    groups = (heights / share).floor().clamp(max=math.ceil(1 / share - 1e-9) - 1)
    shuffle = (groups.double() + uniform.double().clamp(max=1 - 1e-9)).argsort(dim=1)
    return ascending.indices.gather(1, shuffle)


def turned(taught: Tensor, own: Tensor) -> Tensor:
    """The (t, d) map of a teacher's vectors into the student's space that keeps their cosines and moves them least.

    With T the teacher's and V the student's vectors of the same texts, and U the d principal directions of T where
    t > d (else the identity)::

        R = A B^T  with  A S B^T = svd((T U)^T V)                 the turned U R has orthonormal rows or columns

    R is the solution of the orthogonal Procrustes problem (Schoenemann 1966): of all rotations the one with the least
    ``||T U R - V||``. So the student learns what the teacher says of the texts, not the order of its dimensions.

    Args:
        taught: (N, t) vectors, of some thousand texts.
        own: (N, d) vectors of the same texts.

    Example:
        >>> own = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
        >>> taught = own.flip(1)  # the same vectors in another order of dimensions
        >>> (taught @ turned(taught, own)).allclose(own)
        True
    """
    taught, own = taught.double(), own.double()
    kept = torch.eye(taught.shape[1], dtype=taught.dtype, device=taught.device)
    if taught.shape[1] > own.shape[1]:
        kept = torch.linalg.eigh(taught.T @ taught).eigenvectors[:, -own.shape[1] :]
    left, _, right = torch.linalg.svd((taught @ kept).T @ own, full_matrices=False)
    return (kept @ left @ right).float()


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
        kind: of distance.

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

    With p_i the similarity of anchor and positive, n_ih that of anchor and negative h, m_ih the given margin::

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
    """The divergence of the student's distribution over a row's candidates from that of given scores.

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
    return temperature**2 * functional.kl_div(logs, expected, log_target=True, reduction="batchmean")
