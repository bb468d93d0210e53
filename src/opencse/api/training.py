"""Training: `train` an encoder from text, `pretrain` a backbone, `adapt` an encoder to documents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from opencse.adapting.adaptation import plan_adaptation
from opencse.adapting.adaptation_texts import AdaptationSources
from opencse.adapting.dev_choice import dev_path, require_dev
from opencse.adapting.preset_names import CHOSEN, RECIPE
from opencse.adapting.selection_by_questions import QuestionSelector
from opencse.api.adaptation_run import FilesOfAdaptation, StartAdvice, fit_with_model
from opencse.api.declaring import defaults_of, public
from opencse.api.finishing import can_draw_report
from opencse.api.options.training import AdaptOptions, PretrainOptions, RunOptions, TrainOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError
from opencse.making.backbone import Shape
from opencse.model_folder.locate import BUILTIN, locate
from opencse.model_folder.masked_lm import open_masked_lm
from opencse.outputs import paths_of
from opencse.processes import started
from opencse.progress import Silent
from opencse.recipes.recipe import resolve_recipe
from opencse.runs.best_so_far import after_kill
from opencse.runs.data_sets import GivenSet
from opencse.runs.finish import TrainResult
from opencse.runs.folder import REPORT, RunFolder
from opencse.runs.job import TrainJob
from opencse.runs.new_start import GivenEncoder, NewBackbone, NewStart, RenewedBackbone
from opencse.runs.resolving import require_settings
from opencse.runs.trackers import require_tracker
from opencse.text.documents import GivenDocument
from opencse.text.files.kinds import how_read
from opencse.text.given import Text, TextSource, open_texts
from opencse.text.in_memory import rows_of
from opencse.training.callbacks import Callback


@public
def train(text: Text, out: str | Path, **options: Unpack[TrainOptions]) -> TrainResult:
    """Trains a sentence encoder from text and keeps the best one on the dev pairs.

    The start is kept instead where it is better beyond chance; see `opencse.adapting.selection_by_graded_pairs` and
    `opencse.adapting.selection_by_questions`. A model with a pooling of its own keeps it; see
    `opencse.recipes.encoder_settings.EncoderSettings`.

    Example:
        >>> import opencse
        >>> pairs = [("Is it late?", "What time is it?"), ("Tea?", "Some tea?")]
        >>> result = opencse.train(pairs, "my-model", recipe="simcse-supervised", dry_run=True)  # trains without it
        >>> result.plan.lines()[0].startswith("text       2 given pairs")
        True

    Args:
        text: a file, a Hub data set id, a `Source`, or a list of texts, pairs or triples.
        out: folder for the kept encoder, ``last/``, ``metrics.jsonl`` and ``run.json``; a new or empty one.
        **options: see `TrainOptions`.

    Raises:
        TypeError: for an argument of another kind, naming it.
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    _require_path(out, "out")
    _require_writable(out, options, text)
    model = options["model"]
    encoder = GivenEncoder(model) if isinstance(model, SentenceEncoder) else None
    start = RunFolder.at(out).start if isinstance(model, SentenceEncoder) else model
    _require_path(start, "model")
    settings, preset = _settings(options["settings"]), options["preset"]
    require_settings(
        options["recipe"], presets=(preset,), settings=settings, model=str(start), is_new=encoder is not None
    )
    job = TrainJob(
        text=_open_texts(text, options),
        recipe=options["recipe"],
        model=str(start),
        preset=preset,
        settings=settings,
        dev=options["dev"],
        device=options["device"],
        trust_remote_code=options["trust_remote_code"],
        begin=encoder,
        metric=options["metric"],
        keep_identical_ids=options["keep_identical_ids"],
        also=tuple(_open_further(one) for one in options["also"]),
    )
    return _run_or_plan(job, out, options)


