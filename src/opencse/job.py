"""A training job: what was asked for -> a plan with reasons -> a run -> the kept encoder."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from torch import nn

from opencse import __version__
from opencse.card import model_card
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.locate import BUILTIN, locate
from opencse.encoder.masked_lm import MaskedLMHead
from opencse.errors import UserError
from opencse.evaluation import write_json
from opencse.evaluation.result import Environment
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.overrides import flatten
from opencse.plan import Plan
from opencse.recipe import Recipe, resolve_recipe
from opencse.selection.chosen import AUTO, load_selector
from opencse.selection.score import Choice, DevScore, Given, History, Selector
from opencse.start import Start, build_encoder, load_given, load_start, settle
from opencse.text.batches import Batches
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.training.checkpoint import remove_checkpoint
from opencse.training.memory import keep_freed_memory
from opencse.training.pace import plan_batches, seconds_per_step
from opencse.training.precision import choose_precision
from opencse.training.reporter import Counted, Reporter, Silent
from opencse.training.soundness import probes_of, require_sound
from opencse.training.trainer import Trainer


@dataclass(frozen=True)
class TrainResult:
    """What a run ended with.

    Attributes:
        folder: holds the kept encoder; ``last/`` in it the encoder of the last step.
        kept: ``best`` (the trained step of the highest dev score), ``start`` or ``given`` (the start as training takes
            it up, or with its own pooling, where it is better; see `opencse.training.selection`), or ``last`` (no dev
            pairs).
        verdict: the outcome in one sentence.
        scores: what was chosen by (x 100), by step, 0 being the start; empty where nothing was chosen by.
    """

    folder: Path
    kept: str
    verdict: str
    scores: dict[int, float]


@dataclass(frozen=True)
class Prepared:
    """A run ready to start."""

    plan: Plan
    encoder: SentenceEncoder
    objective: Objective
    inputs: InputBuilder
    batches: Batches


@dataclass(frozen=True)
class TrainJob:
    """Everything that decides what a run does; see `opencse.run.train` for the arguments."""

    text: Source
    recipe: str | Recipe = "simcse"
    model: str = BUILTIN
    preset: str | None = None
    settings: tuple[str, ...] = ()
    dev: str | Path | Selector | None = AUTO
    device: str | None = None
    metric: str | None = None

    def resolve(self) -> tuple[Recipe, str, str | None]:
        """The recipe with presets and settings applied, the model's name, and the presets, joined by colons."""
        return self._asked()[:3]

    def start(self) -> Start:
        """The start, with the recipe's pooling and head as they will be; see `opencse.start.settle`.

        Raises:
            UserError: for a fault in the recipe or a setting, or if there is no such model.
        """
        recipe, model, _, said = self._asked()
        return settle(recipe, model, said)

    def _asked(self) -> tuple[Recipe, str, str | None, frozenset[str]]:
        """What `resolve` gives, and the keys of the settings that were asked for."""
        if isinstance(self.recipe, Recipe):
            if self.preset is not None or self.settings:
                raise UserError("preset and settings go with a recipe's name; change the Recipe itself instead")
            said = {"encoder.pooling"} if self.recipe.encoder.pooling is not None else set()
            said |= {"encoder.head"} if self.recipe.encoder.head.kind != "none" else set()
            return self.recipe, self.model, None, frozenset(said)
        resolved = resolve_recipe(self.recipe, preset=self.preset, model=self.model, overrides=self.settings)
        backbone = resolved.backbone
        if self.model == BUILTIN and backbone is not None and backbone.model != BUILTIN:
            raise UserError(
                f"{resolved.recipe.name}: {resolved.presets[0]} is a preset for {backbone.model}, and the model is the "
                f"built-in encoder; choose the model too, with --model {resolved.presets[0]}"
            )
        presets = ":".join(resolved.presets) or None
        return resolved.recipe, resolved.model or self.model, presets, resolved.said

    def prepare(self, reporter: Reporter, *, steps: int | None = None) -> Prepared:
        """Loads and tokenises everything, ready to train; nothing is written but the token cache.

        Args:
            reporter: hears of progress.
            steps: of the run, where they are settled already (a run that goes on); by default the budget decides.
        """
        preset, start = self.resolve()[2], self.start()
        recipe, model = start.recipe, start.model
        dev = load_selector(self.dev, self.text, self.metric)
        encoder = build_encoder(recipe, model, self.device)
        objective = Objective(recipe.objective).to(encoder.device)
        _check_and_complete(encoder, objective, recipe, model)
        corpus = tokenise(
            self.text,
            encoder.tokenizer,
            recipe.data.max_length,
            words=objective.view.needs_words,
            progress=Counted(reporter, "tokenising"),
        )
        pool = "choose another pooling, for instance with --set encoder.pooling=mean"
        require_sound(encoder, probes_of(corpus), f"{model}, untrained", pool)
        left_out = None if dev is None else dev.left_out
        inputs = InputBuilder(corpus, encoder.tokenizer, objective, recipe.training.seed, left_out)
        if len(inputs) < 2:
            raise UserError(f"{self.text.location}: one example only; contrast needs at least two")
        batches = plan_batches(inputs, recipe.training)
        tokens = int(inputs.lengths.sum())
        precision = choose_precision(recipe.training.precision, encoder.device)
        if steps is None:
            pace = None
            if recipe.training.minutes is not None:
                pace = seconds_per_step(encoder, objective, inputs, batches, recipe.training, precision)
                reporter.say(f"pace       {pace:.3f} s a step, measured")
            steps = recipe.training.steps(batches.steps_per_epoch, tokens, pace)
        plan = Plan(
            recipe=recipe,
            model=model,
            preset=preset,
            dev=dev,
            corpus=corpus.facts,
            examples=len(inputs),
            steps=steps,
            batches_per_epoch=batches.steps_per_epoch,
            batch_size=batches.batch_size,
            tokens_per_step=tokens // batches.steps_per_epoch * recipe.training.accumulate,
            hard=inputs.hard,
            reads_hard=objective.needs.hard,
            negatives_per_anchor=objective.negatives_per_anchor(batches.batch_size, inputs.hard),
            precision=precision,
            attention=str(encoder.backbone.config._attn_implementation),
            device=str(encoder.device),
            parameters=sum(p.numel() for p in encoder.parameters()),
            pooling=str(encoder.pooling),
            pooling_reason=start.reason,
        )
        return Prepared(plan, encoder, objective, inputs, batches)

    def run(self, out: str | Path, *, resume: bool = False, reporter: Reporter | None = None) -> TrainResult:
        """Trains; see `opencse.run.train`."""
        tell = reporter or Silent()
        folder = Path(out)
        keep_freed_memory()
        prepared = self.prepare(tell, steps=_settled_steps(folder) if resume else None)
        plan = prepared.plan
        for line in plan.lines():
            tell.say(line)
        record = _begin_run(folder, plan, resume)
        if record.get("result") is not None:
            result = record["result"]
            tell.say(f"this run had finished before: {result['verdict']}")
            scores = {int(step): score for step, score in result["scores"].items()}
            return TrainResult(folder, result["kept"], result["verdict"], scores)
        trainer = Trainer(
            encoder=prepared.encoder,
            objective=prepared.objective,
            inputs=prepared.inputs,
            batches=prepared.batches,
            steps=plan.steps,
            settings=plan.recipe.training,
            precision=plan.precision,
            dev=plan.dev,
            folder=folder,
            reporter=tell,
            start=_start_score(plan, record, folder, tell),
        )
        started = time.perf_counter()
        history = trainer.run(resume=resume)
        record["seconds"] = round(time.perf_counter() - started, 1)
        return _finish(trainer, history, plan, folder, record, tell)


