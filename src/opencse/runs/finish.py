"""Evaluates the start before training, and selects and writes the encoder to keep after it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from torch import nn

from opencse.adapting.selection import Choice, DevScore, OwnPoolingScore, Selector
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.together import evaluate_together
from opencse.model_folder.locate import locate
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import Masked
from opencse.processes import Processes
from opencse.progress import Progress
from opencse.runs.card import model_card, score_lines
from opencse.runs.folder import RunFolder
from opencse.runs.plan import Plan
from opencse.runs.record import Outcome, RunRecord, now
from opencse.runs.start import load_start, load_with_own_pooling
from opencse.training.trainer import Trainer


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run.

    Attributes:
        folder: holds the kept encoder; ``last/`` in it holds the encoder of the last step.
        kept: ``best`` (the trained step of the highest dev score), ``start`` or ``given`` (the start as training used
            it, or with its own pooling, where it is better; see `opencse.adapting.selection`), ``last`` (no dev data),
            or ``none`` (a dry run).
        verdict: the outcome in one sentence.
        scores: dev scores (x 100) by step, 0 being the start; empty without dev data.
        plan: what the run does, with reasons.
    """

    folder: Path
    kept: str
    verdict: str
    scores: dict[int, float]
    plan: Plan = field(compare=False, repr=False)

    @classmethod
    def of(cls, folder: RunFolder, outcome: Outcome, plan: Plan) -> TrainResult:
        """The result of the run in ``folder``, from the outcome in its record."""
        return cls(folder.path, outcome.kept, outcome.verdict, outcome.scores, plan)


def start_score(
    plan: Plan, record: RunRecord, folder: RunFolder, progress: Progress, world: Processes
) -> DevScore | None:
    """Evaluates the start; also with its own pooling where that is another one, which goes into the record.

    The start is evaluated again when a run is resumed, since others are compared with it. See `load_start` and
    `load_with_own_pooling`.

    Returns:
        The score in the first process, for which all processes encode; None in the others, and without dev data.
    """
    if plan.dev is None:
        return None
    start = evaluate_together(_untrained(plan, "start"), world, plan.dev.begin)
    if record.start is None:
        encoder = _with_own_pooling(plan)
        if encoder is not None:
            value = evaluate_together(encoder, world, plan.dev.score).value
            record.given = OwnPoolingScore(str(encoder.pooling), value)
        record.start = replace(start, cosines=None)
        if world.first:
            folder.write(record)
    if not world.first:
        return None
    progress.say(f"start      {start.value:.2f} on {plan.dev.name} ({plan.dev.measure})")
    if record.given is not None:
        progress.say(
            f"as given   {record.given.value:.2f} with the model's own pooling {record.given.pooling}; training uses "
            f"{plan.pooling}"
        )
    return start


def write_outcome(trainer: Trainer, plan: Plan, folder: RunFolder, record: RunRecord, progress: Progress) -> None:
    """Selects the encoder to keep after the last step, and writes it, its card and the record."""
    encoder, history = trainer.encoder, trainer.evaluations.history
    scores = history.scores
    if not scores and not plan.recipe.objective.negatives:
        which, verdict = "last", _loss_verdict(trainer)
    elif plan.dev is None:
        which, verdict = "last", "no dev data: the last encoder is kept, and nothing shows whether it is better"
    else:
        choice = _choose(trainer, plan.dev, plan, record.given)
        which, verdict = choice.kept, choice.verdict
    card = _card(plan, record, scores, encoder, "last", verdict)
    save_model(folder, encoder, trainer.objective, card, last=True)
    kept_encoder = encoder
    if which == "best":
        encoder.load_state_dict(trainer.evaluations.best)
    elif which != "last":
        kept_encoder = _untrained(plan, which)
    if kept_encoder is not encoder and keeps_head(trainer.objective):
        add_masked_lm_head(kept_encoder, plan.model, trust_remote_code=bool(plan.code))
    card = _card(plan, record, scores, kept_encoder, which, verdict)
    save_model(folder, kept_encoder, trainer.objective, card)
    last = trainer.last_step
    step = {"best": history.best_step, "last": last, "start": 0}.get(which)
    record.result = Outcome(
        kept=which, verdict=verdict, scores=scores, steps=last, step=step, settled=last < trainer.steps
    )
    record.finished = now()
    folder.write(record)
    folder.remove_checkpoints()
    progress.say(verdict)


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


def _card(
    plan: Plan, record: RunRecord, scores: dict[int, float], encoder: SentenceEncoder, which: str, verdict: str
) -> str:
    table = score_lines(
        scores if plan.dev is not None else {},
        plan.dev.name if plan.dev else "",
        plan.dev.measure if plan.dev else "",
        plan.recipe.training.seed,
        None if record.given is None else record.given.value,
    )
    return model_card(plan.recipe, plan.model, plan.corpus, encoder, which=which, verdict=verdict, scores=table)


def _choose(trainer: Trainer, dev: Selector, plan: Plan, own_pooling: OwnPoolingScore | None) -> Choice:
    """Lets ``dev`` choose; see `Selector.choose`. The trainer's encoder has the last weights again afterwards."""
    history = trainer.evaluations.history

    def is_worse() -> bool:
        encoder = trainer.encoder
        own_is_better = own_pooling is not None and own_pooling.value > history.scores[0]
        start = dev.score(_untrained(plan, "given" if own_is_better else "start"))
        last = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
        encoder.load_state_dict(trainer.evaluations.best)
        trained = dev.score(encoder)
        encoder.load_state_dict(last)
        return dev.worse(trained, start)

    return dev.choose(history, trainer.steps, own_pooling, is_worse)


def _untrained(plan: Plan, which: str) -> SentenceEncoder:
    """The start as training uses it, or (``given``) with its own pooling."""
    encoder = _with_own_pooling(plan) if which == "given" else None
    return encoder or load_start(plan.recipe, plan.model, plan.device, bool(plan.code))


def _with_own_pooling(plan: Plan) -> SentenceEncoder | None:
    return load_with_own_pooling(plan.recipe, plan.model, plan.device, bool(plan.code))


def keeps_head(objective: Objective) -> bool:
    """Whether the masked-LM head is part of the result, as in pretraining, and not only used in training."""
    return not objective.negatives and any(isinstance(request, Masked) for request in objective.reads)


def add_masked_lm_head(
    encoder: SentenceEncoder, model: str, *, tied: bool = True, trust_remote_code: bool = False
) -> None:
    """Adds the masked-LM head of the folder or Hub id ``model`` to ``encoder``; see `load_masked_lm_head`."""
    embeddings = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
    encoder.lm_head = load_masked_lm_head(locate(model), embeddings, tied=tied, trust_remote_code=trust_remote_code)


def _loss_verdict(trainer: Trainer) -> str:
    lines = [line for line in trainer.metrics.read() if "loss" in line]
    by_set = {one.name: number for number, one in enumerate(trainer.sets, start=1)}
    return "; ".join(
        (f"{name}: " if trainer.others else "")
        + _loss_in_words([line["loss"] for line in lines if line.get("data_set", 1) == number])
        for name, number in by_set.items()
    )


def _loss_in_words(losses: list[float]) -> str:
    if not losses:
        return "no step"
    last = losses[-10:]
    mean = sum(last) / len(last)
    return f"loss {losses[0]:.3f} at the first step, {mean:.3f} over the last {len(last)} lines of the log"
