"""The queue of vectors against a plain list."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import examples
from opencse.objective.negatives.vector_queue import VectorQueue

CPU = torch.device("cpu")


@examples(60)
@given(st.integers(1, 9), st.lists(st.integers(0, 12), max_size=12))
def test_the_ring_is_a_list_whose_oldest_fall_out(size: int, pushes: list[int]) -> None:
    queue = VectorQueue(size, 2, device=CPU, dtype=torch.float32)
    expected: list[int] = []
    number = 0
    for count in pushes:
        new = list(range(number, number + count))
        number += count
        expected = (expected + new)[-size:]
        queue.push(torch.tensor([[float(i), -1.0] for i in new]).reshape(-1, 2), torch.tensor(new, dtype=torch.int64))
        assert len(queue) == len(expected)
        assert sorted(queue.keys.tolist()) == expected
        assert queue.vectors[:, 0].tolist() == [float(key) for key in queue.keys]
        assert (queue.vectors[:, 1] == -1).all()
    assert queue.stored.shape == (size, 2)


def test_a_queue_starts_empty_and_keeps_its_dtype() -> None:
    queue = VectorQueue(3, 2, device=CPU, dtype=torch.float64)
    assert len(queue) == 0
    assert queue.vectors.shape == (0, 2)
    vectors = torch.full((2, 2), 1.5, dtype=torch.bfloat16, requires_grad=True)
    queue.push(vectors, torch.tensor([4, 5]))
    assert queue.vectors.dtype == torch.float64
    assert queue.keys.dtype == torch.int64
    assert not queue.vectors.requires_grad
    assert queue.vectors.tolist() == [[1.5, 1.5], [1.5, 1.5]]
