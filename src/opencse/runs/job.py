"""A training job: what was asked for -> a plan with reasons -> a run -> the kept encoder."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from torch import nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_model
from opencse.encoder.locate import BUILTIN, locate
from opencse.encoder.masked_lm import MaskedLMHead
from opencse.errors import UserError
from opencse.evaluation.result import Environment
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.part import Context
from opencse.objective.vectors.masked import LmHead, Masked
from opencse.objective.vectors.sentences import HardNegatives
from opencse.objective.views.base import ChangesTokens
from opencse.recipes.recipe import Recipe, resolve_recipe
from opencse.runs.begin import NewStart
from opencse.runs.card import model_card
from opencse.runs.folder import RunFolder, require_makeable
from opencse.runs.plan import Plan
from opencse.runs.record import Identity, Outcome, RunRecord, TextCounts, now
from opencse.runs.start import Start, build_encoder, load_given, load_start, settle
from opencse.selection.chosen import AUTO, DevChoice, load_selector
from opencse.selection.score import Choice, DevScore, Given, History, Selector
from opencse.text.batches import Batches
from opencse.text.corpus import tokenise
from opencse.text.given import TextSource
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

    text: TextSource
    recipe: str | Recipe = "simcse"
    model: str = BUILTIN
    preset: str | None = None
    settings: tuple[str, ...] = ()
    dev: DevChoice = AUTO
    device: str | None = None
    trust_remote_code: bool = False
    begin: NewStart | None = None
    metric: str | None = None

    def resolve(self) -> tuple[Recipe, str, str | None]:
        """The recipe with presets and settings applied, the model's name, and the presets, joined by colons."""
        return self._asked()[:3]

    def start(self) -> Start:
        """The start, with the recipe's pooling and head as they will be; see `opencse.runs.start.settle`.

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
        encoder = build_encoder(recipe, model, self.device, self.trust_remote_code)
        objective = Objective.from_settings(recipe.objective).to(encoder.device)
        _check_and_complete(encoder, objective, recipe, model, self.trust_remote_code)
        corpus = tokenise(
            self.text,
            encoder.tokenizer,
            recipe.data.max_length,
            words=isinstance(objective.view, ChangesTokens),
            progress=Counted(reporter, "tokenising"),
            say=reporter.say,
        )
        pool = "choose another pooling, for instance with --set encoder.pooling=mean"
        require_sound(encoder, probes_of(corpus), f"{model}, untrained", pool)
        left_out = None if dev is None else dev.left_out
        inputs = InputBuilder(corpus, encoder.tokenizer, objective, recipe.training.seed, left_out)
        if len(inputs) < 2:
            raise UserError(f"{self.text.location}: one example only; contrast needs at least two")
        batches = plan_batches(inputs, recipe.training)
        _begin(encoder, objective, batches, recipe.training.seed)
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
            reads_hard=HardNegatives() in objective.reads,
            negatives_per_anchor=objective.negatives_per_anchor(batches.batch_size, inputs.hard),
            precision=precision,
            attention=str(encoder.backbone.config._attn_implementation),
            device=str(encoder.device),
            parameters=sum(p.numel() for p in encoder.parameters()),
            pooling=str(encoder.pooling),
            code=encoder.own_code,
            pooling_reason=start.reason,
        )
        return Prepared(plan, encoder, objective, inputs, batches)

    def dry_run(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, reporter: Reporter | None = None
    ) -> Plan:
        """What `run` would do, after the same checks; nothing is written but the token cache.

        Raises:
            UserError: as `run` would.
        """
        tell = reporter or Silent()
        folder = RunFolder.at(out)
        folder.require(resume=resume, overwrite=overwrite, start=self._start_folder())
        require_makeable(folder.path)
        record = folder.record() if resume and folder.record_file.is_file() else None
        with TemporaryDirectory() as elsewhere:
            plan = self._prepare(tell, record, Path(elsewhere)).plan
            if record is not None:
                folder.require_same(record, _identity(plan))
        return plan

    def run(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, reporter: Reporter | None = None
    ) -> TrainResult:
        """Trains; see `opencse.run.train`."""
        tell = reporter or Silent()
        folder = RunFolder.at(out)
        with folder.held(tell, resume=resume, overwrite=overwrite, start=self._start_folder()) as record:
            keep_freed_memory()
            prepared = self._prepare(tell, record, folder.staged_start)
            plan = prepared.plan
            for line in plan.lines():
                tell.say(line)
            if record is None:
                record = folder.begin(lambda: _new_record(plan))
            else:
                identity = _identity(plan)
                folder.require_same(record, identity)
                record.identity = identity
            return self._train(prepared, folder, record, resume, tell)

    def _train(
        self, prepared: Prepared, folder: RunFolder, record: RunRecord, resume: bool, tell: Reporter
    ) -> TrainResult:
        plan, before = prepared.plan, record.result
        if before is not None:
            tell.say(f"this run had finished before: {before.verdict}")
            return TrainResult(folder.path, before.kept, before.verdict, before.scores)
        trainer = Trainer(
            encoder=prepared.encoder,
            objective=prepared.objective,
            inputs=prepared.inputs,
            batches=prepared.batches,
            steps=plan.steps,
            settings=plan.recipe.training,
            precision=plan.precision,
            dev=plan.dev,
            folder=folder.path,
            reporter=tell,
            start=_start_score(plan, record, folder, tell),
        )
        started = time.perf_counter()
        history = trainer.run(resume=resume)
        record.seconds = round(time.perf_counter() - started, 1)
        return _finish(trainer, history, plan, folder, record, tell)

    def _prepare(self, tell: Reporter, record: RunRecord | None, staged: Path) -> Prepared:
        """`prepare`; a new start is made at ``staged`` first, unless the run of ``record`` has its own."""
        if self.begin is None:
            return self.prepare(tell, steps=None if record is None else record.steps)
        if record is not None:
            self.begin.require_same(Path(self.model))
            return self.prepare(tell, steps=record.steps)
        self.begin.write(self.text, staged, self.resolve()[0].training.seed, tell)
        prepared = replace(self, model=str(staged)).prepare(tell)
        return replace(prepared, plan=replace(prepared.plan, model=self.model))

    def _start_folder(self) -> Path | None:
        """The folder that training starts from, if it was there before."""
        folder = Path(self.resolve()[1])
        return folder if self.begin is None and folder.is_dir() else None


def _check_and_complete(
    encoder: SentenceEncoder, objective: Objective, recipe: Recipe, model: str, trust_remote_code: bool
) -> None:
    """Refuses what could not work, and adds the masked-LM head if a term reads it."""
    if recipe.data.max_length > encoder.max_length:
        raise UserError(
            f"data.max_length {recipe.data.max_length} is beyond what {model} reads ({encoder.max_length} ids); "
            f"set it with --set data.max_length={encoder.max_length}"
        )
    own_dropout = recipe.encoder.dropout is None
    objective.check(Context(objective, encoder=encoder, model=model, own_dropout=own_dropout))
    heads = [request for request in objective.reads if isinstance(request, LmHead)]
    if heads:
        words = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
        tied = all(head.tied for head in heads)
        head = MaskedLMHead.load(locate(model), words, tied=tied, trust_remote_code=trust_remote_code)
        encoder.lm_head = head.to(encoder.device)


def _begin(encoder: SentenceEncoder, objective: Objective, batches: Batches, seed: int) -> None:
    """Lets the parts make what they keep, for batches as large as the text allows."""
    objective.begin(encoder, batch_size=batches.batch_size, seed=seed)
    if not any(isinstance(request, Masked) for request in objective.reads):
        encoder.lm_head = None  # a part that reads it alone has a copy


def _identity(plan: Plan) -> Identity:
    return Identity(
        recipe=plan.recipe.model_dump(mode="json", exclude={"presets"}),
        model=plan.model,
        text=plan.corpus.fingerprint,
        precision=plan.precision.name,
        dev=plan.dev.name if plan.dev else None,
        code=list(plan.code) or None,
        start=hash_model(plan.model),
        dev_pairs=plan.dev.fingerprint() if plan.dev else None,
    )


def _new_record(plan: Plan) -> RunRecord:
    return RunRecord(
        identity=_identity(plan),
        source=plan.corpus.source,
        corpus=TextCounts(**asdict(plan.corpus)),
        steps=plan.steps,
        environment=Environment.here(plan.device),
    )


def _start_score(plan: Plan, record: RunRecord, folder: RunFolder, tell: Reporter) -> DevScore | None:
    """Dev score of the start as training takes it up; also, noted and told, with its own pooling where that is another.

    The start is judged anew when a run goes on: others are compared with it. See `load_start` and `load_given`.
    """
    if plan.dev is None:
        return None
    trusted = bool(plan.code)
    start = plan.dev.begin(load_start(plan.recipe, plan.model, plan.device, trusted))
    if record.start is None:
        given = load_given(plan.recipe, plan.model, plan.device, trusted)
        if given is not None:
            record.given = Given(str(given.pooling), plan.dev.score(given).value)
        record.start = replace(start, cosines=None)
        folder.write(record)
    own = record.given
    tell.say(f"start      {start.value:.2f} on {plan.dev.name} ({plan.dev.measure})")
    if own is not None:
        tell.say(f"as given   {own.value:.2f} with its own pooling {own.pooling}; what is kept is held against both")
    return start


def _finish(
    trainer: Trainer, history: History, plan: Plan, folder: RunFolder, record: RunRecord, tell: Reporter
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
        choice = _choose(trainer, history, plan.dev, plan, record.given)
        kept, verdict = choice.kept, choice.verdict
    card = model_card(plan.recipe, plan.model, plan.corpus, kept, verdict)
    encoder.eval().save(folder.last, card=card, masked_lm=_keeps_head(plan))
    kept_encoder = encoder
    if kept == "best":
        encoder.load_state_dict(trainer.best)
    elif kept != "last":
        kept_encoder = _untrained(plan, kept)
    if kept_encoder is not encoder and _keeps_head(plan):
        words = cast(nn.Embedding, kept_encoder.backbone.get_input_embeddings())
        kept_encoder.lm_head = MaskedLMHead.load(locate(plan.model), words, trust_remote_code=bool(plan.code))
    kept_encoder.save(folder.path, card=card, masked_lm=_keeps_head(plan))
    record.result = Outcome(kept=kept, verdict=verdict, scores=scores, steps=trainer.steps)
    record.finished = now()
    folder.write(record)
    folder.remove_checkpoints()
    tell.say(verdict)
    return TrainResult(folder.path, kept, verdict, scores)


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
    given = load_given(plan.recipe, plan.model, plan.device, bool(plan.code)) if which == "given" else None
    return load_start(plan.recipe, plan.model, plan.device, bool(plan.code)) if given is None else given


def _keeps_head(plan: Plan) -> bool:
    """Whether the masked-LM head is the result, as in pretraining, and not a help in training."""
    return not plan.recipe.objective.negatives and any(t.kind == "mlm" for t in plan.recipe.objective.terms)


def _loss_verdict(trainer: Trainer) -> str:
    losses = [line["loss"] for line in trainer.metrics.read() if "loss" in line]
    last = losses[-10:]
    mean = sum(last) / len(last)
    return f"loss {losses[0]:.3f} at the first step, {mean:.3f} over the last {len(last)} lines of the log"
