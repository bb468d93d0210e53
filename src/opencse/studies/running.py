"""Makes the runs of a comparison: one after another, or several at a time, each kept as it finishes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.adapting.dev_choice import load_selector
from opencse.encoder.fingerprint import hash_model
from opencse.engines.choice import Engine, require_engine
from opencse.environment import Environment
from opencse.errors import UserError, nearest
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.record import DataRecord
from opencse.evaluation.suite import OpenSuite
from opencse.evaluation.suites import SUITES, suite_named
from opencse.io import writing
from opencse.outputs import LOCK, names_in, require_empty
from opencse.progress import Counted, Progress, Silent
from opencse.recipes.overrides import flatten
from opencse.records import write_json
from opencse.runs.folder import RunFolder, State, locked
from opencse.runs.lock import require_free, was_locked
from opencse.runs.record import changed_files
from opencse.runs.start import Reading
from opencse.studies.record import Contents, StudyRecord
from opencse.studies.study import RunSpec, Study
from opencse.workers import cores, started

Suites = Mapping[str, OpenSuite[Any]]


def run_study(
    study: Study, *, workers: int | None = None, engine: Engine = "local", progress: Progress | None = None
) -> list[StudyRecord]:
    """Makes what is missing, and reads the rest.

    Args:
        study: what to run; what its folder holds already is not made again.
        workers: runs at a time, each in a process with its share of the cores; None: one, or with ``ray`` one for each
            GPU of the cluster, else for each of its cores.
        engine: whose processes these are: this machine's, or a Ray cluster's.
        progress: hears of every run; with several workers, only when one ends.

    Returns:
        The records of the untrained starts, then of all runs in the study's order.

    Raises:
        UserError: for a fault in the data or a recipe (told before the first run), or if the folder holds runs that
            were asked for otherwise.
        InterruptedRunError: on Ctrl-C; runs that were going on have written a checkpoint.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers is at least 1, not {workers}")
    require_engine(engine)
    tell = progress or Silent()
    require_study(study.out)
    with locked(study.out, tell):
        return _run_missing(study, workers, engine, tell)


def require_study(folder: Path) -> None:
    """Refuses a folder that is neither new nor empty nor of a comparison; touches nothing.

    Raises:
        UserError: naming the mend.
    """
    require_free(folder / LOCK)
    names = names_in(folder)
    if names <= {"starts", "runs"} and (was_locked(folder / LOCK) or _holds_only_scores(folder)):
        return  # killed, or out of disk, before anything was finished
    if any(StudyRecord.read(one) for one in (*folder.glob("starts/*"), *folder.glob("runs/*/*/*"))):
        return
    if any(RunFolder(one).state() in (State.BEGUN, State.FINISHED) for one in folder.glob("runs/*/*/*")):
        return
    require_empty(folder)


def _holds_only_scores(folder: Path) -> bool:
    """Whether all files in a comparison's folder are the scores of an evaluation that was not finished."""
    files = [path for path in folder.glob("*/**/*") if not path.is_dir()]
    own = {f"{suite}{suffix}" for suite in SUITES for suffix in (".npz", ".json")}
    return all(path.name in own for path in files)


def _run_missing(study: Study, workers: int | None, engine: Engine, tell: Progress) -> list[StudyRecord]:
    asked = {run: study.asked(run) for run in study.runs()}
    contents = _contents(study)
    suites = open_suites(study)
    found = {run: _known(study, run, asked[run], contents[run.start], suites) for run in asked}
    starts = [
        judge_start(study, start, reading, contents[start], suites, tell)
        for start in study.starts
        for reading in study.readings(start)
    ]
    for start in starts:
        if study.metric is not None and study.metric not in start.results:
            known = ", ".join(start.results)
            raise UserError(f"no score {study.metric!r}{nearest(study.metric, start.results)}; there are: {known}")
    missing = [run for run, record in found.items() if record is None]
    if missing and len(missing) < len(found):
        tell.say(f"{len(found) - len(missing)} of {len(found)} runs were finished before")
    if engine == "ray" and missing:
        found |= _on_ray(study, missing, workers, tell)
    elif workers in (None, 1) or len(missing) < 2:
        for number, run in enumerate(missing, start=1):
            tell.say(f"run {number} of {len(missing)}: {run}")
            found[run] = run_one(study, run, suites, tell)
    else:
        found |= _in_parallel(study, missing, workers, tell)
    return [*starts, *(record for record in found.values() if record is not None)]


