"""How parts are found, their code, and what is wrong with settings: one line that says what is expected."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.identity import code_of_parts, hash_named_models
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import PartRole, build, built_in, find
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.sides.base import Sides
from opencse.objective.similarity import pairwise_similarity, rowwise_similarity
from opencse.objective.terms.base import Term
from opencse.objective.terms.tokens import MaskedLM
from opencse.objective.vectors.step import Representations
from opencse.objective.views.base import View
from opencse.objective.views.plain import Dropout
from opencse.recipes.recipe import load_recipe, resolve_recipe, to_toml
from opencse.settings import PartSettings, validate

BASES: dict[PartRole, type] = {"view": View, "sides": Sides, "negatives": NegativeSource, "term": Term}
EVERY = [(role, kind) for role in BASES for kind in built_in(role)]


def objective(**data: Any) -> ObjectiveSettings:
    return validate(ObjectiveSettings, data, "mine")


@pytest.mark.parametrize(("role", "kind"), EVERY)
def test_every_part_is_made_of_its_settings_and_goes_through_a_recipes_table(role: PartRole, kind: str) -> None:
    part = find(role, kind)
    assert issubclass(part, BASES[role])
    made = build(part.Settings())
    assert type(made) is part is part.Settings.part
    assert made.settings == part.Settings()
    assert made.kind == made.name == kind
    plain = {"kind": kind}
    tables: dict[str, dict[str, Any]] = {
        "view": {"view": plain},
        "sides": {"positive": {"of": plain}},
        "negatives": {"negatives": [plain]},
        "term": {"terms": [plain]},
    }
    settings = objective(**tables[role])
    assert part.Settings() in (settings.view, settings.positive.of, *settings.negatives, *settings.terms)
    assert objective(**settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("role", "kind", "words"),
    [
        (
            "negatives",
            "in_bach",
            ["no part 'in_bach' among the negatives (did you mean 'in_batch'?)", "hard, in_batch"],
        ),
        ("term", "dropout", ["no part 'dropout' among the terms", "there are: angle, barlow_twins"]),
        ("term", "x" * 5000, ["xxx..."]),
        ("term", "no_such_module:Part", ["no_such_module:Part: 'no_such_module' cannot be imported"]),
        ("term", "math:Part", ["math:Part: the module math has no 'Part'"]),
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

    class Settings(Term.Settings):
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


MODULE = '''
from typing import Literal

from pydantic import Field

from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.terms.base import Term
from opencse.objective.views.plain import Dropout
from opencse.settings import PartSettings


class Zero(Term):
    """A loss of nothing."""

    class Settings(PartSettings):
        kind: Literal["zero"] = "zero"
        weight: float = Field(default=1.0, gt=0)
        steepness: int = 2

    def loss(self, reps):
        return 0 * reps.anchor.sum()


class Half(InBatch):
    class Settings(InBatch.Settings):
        kind: Literal["half"] = "half"
        weight: float = 0.5


class Heir(Dropout):
    """Another view under the settings of `Dropout`."""


class Nameless(Term):
    class Settings(PartSettings):
        weight: float = 1.0

    def loss(self, reps):
        return reps.anchor.sum()


class Room:
    class Inside(Zero):
        class Settings(Zero.Settings):
            kind: Literal["inside"] = "inside"


class NoPart:
    """A class, and no part."""


number = 5
'''


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Path]:
    """A folder on the path with a module of parts."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "parts_of_mine.py").write_text(MODULE)
    (folder / "broken_parts.py").write_text("from nowhere_at_all import nothing\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        yield folder
    sys.modules.pop("parts_of_mine", None)


@pytest.fixture
def installed(parts: Path) -> Path:
    """The same module as a package's that gives its parts as entry points."""
    folder = parts / "parts_of_mine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-of-mine\nVersion: 1.0\n")
    entries = """
        [opencse.parts]
        zero = parts_of_mine:Zero
        other_name = parts_of_mine:Half
        wrong = parts_of_mine:NoPart
        in_batch = parts_of_mine:Half
    """
    (folder / "entry_points.txt").write_text(dedent(entries))
    importlib.invalidate_caches()
    return parts


