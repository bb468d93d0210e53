"""Evaluates the start before training; selects and writes the encoder to keep after it, or when it was stopped."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from opencse.encoder.card import framed
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_model
from opencse.encoder.network import evaluate_together
from opencse.errors import UserError, explaining
from opencse.markdown import as_text, public_name
from opencse.modules.token_modules import TokenWeights
from opencse.numerals import number_of
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import LmHead, Masked
from opencse.recipes.recipe import Recipe
from opencse.runs.folder import RunFolder
from opencse.runs.record import Outcome, RunRecord, now
from opencse.runs.setup import RunSetup
from opencse.runs.start import Start, put_weights
from opencse.training.checkpoint import Checkpoint, load_checkpoint
from opencse.training.selection import Choice, DevScore, History, OwnPoolingScore, Selector, start_kept
from opencse.training.trainer import Trainer

_TRAINED = """# Sentence encoder trained with OpenCSE

| | |
|---|---|
| recipe | {recipe} ({title}) |
| paper | {paper} |
| started from | {model} |
| text | {rows}, {tokens:,} tokens; content hash {fingerprint} |{further}
| temperature, batch, learning rate, seed | {temperature}, {batch}, {rate:g}, {seed} |
| this model | {which} |
| verdict of the run | {verdict} |

In the folder of the run, `run.json` and `metrics.jsonl` hold every setting and the log of training.

## Scores

{scores}

"""


def model_card(
    recipe: Recipe,
    record: RunRecord,
    encoder: SentenceEncoder,
    *,
    which: str,
    verdict: str,
    scores: Mapping[int, float],
) -> str:
    """Returns the card of a trained encoder: how it was trained, what it scores, and how to use it.

    Args:
        recipe: with everything set.
        record: of the run.
        encoder: of the card.
        which: encoder of the run: ``best``, ``last``, ``start`` or ``given``.
        verdict: the run's outcome.
        scores: dev scores x 100, by step; 0 is the start; empty if nothing was evaluated.
    """
    training, corpus, model = recipe.training, record.corpus, record.identity.model
    return framed(
        _TRAINED.format(
            recipe=as_text(recipe.name),
            title=as_text(recipe.title),
            paper=as_text(recipe.paper or "-"),
            model=as_text(public_name(model)),
            rows=number_of(corpus.rows, "row"),
            tokens=corpus.tokens,
            fingerprint=corpus.fingerprint[:16],
            further=_further(recipe),
            temperature=recipe.objective.temperature if recipe.objective.negatives else "-",
            batch=f"{training.batch_tokens:,} tokens" if training.batch_tokens else training.batch_size,
            rate=training.learning_rate,
            seed=training.seed,
            which=which,
            verdict=as_text(verdict),
            scores=_score_lines(record, scores, recipe, encoder.token_weights is None),
        ),
        encoder,
        base=model,
        limits=(
            f"Training truncated texts to {corpus.max_length} ids: it has learned only the beginning of longer ones.",
            f"It is one run, with seed {training.seed}; another seed gives other vectors and other scores.",
        ),
    )


def _further(recipe: Recipe) -> str:
    """The row of a card that names further data sets; empty without any."""
    names = ", ".join(as_text(one.name) for one in recipe.datasets or ())
    return f"\n| further data sets, mixed in | {names} |" if names else ""


def _score_lines(record: RunRecord, scores: Mapping[int, float], recipe: Recipe, same_tokens: bool) -> str:
    """The dev scores of a run as Markdown; of the last model only where it was scored, and not averages of it."""
    if not scores:
        return "None: nothing was evaluated, so nothing shows whether it is better than its start."
    training, last, best = recipe.training, max(scores), max(scores, key=lambda step: scores[step])
    rows = [("start", scores[0])] if 0 in scores else []
    rows += [] if record.given is None else [("start, as given", record.given.value)]
    rows.append((f"best, step {best:,}", scores[best]))
    if same_tokens and training.shares == (1.0,):
        rows.append((f"last, step {last:,}", scores[last]))
    table = "".join(f"| {name} | {value:.2f} |\n" for name, value in rows)
    return (
        f"| on {as_text(public_name(record.identity.dev or ''))} | {as_text(record.measure or 'dev score')} |\n"
        f"|---|---|\n{table}\n"
        f"From one run, seed {training.seed}. The best step was selected by these same scores, so they are optimistic."
    )


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run.

    Attributes:
        folder: holds the kept encoder; ``last/`` in it holds the encoder of the last step.
        kept: ``best`` (the trained step of the highest dev score), ``start`` or ``given`` (the start as training used
            it, or with its own pooling, where it is better; see `opencse.training.selection`), ``last`` (no dev data),
            or ``none`` (a dry run).
        verdict: the outcome in one sentence.
        scores: dev scores (x 100) by step, 0 being the start; empty without dev data.
        plan: what the run does, with reasons, in lines.
    """

    folder: Path
    kept: str
    verdict: str
    scores: dict[int, float]
    plan: list[str] = field(compare=False, repr=False)

    @classmethod
    def of(cls, folder: RunFolder, outcome: Outcome, plan: list[str]) -> TrainResult:
        """The result of the run in ``folder``, from the outcome in its record."""
        return cls(folder.path, outcome.kept, outcome.verdict, outcome.scores, plan)