@public
def pretrain(text: Text, out: str | Path, **options: Unpack[PretrainOptions]) -> TrainResult:
    """Masked-language-model pretraining of a new BERT, or of ``model`` on your domain; the head is kept with it.

    Without ``model``, a WordPiece vocabulary is learned from the text and a BERT with random weights is written to
    ``out/start``; then it is trained like any other model, with only the masked-LM term. A ``model`` without a
    masked-LM head (an encoder that was tuned on sentences) gets a new one, and its last ``new_layers`` layers can be
    drawn again; that start is written to ``out/start`` too, as a plain folder without the model's pooling.

    Example:
        >>> import opencse
        >>> from opencse.making.backbone import Shape
        >>> shape = Shape(layers=1, hidden=32, heads=2, inner=64, positions=32)
        >>> texts = ["The kettle boils.", "Snow fell on the hills.", "A dog barks at night."] * 20
        >>> settings = ["data.max_length=32"]
        >>> result = opencse.pretrain(texts, "my-bert", vocabulary=120, shape=shape, settings=settings, dry_run=True)
        >>> result.verdict
        'a dry run: nothing was trained'

    Args:
        text: see `train`.
        out: folder for the backbone, ``start/`` (a new one), ``last/``, ``metrics.jsonl`` and ``run.json``; a new or
            empty one.
        **options: see `PretrainOptions`.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    _require_path(out, "out")
    _require_writable(out, options, text)
    model, vocabulary = options["model"], options["vocabulary"]
    if model is not None:
        _require_path(model, "model")
        if options["shape"] is not None or vocabulary != defaults_of(PretrainOptions)["vocabulary"]:
            raise UserError(f"shape and vocabulary are for a new backbone; leave them out with --model {model}")
    shape = options["shape"] or Shape()
    new_layers, trust = options["new_layers"], options["trust_remote_code"]
    begin: NewStart | None = None
    if model is None:
        if new_layers:
            raise UserError("new_layers is for a model that exists: name it with --model, or leave --new-layers out")
        begin = NewBackbone(vocabulary, shape)
    elif new_layers or open_masked_lm(locate(str(model)), trust_remote_code=trust)[1]:
        begin = RenewedBackbone(str(model), new_layers, trust)
    start, settings = str(model if begin is None else RunFolder.at(out).start), _settings(options["settings"])
    require_settings(options["recipe"], settings=settings, model=start, is_new=begin is not None)
    job = TrainJob(
        text=_open_texts(text, options),
        recipe=options["recipe"],
        model=start,
        preset=None,
        settings=settings,
        dev=options["dev"],
        device=options["device"],
        trust_remote_code=trust,
        begin=begin,
    )
    recipe = job.resolved.recipe
    if recipe.objective.negatives:
        raise UserError(f"{recipe.name}: pretraining has no contrast (objective.negatives = []); see opencse train")
    longest = recipe.data.max_length
    if model is None and longest != "auto" and longest > shape.positions:
        raise UserError(
            f"data.max_length {longest} is above the {shape.positions} positions of the new "
            f"backbone; set --positions {longest} or --set data.max_length={shape.positions}"
        )
    return _run_or_plan(job, out, options)


@public
def adapt(
    corpus: str | Path | Sequence[GivenDocument], out: str | Path, **options: Unpack[AdaptOptions]
) -> TrainResult:
    """Adapts an encoder to documents, without labels, and keeps the one that answers questions about them best.

    Titles with their texts are pairs, a sentence and the next are pairs, and sentences without any order are trained on
    by themselves. A share of the documents is held out; questions about them, with answers from the text itself, select
    among the steps, averages of their weights and the start's (Wortsman et al. 2022), and the start. The verdict names
    the gain on those questions; only real queries can show whether real queries gain as much.

    ``pairs``, questions with their answers, are added to all this: each pair up to thirty times as often as a pair of
    the documents. Where that makes 30 questions, a tenth to a fifth of them (by the hash of their texts) is held out,
    and they select together with the questions about documents. ``questions``, which `opencse.questions` wrote, are
    trained on too; those about held-out documents select.

    Example:
        >>> import opencse
        >>> documents = [
        ...     ("Kettles", "A kettle boils water. It has a lid. Steam comes out."),
        ...     ("Snow", "Snow fell on the hills. It was cold. Children played."),
        ... ]
        >>> result = opencse.adapt(documents, "my-model", dev=None, dry_run=True)  # adapts without it
        >>> result.verdict
        'a dry run: nothing was trained'

    Args:
        corpus: a file of any kind (see the guide "Files that are read"): one sentence per line with blank lines between
            documents (``.txt``), ``title`` and ``text`` (JSON, or a table), Markdown, HTML, PDF, a mailbox, ...; a
            folder of such files (each section under a heading is a document); or a folder in BEIR's layout, of which
            ``corpus.jsonl`` alone is read; or a list of texts, or of (title, text).
        out: folder for the kept encoder; a new or empty one.
        **options: see `AdaptOptions`.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    if not isinstance(corpus, str | Path):
        corpus = rows_of(corpus, "corpus is a path, or a list of texts or of (title, text)")
    _require_path(out, "out")
    _require_path(options["model"], "model")
    _require_writable(out, options, corpus, options["pairs"], options["questions"])
    model = _start_of(options)
    of_preset = resolve_recipe(options["recipe"], model=model).model
    locate(of_preset or model)  # a typing mistake is reported before the corpus is read, which may take long
    settings, presets = _settings(options["settings"]), CHOSEN if options["recipe"] == RECIPE else (None,)
    require_settings(options["recipe"], presets=presets, settings=settings, model=model)
    sources = AdaptationSources(
        corpus=corpus,
        fields=options["fields"],
        **how_read(options),
        pairs=options["pairs"],
        columns=options["columns"],
        questions=options["questions"],
    )
    adaptation = plan_adaptation(
        sources,
        model=model,
        continues=options["continue_from"] is not None,
        recipe=options["recipe"],
        dev=options["dev"],
        metric=options["metric"],
        progress=options["progress"] or Silent(),
    )
    job = TrainJob(
        text=adaptation.text,
        recipe=options["recipe"],
        model=model,
        preset=adaptation.preset,
        settings=settings,
        dev=adaptation.dev,
        metric=adaptation.metric,
        keep_identical_ids=options["keep_identical_ids"],
        device=options["device"],
        trust_remote_code=options["trust_remote_code"],
    )
    files = FilesOfAdaptation(Path(out), adaptation, options)
    further: list[Callback] = [files]
    if isinstance(adaptation.dev, QuestionSelector) and model != BUILTIN and options["continue_from"] is None:
        further.append(StartAdvice(adaptation.dev.questions, options["progress"] or Silent()))
    result = _run_or_plan(job, out, options, *further)
    if result.kept != "none" and started().first:
        try:
            fit_with_model(
                result.folder,
                files.queries,
                device=options["device"],
                trust_remote_code=options["trust_remote_code"],
                progress=options["progress"] or Silent(),
            )
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(RunFolder(result.folder))) from None
    return result


