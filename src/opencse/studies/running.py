"""Makes the runs of a comparison, one after another or several at a time, and saves each when it ends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opencse.arrays import Floats
from opencse.documents.dev_choice import Dev
from opencse.encoder.fingerprint import hash_model
from opencse.engines import Engine, require_engine
from opencse.environment import Environment
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.record import DataRecord
from opencse.evaluation.suite import OpenSuite
from opencse.evaluation.suites import SUITES, suite_named
from opencse.evaluation.transforms import postprocessed, refitted_each_call
from opencse.files import writing
from opencse.numerals import number_of
from opencse.objective.identity import code_of_parts, hash_named_models
from opencse.outputs import LOCK, names_in, require_empty
from opencse.progress import SILENT, Counted, Progress
from opencse.recipes.overrides import flatten
from opencse.recipes.recipe import OtherSetting, other_setting
from opencse.records import save_json
from opencse.runs.folder import FolderState, RunFolder, locked, require_free
from opencse.runs.record import Contents, changed_files
from opencse.runs.setup import fingerprint_of_texts
from opencse.runs.start import Reading
from opencse.studies.comparison import TUNING
from opencse.studies.study import RunSpec, Study, StudyRecord, no_score
from opencse.workers import cores, started

Suites = Mapping[str, OpenSuite]
"""The suites of a study by name, their data loaded."""


def current_contents(study: Study) -> dict[str, Contents]:
    """Hashes of the text, the dev data and the model as they are now, by start."""
    text, dev = study.text.fingerprint(), Dev.of(study.dev).open(study.text)
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
    if job.training_text is not study.text or job.texts[1:]:  # with labels, or of several data sets
        of_recipe["text"] = fingerprint_of_texts([one.text.fingerprint() for one in job.texts])
    return of_recipe


def require_same_content(record: StudyRecord, now: Contents, suites: Suites, folder: Path) -> None:
    """Refuses a record whose text, dev pairs, start, parts, models or evaluation data have changed since."""
    before, changed = record.contents, list[str]()
    if now.text is not None and record.text != now.text:
        changed.append("the text")
    hashes: list[tuple[str, dict[str, str] | None, dict[str, str] | None]] = [
        (f"the data of the suite {name}", record.data[name].sha256, suites[name].data.record.sha256) for name in suites
    ]
    if before is not None:
        changed += ["the dev pairs"] * (before.dev_pairs != now.dev_pairs)
        hashes[:0] = [
            (f"the start {record.start}", before.start, now.start),
            ("the code of the recipe's parts", before.parts, now.parts),
            ("a model that the recipe names", before.models, now.models),
        ]
    changed += [f"{what} ({files})" for what, old, new in hashes if (files := changed_files(old, new))]
    if changed:
        raise UserError(
            f"{folder}: {changed[0]} changed after this run was made, so it cannot be compared with new runs; choose "
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


def open_suites(study: Study) -> Suites:
    """The suites of a study, their data loaded and checked, and its metric one of their scores."""
    suites = {choice.name: suite_named(choice.name).open(choice.folder, choice.options) for choice in study.suites}
    study.require_metric([name for suite in suites.values() for name in suite.score_names])
    return suites


def run_one(study: Study, run: RunSpec, suites: Suites, progress: Progress) -> StudyRecord:
    """Trains and evaluates one run, from its checkpoint if it was interrupted; its record is written at the end."""
    folder = study.folder(run)
    trained = RunFolder(folder)
    study.job(run).train(folder, resume=trained.record_file.is_file(), progress=progress)
    run_record = trained.record()
    identity = run_record.identity
    encoder = folder if study.judge == "kept" else trained.last
    model = open_model(
        encoder,
        device=study.device,
        progress=Counted(progress, "encoding"),
        say=progress.say,
        trust_remote_code=study.trust_remote_code,
        precision=study.precision,
    )
    return _judged(
        _transformed(model, study, progress),
        suites,
        study,
        folder,
        progress,
        **run.names(),
        reading=str(study.job(run).start.reading),
        asked=study.request_of(run),
        text=identity.text,
        contents=Contents.model_validate(identity.model_dump(include=set(Contents.model_fields))),
        outcome=run_record.result,
        train_seconds=run_record.seconds,
    )


def judge_start(
    study: Study, start: str, reading: Reading, contents: Contents, suites: Suites, progress: Progress
) -> StudyRecord:
    """Evaluates an untrained start in one reading, once."""
    folder = study.start_folder(start, reading)
    how = {"model": reading.model, "pooling": str(reading.pooling), "layers": reading.layers}
    request = {**how, **{key: study.evaluation_settings()[key] for key in ("suites", "precision")}}
    if not study.judged.trained:
        request["judged"] = str(study.judged)
    record = StudyRecord.read(folder)
    if record is not None:
        require_same_request(record, request, folder)
        require_same_content(record, Contents(start=contents.start), suites, folder)
        return record.model_copy(update={"start": start})
    progress.say(f"evaluating the start {start} ({reading})")
    encoder = reading.load(study.device, study.trust_remote_code)
    model = open_model(encoder, progress=Counted(progress, "encoding"), precision=study.precision)
    model = replace(model, name=reading.model)
    if not study.judged.trained:
        model = _transformed(model, study, progress)
    facts = {"start": start, "reading": str(reading), "contents": Contents(start=contents.start)}
    return _judged(model, suites, study, folder, progress, asked=request, **facts)


def _judged(
    model: EmbeddingModel,
    suites: Suites,
    study: Study,
    folder: Path,
    progress: Progress,
    **facts: Any,  # noqa: ANN401 - fields of the record
) -> StudyRecord:
    """Evaluates a model and writes its record, with ``facts`` about it."""
    started = time.perf_counter()
    results: dict[str, float] = {}
    data: dict[str, DataRecord] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, suite in suites.items():
        record = suite.evaluate(model, progress.say)
        if arrays := record.arrays():
            _write_arrays(folder / f"{name}.npz", arrays)
        save_json(folder / f"{name}.json", record.to_dict())
        results |= record.values()
        for grouping in study.groupings if name == "sts" else ():
            results |= record.also_by(grouping)
        data[name] = record.data
    judged = StudyRecord(
        **facts,
        judged=study.judge,
        environment=Environment.here(model.device),
        judge_seconds=time.perf_counter() - started,
        results=results,
        data=data,
    )
    judged.write(folder)
    return judged


def _transformed(model: EmbeddingModel, study: Study, progress: Progress) -> EmbeddingModel:
    """The model with the whitening or flow of a published row, if it has one."""
    transform = study.judged.transform
    if transform is None:
        return model
    if study.judged.on_target:
        return refitted_each_call(model, transform, say=progress.say)
    return postprocessed(model, transform, study.text, say=progress.say)


def read_arrays(folder: Path, suite: str) -> dict[str, Floats]:
    """The arrays that a suite's scores were computed from, by name; empty if none were saved."""
    path = folder / f"{suite}.npz"
    if not path.is_file():
        return {}
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _write_arrays(path: Path, arrays: Mapping[str, Floats]) -> None:
    with writing(path) as unfinished:
        np.savez_compressed(unfinished, allow_pickle=False, **arrays)