def start_score(run: RunSetup, record: RunRecord, folder: RunFolder) -> DevScore | None:
    """Evaluates the start; also with its own pooling where that is another one, which goes into the record.

    The start is evaluated again when a run is resumed, since others are compared with it.

    Returns:
        The score in the first process, for which all processes encode; None in the others, and without dev data.
    """
    selector, world = run.selector, run.world
    if selector is None:
        return None
    start = evaluate_together(run.start.untrained(), world, selector.begin)
    if record.start is None:
        encoder = run.start.with_own_pooling()
        if encoder is not None:
            value = evaluate_together(encoder, world, selector.score).value
            record.given = OwnPoolingScore(str(encoder.pooling), value)
        record.start = replace(start, cosines=None)
        if world.first:
            folder.write(record)
    if not world.first:
        return None
    run.progress.say(f"start      {start.value:.2f} on {selector.name} ({selector.measure})")
    if record.given is not None:
        run.progress.say(
            f"as given   {record.given.value:.2f} with the model's own pooling {record.given.pooling}; training uses "
            f"{run.encoder.pooling}"
        )
    return start


def write_outcome(trainer: Trainer, run: RunSetup, folder: RunFolder, record: RunRecord) -> None:
    """Selects the encoder to keep after the last step, and writes it, its card and the record."""
    encoder, objective, history = trainer.encoder, trainer.objective, trainer.evaluations.history
    recipe, scores = run.start.recipe, history.scores
    if not scores and not objective.negatives:
        which, verdict = "last", _loss_verdict(trainer)
    elif run.selector is None:
        which, verdict = "last", "no dev data: the last encoder is kept, and nothing shows whether it is better"
    else:
        choice = _choose(trainer, run.selector, run, record.given)
        which, verdict = choice.kept, choice.verdict
    card = partial(model_card, recipe, record, verdict=verdict, scores=scores)
    save_model(folder, encoder, objective, card(encoder, which="last"), last=True)
    kept_encoder = encoder
    if which == "best":
        encoder.load_state_dict(trainer.evaluations.best)
    elif which != "last":
        kept_encoder = _untrained(run.start, which, objective)
    save_model(folder, kept_encoder, objective, card(kept_encoder, which=which))
    last = trainer.last_step
    step = {"best": history.best_step, "last": last, "start": 0}.get(which)
    record.result = Outcome(
        kept=which, verdict=verdict, scores=scores, steps=last, step=step, settled=last < trainer.steps
    )
    record.finished = now()
    folder.write(record)
    folder.remove_checkpoints()
    run.progress.say(verdict)