def _check_and_complete(encoder: SentenceEncoder, objective: Objective, recipe: Recipe, model: str) -> None:
    """Refuses what could not work, and adds the masked-LM head if a term reads it."""
    if recipe.data.max_length > encoder.max_length:
        raise UserError(
            f"data.max_length {recipe.data.max_length} is beyond what {model} reads ({encoder.max_length} ids); "
            f"set it with --set data.max_length={encoder.max_length}"
        )
    if (
        objective.negatives
        and objective.view.needs_dropout
        and recipe.encoder.dropout is None
        and not encoder.has_dropout
    ):
        raise UserError(
            f"{model}: this backbone has no dropout, so both views of a sentence would be equal; "
            "set it with --set encoder.dropout=0.1 (or 0, to train on equal views all the same)"
        )
    if objective.needs.reads_lm_head:
        head = MaskedLMHead.load(locate(model), encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
        encoder.lm_head = head.to(encoder.device)
    objective.begin(encoder, batch_size=recipe.training.batch_size, seed=recipe.training.seed)
    if objective.needs.masked_rate is None:
        encoder.lm_head = None  # a part that reads it alone has a copy


def _settled_steps(folder: Path) -> int | None:
    """Steps of the run that was begun in ``folder``; None if there is none."""
    path = folder / "run.json"
    if not path.is_file():
        return None
    return int(json.loads(path.read_text(encoding="utf-8"))["steps"])


def _begin_run(folder: Path, plan: Plan, resume: bool) -> dict[str, Any]:
    """run.json: new, or on resume the old one after a check that it describes the same run."""
    path = folder / "run.json"
    identity = {
        "recipe": plan.recipe.model_dump(mode="json", exclude={"presets"}),
        "model": plan.model,
        "text": plan.corpus.fingerprint,
        "precision": plan.precision.name,
        "dev": plan.dev and f"{plan.dev.name}, {plan.dev.measure}",
    }
    if path.is_file():
        if not resume:
            raise UserError(f"{folder}: holds a run already; go on with --resume, or choose another --out")
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        before, now = flatten(record["identity"]), flatten(identity)
        for key in before.keys() | now.keys():
            if before.get(key) != now.get(key):
                raise UserError(
                    f"{folder}: cannot resume with another {key} ({before.get(key)!r} then, {now.get(key)!r} now); "
                    "start the new run in another --out"
                )
        return record
    record = {
        "schema_version": 1,
        "opencse": __version__,
        "started": datetime.now(UTC).replace(microsecond=0).isoformat(),
        "identity": identity,
        "source": plan.corpus.source,
        "corpus": asdict(plan.corpus),
        "steps": plan.steps,
        "environment": Environment.here(plan.device).model_dump(mode="json"),
    }
    write_json(path, record)
    return record


def _start_score(plan: Plan, record: dict[str, Any], folder: Path, tell: Reporter) -> DevScore | None:
    """Dev score of the start as training takes it up; also, noted and told, with its own pooling where that is another.

    The start is judged anew when a run goes on: others are compared with it. See `load_start` and `load_given`.
    """
    if plan.dev is None:
        return None
    start = plan.dev.begin(load_start(plan.recipe, plan.model, plan.device))
    if "start" not in record:
        given = load_given(plan.recipe, plan.model, plan.device)
        if given is not None:
            record["given"] = asdict(Given(str(given.pooling), plan.dev.score(given).value))
        record["start"] = asdict(replace(start, cosines=None))
        write_json(folder / "run.json", record)
    own = _given(record)
    tell.say(f"start      {start.value:.2f} on {plan.dev.name} ({plan.dev.measure})")
    if own is not None:
        tell.say(f"as given   {own.value:.2f} with its own pooling {own.pooling}; what is kept is held against both")
    return start


def _given(record: dict[str, Any]) -> Given | None:
    return Given(**record["given"]) if record.get("given") else None


def _finish(
    trainer: Trainer, history: History, plan: Plan, folder: Path, record: dict[str, Any], tell: Reporter
) -> TrainResult:
    encoder = trainer.encoder
    scores = history.scores
    if not scores and not plan.recipe.objective.negatives:
        kept, verdict = "last", _loss_verdict(trainer)
    elif plan.dev is None:
        kept, verdict = (
            "last",
            "no dev pairs: the last encoder is kept, and nothing tells whether it is better",
        )
    else:
        choice = _choose(trainer, history, plan.dev, plan, _given(record))
        kept, verdict = choice.kept, choice.verdict
    card = model_card(plan.recipe, plan.model, plan.corpus, kept, verdict)
    encoder.eval().save(folder / "last", card=card, masked_lm=_keeps_head(plan))
    kept_encoder = encoder
    if kept == "best":
        encoder.load_state_dict(trainer.best)
    elif kept != "last":
        kept_encoder = _untrained(plan, kept)
    if kept_encoder is not encoder and _keeps_head(plan):
        words = kept_encoder.backbone.get_input_embeddings()
        kept_encoder.lm_head = MaskedLMHead.load(locate(plan.model), cast(nn.Embedding, words))
    kept_encoder.save(folder, card=card, masked_lm=_keeps_head(plan))
    record["result"] = {"kept": kept, "verdict": verdict, "scores": scores, "steps": trainer.steps}
    record["finished"] = datetime.now(UTC).replace(microsecond=0).isoformat()
    write_json(folder / "run.json", record)
    remove_checkpoint(trainer.checkpoint_folder)
    tell.say(verdict)
    return TrainResult(folder, kept, verdict, scores)


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
    given = load_given(plan.recipe, plan.model, plan.device) if which == "given" else None
    return load_start(plan.recipe, plan.model, plan.device) if given is None else given


def _keeps_head(plan: Plan) -> bool:
    """Whether the masked-LM head is the result, as in pretraining, and not a help in training."""
    return not plan.recipe.objective.negatives and any(t.kind == "mlm" for t in plan.recipe.objective.terms)


def _loss_verdict(trainer: Trainer) -> str:
    losses = [line["loss"] for line in trainer.metrics.read() if "loss" in line]
    last = losses[-10:]
    mean = sum(last) / len(last)
    return f"loss {losses[0]:.3f} at the first step, {mean:.3f} over the last {len(last)} lines of the log"
