"""The plan of a run, printed before it starts: data, model, steps, batch and selection, with reasons."""

from __future__ import annotations

import math

from opencse.foreign import code_notice
from opencse.kernels.states import ON_GPU
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.objective.vectors.requests import HardNegatives
from opencse.runs.setup import RunSetup
from opencse.text.corpus import CorpusFacts
from opencse.training.questions import Questions
from opencse.training.schedule import DataSet
from opencse.training.step import why_not_recorded

_MOST_SHOWN = 12
_NEAR_REPEATS = ("row that nearly repeats", "rows that nearly repeat")
_WEIGHED = "rare tokens weigh more in the mean (encoder.token_weights = idf) of all candidates but the start"


def plan_of(run: RunSetup, seconds_per_step: float | None) -> list[str]:
    """The plan of a run that is opened, in lines; with the time that its steps take if that was measured."""
    recipe, encoder, facts, training = run.start.recipe, run.encoder, run.facts, run.start.recipe.training
    settings, near, preset = recipe.encoder, run.sets[0].near_duplicates, run.resolved.preset
    presets = f"preset {preset}" if preset else "no preset for this model: the recipe's own settings"
    epochs = run.steps * training.accumulate / run.batches_per_epoch
    part, pooling = settings.part and f", its {settings.part}", str(encoder.pooling)
    parameters = sum(p.numel() for p in encoder.parameters())
    lines = [f"text       {_text(run)}"]
    if near is not None:
        lines.append(f"near       {number_of(near, *_NEAR_REPEATS)} an earlier one, left out")
    lines += [f"doubt      {line}" for one in run.sets for line in one.objective.view.doubts(one.inputs.corpus)]
    lines += [*_labels(facts, recipe.data.scale), *_data_sets(run)]
    if run.sample is not None:
        drawn, rows = run.sample
        lines.append(f"sample     {drawn:,} of {rows:,} rows, drawn by data.sample_seed {recipe.data.sample_seed}")
    lines += [
        f"tokens     {facts.tokens:,}; {number_of(facts.at_limit, 'text reaches', 'texts reach')} the limit of "
        f"{facts.max_length} ids",
        f"model      {run.start_model}{part}: {parameters / 1e6:.1f}M parameters, pooling {pooling}",
    ]
    if run.start.reason:
        lines.append(f"pooling    {pooling}: {run.start.reason}")
    lines += _prompts(run)
    if run.weighs:
        lines.append(f"weights    {_WEIGHED}")
    if settings.lora is not None:
        trained = sum(p.numel() for p in encoder.parameters() if p.requires_grad)
        lines.append(f"adapters   {settings.lora}: {trained:,} parameters are trained, the rest is frozen")
    if encoder.own_code:
        lines.append(code_notice(encoder.own_code))
    lines += [
        f"recipe     {recipe.name} ({presets})",
        *(f"setting    {line}" for line in run.resolved.replaced),
        f"steps      {run.steps:,} of {_batch(run)}; {_examples(run)} are "
        f"{number_of(run.batches_per_epoch, 'batch')} per epoch, so {epochs:.2f} epochs",
        *(f"limit      {line}" for line in _bounded_settings(run)),
    ]
    if training.worst_case is not None:
        lines.append(f"passes     two per step, the second at worst-case weights ({training.worst_case.kind})")
    lines += [
        *_chunks(run),
        f"negatives  {_negatives(run)}",
        f"compute    {encoder.device}, {run.precision.name} ({run.precision.reason}), attention {_attention(run)}",
        f"rate       {training.rate_in_words}, {training.seeds_in_words}",
        f"selection  {_selection(run)}",
    ]
    if seconds_per_step is not None:
        lines.append(_time(run, seconds_per_step))
    return lines