def save_model(
    run: RunFolder, encoder: SentenceEncoder, objective: Objective, card: str, *, last: bool = False
) -> None:
    """Saves a model of a run to the folder of the run, without a hybrid weight, which was fitted to the start.

    Weights that are the same in several models of the run take the disk space of one; see `RunFolder.share_weights`.

    Args:
        run: that the model belongs to.
        encoder: with the masked-LM head where `keeps_head`.
        objective: of the run.
        card: of the model.
        last: save it to ``last/``, as the encoder of the last step; otherwise it is the one that is kept.

    Raises:
        UserError: if it cannot be written.
    """
    encoder.hybrid_weight = None
    encoder.eval().save(run.last if last else run.path, card=card, masked_lm=keeps_head(objective))
    run.share_weights()


def _choose(trainer: Trainer, dev: Selector, run: RunSetup, own_pooling: OwnPoolingScore | None) -> Choice:
    """Lets ``dev`` choose; see `Selector.choose`. The trainer's encoder has the last weights again afterwards."""
    history = trainer.evaluations.history

    def is_worse() -> bool:
        encoder = trainer.encoder
        own_is_better = own_pooling is not None and own_pooling.value > history.scores[0]
        start = dev.score(_untrained(run.start, "given" if own_is_better else "start"))
        last = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
        encoder.load_state_dict(trainer.evaluations.best)
        trained = dev.score(encoder)
        encoder.load_state_dict(last)
        return dev.worse(trained, start)

    return dev.choose(history, trainer.steps, own_pooling, is_worse)


def _untrained(start: Start, which: str, objective: Objective | None = None) -> SentenceEncoder:
    """The start as training uses it, or (``given``) with its own pooling; with the head that ``objective`` keeps."""
    encoder = (start.with_own_pooling() if which == "given" else None) or start.untrained()
    if objective is not None and keeps_head(objective):
        start.add_masked_lm_head(encoder, [LmHead()])
    return encoder


def keeps_head(objective: Objective) -> bool:
    """Whether the masked-LM head is part of the result, as in pretraining, and not only used in training."""
    return not objective.negatives and any(isinstance(request, Masked) for request in objective.reads)


def _loss_verdict(trainer: Trainer) -> str:
    lines = [line for line in trainer.metrics.read() if "loss" in line]
    by_set = {one.name: number for number, one in enumerate(trainer.sets, start=1)}
    return "; ".join(
        (f"{name}: " if len(trainer.sets) > 1 else "")
        + _loss_in_words([line["loss"] for line in lines if line.get("data_set", 1) == number])
        for name, number in by_set.items()
    )


def _loss_in_words(losses: list[float]) -> str:
    if not losses:
        return "no step"
    last = losses[-10:]
    mean = sum(last) / len(last)
    return f"loss {losses[0]:.3f} at the first step, {mean:.3f} over the last {len(last)} lines of the log"


Weights = Literal["encoder", "best"]
"""Which weights of a checkpoint: those of its step, or those of the best step before it."""


