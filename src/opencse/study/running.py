"""Makes the runs of a comparison: one after another, or several at a time, each kept as it finishes."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.baselines.judged import open_model
from opencse.errors import UserError
from opencse.evaluation.embedding import Judged
from opencse.evaluation.result import DataRecord, Environment, write_json
from opencse.evaluation.suites import Judge, suite_named
from opencse.overrides import flatten
from opencse.start import Reading
from opencse.study.record import RunRecord
from opencse.study.study import RunSpec, Study
from opencse.training.reporter import Counted, Reporter, Silent

Judges = Mapping[str, Judge]


def run_study(study: Study, *, workers: int = 1, reporter: Reporter | None = None) -> list[RunRecord]:
    """Makes what is missing, and reads the rest.

    Args:
        study: what to run; what its folder holds already is not made again.
        workers: runs at a time, each in a process with its share of the cores.
        reporter: hears of every run; with several workers, only when one ends.

    Returns:
        The records of the untrained starts, then of all runs in the study's order.

    Raises:
        UserError: for a fault in the data or a recipe (told before the first run), or if the folder holds runs that
            were asked for otherwise.
        InterruptedRunError: on Ctrl-C; runs that were going on have written a checkpoint.
    """
    if workers < 1:
        raise UserError(f"workers is at least 1, not {workers}")
    tell = reporter or Silent()
    found = {run: _known(study, run) for run in study.runs()}
    judges = open_suites(study)
    starts = [
        judge_start(study, start, reading, judges, tell) for start in study.starts for reading in study.readings(start)
    ]
    missing = [run for run, record in found.items() if record is None]
    if missing and len(missing) < len(found):
        tell.say(f"{len(found) - len(missing)} of {len(found)} runs were finished before")
    if workers == 1 or len(missing) < 2:
        for number, run in enumerate(missing, start=1):
            tell.say(f"run {number} of {len(missing)}: {run}")
            found[run] = run_one(study, run, judges, tell)
    else:
        found |= _in_parallel(study, missing, workers, tell)
    return [*starts, *(record for record in found.values() if record is not None)]


def run_one(study: Study, run: RunSpec, judges: Judges, reporter: Reporter) -> RunRecord:
    """Trains and judges one run, from its checkpoint if it was broken off; its record is written at the end."""
    folder = study.folder(run)
    begun = folder / "run.json"
    study.job(run).run(folder, resume=begun.is_file(), reporter=reporter)
    told = json.loads(begun.read_text(encoding="utf-8"))
    encoder = folder if study.judge == "kept" else folder / "last"
    judged = open_model(encoder, device=study.device, progress=Counted(reporter, "encoding"))
    results, data, seconds = _judge(judged, judges, folder, reporter)
    record = RunRecord(
        recipe=run.recipe,
        start=run.start,
        reading=str(study.job(run).start().reading),
        seed=run.seed,
        asked=study.asked(run),
        text=told["identity"]["text"],
        outcome=told["result"],
        judged=study.judge,
        environment=Environment.here(judged.device),
        train_seconds=told.get("seconds"),
        judge_seconds=seconds,
        results=results,
        data=data,
    )
    record.write(folder)
    return record


def judge_start(study: Study, start: str, reading: Reading, judges: Judges, reporter: Reporter) -> RunRecord:
    """Judges an untrained start, read so, once."""
    folder = study.start_folder(start, reading)
    how = {"model": reading.model, "pooling": str(reading.pooling), "layers": reading.layers}
    asked = {**how, "suites": study.judging()["suites"]}
    known = RunRecord.read(folder)
    if known is not None:
        _same(known, asked, folder)
        return known
    reporter.say(f"judging the start {start} ({reading})")
    judged = open_model(reading.load(study.device), progress=Counted(reporter, "encoding"))
    judged = replace(judged, name=reading.model)
    results, data, seconds = _judge(judged, judges, folder, reporter)
    record = RunRecord(
        start=start,
        reading=str(reading),
        asked=asked,
        judged=study.judge,
        environment=Environment.here(judged.device),
        judge_seconds=seconds,
        results=results,
        data=data,
    )
    record.write(folder)
    return record


def open_suites(study: Study) -> Judges:
    """The judges of a study's suites, their data loaded and checked."""
    return {choice.name: suite_named(choice.name).open(choice.folder, choice.options) for choice in study.suites}


def read_arrays(folder: Path, suite: str) -> dict[str, NDArray[np.float64]]:
    """What a suite's scores were made of, by name; empty if nothing was kept."""
    path = folder / f"{suite}.npz"
    if not path.is_file():
        return {}
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _judge(
    judged: Judged, judges: Judges, folder: Path, reporter: Reporter
) -> tuple[dict[str, float], dict[str, DataRecord], float]:
    started = time.perf_counter()
    results: dict[str, float] = {}
    data: dict[str, DataRecord] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, judge in judges.items():
        judgement = judge(judged, reporter.say)
        if judgement.arrays:
            _write_arrays(folder / f"{name}.npz", judgement.arrays)
        write_json(folder / f"{name}.json", judgement.record.to_dict())
        results |= judgement.record.values()
        data[name] = judgement.record.data
    return results, data, time.perf_counter() - started


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[np.float64]]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.npz")
    np.savez_compressed(temporary, allow_pickle=False, **arrays)
    temporary.replace(path)


def _known(study: Study, run: RunSpec) -> RunRecord | None:
    """The record of a run that has finished, after a check that it was asked for just so."""
    asked = study.asked(run)
    folder = study.folder(run)
    record = RunRecord.read(folder)
    if record is not None:
        _same(record, asked, folder)
    return record


def _same(record: RunRecord, asked: dict[str, Any], folder: Path) -> None:
    before, now = flatten(record.asked), flatten(asked)
    for key in before.keys() | now.keys():
        if before.get(key) != now.get(key):
            raise UserError(
                f"{folder}: was made with another {key} ({before.get(key)!r} then, {now.get(key)!r} now); "
                "choose another --out, or remove that folder to make it anew"
            )


def _in_parallel(study: Study, missing: Sequence[RunSpec], workers: int, tell: Reporter) -> dict[RunSpec, RunRecord]:
    found: dict[RunSpec, RunRecord] = {}
    threads = max(1, (os.cpu_count() or 1) // workers)
    tell.say(f"{len(missing)} runs, {workers} at a time with {threads} thread{'s' * (threads > 1)} each")
    tell.start("runs", len(missing))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=begin_worker, initargs=(threads,))
    try:
        going = {pool.submit(_alone, study, run): run for run in missing}
        for done in as_completed(going):
            found[going[done]] = done.result()
            tell.say(f"run {len(found)} of {len(missing)}: {going[done]}")
            tell.advance(len(found))
    finally:
        pool.shutdown(cancel_futures=True)
        tell.finish()
    return found


def begin_worker(threads: int) -> None:
    """A worker's start: its share of the cores, and its end together with the process that called it."""
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Without this a worker whose parent was killed would go on, beside the same command when it is given again."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _alone(study: Study, run: RunSpec) -> RunRecord:
    """One run in a process of its own."""
    return run_one(study, run, open_suites(study), Silent())