def run_study(
    study: Study, *, workers: int | None = None, engine: Engine = "local", progress: Progress = SILENT
) -> list[StudyRecord]:
    """Makes the missing runs of a study, and reads the records of the others.

    Args:
        study: the runs; finished runs in its folder are not made again.
        workers: runs at a time, each in a process with its share of the cores; None: one, or with ``ray`` one for each
            GPU of the cluster, else for each of its cores.
        engine: whose processes these are: this machine's, or a Ray cluster's.
        progress: reports every run; with several workers, only when one ends.

    Returns:
        The records of the untrained starts, then of all runs in the study's order.

    Raises:
        UserError: for a fault in the data or a recipe (before the first run), or if the folder holds runs that were
            made with other options.
        InterruptedRunError: on Ctrl-C; unfinished runs have written a checkpoint.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers is at least 1, not {workers}")
    require_engine(engine)
    require_study(study.out)
    with locked(study.out, progress):
        return _run_missing(study, workers, engine, progress)


def plan_lines(study: Study) -> list[str]:
    """Says which runs a study has, and how many of them are finished; makes none.

    Raises:
        UserError: as `run_study` would before its first run.
    """
    requests = {run: study.request_of(run) for run in study.runs()}
    contents, suites = current_contents(study), open_suites(study)
    records = finished_records(study, requests, contents, suites)
    finished = [run for run, record in records.items() if record is not None]
    draws = ("pair of seeds", "pairs of seeds") if study.pairs else ("seed", "seeds")
    sizes = [(study.recipes, ("recipe", "recipes")), (study.starts, ("start", "starts")), (study.seeds, draws)]
    crossed = " x ".join(f"{len(values)} {names[len(values) != 1]}" for values, names in sizes)
    return [
        *(f"run        {run}{' (finished)' if run in finished else ''}" for run in requests),
        f"runs       {len(requests)}: {crossed}; {len(finished)} of them finished before",
    ]


def require_study(folder: Path) -> None:
    """Refuses a folder that is neither new nor empty nor of a comparison; changes nothing.

    Raises:
        UserError: naming the fix.
    """
    require_free(folder / LOCK)
    names = names_in(folder)
    if TUNING in names:
        require_study(folder / TUNING)
        names -= {TUNING}
        if not names:
            return  # stopped while values were chosen
    if names <= {"starts", "runs"} and ((folder / LOCK).is_file() or _holds_only_scores(folder)):
        return  # killed, or out of disk, before any run was finished
    if any(StudyRecord.read(one) for one in (*folder.glob("starts/*/*"), *folder.glob("runs/*/*/*"))):
        return
    if any(RunFolder(one).state() in (FolderState.BEGUN, FolderState.FINISHED) for one in folder.glob("runs/*/*/*")):
        return
    require_empty(folder)


def _holds_only_scores(folder: Path) -> bool:
    """Whether all files in a comparison's folder are the scores of an evaluation that was not finished."""
    score_files = {f"{suite}{suffix}" for suite in SUITES for suffix in (".npz", ".json")}
    return all(path.name in score_files for path in folder.glob("*/**/*") if not path.is_dir())