def test_what_is_wrong_with_a_kind_is_reported_with_its_place(parts: Path) -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"view": {"kind": "parts_of_mine:Zero"}}, "mine: view.kind: parts_of_mine:Zero is none of the views"),
        ({"terms": [{"kind": "parts_of_mine:NoPart"}]}, "terms.0.kind: parts_of_mine:NoPart is none of the terms"),
        ({"terms": [{"kind": "parts_of_mine:Nameless"}]}, "has no Settings with a kind of its own"),
        ({"terms": [{"kind": "broken_parts:Part"}]}, "'broken_parts' cannot be imported (No module named 'nowhere"),
        ({"terms": [{"weight": 1.0}]}, "mine: terms.0: a part needs its kind; there are: angle, barlow_twins, "),
        ({"terms": ["mlm"]}, "mine: terms.0: a part is a table with its kind"),
    )
    for data, words in wrong:
        with pytest.raises(UserError) as caught:
            objective(**data)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_part_is_imported_from_its_place(parts: Path) -> None:
    settings = objective(terms=[{"kind": "parts_of_mine:Zero", "weight": 3.0}], negatives=[])
    (term,) = Objective.from_settings(settings).terms
    module = sys.modules["parts_of_mine"]
    assert type(term) is module.Zero
    assert (term.kind, term.weight, vars(term.settings)["steepness"]) == ("zero", 3.0, 2)
    assert term.name == "terms.zero"
    assert find("term", "parts_of_mine:Zero") is module.Zero
    assert find("term", "parts_of_mine:Room.Inside") is module.Room.Inside
    assert "zero" not in built_in("term")
    with pytest.raises(UserError, match="no part 'zero' among the terms"):
        find("term", "zero")


def test_settings_of_an_imported_part_go_through_toml(parts: Path, tmp_path: Path) -> None:
    own = ['objective.terms=[{ kind = "parts_of_mine:Zero", weight = 2.5 }]']
    nested = ['objective.terms=[{ kind = "parts_of_mine:Room.Inside", steepness = 7 }]']
    half = ['objective.negatives=[{ kind = "in_batch" }, { kind = "parts_of_mine:Half", of = { kind = "anchors" } }]']
    for overrides, key, written in (
        (own, "terms", {"kind": "parts_of_mine:Zero", "weight": 2.5, "steepness": 2}),
        (nested, "terms", {"kind": "parts_of_mine:Room.Inside", "weight": 1.0, "steepness": 7}),
        (half, "negatives", {"kind": "parts_of_mine:Half", "of": {"kind": "anchors"}, "weight": 0.5}),
    ):
        recipe = load_recipe("simcse", overrides=overrides)
        path = tmp_path / "again.toml"
        path.write_text(to_toml(recipe))
        assert tomllib.loads(path.read_text())["objective"][key][-1].items() >= written.items()
        assert load_recipe(str(path)).objective == recipe.objective
        assert ObjectiveSettings.model_validate(recipe.objective.model_dump()) == recipe.objective
        assert ObjectiveSettings.model_validate_json(recipe.objective.model_dump_json()) == recipe.objective


def test_parts_of_an_installed_package_have_short_names(installed: Path) -> None:
    assert find("term", "zero").__name__ == "Zero"
    settings = objective(terms=[{"kind": "zero"}], negatives=[{"kind": "other_name"}, {"kind": "in_batch"}])
    made = Objective.from_settings(settings)
    assert [type(part).__name__ for part in made.parts] == ["Half", "InBatch", "Zero"]
    assert type(made.negatives[1]) is InBatch, "nobody takes the place of the package's own"
    dumped = settings.model_dump(mode="json")
    assert dumped["terms"][0] == {"kind": "zero", "weight": 1.0, "steepness": 2}
    assert objective(**dumped) == settings
    for role, kind in (("term", "other_name"), ("term", "wrong"), ("view", "zero")):
        with pytest.raises(UserError, match=rf"^{kind} is none of the {role}s"):
            find(role, kind)  # type: ignore[arg-type]


