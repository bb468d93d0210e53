"""Every number in a recipe, a static encoder or a new backbone: not a number, infinite, negative, huge, a word."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from helpers import Run
from hostile.harness import Case, cases, refuse
from hostile.worlds import BAD_RECIPES
from opencse.making.backbone import Shape
from opencse.making.static import StaticSettings
from opencse.objective.registry import PartOf, built_in
from opencse.recipes.recipe import Recipe
from opencse.settings import PartSettings

pytestmark = pytest.mark.slow

HUGE = 10**30


def bound(field: FieldInfo, names: tuple[str, ...]) -> float | None:
    """The tightest of the bounds called ``names`` (``ge``, ``gt``; ``le``, ``lt``)."""
    found = [getattr(rule, name) for rule in field.metadata for name in names if hasattr(rule, name)]
    return found[0] if found else None


def number_kind(annotation: object) -> type | None:
    """``int`` or ``float`` where a field holds one number (or is unset), else None."""
    kinds = set(typing.get_args(annotation) or (annotation,)) - {type(None)}
    return next((kind for kind in (int, float) if kinds == {kind}), None)


def wrong_values(field: FieldInfo) -> list[str]:
    """What a number's field must refuse."""
    kind = number_kind(field.annotation)
    assert kind is not None
    least, most = bound(field, ("ge", "gt")), bound(field, ("le", "lt"))
    values = ["nan", "inf", "abc"]
    if least is not None and least >= 0:
        values.append("-1")
    if kind is int or most is not None:
        values.append(str(HUGE))
    if kind is int:
        values.append("1.5")
    return values


def parts(annotation: object) -> Iterator[type[BaseModel]]:
    """The settings classes named in an annotation, unions, tuples and open sets of parts opened."""
    if isinstance(annotation, PartOf):
        yield from (part.Settings for part in built_in(annotation.role).values())
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation is not PartSettings:
        yield annotation
    for inner in typing.get_args(annotation):
        yield from parts(inner)


def numbers(
    cls: type[BaseModel], path: str, setup: tuple[str, ...]
) -> Iterator[tuple[str, FieldInfo, tuple[str, ...]]]:
    """Dotted keys of all numbers below ``cls``, with the overrides that bring their part into the recipe."""
    for name, field in cls.model_fields.items():
        if path == "" and name in ("presets", "datasets"):  # further data sets have the settings of the first
            continue
        key = f"{path}{name}"
        if number_kind(field.annotation) is not None:
            yield key, field, setup
        inside = [part for one in (field.annotation, *field.metadata) for part in parts(one)]
        several = "tuple" in str(field.annotation)
        for part in inside:
            kind = part.model_fields.get("kind")
            chosen = "" if kind is None else str(kind.default)
            where = f"{key}.0" if several else key
            whole = f'{key}=[{{kind="{chosen}"}}]' if several else f'{key}={{kind="{chosen}"}}'
            tagged = kind is not None and (len(inside) > 1 or several)
            yield from numbers(part, f"{where}.", (*setup, whole) if tagged else setup)


FOUND = [one for one in numbers(Recipe, "", ()) if ".teachers." not in one[0]]  # a list that --set cannot index


def _set(setup: tuple[str, ...], key: str, value: str) -> str:
    return " ".join(f"--set '{override}'" for override in (*setup, f"{key}={value}"))


RECIPE = [
    Case(f"recipes show simcse {_set(setup, key, value)}", (f"--set {key}=", key.rsplit(".", 1)[-1]))
    for key, field, setup in FOUND
    for value in wrong_values(field)
]

STATIC = [
    Case(f"static good.txt --out new --model tiny --set '{key}={value}'", (f"--set {key}=", key))
    for key, field in StaticSettings.model_fields.items()
    if number_kind(field.annotation) is not None
    for value in wrong_values(field)
    if not (key == "sif" and value == "inf")  # weighs all pieces alike
]

SHAPES = [
    Case(f"pretrain good.txt --out new --{key}={value}", (key,))
    for key, field in Shape.model_fields.items()
    for value in wrong_values(field)
]