def _run_missing(study: Study, workers: int | None, engine: Engine, progress: Progress) -> list[StudyRecord]:
    requests = {run: study.request_of(run) for run in study.runs()} if study.judged.trained else {}
    contents, suites = current_contents(study), open_suites(study)
    records = finished_records(study, requests, contents, suites)
    starts = [
        judge_start(study, start, reading, contents[start], suites, progress)
        for start in study.starts
        for reading in study.readings(start)[: None if study.judged.trained else 1]
    ]
    for start in starts:
        if study.metric is not None and study.metric not in start.results:
            raise no_score(study.metric, start.results)
    missing = [run for run, record in records.items() if record is None]
    if missing and len(missing) < len(records):
        progress.say(f"{len(records) - len(missing)} of {len(records)} runs were finished before")
    if engine == "ray" and missing:
        records |= _on_ray(study, missing, workers, progress)
    elif workers in (None, 1) or len(missing) < 2:
        for number, run in enumerate(missing, start=1):
            progress.say(f"run {number} of {len(missing)}: {run}")
            records[run] = run_one(study, run, suites, progress)
    else:
        records |= _in_parallel(study, missing, workers, progress)
    return [*starts, *(record for record in records.values() if record is not None)]


def _in_parallel(
    study: Study, missing: Sequence[RunSpec], workers: int, progress: Progress
) -> dict[RunSpec, StudyRecord]:
    threads = max(1, cores() // workers)
    progress.say(f"{number_of(len(missing), 'run')}, {workers} at a time with {number_of(threads, 'thread')} each")
    with started(workers, _in_worker, _begin_worker, study, threads, finish=True) as pool:
        return _reported(pool.done(missing, lambda: None), len(missing), progress)


_worker: dict[str, tuple[Study, Suites]] = {}


def _begin_worker(study: Study, threads: int) -> None:
    """Prepares a worker: its share of the cores, and the suites' data, read once for all of its runs."""
    torch.set_num_threads(threads)
    _worker["study"] = study, open_suites(study)


def _in_worker(run: RunSpec) -> StudyRecord:
    study, suites = _worker["study"]
    return run_one(study, run, suites, SILENT)


def _on_ray(
    study: Study, missing: Sequence[RunSpec], workers: int | None, progress: Progress
) -> dict[RunSpec, StudyRecord]:
    from opencse.engines.ray import connected

    with connected() as cluster:
        gpu = cluster.gpus > 0 if study.device is None else study.device.startswith("cuda")
        at_a_time = min(len(missing), workers or (cluster.gpus if gpu else cluster.cores))
        cores = 1 if workers is None or gpu else max(1, cluster.cores // workers)
        progress.say(
            f"{number_of(len(missing), 'run')}, {at_a_time} at a time with {number_of(cores, 'core')} each"
            f"{' and a GPU' * gpu}, on a Ray cluster of {cluster.cores} cores, {cluster.gpus} GPUs"
        )
        finished = cluster.each(partial(_on_node, study, cores), missing, at_a_time=at_a_time, cores=cores, gpu=gpu)
        return _reported(finished, len(missing), progress)


def _on_node(study: Study, threads: int, run: RunSpec) -> StudyRecord:
    torch.set_num_threads(threads)
    return run_one(study, run, open_suites(study), SILENT)


def _reported(
    finished: Iterable[tuple[RunSpec, StudyRecord]], runs: int, progress: Progress
) -> dict[RunSpec, StudyRecord]:
    """The records of the runs; each is reported when it ends."""
    records: dict[RunSpec, StudyRecord] = {}
    progress.start("runs", runs)
    try:
        for run, record in finished:
            records[run] = record
            progress.say(f"run {len(records)} of {runs}: {run}")
            progress.advance(len(records))
    finally:
        progress.finish()
    return records