def _text(run: RunSetup) -> str:
    facts = run.facts
    documents = f", {number_of(facts.documents, 'document')}" if facts.documents else ""
    duplicates = number_of(facts.duplicates, "duplicate row") if facts.duplicates else "no duplicate rows"
    equal_texts = "; equal texts in a batch ARE negatives (objective.mask_duplicates = false)"
    if run.start.recipe.objective.mask_duplicates:
        equal_texts = " (equal texts in a batch are not each other's negatives)" if facts.duplicates else ""
    return (
        f"{facts.source}: {number_of(facts.rows, 'row')} of {number_of(facts.width, 'text')}{documents}, "
        f"{duplicates}{equal_texts}"
    )


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


def _data_sets(run: RunSetup) -> list[str]:
    """The further data sets, and how they are mixed."""
    if run.mixture is None:
        return []
    lines = []
    for one, further, steps in zip(run.sets[1:], run.texts[1:], run.mixture.steps[1:], strict=True):
        lines.append(f"also       {_data_set(one, steps)}")
        lines += _labels(one.inputs.corpus.facts, further.settings.scale)
    turns = "in turns" if run.mixture.rule == "round_robin" else "by proportion, in an order drawn every epoch"
    text = number_of(run.mixture.steps[0], "step")
    return [*lines, f"mixing     {turns}: {text} of the text per epoch; one data set a step"]


def _data_set(one: DataSet, steps: int) -> str:
    objective, facts, width = one.objective, one.inputs.corpus.facts, one.inputs.corpus.width
    parts = [objective.view.kind, *(part.kind for part in (*objective.negatives, *objective.terms))]
    near = "" if one.near_duplicates is None else f", {number_of(one.near_duplicates, 'near duplicate')} left out"
    return (
        f"{one.name}: {facts.source}, {number_of(facts.rows, 'row')} of {number_of(width, 'text')}{near}; "
        f"{number_of(steps, 'step')} of batch {one.batches.batch_size} per epoch; objective {' + '.join(parts)}"
    )


def _prompts(run: RunSetup) -> list[str]:
    """The prompts before the texts of each column, where the model has any."""
    prompts = run.encoder.prompts
    if not prompts:
        return []
    before = prompts.columns.of(run.facts.width)
    quoted = [repr(prompt) if prompt else "none" for prompt in before]
    line = f"before every text: {quoted[0]}"
    if len(set(quoted)) > 1:
        line = f"before the first text of a row: {quoted[0]}; before the others: {quoted[1]}"
    in_search = prompts.of(Role.QUERY), prompts.of(Role.DOCUMENT)
    if isinstance(run.selector, Questions) and before[:2] != in_search:
        line += f"; selection uses {prompts.line(Role.QUERY, Role.DOCUMENT)}"
    return [f"prompts    {line}{prompts.note}"]


def _batch(run: RunSetup) -> str:
    training = run.start.recipe.training
    if training.batch_tokens is not None:
        tokens = int(run.inputs.lengths.sum()) // run.batches.steps_per_epoch * training.accumulate
        return f"about {tokens:,} tokens, texts of similar length"
    batches = f" x {training.accumulate}, each contrasted separately" if training.accumulate > 1 else ""
    return f"batch {run.batches.batch_size}{batches}"


def _examples(run: RunSetup) -> str:
    total = number_of(sum(len(one.inputs) for one in run.sets), "example")
    return total if len(run.sets) == 1 else f"{total} of {len(run.sets)} data sets"


def _chunks(run: RunSetup) -> list[str]:
    """How the rows of a step are encoded, where they are not encoded all at once."""
    lines, rows = [], run.chunks.rows
    if rows is not None:
        lines.append(f"chunks     {number_of(rows, 'text')} encoded at a time, to save memory ({run.chunks_reason})")
    elif run.chunks_reason:
        lines.append(f"chunks     none ({run.chunks_reason})")
    if run.world.several:
        lines.append(f"processes  {run.world.count}, each encodes a share of every batch")
    return lines


