"""Changes by dotted keys: what they reach, that their order means nothing, and who is blamed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.recipes.overrides import (
    Change,
    as_overrides,
    changed,
    changes_of,
    parse_override,
    require_set_once,
)
from opencse.recipes.recipe import load_recipe

TREE: dict[str, Any] = {"a": {"b": 1, "c": [{"kind": "x", "w": 1}, {"kind": "y"}]}, "d": 2}


def set_(key: str, value: object) -> dict[str, Any]:
    return changed(TREE, [Change("--set", key, value)])


def test_keys_reach_tables_lists_and_what_is_not_there_yet() -> None:
    assert set_("a.b", 5)["a"]["b"] == 5
    assert set_("a.c.1.w", 5)["a"]["c"] == [{"kind": "x", "w": 1}, {"kind": "y", "w": 5}]
    assert set_("a.c", [])["a"]["c"] == []
    assert set_("a.c.0", {"kind": "z"})["a"]["c"][0] == {"kind": "z"}
    assert set_("e.f", 5)["e"] == {"f": 5}
    assert TREE == {"a": {"b": 1, "c": [{"kind": "x", "w": 1}, {"kind": "y"}]}, "d": 2}, "the tree itself stays"


def test_another_kind_drops_the_settings_of_the_old_one_and_the_same_kind_does_not() -> None:
    assert set_("a.c.0.kind", "z")["a"]["c"][0] == {"kind": "z"}
    assert set_("a.c.0.kind", "x")["a"]["c"][0] == {"kind": "x", "w": 1}
    in_any_order = changed(TREE, changes_of({"a.c.0.v": 2, "a.c.0.kind": "z"}, "--set"))
    assert in_any_order["a"]["c"][0] == {"kind": "z", "v": 2}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("d.x", "d is a plain value"),
        ("a.c.2.w", "'2' is not a position in a list of 2"),
        ("a.c.-1", "'-1' is not a position"),
    ],
)
def test_keys_that_lead_nowhere(key: str, message: str) -> None:
    with pytest.raises(UserError, match="--set: ") as caught:
        set_(key, 1)
    assert message in str(caught.value)


def test_two_settings_that_do_not_go_together_are_both_named() -> None:
    wrong = ["training.batch_tokens=130", "data.max_length=140"]
    with pytest.raises(UserError) as caught:
        load_recipe("pretrain", overrides=["training.epochs=2", *wrong])
    assert str(caught.value).startswith("--set training.batch_tokens=130 and --set data.max_length=140: ")


# Parts by their kind


KINDS: dict[str, Any] = {"n": [{"kind": "x", "w": 1}, {"kind": "y"}, {"kind": "x", "w": 2, "of": {"kind": "z"}}]}


def by_kind(key: str, value: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = changed(KINDS, [Change("--set", key, value)])["n"]
    return found


def test_a_part_of_a_list_is_reached_by_its_kind() -> None:
    assert by_kind("n.x.w", 9) == by_kind("n.0.w", 9) == [{"kind": "x", "w": 9}, *KINDS["n"][1:]]
    assert by_kind("n.y.w", 9) == by_kind("n.1.w", 9)
    assert by_kind("n.x#2.w", 9) == by_kind("n.2.w", 9)
    assert by_kind("n.x#2.of.kind", "q")[2]["of"] == {"kind": "q"}
    assert by_kind("n.y", {"kind": "v"})[1] == {"kind": "v"}
    assert by_kind("n.x.kind", "v")[0] == {"kind": "v"}, "its settings were of the old kind"


def test_a_kind_that_is_not_there_is_told_with_those_that_are() -> None:
    for step in ("z", "x#3", "3"):
        with pytest.raises(UserError) as caught:
            by_kind(f"n.{step}.w", 1)
        assert str(caught.value) == f"--set: {step!r} is not a position in a list of 3; there are: x, y, x#2"


TWO = 'objective.negatives=[{ kind = "in_batch" }, { kind = "gaussian" }, { kind = "gaussian", count = 2 }]'


def test_kinds_and_positions_make_the_same_recipe() -> None:
    by_position = ["objective.negatives.0.weight=0.9", "objective.negatives.2.mean=zero", TWO]
    for order in itertools.permutations(
        [TWO, "objective.negatives.in_batch.weight=0.9", "objective.negatives.gaussian#2.mean=zero"]
    ):
        assert load_recipe("simcse", overrides=order) == load_recipe("simcse", overrides=by_position)
    plain = load_recipe("simcse", overrides=["objective.negatives.in_batch.of.kind=clean"])
    assert plain.objective.negatives[0].model_dump()["of"] == {"kind": "clean"}


@pytest.mark.parametrize(
    ("overrides", "blamed", "fault"),
    [
        ([TWO, "objective.negatives.gaussian#2.weight=-1"], 1, "objective.negatives.2.gaussian.weight"),
        (["objective.negatives.in_batch.wieght=1", "training.epochs=2"], 0, "did you mean 'weight'"),
        ([TWO, "objective.negatives.in_batch.weight=2", "objective.negatives.gaussian.count=-1"], 2, "count"),
        (["objective.negatives.in_batch#2.weight=4"], 0, "there are: in_batch"),
    ],
    ids=str,
)
def test_the_right_override_is_blamed_for_a_part_reached_by_kind(overrides: list[str], blamed: int, fault: str) -> None:
    for order in itertools.permutations(overrides):
        with pytest.raises(UserError) as caught:
            load_recipe("simcse", overrides=order)
        assert str(caught.value).startswith(f"--set {overrides[blamed]}: ")
        assert fault in str(caught.value)


def test_a_whole_part_of_a_new_kind_is_added_to_a_list() -> None:
    tree = {"terms": [{"kind": "x", "w": 1}]}
    added = changed(tree, [Change("--set", "terms.y", {"kind": "y", "w": 2}), Change("--set", "terms.y.w", 3)])
    assert added == {"terms": [{"kind": "x", "w": 1}, {"kind": "y", "w": 3}]}
    with pytest.raises(UserError, match="'y' is not a position in a list of 1; there are: x"):
        changed(tree, [Change("--set", "terms.y", {"kind": "z"})])


def test_settings_are_a_list() -> None:
    with pytest.raises(
        UserError, match=r"settings is a list of texts, for instance settings=\['training.max_steps=60'\]"
    ):
        load_recipe("simcse", overrides="training.max_steps=10")


def test_settings_of_a_dictionary_are_those_that_are_typed() -> None:
    terms = [{"kind": "dcl", "weight": 0.5}, {"kind": "mlm"}]
    tables = {
        "training": {"max_steps": np.int64(7), "learning_rate": 1e-5},
        "objective.terms": terms,
        "title": 'A "title" of \\ and ☕',
    }
    written = as_overrides(tables)
    assert dict(map(parse_override, written)) == {
        "training.max_steps": 7,
        "training.learning_rate": 1e-5,
        "objective.terms": terms,
        "title": 'A "title" of \\ and ☕',
    }
    assert load_recipe("simcse", overrides=tables) == load_recipe("simcse", overrides=written)
    with pytest.raises(UserError, match=r"settings: training.max_steps is None; .* Leave it out for its default"):
        as_overrides({"training": {"max_steps": None}})


def test_a_key_is_set_by_one_option_or_setting() -> None:
    require_set_once(["training.epochs=2"], {"training.seed": "--seed 1"})
    with pytest.raises(UserError, match=r"--seed 1 and --set training.seed=2 are of one setting"):
        require_set_once(["training.seed=2"], {"training.seed": "--seed 1"})
    with pytest.raises(UserError, match=r"training\.seed is set twice"):
        require_set_once(["training.seed=2", "training.seed=3"], {})
