"""Records of earlier runs are used only where options and data are the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.studies.running import run_study
from opencse.studies.study import RunSpec, Study, SuiteChoice
from opencse.text import sample
from opencse.text.readers import Source

pytestmark = pytest.mark.slow


def test_a_run_asked_for_otherwise_is_refused(study: Study) -> None:
    run_study(replace(study, seeds=[1], recipes=["simcse"]))
    other = replace(study, seeds=[1], recipes=["simcse"], settings=(*study.settings, "objective.temperature=0.1"))
    with pytest.raises(UserError, match=r"was made with another recipe.objective.temperature .0.05 then, 0.1 now"):
        run_study(other)
    with pytest.raises(UserError, match="was made with another judge"):
        run_study(replace(study, seeds=[1], recipes=["simcse"], judge="last"))


def test_a_record_of_an_earlier_version_has_the_defaults_of_settings_it_does_not_know(study: Study) -> None:
    study = replace(study, seeds=[1], recipes=["simcse"])
    records = run_study(study)
    path = study.folder(RunSpec("simcse", study.starts[0], 1)) / "record.json"
    record = json.loads(path.read_text())
    for part, key in (
        ("training", "averages_at_end"),
        ("training", "average_with_start"),
        ("objective", "mask_duplicates"),
    ):
        del record["asked"]["recipe"][part][key]
    del record["asked"]["suites"]["sts"]["logistic"]
    path.write_text(json.dumps(record))
    assert [one.results for one in run_study(study)] == [one.results for one in records]
    other = replace(study, settings=(*study.settings, "training.averages_at_end=[0.5]"))
    with pytest.raises(UserError, match=r"another recipe.training.averages_at_end \(\[\] then, \[0.5\] now\)"):
        run_study(other)


@pytest.mark.parametrize("what", ["the text", "the dev pairs", "the start", "the data of the suite sts"])
def test_what_was_made_of_other_content_is_not_averaged_with_the_new(study: Study, tmp_path: Path, what: str) -> None:
    start, dev, sts = tmp_path / "start", tmp_path / "dev.tsv", tmp_path / "own-sts"
    shutil.copytree(study.starts[0], start)
    shutil.copytree(study.suites[0].folder, sts)
    shutil.copy(sample.DEV, dev)
    study = replace(study, starts=[str(start)], recipes=["simcse"], dev=dev, suites=[SuiteChoice("sts", sts)])
    run_study(replace(study, seeds=[1]))
    changed = {
        "the text": (Path(study.text.location), "a", "o"),
        "the dev pairs": (dev, "a", "o"),
        "the data of the suite sts": (next(sts.rglob("test.tsv")), "a", "o"),
        "the start": (start / "config.json", '"hidden_dropout_prob": 0.1', '"hidden_dropout_prob": 0.2'),
    }
    file, old, new = changed[what]
    content = file.read_text()
    assert old in content
    file.write_text(content.replace(old, new))
    before = {path: path.stat().st_mtime_ns for path in study.out.rglob("*")}
    with pytest.raises(UserError, match=f"{what}.* changed after this run was made"):
        run_study(study)
    assert {path: path.stat().st_mtime_ns for path in study.out.rglob("*")} == before
    file.write_text(content)
    assert len(run_study(study)) == 3


def test_a_run_of_a_part_whose_code_has_changed_is_not_compared_with_new_runs(study: Study, parts_file: Path) -> None:
    recipe = parts_file.with_suffix(".toml")
    recipe.write_text(f'base = "simcse"\n[objective]\nterms = [{{ kind = "{parts_file.stem}:Norm" }}]\n')
    study = replace(study, recipes=["simcse", str(recipe)], seeds=[1])
    run_study(study)
    assert len(run_study(study)) == 3
    parts_file.write_text(parts_file.read_text().replace("mean()", "sum()"))
    with pytest.raises(
        UserError, match=rf"the code of the recipe's parts \({parts_file.stem}\) changed after this run"
    ):
        run_study(study)
    assert len(run_study(replace(study, recipes=["simcse"]))) == 2


def test_a_run_with_another_teacher_is_not_compared_with_new_runs(study: Study, tmp_path: Path) -> None:
    teacher = Path(shutil.copytree(study.starts[0], tmp_path / "teacher"))
    guided = (*study.settings, f"objective.negatives.in_batch.guide.model={teacher}")
    study = replace(study, recipes=["simcse"], seeds=[1], settings=guided)
    run_study(study)
    assert len(run_study(study)) == 2
    config = teacher / "config.json"
    config.write_text(config.read_text().replace('"hidden_dropout_prob": 0.1', '"hidden_dropout_prob": 0.2'))
    told = rf"a model that the recipe names \({teacher}/config.json\) changed after this run"
    with pytest.raises(UserError, match=told):
        run_study(study)


@pytest.mark.parametrize("of", ["labels", "several data sets"])
def test_more_seeds_are_added_where_a_recipe_reads_labels_or_several_data_sets(
    study: Study, tmp_path: Path, of: str
) -> None:
    second = tmp_path / "second.txt"
    second.write_text("\n".join(f"Sentence number {n} is here." for n in range(12)) + "\n")
    recipe = tmp_path / "several.toml"
    recipe.write_text(f'base = "simcse"\n[[datasets]]\nname = "second"\ndata = "{second}"\n')
    if of == "labels":
        pairs = tmp_path / "pairs.tsv"
        rows = [f"Sentence {n} is short.\tSentence {n} is long.\t{n % 5}" for n in range(16)]
        pairs.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
        settings = (*study.settings, "data.max_length=64")
        study = replace(study, text=Source(str(pairs)), recipes=["cosent"], settings=settings)
    else:
        study = replace(study, recipes=[str(recipe)])
    run_study(replace(study, seeds=[1]))
    assert len(run_study(study)) == 3
    content = second.read_text() if of != "labels" else None
    if content is not None:
        second.write_text(content.replace("here", "there"))
        with pytest.raises(UserError, match="the text changed after this run was made"):
            run_study(study)
