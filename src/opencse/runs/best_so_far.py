"""Selects and writes the best model of a run that was stopped, from the files of the run alone."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from opencse.adapting.selection import History, start_kept
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_model
from opencse.errors import UserError, reason
from opencse.modules.token_weights import TokenWeights
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import LmHead
from opencse.recipes.recipe import Recipe
from opencse.runs.card import model_card, score_lines
from opencse.runs.finish import add_masked_lm_head, keeps_head, save_model
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
    """The model that is kept of a run that was stopped.

    Attributes:
        kept: as in `opencse.runs.finish.TrainResult`.
        step: of the kept encoder; 0 is the start, None the start with its own pooling.
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
    """Selects the model to keep of a run after ``reached`` steps.

    The best evaluated step is kept if its score is above the start's with either pooling; otherwise the start is kept.
    Without a score of a trained step the weights of the checkpoint are kept.

    Example:
        >>> from opencse.adapting.selection import DevScore
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
        verdict = f"{stopped}; its model is kept, and nothing shows whether it is better than the start ({why})"
        return BestSoFar("last", reached, reached, verdict, scores)
    start, own_pooling, best = scores[0], record.given, history.best_step
    with_own = "" if own_pooling is None else f", with its own pooling {own_pooling.pooling} {own_pooling.value:.2f}"
    measure = record.measure or "dev score"
    if best and scores[best] > max(start, start if own_pooling is None else own_pooling.value):
        numbers = f"{measure}: {scores[best]:.2f}, start {start:.2f}{with_own}"
        named = history.by_step[best].named(best).replace("the model", "that", 1).removesuffix(",")
        verdict = f"{stopped}; the best model so far is {named} ({numbers})"
        return BestSoFar("best", best, reached, verdict, scores)
    highest = max(trained, key=lambda step: trained[step])
    numbers = f"{measure}: start {start:.2f}{with_own}, best of training {trained[highest]:.2f} at step {highest:,}"
    untrained: Literal["start", "given"] = "given" if own_pooling and own_pooling.value > start else "start"
    verdict = f"{stopped}; no step so far is better, so {start_kept(untrained, own_pooling)} ({numbers})"
    return BestSoFar(untrained, 0 if untrained == "start" else None, reached, verdict, scores)


def write_best_so_far(run: RunFolder, *, trust_remote_code: bool = False, last: bool = False) -> BestSoFar:
    """Writes the best model of the newest checkpoint to the run's folder; record and checkpoint stay as they are.

    Args:
        run: that has a checkpoint; no other process works on it.
        trust_remote_code: run the code of the start's folder.
        last: write the model of the checkpoint's step to ``last/`` too.

    Raises:
        UserError: if there is no checkpoint, the start has changed, or the model cannot be written.
    """
    stopped = _StoppedRun.read(run, trust_remote_code)
    values = stopped.checkpoint.values
    best = choose_so_far(stopped.record, History.read(values["history"]), int(values["step"]))
    stopped = replace(stopped, model=start_of(run, stopped.record))
    if last:
        stopped.save(stopped.trained("encoder"), best, "last", last=True)
    if best.kept == "best":
        encoder = stopped.trained("best")
    elif best.kept == "last":
        encoder = stopped.trained("encoder")
    else:
        encoder = stopped.untrained(best.kept)
    stopped.save(encoder, best, best.kept)
    return best


def after_stop(run: RunFolder, stopped: str, *, trust_remote_code: bool) -> str:
    """Writes the best model of a run that the user stopped, and returns a message with the ways to continue.

    Args:
        run: whose checkpoint has just been written.
        stopped: the trainer's message.
        trust_remote_code: run the code of the start's folder.
    """
    ways = f"continue with the same command and --resume, or end the run here with: {finish_command(run.path)}"
    try:
        best = write_best_so_far(run, trust_remote_code=trust_remote_code)
    except UserError as error:
        return f"{stopped}; the best model so far is not in the folder ({error}); {ways}"
    return f"{best.verdict}; {run.path} holds this model; {ways}"


def finish_command(folder: Path) -> str:
    """The command that ends the run in ``folder``."""
    return f"opencse finish {shlex.quote(str(folder))}"


def after_kill(run: RunFolder) -> str:
    """Returns a message for a run that was stopped at once: what is in its folder, and how to continue."""
    if not run.record_file.is_file():
        return "stopped before training began; run the same command again"
    if run.record().result is not None:
        return f"stopped; the model in {run.path} is complete, and --resume adds what is missing (the report)"
    if not run.has_checkpoint():
        return f"stopped before the first checkpoint; {run.path} has no trained model; start again with --resume"
    return (
        f"stopped; the steps after the last checkpoint in {run.path} are lost; continue with the same command and "
        f"--resume, or end the run there with: {finish_command(run.path)}"
    )


def open_checkpoint(folder: Path, device: str | None = None, trust_remote_code: bool = False) -> SentenceEncoder:
    """Opens the encoder of the last checkpoint of a run that is still running, or was interrupted.

    Raises:
        UserError: if there is no run, or no checkpoint yet.
    """
    run = RunFolder(folder)
    return _StoppedRun.read(run, trust_remote_code).trained("encoder", device)


def start_of(run: RunFolder, record: RunRecord) -> str:
    """Finds the start of a run: in the run's folder, or where it was then.

    Raises:
        UserError: if it is no longer there, or has changed.
    """
    identity = record.identity
    copy = str(run.start)
    if identity.start is not None and run.start.is_dir() and hash_model(copy) == identity.start:
        return copy
    try:
        unchanged = identity.start is None or hash_model(identity.model) == identity.start
    except UserError as error:
        raise UserError(
            f"{run.path}: the run began with the model {identity.model}, which cannot be opened from here ({error}); "
            "run the command where the run was started, or put the model back"
        ) from None
    if not unchanged:
        raise UserError(
            f"{run.path}: the run began with {identity.model}, which has changed since; put the original back"
        )
    return identity.model


@dataclass(frozen=True)
class _StoppedRun:
    """What the files of a run say at its newest checkpoint.

    Attributes:
        folder: of the run.
        record: of the run.
        checkpoint: the newest.
        recipe: of the record.
        model: where the start is.
        trust_remote_code: run the code of the start's folder.
    """

    folder: RunFolder
    record: RunRecord
    checkpoint: Checkpoint
    recipe: Recipe
    model: str
    trust_remote_code: bool

    @classmethod
    def read(cls, run: RunFolder, trust_remote_code: bool) -> _StoppedRun:
        """Reads the files; the start is where it was when the run began.

        Raises:
            UserError: if there is no run, or no checkpoint yet.
        """
        record = run.record() if run.record_file.is_file() else None
        checkpoint = load_checkpoint(run.checkpoint)
        if record is None or checkpoint is None:
            raise UserError(f"{run.path}: holds no checkpoint of a run; give the folder of a run that has reached one")
        recipe = validate(Recipe, record.identity.recipe, f"{run.record_file}: recipe")
        return cls(run, record, checkpoint, recipe, record.identity.model, trust_remote_code)

    def trained(self, weights: Weights, device: str | None = "cpu") -> SentenceEncoder:
        """Opens the encoder with weights of the checkpoint, without the head that only training uses."""
        encoder = build_encoder(self.recipe, self.model, device, self.trust_remote_code)
        objective = Objective.from_settings(self.recipe.objective)
        if keeps_head(objective):
            tied = all(request.tied for request in objective.reads if isinstance(request, LmHead))
            add_masked_lm_head(encoder, self.model, tied=tied, trust_remote_code=self.trust_remote_code)
        tensors = self.checkpoint.of(weights)
        second = objective.saved_encoder == "second" or self.checkpoint.values.get("better_encoder") == 1
        if weights == "encoder" and second:
            tensors |= self.checkpoint.of("objective.second")
        token_weights = self.checkpoint.of("encoder").get("token_weights.weights")
        put_weights(encoder, None if token_weights is None else TokenWeights(token_weights))
        names = encoder.state_dict().keys()
        try:
            encoder.load_state_dict({name: tensor for name, tensor in tensors.items() if name in names})
        except RuntimeError as error:
            raise UserError(
                f"{self.folder.checkpoint}: the checkpoint does not fit the run's record ({reason(error)}); put the "
                "run's original back"
            ) from None
        encoder.projection = None
        return encoder.eval()

    def untrained(self, which: Literal["start", "given"]) -> SentenceEncoder:
        """Opens the start as training uses it, or (``given``) with its own pooling."""
        recipe, model, trust = self.recipe, self.model, self.trust_remote_code
        encoder = load_with_own_pooling(recipe, model, "cpu", trust) if which == "given" else None
        encoder = encoder or load_start(recipe, model, "cpu", trust)
        if keeps_head(Objective.from_settings(recipe.objective)):
            add_masked_lm_head(encoder, model, trust_remote_code=trust)
        return encoder

    def save(self, encoder: SentenceEncoder, best: BestSoFar, which: str, *, last: bool = False) -> None:
        """Saves an encoder of the run with its card; see `save_model`."""
        objective = Objective.from_settings(self.recipe.objective)
        save_model(self.folder, encoder, objective, self._card(encoder, best, which), last=last)

    def _card(self, encoder: SentenceEncoder, best: BestSoFar, which: str) -> str:
        record, recipe = self.record, self.recipe
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
        own_pooling = None if record.given is None else record.given.value
        scores = score_lines(
            best.scores, record.identity.dev or "", record.measure or "dev score", recipe.training.seed, own_pooling
        )
        return model_card(
            recipe, record.identity.model, facts, encoder, which=which, verdict=best.verdict, scores=scores
        )
