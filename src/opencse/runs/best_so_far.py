"""The best model of a run that has not ended: chosen from the run's files alone, and written to its folder."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opencse.adapting.selection import History
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_model
from opencse.errors import UserError, reason
from opencse.modules.token_weights import TokenWeights
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import LmHead
from opencse.recipes.recipe import Recipe
from opencse.runs.card import model_card, score_lines
from opencse.runs.finish import add_masked_lm_head, keeps_head
from opencse.runs.folder import RunFolder
from opencse.runs.record import RunRecord
from opencse.runs.start import build_encoder, load_start, load_with_own_pooling, put_weights
from opencse.settings import validate
from opencse.text.corpus import CorpusFacts
from opencse.training.checkpoint import Checkpoint, load_checkpoint

Weights = Literal["encoder", "best"]
"""Which weights of a checkpoint: those of its step, or those of the best step before it."""


@dataclass(frozen=True)
class BestSoFar:
    """What is kept of a run that was stopped.

    Attributes:
        kept: as in `opencse.runs.finish.TrainResult`.
        step: of the kept encoder; 0 is the start, None the model as it was given.
        reached: the step of the checkpoint.
        verdict: the outcome in one sentence.
        scores: dev scores (x 100) by step, up to the checkpoint.
    """

    kept: Literal["best", "start", "given", "last"]
    step: int | None
    reached: int
    verdict: str
    scores: dict[int, float]


def choose_so_far(record: RunRecord, history: History, reached: int) -> BestSoFar:
    """Chooses what is kept of a run after ``reached`` steps.

    The best evaluated step is kept if its score is above every reading of the start; otherwise the start. Without a
    score of a trained step the weights of the checkpoint are kept.

    Example:
        >>> from opencse.environment import Environment
        >>> from opencse.runs.record import Identity, TextCounts
        >>> identity = Identity(recipe={}, model="m", text="", precision="float32", dev="sample")
        >>> record = RunRecord(
        ...     identity=identity, source="a.txt", corpus=TextCounts(rows=1, tokens=1, duplicates=0), steps=200,
        ...     environment=Environment.here("cpu"), measure="nDCG@10 x 100",
        ... )
        >>> history = History({0: DevScore(27.9), 50: DevScore(82.1), 75: DevScore(80.4)})
        >>> choose_so_far(record, history, 80).verdict
        'stopped after step 80 of 200; the best model so far is that of step 50 (nDCG@10 x 100: 82.10, start 27.90)'
    """
    stopped = f"stopped after step {reached:,} of {record.steps:,}"
    scores = history.scores
    trained = {step: score for step, score in scores.items() if step}
    if not trained or 0 not in scores:
        why = "the run has no dev data" if record.identity.dev is None else "no trained step has been evaluated yet"
        verdict = f"{stopped}; its model is kept, and nothing tells whether it is better than the start ({why})"
        return BestSoFar("last", reached, reached, verdict, scores)
    start, given, best = scores[0], record.given, history.best_step
    own = "" if given is None else f", with its own pooling {given.pooling} {given.value:.2f}"
    measure = record.measure or "dev score"
    if best and scores[best] > max(start, start if given is None else given.value):
        numbers = f"{measure}: {scores[best]:.2f}, start {start:.2f}{own}"
        verdict = f"{stopped}; the best model so far is that of step {best:,} ({numbers})"
        return BestSoFar("best", best, reached, verdict, scores)
    highest = max(trained, key=lambda step: trained[step])
    numbers = f"{measure}: start {start:.2f}{own}, best of training {trained[highest]:.2f} at step {highest:,}"
    verdict = f"{stopped}; no step so far is kept, so the model is the unchanged start ({numbers})"
    if given is not None and given.value > start:
        return BestSoFar("given", None, reached, verdict, scores)
    return BestSoFar("start", 0, reached, verdict, scores)


def write_best_so_far(run: RunFolder, *, trust_remote_code: bool = False, last: bool = False) -> BestSoFar:
    """Writes the best model of the newest checkpoint to the run's folder; record and checkpoint stay as they are.

    Args:
        run: that has a checkpoint; no other process works on it.
        trust_remote_code: run the code of the start's folder.
        last: write the model of the checkpoint's step to ``last/`` too.

    Raises:
        UserError: if there is no checkpoint, the start has changed, or the model cannot be written.
    """
    record, checkpoint = _begun(run)
    history = History.read(checkpoint.values["history"])
    chosen = choose_so_far(record, history, int(checkpoint.values["step"]))
    recipe = validate(Recipe, record.identity.recipe, f"{run.record_file}: recipe")
    model = start_of(run, record)
    head = keeps_head(Objective.from_settings(recipe.objective))
    if last:
        encoder = _of_checkpoint(run, recipe, model, checkpoint, "encoder", "cpu", trust_remote_code)
        encoder.save(run.last, card=_card(record, recipe, encoder, chosen, "last"), masked_lm=head)
    if chosen.kept in ("best", "last"):
        weights: Weights = "best" if chosen.kept == "best" else "encoder"
        encoder = _of_checkpoint(run, recipe, model, checkpoint, weights, "cpu", trust_remote_code)
    else:
        encoder = _untrained(recipe, model, checkpoint, chosen.kept, trust_remote_code)
        if head:
            add_masked_lm_head(encoder, model, trust_remote_code=trust_remote_code)
    encoder.save(run.path, card=_card(record, recipe, encoder, chosen, chosen.kept), masked_lm=head)
    return chosen


def after_stop(run: RunFolder, stopped: str, *, trust_remote_code: bool) -> str:
    """Keeps the best model of a run that was asked to stop, and says what is there and how to continue.

    Args:
        run: whose checkpoint has just been written.
        stopped: what the trainer says of it.
        trust_remote_code: run the code of the start's folder.
    """
    ways = f"continue with the same command and --resume, or end the run here with: {finish_command(run.path)}"
    try:
        chosen = write_best_so_far(run, trust_remote_code=trust_remote_code)
    except UserError as error:
        return f"{stopped}; the best model so far is not in the folder ({error}); {ways}"
    return f"{chosen.verdict}; {run.path} opens as this model; {ways}"


def finish_command(folder: Path) -> str:
    """The command that ends the run in ``folder``."""
    return f"opencse finish {shlex.quote(str(folder))}"


def after_kill(run: RunFolder) -> str:
    """Says what is left of a run that was stopped at once, between two checkpoints or outside training."""
    if not run.record_file.is_file():
        return "stopped before training began; run the same command again"
    if run.record().result is not None:
        return f"stopped; the model in {run.path} is complete, and --resume makes what is missing (the report)"
    if not run.has_checkpoint():
        return f"stopped before the first checkpoint; {run.path} has no trained model; begin again with --resume"
    return (
        f"stopped; what came after the last checkpoint in {run.path} is lost; continue with the same command and "
        f"--resume, or end the run there with: {finish_command(run.path)}"
    )


def open_checkpoint(folder: Path, device: str | None = None, trust_remote_code: bool = False) -> SentenceEncoder:
    """Opens the encoder of a run that is still going (or was interrupted), as its last checkpoint has it.

    Raises:
        UserError: if there is no run, or no checkpoint yet.
    """
    run = RunFolder(folder)
    record, checkpoint = _begun(run)
    recipe = validate(Recipe, record.identity.recipe, f"{run.record_file}: recipe")
    return _of_checkpoint(run, recipe, record.identity.model, checkpoint, "encoder", device, trust_remote_code)


def start_of(run: RunFolder, record: RunRecord) -> str:
    """Finds the model that a run began with: in the run's own folder, or where it was then.

    Raises:
        UserError: if it is not there any more, or has changed.
    """
    began = record.identity
    own = str(run.start)
    if began.start is not None and run.start.is_dir() and hash_model(own) == began.start:
        return own
    try:
        unchanged = began.start is None or hash_model(began.model) == began.start
    except UserError as error:
        raise UserError(
            f"{run.path}: the run began with the model {began.model}, which cannot be opened from here ({error}); run "
            "the command where the run was started, or put the model back"
        ) from None
    if not unchanged:
        raise UserError(f"{run.path}: the run began with {began.model}, which has changed since; put it back as it was")
    return began.model


def _begun(run: RunFolder) -> tuple[RunRecord, Checkpoint]:
    record = run.record() if run.record_file.is_file() else None
    checkpoint = load_checkpoint(run.checkpoint)
    if record is None or checkpoint is None:
        raise UserError(f"{run.path}: holds no checkpoint of a run; give the folder of a run that has reached one")
    return record, checkpoint


def _of_checkpoint(
    run: RunFolder,
    recipe: Recipe,
    model: str,
    checkpoint: Checkpoint,
    weights: Weights,
    device: str | None,
    trust_remote_code: bool,
) -> SentenceEncoder:
    """The encoder with weights of a checkpoint, without the head that is used in training alone."""
    encoder = build_encoder(recipe, model, device, trust_remote_code)
    objective = Objective.from_settings(recipe.objective)
    if keeps_head(objective):
        tied = all(request.tied for request in objective.reads if isinstance(request, LmHead))
        add_masked_lm_head(encoder, model, tied=tied, trust_remote_code=trust_remote_code)
    tensors = checkpoint.of(weights)
    put_weights(encoder, _token_weights(checkpoint))
    own = encoder.state_dict()
    try:
        encoder.load_state_dict({name: tensor for name, tensor in tensors.items() if name in own})
    except RuntimeError as error:
        raise UserError(
            f"{run.checkpoint}: the checkpoint does not fit the run's record ({reason(error)}); put back the run's own"
        ) from None
    encoder.projection = None
    return encoder.eval()


def _untrained(
    recipe: Recipe, model: str, checkpoint: Checkpoint, kept: str, trust_remote_code: bool
) -> SentenceEncoder:
    weights = _token_weights(checkpoint)
    given = None
    if kept == "given":
        given = load_with_own_pooling(recipe, model, "cpu", trust_remote_code, weighed=weights is not None)
    return given or load_start(recipe, model, "cpu", trust_remote_code, weights)


def _token_weights(checkpoint: Checkpoint) -> TokenWeights | None:
    weights = checkpoint.of("encoder").get("token_weights.weights")
    return None if weights is None else TokenWeights(weights)


def _card(record: RunRecord, recipe: Recipe, encoder: SentenceEncoder, chosen: BestSoFar, kept: str) -> str:
    counts = record.corpus.model_dump()
    longest = recipe.data.max_length
    facts = CorpusFacts(
        source=record.source,
        fingerprint=record.identity.text,
        rows=record.corpus.rows,
        width=counts.get("width", 1),
        tokens=record.corpus.tokens,
        at_limit=counts.get("at_limit", 0),
        duplicates=record.corpus.duplicates,
        documents=counts.get("documents", 0),
        max_length=counts.get("max_length", encoder.max_length if longest == "auto" else longest),
    )
    given = None if record.given is None else record.given.value
    scores = score_lines(
        chosen.scores, record.identity.dev or "", record.measure or "dev score", recipe.training.seed, given
    )
    return model_card(recipe, record.identity.model, facts, encoder, kept=kept, verdict=chosen.verdict, scores=scores)
