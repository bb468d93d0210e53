"""Makes the runs of a comparison, one after another or several at a time, and saves each when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import torch

from opencse.engines.choice import Engine, require_engine
from opencse.errors import UserError
from opencse.evaluation.suites import SUITES
from opencse.numerals import number_of
from opencse.outputs import LOCK, names_in, require_empty
from opencse.progress import Progress, Silent
from opencse.runs.folder import FolderState, RunFolder, locked
from opencse.runs.lock import require_free, was_locked
from opencse.studies.comparison import TUNING
from opencse.studies.earlier_records import Suites, current_contents, finished_records
from opencse.studies.judging import judge_start, open_suites, run_one
from opencse.studies.record import StudyRecord
from opencse.studies.study import RunSpec, Study, no_score
from opencse.workers import cores, started


def run_study(
    study: Study, *, workers: int | None = None, engine: Engine = "local", progress: Progress | None = None
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
    with locked(study.out, progress or Silent()):
        return _run_missing(study, workers, engine, progress or Silent())


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
    if names <= {"starts", "runs"} and (was_locked(folder / LOCK) or _holds_only_scores(folder)):
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
    return run_one(study, run, suites, Silent())


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
    return run_one(study, run, open_suites(study), Silent())


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