FILES = [
    Case(line.format(recipe=name), (name,))
    for line in (
        "train good.txt --out new --model tiny --recipe {recipe}",
        "recipes show {recipe}",
        "recipes diff simcse {recipe}",
    )
    for name in (*BAD_RECIPES, "latin1.toml", "missing.toml", "folder.toml", "file/inside.toml")
]

OTHER = [
    Case("recipes show nope", ("unknown recipe 'nope'",)),
    Case("recipes show simcse:", ("a preset's name is missing",)),
    Case("recipes show simcse:nope", ("no preset 'nope'",)),
    Case("recipes show simcse:bert-base:roberta-base", ("two backbones",)),
    Case("recipes show simcse:paper:paper", ("named 2 times",)),
    Case("recipes show simcse:paper:reference", ("contradict",)),
    Case("recipes show simcse --preset nope", ("no preset 'nope'",)),
    Case("recipes show simcse --source --preset paper", ("--source",)),
    Case("recipes presets nope", ("unknown recipe",)),
    Case("recipes presets simcse:paper", ("name the recipe alone",)),
    Case("recipes diff simcse simcs", ("did you mean 'simcse'",)),
    Case("recipes nope", ("nope",)),
    Case("recipes show", ("Missing argument",)),
    *(
        Case(f"recipes show simcse --set '{wrong}'", (says,))
        for wrong, says in (
            ("training.epochs", "key.path=value is expected"),
            ("data.max_length=2", "data.max_length: input should be greater than or equal to 3, got 2"),
            ("data.max_length=automatic", "data.max_length: "),
            ("data.max_length=1.5", "data.max_length: "),
            (f"data.max_length={HUGE}", "data.max_length: "),
            ("training.chunk=0", "training.chunk: input should be greater than 0, got 0"),
            ("=1", "key.path=value is expected"),
            ("training.epoch=1", "did you mean 'epochs'"),
            ("trainin.epochs=1", "unknown key 'trainin'"),
            ("training=1", "training"),
            ("training.epochs.x=1", "plain value"),
            ("objective.view=crop", "objective.view"),
            ("objective.view.kind=crap", "objective.view"),
            ("objective.negatives.7.weight=1", "not a position in a list of 1"),
            (f"objective.negatives.{'9' * 5_000}.weight=1", "not a position in a list of 1"),
            ("objective.negatives=[]", "at least one negative source"),
            ("objective.view.kind=math:pi", "none of the views"),
            ("objective.view.kind=no_such_module:View", "cannot be imported"),
            ("objective.view.kind=:", "cannot be imported"),
            ("objective.view.kind=.:View", "cannot be imported"),
            ("objective.negatives.in_bach.weight=1", "there are: in_batch"),
            ("objective.negatives.in_batch#2.weight=1", "there are: in_batch"),
            ("objective.negatives.in_batch.weight=-1", "greater than 0"),
            ("objective.terms=[{}]", "objective.terms"),
            ("encoder.pooling=nope", "encoder.pooling"),
            ("training.precision=int8", "training.precision"),
            ("training.batch_tokens=8", "batch_tokens"),
            ("training.batch_size=" + "[" * 5_000, "training.batch_size"),
        )
    ),
]


@cases(RECIPE)
def test_numbers_of_a_recipe(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(STATIC)
def test_numbers_of_a_static_encoder(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(SHAPES)
def test_numbers_of_a_new_backbone(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(FILES)
def test_recipe_files(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(OTHER)
def test_recipes(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


def test_the_table_holds_every_part_of_a_recipe(opencse: Run) -> None:
    keys = {key for key, _, _ in FOUND}
    assert {"training.seed", "data.near_duplicates", "objective.view.rate", "objective.negatives.0.momentum"} <= keys
    assert {"objective.terms.0.off_diagonal", "objective.positive.of.samples", "training.worst_case.inputs.sd"} <= keys
    assert len(RECIPE) > 350
    for setup in {setup for _, _, setup in FOUND}:
        code, _, stderr = opencse("recipes", "show", "simcse", *(word for one in setup for word in ("--set", one)))
        assert code == 0, f"{setup}: {stderr}"
