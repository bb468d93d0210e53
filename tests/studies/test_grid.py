"""Recipes are crossed with the values of a grid, and each row is named by its values."""

from __future__ import annotations

import pytest

from opencse import UserError
from opencse.studies.grid import find_baseline, parse_grid, variants


def test_values_are_split_outside_brackets_and_quotes() -> None:
    grid = parse_grid(["a.b=1, 2", 'c="x,y",z', "d={ kind = 'k', n = 1 },[1,[2,3]]"])
    assert grid == {"a.b": ["1", "2"], "c": ['"x,y"', "z"], "d": ["{ kind = 'k', n = 1 }", "[1,[2,3]]"]}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["training.batch_size"], r"--grid training\.batch_size: key\.path=value,value is expected"),
        (["training.batch_size=64,"], r"key\.path=value,value is expected"),
        (["training.batch_size=64,64"], "a value is there twice"),
        (["training.batch_size=64", "training.batch_size=128"], "is there twice; list all its values in one"),
        (["training.batch_siz=64,128"], r"--grid training\.batch_siz=64: .*did you mean '(training\.)?batch_size'"),
        (["training.batch_size=64,many"], r"--grid training\.batch_size=many: "),
        (
            ["training.learning_rate=3e-5,0.00003"],
            r"simcse \(learning_rate=3e-5\) and .* are the same; name each value",
        ),
        (["training.seed=1,2"], "training.seed is set by the comparison; choose its seeds with --seeds"),
        (["training.epochs=1,2"], "training.epochs is in --set and in --grid; leave it out of one"),
    ],
)
def test_mistakes_are_refused(grid: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        variants(["simcse"], grid, ["training.epochs=3"])


def test_the_rows_are_all_combinations_in_order() -> None:
    grid = ["training.batch_size=64,128", "training.learning_rate=1e-5,3e-5"]
    crossed = variants(["simcse", "dcl-post:bert-base"], grid)
    assert list(crossed)[:3] == [
        "simcse (batch_size=64, learning_rate=1e-5)",
        "simcse (batch_size=64, learning_rate=3e-5)",
        "simcse (batch_size=128, learning_rate=1e-5)",
    ]
    assert len(crossed) == 8
    last = crossed["dcl-post:bert-base (batch_size=128, learning_rate=3e-5)"]
    assert (last.recipe, last.settings) == (
        "dcl-post:bert-base",
        ("training.batch_size=128", "training.learning_rate=3e-5"),
    )
    same_end = variants(["simcse"], ["encoder.head.kind=mlp", "objective.view.kind=dropout"])
    assert list(same_end) == ["simcse (encoder.head.kind=mlp, objective.view.kind=dropout)"]


def test_a_grid_varies_a_part_that_the_settings_bring() -> None:
    settings = ['objective.negatives=[{kind = "in_batch"}, {kind = "momentum_queue"}]']
    crossed = variants(["simcse"], ["objective.negatives.momentum_queue.size=64,128"], settings)
    assert list(crossed) == ["simcse (size=64)", "simcse (size=128)"]
    with pytest.raises(
        UserError, match=r"--grid objective\.negatives\.momentum_queue\.size=64: 'momentum_queue' is not"
    ):
        variants(["simcse"], ["objective.negatives.momentum_queue.size=64,128"])


def test_a_recipe_is_named_once_and_the_baseline_found() -> None:
    with pytest.raises(UserError, match="the recipe 'simcse' is named twice"):
        variants(["simcse", "simcse"], [])
    crossed = variants(["simcse", "dcl-post"], ["training.batch_size=64,128"])
    assert find_baseline(None, crossed) == "simcse (batch_size=64)"
    assert find_baseline("dcl-post", crossed) == "dcl-post (batch_size=64)"
    assert find_baseline("dcl-post (batch_size=128)", crossed) == "dcl-post (batch_size=128)"
    assert find_baseline("other", crossed) is None