def test_a_part_is_found_in_a_file_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "local_parts.py").write_text(MODULE)
    paths = list(sys.path)
    with pytest.raises(UserError, match="neither installed nor a file in the working folder"):
        find("term", "local_parts:Zero")
    monkeypatch.chdir(tmp_path)
    try:
        assert find("term", "local_parts:Zero").__name__ == "Zero"
    finally:
        sys.modules.pop("local_parts", None)
    assert sys.path == paths


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"negatives": [{"kind": "in_batch"}, {"kind": "hard", "alfa": 2}]}, ["negatives.1.hard.alfa", "'alpha'"]),
        (
            {"negatives": [{"kind": "in_batch", "of": {"kind": "noisy", "varianc": 1}}]},
            ["negatives.0.in_batch.of.noisy.varianc", "did you mean 'variance'", "valid: both, kind, variance"],
        ),
        (
            {"terms": [{"kind": "parts_of_mine:Zero", "weigth": 2}]},
            ["parts_of_mine:Zero.weigth", "did you mean 'weight'"],
        ),
        (
            {"terms": [{"kind": "parts_of_mine:Zero", "weight": -2}]},
            ["parts_of_mine:Zero.weight: ", "greater than 0, got -2"],
        ),
    ],
    ids=str,
)
def test_a_wrong_key_in_a_part_is_named_with_the_nearest_valid_one(
    parts: Path, data: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        objective(**data)
    assert str(caught.value).startswith("mine: ")
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


PARTS = """
from typing import Literal
from opencse.objective.terms.base import Term
from opencse.settings import PartSettings

class Twice(Term):
    class Settings(PartSettings):
        kind: Literal["twice"] = "twice"
        weight: float = 1.0

    def loss(self, reps):
        return 2 * reps.anchor.sum()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module with a part."""
    file = tmp_path / f"{tmp_path.name}_parts.py"
    file.write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    sys.modules.pop(file.stem, None)


def settings(module: Path) -> ObjectiveSettings:
    return ObjectiveSettings.model_validate({"terms": [{"kind": f"{module.stem}:Twice"}]})


def test_the_packages_own_parts_have_none() -> None:
    assert code_of_parts(load_recipe("diffcse")) == {}


def test_the_module_of_a_part_counts(module: Path) -> None:
    assert [*code_of_parts(settings(module))] == [module.stem]


def test_comments_and_spacing_do_not_count(module: Path) -> None:
    before = code_of_parts(settings(module))
    module.write_text("# a comment\n\n" + module.read_text().replace("weight: float = 1.0", "weight: float = (1.0)"))
    assert code_of_parts(settings(module)) == before
    module.write_text(module.read_text().replace("weight: float = (1.0)", "weight: float = 2.0"))
    assert code_of_parts(settings(module)) != before


def test_parts_of_further_data_sets_count(module: Path) -> None:
    recipe = load_recipe("simcse")
    further = {"name": "b", "data": "b.txt", "objective": settings(module).model_dump(mode="json")}
    values = recipe.model_dump(mode="json", exclude={"presets"}) | {"datasets": [further]}
    assert [*code_of_parts(type(recipe).model_validate(values))] == [*code_of_parts(settings(module))]


def test_a_class_without_readable_source_is_left_out() -> None:
    typed: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(PARTS, "<prompt>", "exec", dont_inherit=True), typed)
    assert code_of_parts(ObjectiveSettings(terms=(typed["Twice"].Settings(),))) == {}


