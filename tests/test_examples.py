"""The example package of parts is installed, trained with and resumed, as an outsider would."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers import Stopped
from opencse.errors import InterruptedRunError
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


def test_parts_of_an_installed_package_train_and_resume(installed: Path, tiny_folder: Path, tmp_path: Path) -> None:
    assert find("negatives", "between").__module__ == "more_parts"
    assert str(installed) in str(sys.modules["more_parts"].__file__)
    job(tiny_folder).train(tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        job(tiny_folder).train(tmp_path / "broken", progress=Stopped(6))
    job(tiny_folder).train(tmp_path / "broken", resume=True)
    whole, broken = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], broken[name]) for name in whole)
    plain = tmp_path / "plain"
    job(tiny_folder, "simcse").train(plain)
    assert any(not torch.equal(whole[k], w) for k, w in load_file(plain / "model.safetensors").items() if k in whole)
    assert '"loss_uniformity"' in (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_the_same_parts_by_their_place(installed: Path, tmp_path: Path) -> None:
    text = (EXAMPLE / "between.toml").read_text()
    placed = tmp_path / "placed.toml"
    placed.write_text(text.replace('"between", share', '"more_parts:Between", share'))
    by_place, by_name = load_recipe(str(placed)), load_recipe(str(EXAMPLE / "between.toml"))
    assert by_place.objective == by_name.objective
    again = tmp_path / "again.toml"
    again.write_text(to_toml(by_place))
    assert load_recipe(str(again)).objective == by_name.objective
