"""Which presets are applied for a model, and what they change."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.recipes.backbones import backbones
from opencse.recipes.presets import Preset, choose, preset_changes, preset_for, presets_of, sort_of

KNOWN = {
    "bert-base": Preset(model="google-bert/bert-base-uncased", settings={"a": 1}, reference={"b": 2}),
    "reference": Preset(settings={"c": 3}),
    "short": Preset(settings={"d": 4}),
}


def test_a_preset_is_for_a_backbone_the_authors_code_or_an_ablation() -> None:
    assert [sort_of(name, KNOWN) for name in ("bert-base", "reference", "paper", "short")] == [
        "backbone", "code", "code", "ablation",
    ]  # fmt: skip


def test_a_model_has_the_preset_of_its_exact_name() -> None:
    assert preset_for("bert-base", KNOWN) == preset_for("google-bert/bert-base-uncased", KNOWN) == "bert-base"
    assert preset_for("someone/bert-base", KNOWN) is None
    assert preset_for("short", KNOWN) is None, "an ablation is for any model"


def test_the_backbone_comes_first_and_what_reference_adds_comes_with_reference() -> None:
    applied = choose(KNOWN, "mine", ["short", "reference"], "bert-base")
    assert applied == ["bert-base", "reference", "short"]
    assert [(one.where, one.key) for one in preset_changes(KNOWN, "mine", applied)] == [
        ("mine:bert-base", "a"), ("mine:reference", "c"), ("mine:bert-base", "b"), ("mine:short", "d"),
    ]  # fmt: skip
    assert [one.key for one in preset_changes(KNOWN, "mine", ["bert-base"])] == ["a"]
    with pytest.raises(UserError, match=r"mine: no preset 'shrt' \(did you mean 'short'"):
        choose(KNOWN, "mine", ["shrt"], None)


def test_a_preset_with_a_backbones_name_has_the_backbones_settings() -> None:
    assert presets_of({"presets": {"bert-base": {}}}, "mine")["bert-base"].model == backbones()["bert-base"]["model"]
    assert presets_of({}, "mine") == {}
    with pytest.raises(UserError, match=r"mine: presets.short: unknown key 'setings'"):
        presets_of({"presets": {"short": {"setings": {}}}}, "mine")
