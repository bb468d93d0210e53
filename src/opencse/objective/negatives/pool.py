"""Draws many vectors and keeps those that are nearest to the anchors, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from opencse.objective.columns import FalseNegatives
from opencse.objective.losses.similarity import pairwise_similarity

POOL_BYTES = 64 * 2**20
"""Most bytes of vectors that are drawn at once, with their similarities to the anchors."""

DrawRows = Callable[[int], Tensor]


def nearest_of_pool(anchors: Tensor, draw: DrawRows, pool: int, count: int) -> Tensor:
    """Draws ``pool`` vectors and returns the ``kept`` ones that are nearest to any anchor, by the cosine.

    Args:
        anchors: (N, d), without gradient.
        draw: draws so many vectors; none if there is nothing to draw from yet.
        pool: how many are drawn, in chunks.
        count: how many are returned.

    Returns:
        (kept, d), the nearest first; (0, d) if nothing was drawn.

    Example:
        >>> drawn = torch.tensor([[0.0, 1.0], [1.0, 0.1], [-1.0, 0.0]])
        >>> nearest_of_pool(torch.tensor([[1.0, 0.0]]), lambda count: drawn, 3, 1)
        tensor([[1.0000, 0.1000]])
    """
    vectors, scores = anchors[:0], anchors[:0, 0]
    for some in _chunks(anchors, draw, pool):
        vectors = torch.cat([vectors, some])
        scores = torch.cat([scores, nearness(some, anchors)])
        scores, index = scores.topk(min(count, len(scores)))
        vectors = vectors[index]
    return vectors


def nearest_of_each(anchors: Tensor, draw: DrawRows, pool: int, count: int) -> tuple[Tensor, FalseNegatives | None]:
    """Draws ``pool`` vectors, of which each anchor has the ``kept`` ones nearest to itself, by the cosine.

    Args:
        anchors: (N, d), without gradient.
        draw: draws so many vectors; none if there is nothing to draw from yet.
        pool: how many are drawn; their similarities are made in chunks.
        count: how many each anchor has.

    Returns:
        (pool, d), all of them, and which are no columns of which anchor; None if all are.
    """
    drawn, scores = [anchors[:0]], anchors[:, :0]
    for some in _chunks(anchors, draw, pool):
        drawn.append(some)
        scores = torch.cat([scores, pairwise_similarity(anchors, some, "cosine")], dim=1)
        scores = scores.topk(min(count + 1, scores.shape[1]), dim=1).values
    vectors = torch.cat(drawn)
    if len(vectors) <= count:
        return vectors, None
    # farther than halfway between the last that is kept and the next, so that rounding moves none across
    limits = (scores[:, count - 1] + scores[:, count]) / 2
    return vectors, FalseNegatives(-anchors, vectors, -limits)


def nearness(vectors: Tensor, anchors: Tensor, *, others: bool = False) -> Tensor:
    """The cosine of each vector with the anchor that is nearest to it.

    Args:
        vectors: (K, d).
        anchors: (N, d).
        others: vector k is of anchor k, which does not count, unless it is the only one.

    Returns:
        (K,).
    """
    at_once = max(1, POOL_BYTES // (len(anchors) * anchors.element_size()))
    scores = []
    for start in range(0, len(vectors), at_once):
        similarity = pairwise_similarity(vectors[start : start + at_once], anchors, "cosine")
        if others and len(anchors) > 1:
            similarity.diagonal(start).fill_(-2.0)
        scores.append(similarity.amax(dim=1))
    return torch.cat(scores) if scores else vectors[:, 0]


def _chunks(anchors: Tensor, draw: DrawRows, pool: int) -> Iterator[Tensor]:
    at_once = max(1, POOL_BYTES // (sum(anchors.shape) * anchors.element_size()))
    for start in range(0, pool, at_once):
        drawn = draw(min(at_once, pool - start))
        if len(drawn) == 0:
            return
        yield drawn