def run_one(study: Study, run: RunSpec, suites: Suites, progress: Progress) -> StudyRecord:
    """Trains and evaluates one run, from its checkpoint if it was broken off; its record is written at the end."""
    folder = study.folder(run)
    trained = RunFolder(folder)
    study.job(run).run(folder, resume=trained.record_file.is_file(), progress=progress)
    told = trained.record()
    encoder = folder if study.judge == "kept" else trained.last
    judged = open_model(
        encoder,
        device=study.device,
        progress=Counted(progress, "encoding"),
        say=progress.say,
        trust_remote_code=study.trust_remote_code,
        precision=study.precision,
    )
    results, data, seconds = _evaluate(judged, suites, folder, progress)
    record = StudyRecord(
        recipe=run.recipe,
        start=run.start,
        reading=str(study.job(run).start().reading),
        seed=run.seed,
        asked=study.asked(run),
        text=told.identity.text,
        contents=Contents(start=told.identity.start or {}, text=told.identity.text, dev_pairs=told.identity.dev_pairs),
        outcome=told.result,
        judged=study.judge,
        environment=Environment.here(judged.device),
        train_seconds=told.seconds,
        judge_seconds=seconds,
        results=results,
        data=data,
    )
    record.write(folder)
    return record


def judge_start(
    study: Study, start: str, reading: Reading, contents: Contents, suites: Suites, progress: Progress
) -> StudyRecord:
    """Evaluates an untrained start, read so, once."""
    folder = study.start_folder(start, reading)
    how = {"model": reading.model, "pooling": str(reading.pooling), "layers": reading.layers}
    asked = {**how, **{key: study.judging()[key] for key in ("suites", "precision")}}
    known = StudyRecord.read(folder)
    if known is not None:
        _same(known, asked, folder)
        _unchanged(known, Contents(start=contents.start), suites, folder)
        return known
    progress.say(f"evaluating the start {start} ({reading})")
    encoder = reading.load(study.device, study.trust_remote_code)
    judged = open_model(encoder, progress=Counted(progress, "encoding"), precision=study.precision)
    judged = replace(judged, name=reading.model)
    results, data, seconds = _evaluate(judged, suites, folder, progress)
    record = StudyRecord(
        start=start,
        reading=str(reading),
        asked=asked,
        contents=Contents(start=contents.start),
        judged=study.judge,
        environment=Environment.here(judged.device),
        judge_seconds=seconds,
        results=results,
        data=data,
    )
    record.write(folder)
    return record


def open_suites(study: Study) -> Suites:
    """The suites of a study, their data loaded and checked."""
    return {choice.name: suite_named(choice.name).open(choice.folder, choice.options) for choice in study.suites}


def read_arrays(folder: Path, suite: str) -> dict[str, NDArray[np.float64]]:
    """What a suite's scores were made of, by name; empty if nothing was kept."""
    path = folder / f"{suite}.npz"
    if not path.is_file():
        return {}
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _evaluate(
    judged: EmbeddingModel, suites: Suites, folder: Path, progress: Progress
) -> tuple[dict[str, float], dict[str, DataRecord], float]:
    started = time.perf_counter()
    results: dict[str, float] = {}
    data: dict[str, DataRecord] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, suite in suites.items():
        found = suite.evaluate(judged, progress.say)
        if found.arrays:
            _write_arrays(folder / f"{name}.npz", found.arrays)
        write_json(folder / f"{name}.json", found.record.to_dict())
        results |= found.record.values()
        data[name] = found.record.data
    return results, data, time.perf_counter() - started


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[np.float64]]) -> None:
    with writing(path) as unfinished:
        np.savez_compressed(unfinished, allow_pickle=False, **arrays)


def _contents(study: Study) -> dict[str, Contents]:
    """What the runs from each start are made of now."""
    text, dev = study.text.fingerprint(), load_selector(study.dev, study.text)
    dev_pairs = None if dev is None else dev.fingerprint()
    models = {run.start: study.job(run).start_model for run in study.runs()}
    return {start: Contents(start=hash_model(model), text=text, dev_pairs=dev_pairs) for start, model in models.items()}


