"""The example package of parts is installed, trained with and resumed, as an outsider would."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import Stopped, resumed_is_whole
from opencse.objective.registry import find
from opencse.recipes.recipe import load_recipe, to_toml
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source

EXAMPLE = Path(__file__).parents[1] / "examples" / "parts"
SHORT = ("training.max_steps=12", "training.batch_size=8", "training.checkpoint_every=4", "training.precision=float32")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed in it."""
    place = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(place), str(EXAMPLE)], check=True, timeout=120)
    return place


@pytest.fixture
def installed(site: Path) -> Iterator[Path]:
    """The package, found by Python for one test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        sys.modules.pop("more_parts", None)  # another test may have imported one from a working folder
        importlib.invalidate_caches()
        yield site
    sys.modules.pop("more_parts", None)
    importlib.invalidate_caches()


def job(model: Path, recipe: str = str(EXAMPLE / "between.toml")) -> Run:
    return Run(text=Source(str(sample.TRAIN)), recipe=recipe, model=str(model), settings=SHORT, dev=None)


@pytest.mark.slow
def test_parts_of_an_installed_package_train_and_resume(installed: Path, tiny_folder: Path, tmp_path: Path) -> None:
    assert find("negatives", "between").__module__ == "more_parts"
    assert str(installed) in str(sys.modules["more_parts"].__file__)
    whole = resumed_is_whole(job(tiny_folder), tmp_path, Stopped(6))
    job(tiny_folder, "simcse").train(tmp_path / "plain")
    assert (tmp_path / "plain" / "model.safetensors").read_bytes() != whole["model.safetensors"]
    assert b'"loss_uniformity"' in whole["metrics.jsonl"]


def test_the_same_parts_by_their_place(installed: Path, tmp_path: Path) -> None:
    text = (EXAMPLE / "between.toml").read_text()
    placed = tmp_path / "placed.toml"
    placed.write_text(text.replace('"between", share', '"more_parts:Between", share'))
    by_place, by_name = load_recipe(str(placed)), load_recipe(str(EXAMPLE / "between.toml"))
    assert by_place.objective == by_name.objective
    again = tmp_path / "again.toml"
    again.write_text(to_toml(by_place))
    assert load_recipe(str(again)).objective == by_name.objective