def test_a_copy_of_the_start_counts_with_the_start() -> None:
    assert {name: hash_named_models(load_recipe(name)) for name in ("gist", "rankcse", "diffcse")} == {
        "gist": {},
        "rankcse": {},
        "diffcse": {},
    }


def test_guides_teachers_and_generators_count_by_their_files(tiny_folder: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    teachers = f'[{{model="{model}"}}, {{model="start"}}]'
    fields = {
        "gist": f"objective.negatives.in_batch.guide.model={model}",
        "rankcse": f"objective.terms.distill.teachers={teachers}",
        "diffcse": f"objective.terms.replaced_tokens.generator={model}",
    }
    for name, setting in fields.items():
        recipe = resolve_recipe(name, overrides=[setting]).recipe
        before = hash_named_models(recipe)
        assert f"{model}/config.json" in before
        (model / "config.json").write_text((model / "config.json").read_text() + "\n")
        after = hash_named_models(recipe)
        assert [file for file in before if before[file] != after[file]] == [f"{model}/config.json"]


TERM_ALONE = {"negatives": [], "terms": [{"kind": "cosent"}]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"temperature": float("nan")}, ["temperature"]),
        ({"similarity": "euclid"}, ["similarity", "cosine", "dot", "euclid"]),
        (TERM_ALONE | {"positive": {"copies": 2}}, ["positive.copies is read by a contrast alone"]),
        (
            TERM_ALONE | {"mask_duplicates": False},
            ["mask_duplicates is read", "keep the default: mask_duplicates = True"],
        ),
        ({"partition": "joint"}, ["partition = joint is of two directions", "directions = both"]),
    ],
    ids=str,
)
def test_wrong_settings_are_reported_in_one_line(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        objective_of(**data)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("test: ")
    for word in words:
        assert word in message


@pytest.mark.parametrize("function", [pairwise_similarity, rowwise_similarity])
def test_an_unknown_similarity_is_not_taken_for_the_dot_product(function: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="unknown similarity 'euclidean'; known: cosine, dot"):
        function(torch.eye(2), torch.eye(2), "euclidean")


NO_LAYERS = ("conditional_mlm", "denoising", "local_global", "replaced_tokens", "self_guided")
OTHER_SIZE = ("denoising", "replaced_tokens", "self_guided")
HEAD = ("near_start", "whitened")


def test_what_a_part_cannot_be_combined_with_is_named_with_the_way_out(encoder: SentenceEncoder) -> None:
    flat = SentenceEncoder.load("opencse-mini", device="cpu")
    headed = encoder.twin()
    headed.projection = Dense(32, 8)
    for kinds, refused, words in (
        (NO_LAYERS, flat, "and m has no layers; choose another model, or another recipe"),
        (
            OTHER_SIZE,
            headed,
            "and sentence vectors have 8 dimensions, where tokens have 32; leave encoder.head",
        ),
        (
            HEAD,
            headed,
            "and the encoder has a head that is dropped after training; set it with --set enc",
        ),
    ):
        for kind in kinds:
            made = objective_of(negatives=[{"kind": "in_batch"}], terms=[{"kind": kind}])
            made.check_encoder(encoder, "m")
            with pytest.raises(UserError, match=f"^the {kind} term .*, {words}") as caught:
                made.check_encoder(refused, "m")
            assert "\n" not in str(caught.value)
    for data, words in (
        ({"terms": [{"kind": "whitened"}], "dual_encoder": True}, "and objective.dual_encoder makes two; leave it out"),
        (
            {"view": {"kind": "input_fgsm"}, "negatives": [], "terms": [{"kind": "mlm"}]},
            "and there are no negatives",
        ),
        (
            {"view": {"kind": "spans"}, "terms": [{"kind": "imitate"}]},
            "and the view spans draws its texts in each step",
        ),
    ):
        with pytest.raises(UserError, match=words):
            objective_of(**data)
