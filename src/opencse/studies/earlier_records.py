"""Finds the records of runs that were finished before, and refuses those that were made with other options or data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opencse.adapting.dev_choice import load_selector
from opencse.encoder.fingerprint import hash_model
from opencse.errors import UserError
from opencse.evaluation.suite import OpenSuite
from opencse.objective.identity import code_of_parts, hash_named_models
from opencse.recipes.comparing import OtherSetting, other_setting
from opencse.recipes.overrides import flatten
from opencse.runs.record import changed_files
from opencse.studies.record import Contents, StudyRecord
from opencse.studies.study import RunSpec, Study

Suites = Mapping[str, OpenSuite[Any]]
"""The suites of a study by name, their data loaded."""


def current_contents(study: Study) -> dict[str, Contents]:
    """Hashes of the text, the dev data and the model as they are now, by start."""
    text, dev = study.text.fingerprint(), load_selector(study.dev, study.text)
    study.require_fitting(dev)
    dev_pairs = None if dev is None else dev.fingerprint()
    models = {run.start: study.job(run).start_model for run in study.runs()}
    return {start: Contents(start=hash_model(model), text=text, dev_pairs=dev_pairs) for start, model in models.items()}


def finished_records(
    study: Study, requests: Mapping[RunSpec, dict[str, Any]], contents: Mapping[str, Contents], suites: Suites
) -> dict[RunSpec, StudyRecord | None]:
    """The record of each finished run whose request and contents are the same; None for an unfinished run.

    It names its run as this study does: of fewer pairs of seeds, for instance, the run's had another number.

    Args:
        study: the comparison.
        requests: its runs, and everything that determines the results of each.
        contents: by start; see `current_contents`.
        suites: that are evaluated.

    Raises:
        UserError: for a record of another request or content.
    """
    of_recipes: dict[tuple[str, str], dict[str, Any]] = {}
    records: dict[RunSpec, StudyRecord | None] = {}
    for run, request in requests.items():
        folder = study.folder(run)
        records[run] = record = StudyRecord.read(folder)
        if record is None:
            continue
        require_same_request(record, request, folder)
        key = (run.start, run.recipe)  # all seeds have the same
        if key not in of_recipes:
            of_recipes[key] = _contents_of_recipe(study, run)
        require_same_content(record, contents[run.start].model_copy(update=of_recipes[key]), suites, folder)
        records[run] = record.model_copy(update=run.names())
    return records


def _contents_of_recipe(study: Study, run: RunSpec) -> dict[str, Any]:
    """What the recipe of a run adds to the contents of its start, by the fields of `Contents`."""
    job = study.job(run)
    recipe = job.resolved.recipe
    of_recipe: dict[str, Any] = {"parts": code_of_parts(recipe), "models": hash_named_models(recipe)}
    if job.training_text is not study.text or job.further:  # with labels, or of several data sets
        of_recipe["text"] = job.fingerprint_of_text()
    return of_recipe


def require_same_content(record: StudyRecord, now: Contents, suites: Suites, folder: Path) -> None:
    """Refuses a record whose text, dev pairs, start, parts, models or evaluation data have changed since."""
    changed = None
    before = record.contents
    if now.text is not None and record.text != now.text:
        changed = "the text"
    elif before is not None and before.dev_pairs != now.dev_pairs:
        changed = "the dev pairs"
    elif before is not None and (files := changed_files(before.start, now.start)):
        changed = f"the start {record.start} ({files})"
    elif before is not None and (modules := changed_files(before.parts, now.parts)):
        changed = f"the code of the recipe's parts ({modules})"
    elif before is not None and (files := changed_files(before.models, now.models)):
        changed = f"a model that the recipe names ({files})"
    else:
        for name, suite in suites.items():
            hashes = record.data[name].sha256
            if other := changed_files(hashes, suite.data.record.sha256):
                changed = f"the data of the suite {name} ({other})"
    if changed is not None:
        raise UserError(
            f"{folder}: {changed} changed after this run was made, so it cannot be compared with new runs; choose "
            "another --out, or remove that folder to make the run again"
        )


def require_same_request(record: StudyRecord, request: dict[str, Any], folder: Path) -> None:
    """Refuses a record of another request; what a record of an earlier version does not know has its default."""
    other = other_setting(record.asked.get("recipe", {}), request.get("recipe", {}))
    if other is not None:
        other = other._replace(key=f"recipe.{other.key}")
    else:
        before, now = (
            flatten({key: value for key, value in one.items() if key != "recipe"}) for one in (record.asked, request)
        )
        different = (key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key))
        other = next(
            (
                OtherSetting(key, before.get(key), now.get(key))
                for key in different
                if key in before or now[key] is not False
            ),
            None,
        )
    if other is not None:
        raise UserError(
            f"{folder}: was made with {other}; choose another --out, or remove that folder to make the run again"
        )
