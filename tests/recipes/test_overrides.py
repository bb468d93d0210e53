"""Changes by dotted keys: what they reach, that their order means nothing, and who is blamed."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator

from fuzzing import examples
from opencse.errors import UserError
from opencse.recipes.overrides import (
    Change,
    as_overrides,
    blame,
    changed,
    flatten,
    in_order,
    parse_override,
    require_set_once,
)
from opencse.recipes.recipe import load_recipe, resolve_recipe

TREE: dict[str, Any] = {"a": {"b": 1, "c": [{"kind": "x", "w": 1}, {"kind": "y"}]}, "d": 2}


def set_(key: str, value: object) -> dict[str, Any]:
    return changed(TREE, [Change("--set", key, value)])


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e-4", 1e-4), ("a=true", True), ("a=mean", "mean"), ('a="x y"', "x y"), ("a=[1,2]", [1, 2])],
)
def test_overrides_are_toml_values(text: str, value: object) -> None:
    assert parse_override(text) == ("a", value)


def test_keys_reach_tables_lists_and_what_is_not_there_yet() -> None:
    assert set_("a.b", 5)["a"]["b"] == 5
    assert set_("a.c.1.w", 5)["a"]["c"] == [{"kind": "x", "w": 1}, {"kind": "y", "w": 5}]
    assert set_("a.c", [])["a"]["c"] == []
    assert set_("a.c.0", {"kind": "z"})["a"]["c"][0] == {"kind": "z"}
    assert set_("e.f", 5)["e"] == {"f": 5}
    assert TREE == {"a": {"b": 1, "c": [{"kind": "x", "w": 1}, {"kind": "y"}]}, "d": 2}, "the tree itself stays"


def test_values_are_copied() -> None:
    value: list[dict[str, object]] = [{"kind": "z"}]
    one = set_("a.c", value)
    one["a"]["c"][0]["kind"] = "changed"
    assert value == [{"kind": "z"}]


def test_another_kind_drops_the_settings_of_the_old_one_and_the_same_kind_does_not() -> None:
    assert set_("a.c.0.kind", "z")["a"]["c"][0] == {"kind": "z"}
    assert set_("a.c.0.kind", "x")["a"]["c"][0] == {"kind": "x", "w": 1}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("d.x", "d is a plain value"),
        ("d.x.y", "'x' is inside a plain value"),
        ("a.c.2.w", "'2' is not a position in a list of 2"),
        ("a.c.2", "'2' is not a position in a list of 2"),
        ("a.c.-1", "'-1' is not a position"),
        ("a.c.²", "is not a position"),
        ("a.c.z.w", "'z' is not a position"),
    ],
)
def test_keys_that_lead_nowhere(key: str, message: str) -> None:
    with pytest.raises(UserError, match="--set: ") as caught:
        set_(key, 1)
    assert message in str(caught.value)


def test_wholes_come_before_parts_and_kinds_before_the_rest() -> None:
    keys = ["a.c.0.w", "a.c.0.kind", "a.c", "d"]
    for order in itertools.permutations(keys):
        assert [change.key for change in in_order(Change("", key, 0) for key in order)] == sorted(
            keys, key=lambda key: (key.count("."), not key.endswith("kind"))
        )
    again = in_order([Change("first", "d", 1), Change("second", "d", 2)])
    assert [change.where for change in again] == ["first", "second"], "of two changes of one key the later stands"


OVERRIDES = [
    "objective.negatives.1.size=64",
    "objective.view.rate=0.2",
    "objective.view.kind=crop",
    'objective.negatives=[{ kind = "in_batch" }, { kind = "momentum_queue" }]',
    "training.batch_size=16",
]


@pytest.mark.slow
@examples(30)
@given(st.permutations(OVERRIDES))
def test_the_order_of_overrides_means_nothing(order: list[str]) -> None:
    recipe = load_recipe("simcse", overrides=order)
    assert recipe == load_recipe("simcse", overrides=OVERRIDES)
    assert recipe.objective.view.model_dump() == {"kind": "crop", "rate": 0.2}
    assert recipe.objective.negatives[1].size == 64  # type: ignore[attr-defined]


@examples(10)
@given(st.permutations(["training.learning_rat=1", "objective.view.kind=next_sentence", "objective.view.window=3"]))
def test_the_wrong_override_is_named_whatever_the_order(order: list[str]) -> None:
    with pytest.raises(UserError, match=r"^--set training\.learning_rat=1: .*did you mean 'learning_rate'"):
        load_recipe("simcse", overrides=order)


def test_the_last_of_two_changes_of_a_key_is_blamed() -> None:
    with pytest.raises(UserError, match=r"^--set training\.epochs=-2: "):
        load_recipe("simcse", overrides=["training.epochs=-1", "training.epochs=-2"])


WRONG = ["training.batch_size=-5", "encoder.rat=1", "training.epochs=nan", "objective.temperature=0", "data.x=1"]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(WRONG, 2)))
def test_of_two_wrong_overrides_the_first_given_is_blamed_with_its_own_fault(first: str, second: str) -> None:
    key = first.split("=")[0].rsplit(".", 1)[-1]
    with pytest.raises(UserError) as caught:
        load_recipe("simcse", overrides=["objective.label_smoothing=0.1", first, "training.warmup=0.1", second])
    blamed, _, fault = str(caught.value).partition(": ")
    assert blamed == f"--set {first}"
    assert key in fault


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_go_together_is_told_once_every_value_is_right(wrong: str) -> None:
    together = "objective.negatives=[]"
    for overrides in ([wrong, together], [together, wrong]):
        with pytest.raises(UserError) as caught:
            load_recipe("simcse", overrides=overrides)
        assert str(caught.value).startswith(f"--set {wrong}: ")
    with pytest.raises(UserError, match=r"^--set objective\.negatives=\[\]: .*at least one negative source"):
        load_recipe("simcse", overrides=["objective.temperature=0.1", together, "training.epochs=2"])


@pytest.mark.parametrize(
    "key", ["training.seed", "data.max_length", "training.epochs", "objective.view", "encoder.layers"]
)
def test_a_number_beyond_what_python_reads_is_refused_in_short(key: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe("simcse", overrides=[f"{key}={'9' * 5_000}"])
    assert str(caught.value).startswith(f"--set {key}=999")
    assert len(str(caught.value)) < 400


def test_a_wrong_kind_is_blamed_and_not_the_settings_beside_it() -> None:
    with pytest.raises(UserError, match=r"^--set objective\.view\.kind=crap: "):
        load_recipe("simcse", overrides=["objective.view.rate=0.1", "objective.view.kind=crap"])


def test_two_settings_that_do_not_go_together_are_both_named() -> None:
    wrong = ["training.batch_tokens=130", "data.max_length=140"]
    with pytest.raises(UserError) as caught:
        load_recipe("pretrain", overrides=["training.epochs=2", *wrong])
    assert str(caught.value).startswith("--set training.batch_tokens=130 and --set data.max_length=140: ")


def test_a_fault_that_hides_another_one_is_blamed_on_its_own_settings() -> None:
    settings = (
        "training.batch_size=7",
        "objective.matryoshka.dimensions=[8]",
        "objective.learned_temperature=true",
        "objective.view.rates=[0.1, 0.3]",
        'objective.negatives=[{ kind = "in_batch", of = { kind = "mean" } }]',
    )
    with pytest.raises(UserError) as caught:
        resolve_recipe("simcse", overrides=settings)
    blamed, _, fault = str(caught.value).partition(": ")
    assert {*blamed.split(" and ")} == {f"--set {settings[1]}", f"--set {settings[2]}"}
    assert fault.startswith("objective.matryoshka normalises truncated vectors again")


def test_a_change_without_which_others_lead_nowhere_is_not_blamed() -> None:
    longer = 'objective.negatives=[{ kind = "in_batch" }, { kind = "in_batch" }]'
    with pytest.raises(UserError, match=r"^--set training\.batch_tokens=130: "):
        load_recipe("simcse", overrides=[longer, "objective.negatives.1.weight=2", "training.batch_tokens=130"])


class Part(BaseModel):
    kind: Literal["part"] = "part"
    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def _in_order(self) -> Part:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Other(BaseModel):
    kind: Literal["other"] = "other"


class Whole(BaseModel):
    parts: list[Annotated[Part | Other, Field(discriminator="kind")]]
    name: str = ""


def test_settings_of_one_part_that_do_not_go_together_are_blamed_alone() -> None:
    changes = [Change(key, key, value) for key, value in (("name", "x"), ("parts.0.low", 5), ("parts.0.high", 4))]
    tree = {"parts": [{"kind": "part"}]}
    assert blame(Whole, changes, lambda some: changed(tree, some))[0] == "parts.0.low and parts.0.high"
    assert blame(Whole, [*changes[:2], Change("low", "parts.0.low", 99)], lambda some: changed(tree, some))[0] == "low"


def test_a_wrong_preset_is_blamed_by_name_and_not_the_overrides(tmp_path: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntitle = "t"\n[presets]\nbad = { settings = { "training.epochs" = -1 } }\n'
        'worse = { settings = { "data.max_length.x" = 1 } }\n'
    )
    with pytest.raises(UserError, match=r"mine\.toml:bad: training\.epochs: "):
        load_recipe(f"{path}:bad", overrides=["training.batch_size=8"])
    with pytest.raises(UserError, match=r"mine\.toml:worse: .*plain value"):
        load_recipe(f"{path}:worse")
    assert resolve_recipe(f"{path}:bad", overrides=["training.epochs=1"]).recipe.training.epochs == 1


def test_positions_reach_parts_that_the_file_does_not_write_out(tmp_path: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntitle = "t"\n')
    recipe = load_recipe(str(path), overrides=["objective.negatives.0.weight=0.5", "objective.positive.of.kind=clean"])
    assert recipe.objective.negatives[0].weight == 0.5  # type: ignore[attr-defined]
    assert recipe.objective.positive.of.kind == "clean"


def test_flatten_gives_dotted_keys_and_keeps_lists_whole() -> None:
    assert flatten(TREE) == {"a.b": 1, "a.c": TREE["a"]["c"], "d": 2}


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


@pytest.mark.parametrize("step", ["z", "x#3", "y#2", "x#1", "x#0", "x#", "#2", "X", "3", "-1", ""])
def test_a_kind_that_is_not_there_is_told_with_those_that_are(step: str) -> None:
    with pytest.raises(UserError) as caught:
        by_kind(f"n.{step}.w", 1)
    assert str(caught.value) == f"--set: {step!r} is not a position in a list of 3; there are: x, y, x#2"


def test_a_list_that_is_not_of_parts_has_positions_alone() -> None:
    tree = {"n": [{"kind": "x"}, 3], "m": []}
    for key in ("n.x.w", "m.x.w"):
        with pytest.raises(UserError, match="'x' is not a position in a list of"):
            changed(tree, [Change("--set", key, 1)])
    assert changed(tree, [Change("--set", "n.0.w", 1)])["n"][0] == {"kind": "x", "w": 1}


TWO = 'objective.negatives=[{ kind = "in_batch" }, { kind = "gaussian" }, { kind = "gaussian", count = 2 }]'


def test_kinds_and_positions_make_the_same_recipe() -> None:
    by_position = ["objective.negatives.0.weight=0.9", "objective.negatives.2.mean=zero", TWO]
    for order in itertools.permutations(
        [TWO, "objective.negatives.in_batch.weight=0.9", "objective.negatives.gaussian#2.mean=zero"]
    ):
        assert load_recipe("simcse", overrides=order) == load_recipe("simcse", overrides=by_position)
    plain = load_recipe("simcse", overrides=["objective.negatives.in_batch.of.kind=clean"])
    assert plain.objective.negatives[0].model_dump()["of"] == {"kind": "clean"}
    assert resolve_recipe("simcse", overrides=[TWO, "objective.negatives.gaussian.weight=2"]).explicit >= {
        "objective.negatives.gaussian.weight"
    }


def test_presets_reach_parts_by_kind(tmp_path: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntitle = "t"\n[objective]\nnegatives = [{ kind = "in_batch" }, { kind = "hard" }]\n'
        'terms = [{ kind = "mlm" }]\n[presets.a.settings]\n"objective.negatives.hard.alpha" = 3.0\n'
        '"objective.terms.mlm.weight" = 0.7\n[presets.b.settings]\n"objective.negatives.queue.size" = 3\n'
    )
    chosen = load_recipe(f"{path}:a").objective.model_dump()
    assert (chosen["negatives"][1]["alpha"], chosen["terms"][0]["weight"]) == (3.0, 0.7)
    with pytest.raises(UserError, match=r"mine\.toml:b: 'queue' is not a position .*; there are: in_batch, hard$"):
        load_recipe(f"{path}:b")


@pytest.mark.parametrize(
    ("overrides", "blamed", "fault"),
    [
        ([TWO, "objective.negatives.gaussian.weight=-1"], 1, "objective.negatives.1.gaussian.weight"),
        ([TWO, "objective.negatives.gaussian#2.weight=-1"], 1, "objective.negatives.2.gaussian.weight"),
        (["objective.negatives.in_batch.wieght=1", "training.epochs=2"], 0, "did you mean 'weight'"),
        (["objective.negatives.in_batch.kind=nope", "training.epochs=2"], 0, "no part 'nope' among the negatives"),
        (["objective.negatives.in_batch.of.kind=clear"], 0, "did you mean 'clean'"),
        ([TWO, "objective.negatives.in_batch.weight=2", "objective.negatives.gaussian.count=-1"], 2, "count"),
        (["objective.negatives.momentum_queue.size=4"], 0, "there are: in_batch"),
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


@pytest.mark.parametrize("wrong", [1, 2])
def test_of_two_parts_of_a_kind_the_wrong_ones_override_is_blamed(wrong: int) -> None:
    keys = ("objective.negatives.gaussian.weight", "objective.negatives.gaussian#2.weight")
    overrides = [f"{key}={-1 if i == wrong else 2}" for i, key in enumerate(keys, 1)]
    for order in itertools.permutations([TWO, *overrides]):
        with pytest.raises(UserError) as caught:
            load_recipe("simcse", overrides=order)
        assert str(caught.value).startswith(f"--set {overrides[wrong - 1]}: ")


def test_a_whole_part_of_a_new_kind_is_added_to_a_list() -> None:
    tree = {"terms": [{"kind": "x", "w": 1}]}
    added = changed(tree, [Change("--set", "terms.y", {"kind": "y", "w": 2}), Change("--set", "terms.y.w", 3)])
    assert added == {"terms": [{"kind": "x", "w": 1}, {"kind": "y", "w": 3}]}
    assert changed(tree, [Change("--set", "terms.x", {"kind": "x"})]) == {"terms": [{"kind": "x"}]}
    assert changed({"terms": []}, [Change("--set", "terms.y", {"kind": "y"})]) == {"terms": [{"kind": "y"}]}
    for value in ({"kind": "z"}, {"w": 2}, 3):
        with pytest.raises(UserError, match="'y' is not a position in a list of 1; there are: x"):
            changed(tree, [Change("--set", "terms.y", value)])


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
        "encoder": {"head": {"kind": "none"}, "freeze_embeddings": True},
        "title": 'A "title" of \\ and ☕',
    }
    written = as_overrides(tables)
    read = dict(map(parse_override, written))
    assert read == {
        "training.max_steps": 7,
        "training.learning_rate": 1e-5,
        "objective.terms": terms,
        "encoder.head.kind": "none",
        "encoder.freeze_embeddings": True,
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
