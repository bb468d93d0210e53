"""How parts are found: the package's own, those of installed packages, and any that can be imported."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import PartRole, build, built_in, find
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.sides.base import Sides
from opencse.objective.terms.base import Term
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.step import Representations
from opencse.objective.views.base import View
from opencse.objective.views.dropout import Dropout
from opencse.settings import PartSettings, validate

OWN: dict[PartRole, list[str]] = {
    "view": [
        "both_sides",
        "crop",
        "delete_one_word",
        "delete_words",
        "dropout",
        "input_bernoulli",
        "input_fgsm",
        "input_gaussian",
        "input_gaussian_dropout",
        "insert_mask",
        "insert_stopwords",
        "insert_words",
        "itself",
        "mlm_substitute",
        "next_sentence",
        "output_bernoulli",
        "output_fgsm",
        "output_gaussian",
        "output_mask",
        "pair",
        "repeat_subwords",
        "repeat_words",
        "spans",
        "synonym",
        "templates",
    ],
    "sides": [
        "anchors",
        "clean",
        "mean",
        "noisy",
        "positives",
        "views",
    ],
    "negatives": [
        "gaussian",
        "gmm",
        "hard",
        "in_batch",
        "layers",
        "memory_bank",
        "mixed",
        "momentum_queue",
        "noisy_anchor",
        "rewritten",
        "vae",
    ],
    "term": [
        "angle",
        "barlow_twins",
        "bidirectional_margin",
        "conditional_mlm",
        "consistency",
        "contrastive_tension",
        "cosent",
        "cosine_regression",
        "dcl",
        "denoising",
        "distill",
        "local_global",
        "margin",
        "mlm",
        "near_start",
        "rank_vectors",
        "replaced_tokens",
        "repulsion",
        "self_guided",
        "softmax",
        "triplet",
        "whitened",
    ],
}
BASES: dict[PartRole, type] = {"view": View, "sides": Sides, "negatives": NegativeSource, "term": Term}
EVERY = [(role, kind) for role, kinds in OWN.items() for kind in kinds]


def objective(**data: Any) -> ObjectiveSettings:
    return validate(ObjectiveSettings, data, "mine")


@pytest.mark.parametrize("role", OWN)
def test_the_packages_own_parts_are_those_of_its_folders(role: PartRole) -> None:
    assert list(built_in(role)) == OWN[role]


@pytest.mark.parametrize(("role", "kind"), EVERY)
def test_every_part_is_found_by_its_kind_and_made_of_its_settings(role: PartRole, kind: str) -> None:
    part = find(role, kind)
    assert issubclass(part, BASES[role])
    assert part.Settings.part is part
    assert get_args(part.Settings.model_fields["kind"].annotation) == (kind,)
    made = part()
    assert type(build(part.Settings())) is type(made) is part
    assert made.settings == part.Settings()
    assert made.kind == made.name == kind
    assert part.Settings.__doc__


@pytest.mark.parametrize(("role", "kind"), EVERY)
def test_every_part_goes_through_a_recipes_table_and_back(role: PartRole, kind: str) -> None:
    plain = {"kind": kind}
    tables: dict[str, dict[str, Any]] = {
        "view": {"view": plain},
        "sides": {"positive": {"of": plain}},
        "negatives": {"negatives": [plain]},
        "term": {"terms": [plain]},
    }
    settings = objective(**tables[role])
    dumped = settings.model_dump(mode="json")
    assert objective(**dumped) == settings
    part = {
        "view": dumped["view"],
        "sides": dumped["positive"]["of"],
        "negatives": dumped["negatives"][0],
        "term": (dumped["terms"] or [{}])[0],
    }[role]
    assert part["kind"] == kind
    assert part.keys() == find(role, kind).Settings.model_fields.keys()


@pytest.mark.parametrize(
    ("role", "kind", "words"),
    [
        (
            "negatives",
            "in_bach",
            ["no part 'in_bach' among the negatives (did you mean 'in_batch'?)", "hard, in_batch"],
        ),
        ("term", "dropout", ["no part 'dropout' among the terms", "there are: angle, barlow_twins"]),
        ("view", "mlm", ["no part 'mlm' among the views"]),
        ("sides", "in_batch", ["no part 'in_batch' among the sides", "anchors, clean, mean, noisy, positives, views"]),
        ("term", "", ["no part '' among the terms"]),
        ("term", "x" * 5000, ["xxx..."]),
        ("term", "no_such_module:Part", ["no_such_module:Part: 'no_such_module' cannot be imported"]),
        ("term", "no.such.module:Part", ["'no.such.module' cannot be imported"]),
        ("term", ".relative:Part", ["cannot be imported"]),
        ("term", ":Part", ["cannot be imported"]),
        ("term", ":", ["cannot be imported"]),
        ("term", "math:", ["the module math has no ''"]),
        ("term", "math:Part", ["math:Part: the module math has no 'Part'"]),
        ("term", "math:pi.real.deep", ["the module math has no 'pi.real.deep'"]),
        ("term", "math:pi", ["math:pi is none of the terms: it does not derive from Term"]),
        ("term", "builtins:int", ["builtins:int is none of the terms"]),
        ("term", "opencse.objective.negatives.in_batch:InBatch", ["none of the terms: it does not derive from Term"]),
        ("term", "opencse.objective.terms.base:Term", ["has no Settings with a kind of its own"]),
    ],
)
def test_a_kind_that_names_no_part_is_reported_in_one_line(role: PartRole, kind: str, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        find(role, kind)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    for word in words:
        assert word in str(caught.value)


class Quiet(Term):
    """A term of these tests."""

    class Settings(PartSettings):
        """Its weight."""

        kind: Literal["quiet"] = "quiet"
        weight: float = 0.5

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        return reps.anchor.sum()


class Loose(PartSettings):
    """Settings that stand in no part's class."""

    kind: Literal["loose"] = "loose"


def test_settings_know_their_part_and_stand_in_an_objectives_settings() -> None:
    settings = ObjectiveSettings(terms=(Quiet.Settings(weight=0.1), MaskedLM.Settings()))
    made = Objective.from_settings(settings)
    assert [type(term) for term in made.terms] == [Quiet, MaskedLM]
    assert made.terms[0].weight == 0.1
    dumped = settings.model_dump(mode="json")
    assert dumped["terms"][0] == {"kind": f"{__name__}:Quiet", "weight": 0.1}
    assert ObjectiveSettings.model_validate(dumped) == settings


def test_settings_of_another_role_or_of_no_part_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Hard\.Settings are not the settings of one of the terms"):
        ObjectiveSettings(terms=(Hard.Settings(),))
    with pytest.raises(ValueError, match="Loose are not the settings of one of the views"):
        ObjectiveSettings(view=Loose())
    with pytest.raises(TypeError, match="Loose belongs to no part; define it inside the part's class"):
        build(Loose())


def test_part_objects_make_an_objective_and_take_their_names_there() -> None:
    negatives = [InBatch(), Hard(), InBatch(InBatch.Settings(weight=0.5)), InBatch()]
    made = Objective(Dropout(), negatives=negatives, terms=[Quiet(), MaskedLM()])
    assert [part.name for part in made.negatives] == [
        "negatives.in_batch",
        "negatives.hard",
        "negatives.in_batch#2",
        "negatives.in_batch#3",
    ]
    assert [part.name for part in made.terms] == ["terms.quiet", "terms.mlm"]
    assert (made.view.name, made.positive.of.name) == ("view", "positive")
    with pytest.raises(UserError, match="the term 'quiet' is given 2 times; give it once"):
        Objective(Dropout(), terms=[Quiet(), Quiet()])
