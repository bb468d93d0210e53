"""Makes a usable model out of an interrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opencse.commands.declared import command
from opencse.commands.shared import Report, Reporter, TrustRemoteCode
from opencse.errors import UserError
from opencse.progress import SILENT, Progress

if TYPE_CHECKING:
    from opencse.runs.folder import RunFolder
    from opencse.runs.record import Outcome


@command
def finish(
    folder: str | Path,
    *,
    report: Report = False,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Outcome:
    """Finishes an interrupted run: makes a model of the best step so far.

    The run may have been stopped (Ctrl-C) or killed; what came after its last checkpoint is lost. The folder then
    holds what a run writes: the model with its card (of `adapt --dev FOLDER`: and the weight of hybrid search),
    ``last/``, and the outcome in ``run.json``. The checkpoint stays, so ``resume`` continues the run as before; delete
    ``checkpoint/`` when you do not need it.

    Args:
        folder: Folder of a run that was interrupted (train, adapt, pretrain).

    Returns:
        What was kept and why. A run that has finished already is left as it is.

    Raises:
        UserError: if the folder holds no run, the run is still running, it has no checkpoint yet, or the model that it
            started from is missing.

    Example:
        >>> opencse.finish("my-model").verdict  # doctest: +SKIP
        'stopped after step 80 of 200; the best model so far is that of step 50 (nDCG@10 x 100: 82.10, start 27.90)'
    """
    from opencse.documents.hybrid import fit_with_model
    from opencse.runs.folder import RunFolder, locked

    run = RunFolder.at(folder)
    _require_run(run)
    try:
        run.require_idle()
    except UserError as busy:
        raise UserError(f"the run is still running, so it cannot be finished: {busy}") from None
    with locked(run.path, progress):
        outcome = run.record().result
        if outcome is not None:
            progress.say(f"this run has finished already: {outcome.verdict}")
        else:
            outcome = _finish(run, trust_remote_code, progress)
        fit_with_model(run.path, trust_remote_code=trust_remote_code, progress=progress)
        if report:
            _report(run, outcome, progress)
    return outcome


def _finish(run: RunFolder, trust_remote_code: bool, progress: Progress) -> Outcome:
    from opencse.runs.finish import write_best_so_far
    from opencse.runs.record import now

    record = run.record()
    if not run.has_checkpoint():
        raise UserError(
            f"{run.path}: the run was stopped before its first checkpoint, so there is no trained model; start it "
            "again with --resume"
        )
    progress.say(f"finishing  {run.path}: the model is being written")
    record.result = write_best_so_far(run, trust_remote_code=trust_remote_code, last=True)
    record.finished = now()
    run.write(record)
    progress.say(record.result.verdict)
    if record.ended_early:
        progress.say(f"kept       {run.checkpoint}, so --resume can continue the run; delete it to save space")
    else:
        run.remove_checkpoints()
    return record.result


def can_draw_report(progress: Progress) -> bool:
    """Whether the packages that draw a run's report are installed; reports what is missing."""
    from opencse.environment import missing_packages

    missing = missing_packages("matplotlib")
    if missing:
        progress.say(f'report     none: its pictures need {", ".join(missing)}; pip install "opencse[train]"')
    return not missing


def _report(run: RunFolder, outcome: Outcome, progress: Progress) -> None:
    if not can_draw_report(progress):
        return
    from opencse.runs.folder import REPORT
    from opencse.runs.report import write_curves_report

    if (run.path / REPORT).is_file() and not run.record().ended_early:
        return
    progress.say(f"report     {write_curves_report(run, outcome)}")


def _require_run(run: RunFolder) -> None:
    """Refuses a folder without a run, and says what it is instead."""
    from opencse.files import require_folder
    from opencse.runs.folder import RECORD
    from opencse.studies.study import StudyRecord

    if run.record_file.is_file():
        return
    path = run.path
    require_folder(path, "give the folder of opencse train, adapt or pretrain")
    if any(StudyRecord.read(one) for one in path.glob("starts/*")) or any(path.glob(f"runs/*/*/*/{RECORD}")):
        raise UserError(f"{path}: holds a comparison; the same compare command continues it")
    if (path / "config.json").is_file() or (path / "modules.json").is_file():
        raise UserError(f"{path}: holds a model and no run ({RECORD}); there is nothing to finish")
    raise UserError(f"{path}: holds no run ({RECORD}); give the folder of opencse train, adapt or pretrain")