def _known(study: Study, run: RunSpec, asked: dict[str, Any], contents: Contents, suites: Suites) -> StudyRecord | None:
    """The record of a run that has finished, after a check that it was asked for just so, of the same contents."""
    folder = study.folder(run)
    record = StudyRecord.read(folder)
    if record is not None:
        _same(record, asked, folder)
        _unchanged(record, contents, suites, folder)
    return record


def _unchanged(record: StudyRecord, now: Contents, suites: Suites, folder: Path) -> None:
    """Refuses to put runs of, or scores on, other content beside the new ones, though they have the same names."""
    changed = None
    before = record.contents
    if now.text is not None and record.text != now.text:
        changed = "the text"
    elif before is not None and before.dev_pairs != now.dev_pairs:
        changed = "the dev pairs"
    elif before is not None and (files := changed_files(before.start, now.start)):
        changed = f"the start {record.start} ({files})"
    else:
        for name, suite in suites.items():
            hashes = record.data[name].sha256
            if other := changed_files(hashes, suite.data.record.sha256):
                changed = f"the data of the suite {name} ({other})"
    if changed is not None:
        raise UserError(
            f"{folder}: {changed} changed after this was made, so it cannot stand beside new runs; choose another "
            "--out, or remove that folder to make it anew"
        )


def _same(record: StudyRecord, asked: dict[str, Any], folder: Path) -> None:
    before, now = flatten(record.asked), flatten(asked)
    for key in before.keys() | now.keys():
        if before.get(key) != now.get(key):
            raise UserError(
                f"{folder}: was made with another {key} ({before.get(key)!r} then, {now.get(key)!r} now); "
                "choose another --out, or remove that folder to make it anew"
            )


def _in_parallel(study: Study, missing: Sequence[RunSpec], workers: int, tell: Progress) -> dict[RunSpec, StudyRecord]:
    threads = max(1, cores() // workers)
    tell.say(f"{len(missing)} runs, {workers} at a time with {threads} thread{'s' * (threads > 1)} each")
    with started(workers, _in_worker, _begin_worker, study, threads, finish=True) as pool:
        return _told(pool.done(missing, lambda: None), len(missing), tell)


_own: dict[str, tuple[Study, Suites]] = {}


def _begin_worker(study: Study, threads: int) -> None:
    """A worker's start: its share of the cores, and the suites' data, read once for all of its runs."""
    torch.set_num_threads(threads)
    _own["study"] = study, open_suites(study)


def _in_worker(run: RunSpec) -> StudyRecord:
    study, suites = _own["study"]
    return run_one(study, run, suites, Silent())


def _on_ray(
    study: Study, missing: Sequence[RunSpec], workers: int | None, tell: Progress
) -> dict[RunSpec, StudyRecord]:
    from opencse.engines.ray import connected

    with connected() as cluster:
        gpu = cluster.gpus > 0 if study.device is None else study.device.startswith("cuda")
        at_a_time = min(len(missing), workers or (cluster.gpus if gpu else cluster.cores))
        cores = 1 if workers is None or gpu else max(1, cluster.cores // workers)
        tell.say(
            f"{len(missing)} runs, {at_a_time} at a time with {cores} core{'s' * (cores > 1)} each"
            f"{' and a GPU' * gpu}, on a Ray cluster of {cluster.cores} cores, {cluster.gpus} GPUs"
        )
        made = cluster.each(partial(_on_node, study, cores), missing, at_a_time=at_a_time, cores=cores, gpu=gpu)
        return _told(made, len(missing), tell)


def _on_node(study: Study, threads: int, run: RunSpec) -> StudyRecord:
    torch.set_num_threads(threads)
    return run_one(study, run, open_suites(study), Silent())


def _told(made: Iterable[tuple[RunSpec, StudyRecord]], runs: int, tell: Progress) -> dict[RunSpec, StudyRecord]:
    """The records, each told of as it comes."""
    found: dict[RunSpec, StudyRecord] = {}
    tell.start("runs", runs)
    try:
        for run, record in made:
            found[run] = record
            tell.say(f"run {len(found)} of {runs}: {run}")
            tell.advance(len(found))
    finally:
        tell.finish()
    return found
