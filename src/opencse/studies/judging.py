"""Makes the single runs of a comparison: trains and evaluates each, evaluates the starts, and writes the records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from opencse.arrays import Floats
from opencse.environment import Environment
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.record import DataRecord
from opencse.evaluation.sts.result import StsResult
from opencse.evaluation.suites import suite_named
from opencse.evaluation.transforms import postprocessed, refitted_each_call
from opencse.io import writing
from opencse.progress import Counted, Progress
from opencse.records import save_json
from opencse.runs.folder import RunFolder
from opencse.runs.start import Reading
from opencse.studies.earlier_records import Suites, require_same_content, require_same_request
from opencse.studies.record import Contents, StudyRecord
from opencse.studies.study import RunSpec, Study


def open_suites(study: Study) -> Suites:
    """The suites of a study, their data loaded and checked, and its metric one of their scores."""
    suites = {choice.name: suite_named(choice.name).open(choice.folder, choice.options) for choice in study.suites}
    study.require_metric([name for suite in suites.values() for name in suite.score_names])
    return suites


def run_one(study: Study, run: RunSpec, suites: Suites, progress: Progress) -> StudyRecord:
    """Trains and evaluates one run, from its checkpoint if it was interrupted; its record is written at the end."""
    folder = study.folder(run)
    trained = RunFolder(folder)
    study.job(run).run(folder, resume=trained.record_file.is_file(), progress=progress)
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
    results, data, seconds = _evaluate(_transformed(model, study, progress), suites, study, folder, progress)
    record = StudyRecord(
        **run.names(),
        reading=str(study.job(run).start().reading),
        asked=study.request_of(run),
        text=identity.text,
        contents=Contents(
            start=run_record.identity.start or {},
            text=identity.text,
            dev_pairs=run_record.identity.dev_pairs,
            parts=run_record.identity.parts,
            models=run_record.identity.models,
        ),
        outcome=run_record.result,
        judged=study.judge,
        environment=Environment.here(model.device),
        train_seconds=run_record.seconds,
        judge_seconds=seconds,
        results=results,
        data=data,
    )
    record.write(folder)
    return record


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
    results, data, seconds = _evaluate(model, suites, study, folder, progress)
    record = StudyRecord(
        start=start,
        reading=str(reading),
        asked=request,
        contents=Contents(start=contents.start),
        judged=study.judge,
        environment=Environment.here(model.device),
        judge_seconds=seconds,
        results=results,
        data=data,
    )
    record.write(folder)
    return record


def _evaluate(
    model: EmbeddingModel, suites: Suites, study: Study, folder: Path, progress: Progress
) -> tuple[dict[str, float], dict[str, DataRecord], float]:
    started = time.perf_counter()
    results: dict[str, float] = {}
    data: dict[str, DataRecord] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, suite in suites.items():
        evaluated = suite.evaluate(model, progress.say)
        if evaluated.arrays:
            _write_arrays(folder / f"{name}.npz", evaluated.arrays)
        save_json(folder / f"{name}.json", evaluated.record.to_dict())
        results |= evaluated.record.values()
        if isinstance(evaluated.record, StsResult):
            for grouping in study.groupings:
                results |= evaluated.record.sts.also_by(grouping)
        data[name] = evaluated.record.data
    return results, data, time.perf_counter() - started


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
