"""The plan of a run, printed before it starts: data, model, steps, batch and selection, with reasons."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from opencse.adapting.selection import Selector
from opencse.adapting.selection_by_questions import QuestionSelector
from opencse.encoder.fingerprint import hash_model
from opencse.environment import Environment
from opencse.foreign import code_notice
from opencse.kernels.precision import Precision
from opencse.modules.prompts import Prompts, Role
from opencse.modules.token_weights import TokenWeights
from opencse.numerals import number_of
from opencse.objective.identity import code_of_parts, hash_named_models
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.recipes.recipe import Recipe
from opencse.runs.data_sets import PreparedSet, fingerprint_of_texts
from opencse.runs.record import Identity, RunRecord, TextCounts
from opencse.text.corpus import CorpusFacts
from opencse.training.mixture import MixingPlan

_MOST_SHOWN = 12
_NEAR_REPEATS = ("row that nearly repeats", "rows that nearly repeat")
_WEIGHED = "rare tokens weigh more in the mean (encoder.token_weights = idf) of all candidates but the start"


@dataclass(frozen=True)
class Plan:
    """Everything that a run does, as decided before its first step."""

    recipe: Recipe
    model: str
    preset: str | None
    dev: Selector | None
    corpus: CorpusFacts
    examples: int
    steps: int
    batches_per_epoch: int
    batch_size: int
    tokens_per_step: int
    hard: int
    reads_hard: bool
    negatives_per_anchor: int
    precision: Precision
    attention: str
    device: str
    parameters: int
    trained: int
    pooling: str
    code: tuple[str, ...] = ()
    pooling_reason: str = ""
    chunks: Chunks = WHOLE
    chunks_reason: str = ""
    near_duplicates: int | None = None
    sample: tuple[int, int] | None = None
    token_weights: TokenWeights | None = None
    replaced: tuple[str, ...] = ()
    bounded: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    prompts: Prompts = field(default_factory=Prompts)
    others: tuple[PreparedSet, ...] = ()
    mixture: MixingPlan | None = None
    seconds_per_step: float | None = None

    def lines(self) -> list[str]:
        """The plan in lines, for the user."""
        facts, training = self.corpus, self.recipe.training
        preset = f"preset {self.preset}" if self.preset else "no preset for this model: the recipe's own settings"
        epochs = self.steps * training.accumulate / self.batches_per_epoch
        part = self.recipe.encoder.part and f", its {self.recipe.encoder.part}"
        return [
            f"text       {self._text()}",
            *(
                [f"near       {number_of(self.near_duplicates, *_NEAR_REPEATS)} an earlier one, left out"]
                if self.near_duplicates is not None
                else []
            ),
            *(f"doubt      {line}" for line in self.doubts),
            *self._labels(self.corpus, self.recipe.data.scale),
            *self._data_sets(),
            *self._sample(),
            f"tokens     {facts.tokens:,}; {number_of(facts.at_limit, 'text reaches', 'texts reach')} the limit of "
            f"{facts.max_length} ids",
            f"model      {self.model}{part}: {self.parameters / 1e6:.1f}M parameters, pooling {self.pooling}",
            *([f"pooling    {self.pooling}: {self.pooling_reason}"] if self.pooling_reason else []),
            *self._prompts(),
            *([f"weights    {_WEIGHED}"] if self.token_weights is not None else []),
            *self._adapters(),
            *([code_notice(self.code)] if self.code else []),
            f"recipe     {self.recipe.name} ({preset})",
            *(f"setting    {line}" for line in self.replaced),
            f"steps      {self.steps:,} of {self._batch()}; "
            f"{self._examples()} are {number_of(self.batches_per_epoch, 'batch')} per epoch, so {epochs:.2f} epochs",
            *(f"limit      {line}" for line in self.bounded),
            *self._passes(),
            *self._chunks(),
            f"negatives  {self._negatives()}",
            f"compute    {self.device}, {self.precision.name} ({self.precision.reason}), attention {self.attention}",
            f"rate       {training.rate_in_words}, {training.seeds_in_words}",
            f"selection  {self._selection()}",
            *self._time(),
        ]

    def identity(self) -> Identity:
        """The values that make it this run, for `RunRecord`."""
        return Identity(
            recipe=self._settings(),
            model=self.model,
            text=self._fingerprint(),
            precision=self.precision.name,
            dev=self.dev.name if self.dev else None,
            code=list(self.code) or None,
            start=hash_model(self.model),
            dev_pairs=self.dev.fingerprint() if self.dev else None,
            parts=code_of_parts(self.recipe),
            models=hash_named_models(self.recipe),
        )

    def _text(self) -> str:
        facts = self.corpus
        documents = f", {number_of(facts.documents, 'document')}" if facts.documents else ""
        duplicates = number_of(facts.duplicates, "duplicate row") if facts.duplicates else "no duplicate rows"
        if self.recipe.objective.mask_duplicates:
            equal_texts = " (equal texts in a batch are not each other's negatives)" if facts.duplicates else ""
        else:
            equal_texts = "; equal texts in a batch ARE negatives (objective.mask_duplicates = false)"
        return (
            f"{facts.source}: {number_of(facts.rows, 'row')} of {number_of(facts.width, 'text')}{documents}, "
            f"{duplicates}{equal_texts}"
        )

    def _negatives(self) -> str:
        if not self.recipe.objective.negatives:
            return "none: the objective has terms only, no contrast"
        hard = f", {self.hard} hard per example" if self.hard else ""
        if self.reads_hard and not self.hard:
            hard = "; the data has no hard negatives"
        return f"{self.negatives_per_anchor:,} per anchor{hard}"

    def _selection(self) -> str:
        training = self.recipe.training
        if self.dev is None:
            no_averages = training.average_with_start != (1.0,)
            return "none: the last encoder is kept, and nothing shows whether it is better" + (
                " (so there are no averages with the start)" if no_averages else ""
            )
        evaluated = "step" if training.evaluate_every == 1 else f"{training.evaluate_every} steps"
        of = {"first": "", "second": " of the second encoder", "better": " of both encoders"}
        best = f"best{of[self.recipe.objective.saved_encoder]}"
        ends = ""
        if training.patience is not None:
            ends = f"; training ends after {number_of(training.patience, 'evaluation')} without gain"
        return f"{best} on {self.dev.name} ({self.dev.size}), every {evaluated}{ends}"

    def _settings(self) -> dict[str, Any]:
        """Every setting; of data sets, not where their files are."""
        settings = self.recipe.model_dump(mode="json", exclude={"presets"})
        for one in settings["datasets"] or ():
            one["data"] = None
        return settings

    def _fingerprint(self) -> str:
        """A hash of all texts and of how they are read."""
        return fingerprint_of_texts([self.corpus.fingerprint, *(one.facts.fingerprint for one in self.others)])

    def record(self) -> RunRecord:
        """The record of the run at its beginning."""
        return RunRecord(
            identity=self.identity(),
            source=self.corpus.source,
            corpus=TextCounts(**asdict(self.corpus)),
            examples=self.examples,
            steps=self.steps,
            environment=Environment.here(self.device),
            measure=self.dev.measure if self.dev else None,
        )

    def _time(self) -> list[str]:
        """How long the steps take, where that was measured."""
        if self.seconds_per_step is None:
            return []
        count = self.steps // self.recipe.training.evaluate_every + 1
        evaluations = "" if self.dev is None else f", and {number_of(count, 'evaluation')}"
        minutes = self.steps * self.seconds_per_step / 60
        time = number_of(round(minutes), "minute") if minutes >= 1.5 else number_of(round(60 * minutes), "second")
        each = f"{self.seconds_per_step:.2g} s each, measured"
        return [f"time       about {time} for the steps on this machine ({each}){evaluations}"]

    def _data_sets(self) -> list[str]:
        """The further data sets, and how they are mixed."""
        if self.mixture is None:
            return []
        lines = []
        for one, steps in zip(self.others, self.mixture.steps[1:], strict=True):
            lines.append(f"also       {one.line(steps, one.data_set.inputs.corpus.width)}")
            lines += self._labels(one.facts, one.settings.scale)
        turns = "in turns" if self.mixture.rule == "round_robin" else "by proportion, in an order drawn every epoch"
        return [
            *lines,
            f"mixing     {turns}: {number_of(self.mixture.steps[0], 'step')} of the text per epoch; one data set a "
            "step",
        ]

    @staticmethod
    def _labels(facts: CorpusFacts, scale: float | None) -> list[str]:
        """What label the rows have, where they have any."""
        if facts.scale is not None:
            divided = "as they are" if facts.scale == 1 else f"the file's, divided by {facts.scale:g}"
            reason = "set by scale" if scale is not None else "the largest in the file"
            return [f"labels     scores from 0 to 1: {divided}" + ("" if facts.scale == 1 else f" ({reason})")]
        if facts.classes:
            names = ", ".join(facts.classes[:_MOST_SHOWN]) + ", ..." * (len(facts.classes) > _MOST_SHOWN)
            return [f"labels     {number_of(len(facts.classes), 'class')}: {names}"]
        return []

    def _examples(self) -> str:
        if not self.others:
            return number_of(self.examples, "example")
        total = self.examples + sum(len(one.data_set.inputs) for one in self.others)
        return f"{number_of(total, 'example')} of {1 + len(self.others)} data sets"

    def _prompts(self) -> list[str]:
        """The prompts before the texts of each column, where the model has any."""
        if not self.prompts:
            return []
        before = self.prompts.columns.of(self.corpus.width)
        quoted = [repr(prompt) if prompt else "none" for prompt in before]
        line = f"before every text: {quoted[0]}"
        if len(set(quoted)) > 1:
            line = f"before the first text of a row: {quoted[0]}; before the others: {quoted[1]}"
        in_search = self.prompts.of(Role.QUERY), self.prompts.of(Role.DOCUMENT)
        if isinstance(self.dev, QuestionSelector) and before[:2] != in_search:
            line += f"; selection uses {self.prompts.line(Role.QUERY, Role.DOCUMENT)}"
        return [f"prompts    {line}{self.prompts.note}"]

    def _sample(self) -> list[str]:
        """How many rows are trained on, where these are drawn from more."""
        if self.sample is None:
            return []
        drawn, rows = self.sample
        return [f"sample     {drawn:,} of {rows:,} rows, drawn by data.sample_seed {self.recipe.data.sample_seed}"]

    def _adapters(self) -> list[str]:
        lora = self.recipe.encoder.lora
        return (
            [] if lora is None else [f"adapters   {lora}: {self.trained:,} parameters are trained, the rest is frozen"]
        )

    def _passes(self) -> list[str]:
        worst_case = self.recipe.training.worst_case
        return (
            []
            if worst_case is None
            else [f"passes     two per step, the second at worst-case weights ({worst_case.kind})"]
        )

    def _chunks(self) -> list[str]:
        """How the rows of a step are encoded, where they are not encoded all at once."""
        chunks, world = self.chunks, self.chunks.world
        lines = []
        if chunks.rows is not None:
            lines.append(
                f"chunks     {number_of(chunks.rows, 'text')} encoded at a time, to save memory ({self.chunks_reason})"
            )
        elif self.chunks_reason:
            lines.append(f"chunks     none ({self.chunks_reason})")
        if world.several:
            lines.append(f"processes  {world.count}, each encodes a share of every batch")
        return lines

    def _batch(self) -> str:
        batches = self.recipe.training.accumulate
        if self.recipe.training.batch_tokens is not None:
            return f"about {self.tokens_per_step:,} tokens, texts of similar length"
        return f"batch {self.batch_size}" + (f" x {batches}, each contrasted separately" if batches > 1 else "")
