"""The main jobs as functions: `train` a model from text, `evaluate` any model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from opencse import __version__
from opencse.card import model_card
from opencse.encoder.backbone import dropout_rates
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.folder import has_own_pooling
from opencse.encoder.head import Dense
from opencse.encoder.locate import BUILTIN, locate
from opencse.encoder.masked_lm import MaskedLMHead
from opencse.errors import UserError
from opencse.evaluation import StsResult, evaluate_sts, load_sts, load_sts_hub, read_scored_pairs, write_json
from opencse.evaluation.result import Environment
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.recipe import Recipe, flatten, load_recipe
from opencse.text import sample
from opencse.text.corpus import CorpusFacts, tokenise
from opencse.text.readers import Source
from opencse.training.checkpoint import remove_checkpoint
from opencse.training.precision import Precision, choose_precision
from opencse.training.reporter import Reporter, Silent
from opencse.training.selection import Dev, History
from opencse.training.trainer import Trainer


@dataclass(frozen=True)
class TrainResult:
    """What a run ended with.

    Attributes:
        folder: holds the kept encoder; ``last/`` in it the encoder of the last step.
        kept: ``best`` (highest dev score), ``start`` (nothing beat it), or ``last`` (no dev pairs).
        verdict: the outcome in one sentence.
        scores: dev score (Spearman x 100) by step, 0 being the start; empty without dev pairs.
    """

    folder: Path
    kept: str
    verdict: str
    scores: dict[int, float]


@dataclass(frozen=True)
class Plan:
    """What a run would do, with reasons; printed before it starts."""

    recipe: Recipe
    model: str
    preset: str | None
    dev: Dev | None
    corpus: CorpusFacts
    examples: int
    steps: int
    steps_per_epoch: int
    batch_size: int
    hard: int
    negatives_per_anchor: int
    precision: Precision
    attention: str
    device: str
    parameters: int
    pooling: str

    def lines(self) -> list[str]:
        """The plan for a person."""
        facts, training = self.corpus, self.recipe.training
        share = f"{facts.duplicates:,} duplicate rows" if facts.duplicates else "no duplicate rows"
        masked = "equal texts of a batch are not each other's negatives" if (
            self.recipe.objective.mask_duplicates
        ) else "equal texts of a batch ARE negatives (objective.mask_duplicates = false)"  # fmt: skip
        documents = f", {facts.documents:,} documents" if facts.documents else ""
        preset = f"preset {self.preset}" if self.preset else "no preset for this model: the recipe's own settings"
        return [
            f"text       {facts.source}: {facts.rows:,} rows of {facts.width}{documents}, {share} ({masked})",
            f"tokens     {facts.tokens:,}; {facts.at_limit:,} texts reach the limit of {facts.max_length} and may be cut",
            f"model      {self.model}: {self.parameters / 1e6:.1f}M parameters, pooling {self.pooling}",
            f"recipe     {self.recipe.name} ({preset})",
            f"steps      {self.steps:,} of batch {self.batch_size} over {self.examples:,} examples "
            f"({self.steps / self.steps_per_epoch:.2f} epochs)",
            f"negatives  {self.negatives_per_anchor:,} per anchor"
            + (f", {self.hard} hard negative(s) an example" if self.hard else ""),
            f"compute    {self.device}, {self.precision.name} ({self.precision.reason}), attention {self.attention}",
            f"rate       {training.learning_rate:g}, {training.schedule} schedule, seed {training.seed}",
            "selection  "
            + (f"best on {self.dev.name} ({len(self.dev.pairs):,} pairs), every {training.evaluate_every} steps"
               if self.dev else "none: the last encoder is kept, and nothing tells whether it is better"),
        ]  # fmt: skip


@dataclass(frozen=True)
class _Prepared:
    plan: Plan
    encoder: SentenceEncoder
    objective: Objective
    inputs: InputBuilder


def train(
    text: str | Path | Source,
    out: str | Path,
    *,
    recipe: str | Recipe = "simcse",
    model: str = BUILTIN,
    preset: str | None = None,
    settings: Iterable[str] = (),
    dev: str | Path | None = "sample",
    resume: bool = False,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> TrainResult:
    """Trains a sentence encoder from text and keeps the best one, the start included.

    Args:
        text: a file, a Hub data set id, or a `Source` (with column names).
        out: folder for the kept encoder, ``last/``, ``metrics.jsonl`` and ``run.json``.
        recipe: a recipe's name, a TOML file, or a `Recipe`.
        model: the built-in encoder, a folder, a Hub id, or one of the recipe's presets.
        preset: settings of the recipe for a backbone, where ``model`` does not name one.
        settings: ``key.path=value`` each; they come last.
        dev: graded pairs to select on: a file, ``sample`` (the built-in ones), or None.
        resume: go on from the checkpoint in ``out``.
        device: where to run; a GPU if there is one.
        reporter: hears of progress and decisions; silent by default.

    Raises:
        UserError: for bad input, in one line.
        Interrupted: on Ctrl-C, after a checkpoint was written.
    """
    tell = reporter or Silent()
    folder = Path(out)
    prepared = _prepare(text, recipe, model, preset, settings, dev, device, tell)
    plan = prepared.plan
    for line in plan.lines():
        tell.say(line)
    record = _begin_run(folder, plan, resume)
    if record.get("result") is not None:
        result = record["result"]
        tell.say(f"this run had finished before: {result['verdict']}")
        return TrainResult(folder, result["kept"], result["verdict"], {int(k): v for k, v in result["scores"].items()})
    trainer = Trainer(
        encoder=prepared.encoder,
        objective=prepared.objective,
        inputs=prepared.inputs,
        settings=plan.recipe.training,
        precision=plan.precision,
        dev=plan.dev,
        folder=folder,
        reporter=tell,
        start_score=_start_score(plan, record, folder, tell),
    )
    started = time.perf_counter()
    history = trainer.run(resume=resume)
    record["seconds"] = round(time.perf_counter() - started, 1)
    return _finish(trainer, history, plan, folder, record, tell)


def plan(
    text: str | Path | Source,
    *,
    recipe: str | Recipe = "simcse",
    model: str = BUILTIN,
    preset: str | None = None,
    settings: Iterable[str] = (),
    dev: str | Path | None = "sample",
    device: str | None = None,
    reporter: Reporter | None = None,
) -> Plan:
    """What `train` would do with the same arguments; nothing is trained and nothing written but the token cache."""
    return _prepare(text, recipe, model, preset, settings, dev, device, reporter or Silent()).plan


def evaluate(
    model: str | Path | SentenceEncoder,
    data: str | Path,
    *,
    pooling: str | None = None,
    tasks: Sequence[str] | None = None,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> StsResult:
    """The seven STS tasks for any encoder (SimCSE, section 6.1 and appendix B).

    Text as it stands in ``data``, float32, cosine, Spearman x 100 over the concatenation of a year's subsets
    (``all``) beside ``mean`` and ``wmean``; texts are cut only at the model's own maximum length.

    Args:
        model: an encoder, or what `SentenceEncoder.load` takes.
        data: a folder with ``sts12`` ... ``sickr``, or ``hub``.
        pooling: replaces the model's own.
        tasks: some of the seven; all by default.
        device: where to run.
        reporter: hears of progress.
    """
    tell = reporter or Silent()
    sts = load_sts_hub(tasks) if str(data) == "hub" else load_sts(Path(data), tasks)
    if isinstance(model, SentenceEncoder):
        if pooling is not None:
            raise UserError("pooling is chosen when a model is loaded; give the folder, not the encoder")
        encoder, name = model, type(model.backbone).__name__
    else:
        encoder, name = SentenceEncoder.load(model, pooling=pooling, device=device), str(model)

    def encode(texts: Sequence[str]) -> Any:  # noqa: ANN401 - an array
        tell.start("encoding", len(texts))
        try:
            return encoder.encode(texts, progress=lambda done, _: tell.advance(done))
        finally:
            tell.finish()

    return evaluate_sts(encode, sts, model=name, pooling=str(encoder.pooling), device=str(encoder.device))


def load_dev(dev: str | Path | None) -> Dev | None:
    """The pairs to select on: ``sample`` for the built-in ones, a file, or None."""
    if dev is None or str(dev) == "none":
        return None
    if str(dev) == "sample":
        return Dev("the built-in sample's dev pairs", read_scored_pairs(sample.DEV))
    return Dev(str(dev), read_scored_pairs(Path(dev)))


def _prepare(
    text: str | Path | Source,
    recipe: str | Recipe,
    model: str,
    preset: str | None,
    settings: Iterable[str],
    dev: str | Path | None,
    device: str | None,
    tell: Reporter,
) -> _Prepared:
    source = text if isinstance(text, Source) else Source(str(text))
    if isinstance(recipe, str):
        preset = preset or load_recipe(recipe).preset_for(model)
        resolved = load_recipe(recipe, preset=preset, overrides=settings)
        if preset == model:
            model = resolved.presets[preset].model
    else:
        resolved = recipe
    pairs = load_dev(dev)
    encoder = _build_encoder(resolved, model, device)
    objective = Objective(resolved.objective).to(encoder.device)
    if objective.needs.masked_rate is not None:
        head = MaskedLMHead.load(locate(model), encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
        encoder.lm_head = head.to(encoder.device)
    if objective.view.needs_dropout and not any(dropout_rates(encoder.backbone.config).values()):
        raise UserError(
            f"{model}: this backbone has no dropout, so both views of a sentence would be equal; "
            "set it with --set encoder.dropout=0.1"
        )
    if resolved.data.max_length > encoder.max_length and resolved.data.max_length > 32:
        raise UserError(
            f"data.max_length {resolved.data.max_length} is beyond what {model} reads ({encoder.max_length} ids)"
        )
    length = min(resolved.data.max_length, encoder.max_length)
    corpus = tokenise(source, encoder.tokenizer, length, progress=_Counter(tell, "tokenising"))
    inputs = InputBuilder(corpus, encoder.tokenizer, objective, resolved.training.seed)
    steps_per_epoch = _steps_per_epoch(len(inputs), resolved, source)
    batch = min(resolved.training.batch_size, len(inputs))
    return _Prepared(
        Plan(
            recipe=resolved,
            model=model,
            preset=preset,
            dev=pairs,
            corpus=corpus.facts,
            examples=len(inputs),
            steps=resolved.training.steps(steps_per_epoch),
            steps_per_epoch=steps_per_epoch,
            batch_size=batch,
            hard=inputs.hard,
            negatives_per_anchor=objective.negatives_per_anchor(batch, inputs.hard),
            precision=choose_precision(resolved.training.precision, encoder.device),
            attention=str(encoder.backbone.config._attn_implementation),
            device=str(encoder.device),
            parameters=sum(p.numel() for p in encoder.parameters()),
            pooling=str(encoder.pooling),
        ),
        encoder,
        objective,
        inputs,
    )


class _Counter:
    """Progress of a counted job, started at its first report (a job served from the cache shows no bar)."""

    def __init__(self, tell: Reporter, what: str) -> None:
        self.tell, self.what, self.begun = tell, what, False

    def __call__(self, done: int, total: int) -> None:
        if not self.begun:
            self.tell.start(self.what, total)
            self.begun = True
        self.tell.advance(done)
        if done == total:
            self.tell.finish()


def _steps_per_epoch(examples: int, recipe: Recipe, source: Source) -> int:
    from opencse.text.batches import BatchPlan

    if examples < 2:
        raise UserError(f"{source.location}: one example only; contrast needs at least two")
    return BatchPlan(examples, recipe.training.batch_size, recipe.training.seed).steps_per_epoch


def _build_encoder(recipe: Recipe, model: str, device: str | None) -> SentenceEncoder:
    wanted = recipe.encoder
    encoder = SentenceEncoder.load(model, pooling=wanted.pooling, dropout=wanted.dropout, device=device)
    if wanted.head.kind == "mlp":
        generator = torch.Generator().manual_seed(recipe.training.seed)
        head = Dense.mlp_head(encoder.dimension, generator).to(encoder.device)
        if wanted.head.keep:
            encoder.dense.append(head)
        else:
            encoder.projection = head
    return encoder


def _begin_run(folder: Path, plan: Plan, resume: bool) -> dict[str, Any]:
    """run.json: new, or on resume the old one after a check that it describes the same run."""
    path = folder / "run.json"
    identity = {
        "recipe": plan.recipe.model_dump(mode="json", exclude={"presets"}),
        "model": plan.model,
        "text": plan.corpus.fingerprint,
        "precision": plan.precision.name,
        "dev": plan.dev.name if plan.dev else None,
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


def _start_score(plan: Plan, record: dict[str, Any], folder: Path, tell: Reporter) -> float | None:
    """Dev score of the model as it was given (plain transformers folders: with the recipe's pooling)."""
    if plan.dev is None:
        return None
    if "start_score" not in record:
        start = _load_start(plan)
        record["start_score"] = plan.dev.score(start)
        write_json(folder / "run.json", record)
    tell.say(f"start      {record['start_score']:.2f} on {plan.dev.name} (Spearman x 100)")
    return float(record["start_score"])


def _load_start(plan: Plan) -> SentenceEncoder:
    pooling = None if has_own_pooling(plan.model) else plan.recipe.encoder.pooling
    return SentenceEncoder.load(plan.model, pooling=pooling, device=plan.device)


def _finish(
    trainer: Trainer, history: History, plan: Plan, folder: Path, record: dict[str, Any], tell: Reporter
) -> TrainResult:
    encoder = trainer.encoder
    scores = history.scores
    if not scores:
        kept, verdict = "last", "no dev pairs: the last encoder is kept, and nothing tells whether it is better"
    else:
        kept, verdict = ("best" if history.best_step else "start"), history.verdict(trainer.steps)
    card = model_card(plan.recipe, plan.model, plan.corpus, kept, verdict)
    encoder.eval().save(folder / "last", card=card)
    if kept == "best":
        encoder.load_state_dict(trainer.best)
    kept_encoder = _load_start(plan) if kept == "start" else encoder
    kept_encoder.save(folder, card=card)
    record["result"] = {"kept": kept, "verdict": verdict, "scores": scores, "steps": trainer.steps}
    record["finished"] = datetime.now(UTC).replace(microsecond=0).isoformat()
    write_json(folder / "run.json", record)
    remove_checkpoint(trainer.checkpoint_folder)
    tell.say(verdict)
    return TrainResult(folder, kept, verdict, scores)