def _start_of(options: AdaptOptions) -> str:
    """The model that `adapt` starts from: ``model``, or the adapted one that it continues."""
    earlier, model = options["continue_from"], options["model"]
    if earlier is None:
        return str(model)
    _require_path(earlier, "continue_from")
    if model != defaults_of(AdaptOptions)["model"]:
        raise UserError(f"--continue starts from {earlier}; leave --model out")
    return str(earlier)


def _open_further(argument: Text | tuple[Text, str]) -> GivenSet:
    """Opens a further text, with the recipe that it is given with: ``FILE=RECIPE`` or (text, recipe)."""
    text, recipe = argument if isinstance(argument, tuple) and len(argument) == 2 else (argument, None)
    if isinstance(text, str) and recipe is None and not os.path.lexists(text):
        location, equals, name = text.rpartition("=")
        text, recipe = (location, name) if equals else (text, None)
        if equals and not (location and name):
            raise UserError(f"--also {argument}: FILE=RECIPE is expected, for instance wiki.txt=simcse; or FILE alone")
    return open_texts(text, labels=True), None if recipe is None else str(recipe)


def _open_texts(text: Text, options: TrainOptions | PretrainOptions) -> TextSource:
    progress = options["progress"]
    return open_texts(
        text,
        columns=options["columns"],
        split=options["split"],
        skip_lines=options["skip_lines"],
        fields=options["fields"],
        **how_read(options),
        labels=True,
        say=None if progress is None else progress.say,
    )


def _run_or_plan(job: TrainJob, out: str | Path, options: RunOptions, *further: Callback) -> TrainResult:
    """Runs ``job`` and writes its report; with ``dry_run`` only plans it.

    Args:
        job: the run.
        out: its folder.
        options: of the user.
        further: callbacks in addition to those of the user.
    """
    callbacks, progress = options["callbacks"], options["progress"] or Silent()
    resume, overwrite = options["resume"], options["overwrite"]
    if not isinstance(callbacks, Sequence) or not all(isinstance(one, Callback) for one in callbacks):
        raise TypeError("callbacks is a list of objects derived from opencse.training.callbacks.Callback")
    if options["track"] is not None:
        require_tracker(options["track"])
    job = replace(job, callbacks=(*further, *callbacks), track=options["track"])
    report = options["report"] and can_draw_report(progress)
    if options["dry_run"]:
        plan = job.dry_run(out, resume=resume, overwrite=overwrite, progress=progress)
        return TrainResult(Path(out), "none", "a dry run: nothing was trained", {}, plan)
    result = job.run(out, resume=resume, overwrite=overwrite, progress=progress)
    if report and started().first and not (result.folder / REPORT).is_file():
        from opencse.runs.report import write_run_report

        try:
            progress.say(f"report     {write_run_report(job, result, progress)}")
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(RunFolder(result.folder))) from None
    return result


def _require_writable(out: str | Path, options: TrainOptions | PretrainOptions | AdaptOptions, *inputs: object) -> None:
    """Refuses a folder that the run may not be written to, and missing dev data, before anything is read."""
    if not started().first:
        return
    dev, recipe = options["dev"], options["recipe"]
    require_dev(dev)
    recipe_file = recipe if isinstance(recipe, str) and recipe.endswith(".toml") else None
    read = paths_of(dev_path(dev), recipe_file, *inputs)
    RunFolder.at(out).require(resume=options["resume"], overwrite=options["overwrite"], start=None, read=read)


def _require_path(value: object, name: str) -> None:
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} is a path, not {type(value).__name__}")


def _settings(settings: Iterable[str]) -> tuple[str, ...]:
    changes = tuple(settings)
    if isinstance(settings, str) or not all(isinstance(setting, str) for setting in changes):
        raise TypeError('settings is a list of "key.path=value"')
    return changes