def choose_so_far(record: RunRecord, history: History, reached: int) -> Outcome:
    """Selects the model to keep of a run that was stopped after ``reached`` steps.

    The best evaluated step is kept if its score is above the start's with either pooling; otherwise the start is kept.
    Without a score of a trained step the weights of the checkpoint are kept.

    Example:
        >>> from opencse.training.selection import DevScore
        >>> from opencse.environment import Environment
        >>> from opencse.runs.record import Identity
        >>> from opencse.text.corpus import CorpusFacts
        >>> identity = Identity(recipe={}, model="m", text="", precision="float32", dev="sample")
        >>> record = RunRecord(
        ...     identity=identity, source="a.txt", corpus=CorpusFacts("a.txt", "", 1, 1, 1, 0, 0, 0, 32), steps=200,
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
        return Outcome(kept="last", step=reached, steps=reached, verdict=verdict, scores=scores)
    start, own_pooling, best = scores[0], record.given, history.best_step
    with_own = "" if own_pooling is None else f", with its own pooling {own_pooling.pooling} {own_pooling.value:.2f}"
    measure = record.measure or "dev score"
    if best and scores[best] > max(start, start if own_pooling is None else own_pooling.value):
        numbers = f"{measure}: {scores[best]:.2f}, start {start:.2f}{with_own}"
        named = history.by_step[best].named(best).replace("the model", "that", 1).removesuffix(",")
        verdict = f"{stopped}; the best model so far is {named} ({numbers})"
        return Outcome(kept="best", step=best, steps=reached, verdict=verdict, scores=scores)
    highest = max(trained, key=lambda step: trained[step])
    numbers = f"{measure}: start {start:.2f}{with_own}, best of training {trained[highest]:.2f} at step {highest:,}"
    untrained: Literal["start", "given"] = "given" if own_pooling and own_pooling.value > start else "start"
    verdict = f"{stopped}; no step so far is better, so {start_kept(untrained, own_pooling)} ({numbers})"
    step = 0 if untrained == "start" else None
    return Outcome(kept=untrained, step=step, steps=reached, verdict=verdict, scores=scores)


def write_best_so_far(run: RunFolder, *, trust_remote_code: bool, last: bool = False) -> Outcome:
    """Writes the best model of the newest checkpoint to the run's folder; record and checkpoint stay as they are.

    Args:
        run: that has a checkpoint; no other process works on it.
        trust_remote_code: run the code of the start's folder.
        last: write the model of the checkpoint's step to ``last/`` too.

    Raises:
        UserError: if there is no checkpoint, the start has changed, or the model cannot be written.
    """
    record, checkpoint = _read(run)
    best = choose_so_far(record, History.read(checkpoint.values["history"]), int(checkpoint.values["step"]))
    start = Start(start_of(run, record), run.recipe(record), device="cpu", trust_remote_code=trust_remote_code)
    objective = Objective.from_settings(start.recipe.objective)

    def save(encoder: SentenceEncoder, which: str, *, last: bool = False) -> None:
        card = model_card(start.recipe, record, encoder, which=which, verdict=best.verdict, scores=best.scores)
        save_model(run, encoder, objective, card, last=last)

    if last:
        save(_trained(run, start, checkpoint, "encoder"), "last", last=True)
    if best.kept in ("best", "last"):
        save(_trained(run, start, checkpoint, "best" if best.kept == "best" else "encoder"), best.kept)
    else:
        save(_untrained(start, best.kept, objective), best.kept)
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
    record, checkpoint = _read(run)
    start = Start(record.identity.model, run.recipe(record), device=device, trust_remote_code=trust_remote_code)
    return _trained(run, start, checkpoint, "encoder")


def start_of(run: RunFolder, record: RunRecord) -> str:
    """Finds the start of a run: in the run's folder, or where it was then.

    Raises:
        UserError: if it is no longer there, or has changed.
    """
    identity = record.identity
    copy = str(run.start)
    if run.start.is_dir() and hash_model(copy) == identity.start:
        return copy
    try:
        unchanged = hash_model(identity.model) == identity.start
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


def _read(run: RunFolder) -> tuple[RunRecord, Checkpoint]:
    """The record of a run and its newest checkpoint.

    Raises:
        UserError: if there is no run, or no checkpoint yet.
    """
    record = run.record() if run.record_file.is_file() else None
    checkpoint = load_checkpoint(run.checkpoint)
    if record is None or checkpoint is None:
        raise UserError(f"{run.path}: holds no checkpoint of a run; give the folder of a run that has reached one")
    return record, checkpoint


def _trained(run: RunFolder, start: Start, checkpoint: Checkpoint, weights: Weights) -> SentenceEncoder:
    """Opens the encoder of a run with weights of its checkpoint, without the head that only training uses."""
    encoder = start.for_training()
    objective = Objective.from_settings(start.recipe.objective)
    if keeps_head(objective):
        start.add_masked_lm_head(encoder, objective.reads)
    tensors = checkpoint.of(weights)
    second = objective.saved_encoder == "second" or checkpoint.values["better_encoder"] == 1
    if weights == "encoder" and second:
        tensors |= checkpoint.of("objective.second")
    token_weights = checkpoint.of("encoder").get("token_weights.weights")
    put_weights(encoder, None if token_weights is None else TokenWeights(token_weights))
    names = encoder.state_dict().keys()
    with explaining(
        f"{run.checkpoint}: the checkpoint does not fit the run's record",
        RuntimeError,
        fix="put the run's original back",
    ):
        encoder.load_state_dict({name: tensor for name, tensor in tensors.items() if name in names})
    encoder.projection = None
    return encoder.eval()
