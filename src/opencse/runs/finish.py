"""The two ends of a run: the start's score that others are compared with, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from torch import nn

from opencse.adapting.selection import Choice, DevScore, Given, History, Selector
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.together import evaluated
from opencse.model_folder.locate import locate
from opencse.modules.masked_lm import MaskedLMHead
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import Masked
from opencse.processes import Processes
from opencse.progress import Progress
from opencse.runs.card import model_card, score_lines
from opencse.runs.folder import RunFolder
from opencse.runs.plan import Plan
from opencse.runs.record import Outcome, RunRecord, now
from opencse.runs.start import load_given, load_start
from opencse.training.trainer import Trainer


@dataclass(frozen=True)
class TrainResult:
    """What a run ended with.

    Attributes:
        folder: holds the kept encoder; ``last/`` in it the encoder of the last step.
        kept: ``best`` (the trained step of the highest dev score), ``start`` or ``given`` (the start as training takes
            it up, or with its own pooling, where it is better; see `opencse.adapting.graded`), ``last`` (no dev
            pairs), or ``none`` (a dry run).
        verdict: the outcome in one sentence.
        scores: what was chosen by (x 100), by step, 0 being the start; empty where nothing was chosen by.
        plan: what was to be done, with reasons.
    """

    folder: Path
    kept: str
    verdict: str
    scores: dict[int, float]
    plan: Plan = field(compare=False, repr=False)


def start_score(plan: Plan, record: RunRecord, folder: RunFolder, tell: Progress, world: Processes) -> DevScore | None:
    """Dev score of the start as training takes it up; also, noted and told, with its own pooling where that is another.

    None in all processes but the first one, which has it from all.
    The start is scored anew when a run goes on: others are compared with it. See `load_start` and `load_given`.
    """
    if plan.dev is None:
        return None
    start = evaluated(_untrained(plan, "start"), world, plan.dev.begin)
    if record.start is None:
        given = _given(plan)
        if given is not None:
            alike = "" if plan.token_weights is None else ", all tokens weighted equally"
            record.given = Given(f"{given.pooling}{alike}", evaluated(given, world, plan.dev.score).value)
        record.start = replace(start, cosines=None)
        if world.first:
            folder.write(record)
    if not world.first:
        return None
    own = record.given
    tell.say(f"start      {start.value:.2f} on {plan.dev.name} ({plan.dev.measure})")
    if own is not None:
        tell.say(f"as given   {own.value:.2f} with its own pooling {own.pooling}; what is kept is compared with both")
    return start


def finish(
    trainer: Trainer, history: History, plan: Plan, folder: RunFolder, record: RunRecord, tell: Progress
) -> TrainResult:
    """Chooses what is kept of a trained run, and writes it, its card and its record."""
    encoder = trainer.encoder
    scores = history.scores
    if not scores and not plan.recipe.objective.negatives:
        kept, verdict = "last", _loss_verdict(trainer)
    elif plan.dev is None:
        kept, verdict = "last", "no dev pairs: the last encoder is kept, and nothing tells whether it is better"
    else:
        choice = _choose(trainer, history, plan.dev, plan, record.given)
        kept, verdict = choice.kept, choice.verdict
    card = _card(plan, record, scores, encoder, "last", verdict)
    encoder.eval().save(folder.last, card=card, masked_lm=keeps_head(trainer.objective))
    kept_encoder = encoder
    if kept == "best":
        encoder.load_state_dict(trainer.best)
    elif kept != "last":
        kept_encoder = _untrained(plan, kept)
    if kept_encoder is not encoder and keeps_head(trainer.objective):
        add_masked_lm_head(kept_encoder, plan.model, trust_remote_code=bool(plan.code))
    card = _card(plan, record, scores, kept_encoder, kept, verdict)
    kept_encoder.save(folder.path, card=card, masked_lm=keeps_head(trainer.objective))
    step = {"best": history.best_step, "last": trainer.steps, "start": 0}.get(kept)
    record.result = Outcome(kept=kept, verdict=verdict, scores=scores, steps=trainer.steps, step=step)
    record.finished = now()
    folder.write(record)
    folder.remove_checkpoints()
    tell.say(verdict)
    return TrainResult(folder.path, kept, verdict, scores, plan)


def _card(
    plan: Plan, record: RunRecord, scores: dict[int, float], encoder: SentenceEncoder, kept: str, verdict: str
) -> str:
    found = scores if plan.dev is not None else {}
    told = score_lines(
        found,
        plan.dev.name if plan.dev else "",
        plan.dev.measure if plan.dev else "",
        plan.recipe.training.seed,
        None if record.given is None else record.given.value,
    )
    return model_card(plan.recipe, plan.model, plan.corpus, encoder, kept=kept, verdict=verdict, scores=told)


def _choose(trainer: Trainer, history: History, dev: Selector, plan: Plan, given: Given | None) -> Choice:
    """See `Selector.choose`; the last encoder's weights are as they were afterwards."""

    def worse() -> bool:
        encoder, other = trainer.encoder, given is not None and given.value > history.scores[0]
        start = dev.score(_untrained(plan, "given" if other else "start"))
        last = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
        encoder.load_state_dict(trainer.best)
        trained = dev.score(encoder)
        encoder.load_state_dict(last)
        return dev.worse(trained, start)

    return dev.choose(history, trainer.steps, given, worse)


def _untrained(plan: Plan, which: str) -> SentenceEncoder:
    """The start as training takes it up, or (``given``) with its own pooling."""
    given = _given(plan) if which == "given" else None
    if given is not None:
        return given
    return load_start(plan.recipe, plan.model, plan.device, bool(plan.code), plan.token_weights)


def _given(plan: Plan) -> SentenceEncoder | None:
    weighed = plan.token_weights is not None
    return load_given(plan.recipe, plan.model, plan.device, bool(plan.code), weighed=weighed)


def keeps_head(objective: Objective) -> bool:
    """Whether the masked-LM head is the result, as in pretraining, and not only used in training."""
    return not objective.negatives and any(isinstance(request, Masked) for request in objective.reads)


def add_masked_lm_head(
    encoder: SentenceEncoder, model: str, *, tied: bool = True, trust_remote_code: bool = False
) -> None:
    """Gives ``encoder`` the masked-LM head of the folder or Hub id ``model``; see `MaskedLMHead.load`."""
    words = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
    encoder.lm_head = MaskedLMHead.load(locate(model), words, tied=tied, trust_remote_code=trust_remote_code)


def _loss_verdict(trainer: Trainer) -> str:
    losses = [line["loss"] for line in trainer.metrics.read() if "loss" in line]
    last = losses[-10:]
    mean = sum(last) / len(last)
    return f"loss {losses[0]:.3f} at the first step, {mean:.3f} over the last {len(last)} lines of the log"