def _negatives(run: RunSetup) -> str:
    if not run.objective.negatives:
        return "none: the objective has terms only, no contrast"
    hard = f", {run.inputs.hard} hard per example" if run.inputs.hard else ""
    if HardNegatives() in run.objective.reads and not hard:
        hard = "; the data has no hard negatives"
    return f"{run.objective.negatives_per_anchor(run.batches.batch_size, run.inputs.hard):,} per anchor{hard}"


def _attention(run: RunSetup) -> str:
    """What computes the forward pass, and whether steps on a GPU are recorded, or why not."""
    training = run.start.recipe.training
    if run.encoder.computation not in ON_GPU:
        return run.attention
    if not training.graphs:
        return f"{run.attention}, steps not recorded (training.graphs = false)"
    obstacles = (why_not_recorded(one.objective, training, run.chunks) for one in run.sets)
    obstacle = next(filter(None, obstacles), None)
    return f"{run.attention}, steps {'recorded' if obstacle is None else f'not recorded ({obstacle})'}"


def _selection(run: RunSetup) -> str:
    training, selector = run.start.recipe.training, run.selector
    if selector is None:
        averages = " (so there are no averages with the start)" if training.average_with_start != (1.0,) else ""
        return f"none: the last encoder is kept, and nothing shows whether it is better{averages}"
    of = {"first": "", "second": " of the second encoder", "better": " of both encoders"}
    evaluated = "after the last step"
    if training.evaluate_every < run.steps:
        evaluated = "every step" if training.evaluate_every == 1 else f"every {training.evaluate_every} steps"
        if training.patience is not None:
            evaluated += f"; training ends after {number_of(training.patience, 'evaluation')} without gain"
    if training.shares != (1.0,):
        shares = ", ".join(f"{share:.0%}" for share in training.shares)
        evaluated += f"; shares of the trained weights that are tried: {shares}"
    saved = of[run.objective.saved_encoder]
    return f"best{saved} by {selector.measure} on {selector.name} ({selector.size}), {evaluated}"


def _time(run: RunSetup, seconds_per_step: float) -> str:
    count = run.steps // run.start.recipe.training.evaluate_every + 1
    evaluations = "" if run.selector is None else f", and {number_of(count, 'evaluation')}"
    minutes = run.steps * seconds_per_step / 60
    time = number_of(round(minutes), "minute") if minutes >= 1.5 else number_of(round(60 * minutes), "second")
    each = f"{seconds_per_step:.2g} s each, measured"
    return f"time       about {time} for the steps on this machine ({each}){evaluations}"


def _bounded_settings(run: RunSetup) -> list[str]:
    """A line for each setting of the user that does less than its value says, because of the data or another one."""
    training, explicit, steps = run.start.recipe.training, run.resolved.user_keys, run.steps
    examples, batch_size = len(run.inputs), run.batches.batch_size
    lines = []
    most, allowed = training.max_steps, number_of(steps, "step")
    if most is not None and most > steps and "training.max_steps" in explicit:
        epochs = math.ceil(most * training.accumulate / run.batches_per_epoch)
        why = f"training.epochs = {training.epochs:g} allows {allowed}; set training.epochs = {epochs:,} for {most:,}"
        if training.minutes is not None or training.tokens is not None:
            why = f"the budget of minutes or tokens allows {allowed}; raise it"
        lines.append(f"training.max_steps = {most:,} is not reached: {why}")
    if training.batch_tokens is None and training.batch_size > batch_size:
        lines.append(
            f"training.batch_size = {training.batch_size:,} is more than the {examples:,} examples: all are in one "
            "batch"
        )
    if steps > 1 and run.selector is not None and training.evaluate_every >= steps:
        lines.append(
            f"training.evaluate_every = {training.evaluate_every:,} is not less than the {steps:,} steps: the last "
            f"step alone is evaluated; --set training.evaluate_every={max(1, steps // 4)} compares several"
        )
    return lines
