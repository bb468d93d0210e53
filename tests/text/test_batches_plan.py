import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import examples
from opencse.text.batches import BatchPlan


def epoch(plan: BatchPlan, number: int) -> list[list[int]]:
    steps = range(number * plan.steps_per_epoch, (number + 1) * plan.steps_per_epoch)
    return [plan.batch(step).tolist() for step in steps]


@examples(60)
@given(
    examples=st.integers(2, 60),
    batch_size=st.integers(2, 70),
    seed=st.integers(0, 2**32),
    number=st.integers(0, 5),
)
def test_every_example_once_an_epoch(examples: int, batch_size: int, seed: int, number: int) -> None:
    plan = BatchPlan(examples, batch_size, seed)
    batches = epoch(plan, number)
    seen = [example for batch in batches for example in batch]
    assert len(set(seen)) == len(seen)
    left_out = set(range(examples)) - set(seen)
    assert len(left_out) == (1 if examples > batch_size and examples % batch_size == 1 else 0)
    assert set(seen) <= set(range(examples))
    assert {len(batch) for batch in batches[:-1]} <= {plan.batch_size}
    assert 2 <= len(batches[-1]) <= plan.batch_size
    assert plan.order(number).tolist()[: len(seen)] == seen


@pytest.mark.parametrize(
    ("examples", "batch_size", "sizes"),
    [
        (9, 4, [4, 4]),
        (10, 4, [4, 4, 2]),
        (8, 4, [4, 4]),
        (3, 2, [2]),
        (5, 5, [5]),
        (5, 64, [5]),
        (2, 2, [2]),
    ],
)
def test_a_last_batch_of_one_is_dropped_and_one_of_two_kept(examples: int, batch_size: int, sizes: list[int]) -> None:
    plan = BatchPlan(examples, batch_size, seed=0)
    assert plan.steps_per_epoch == len(sizes)
    assert plan.batch_size == max(sizes)
    for number in (0, 1):
        assert [len(batch) for batch in epoch(plan, number)] == sizes


def test_the_order_is_new_each_epoch_and_seed_and_the_same_again() -> None:
    def order(seed: int, number: int) -> tuple[int, ...]:
        return tuple(BatchPlan(100, 8, seed).order(number).tolist())

    orders = {(seed, number): order(seed, number) for seed in range(3) for number in range(3)}
    assert len(set(orders.values())) == 9
    assert all(values != tuple(range(100)) for values in orders.values())
    assert order(2, 1) == orders[2, 1]


def test_the_example_left_out_changes() -> None:
    plan = BatchPlan(5, 4, seed=0)
    assert len({int(plan.order(number)[-1]) for number in range(20)}) > 1


def test_a_batch_depends_on_its_step_alone() -> None:
    steps = list(range(40))
    plan = BatchPlan(11, 4, seed=3)
    forward = {step: plan.batch(step).tolist() for step in steps}
    mixed = np.random.default_rng(0).permutation(steps).tolist()
    assert {step: plan.batch(step).tolist() for step in mixed} == forward
    assert {step: BatchPlan(11, 4, seed=3).batch(step).tolist() for step in mixed} == forward


@pytest.mark.parametrize(("examples", "batch_size"), [(1, 4), (0, 4), (4, 1), (4, 0)])
def test_contrast_needs_two(examples: int, batch_size: int) -> None:
    with pytest.raises(ValueError, match="at least two examples in a batch"):
        BatchPlan(examples, batch_size, seed=0)
