"""Training: `train` an encoder from text, `pretrain` a backbone, `adapt` an encoder to documents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from opencse.commands.declared import Typed, command
from opencse.commands.shared import (
    Device,
    Fields,
    KeepIdenticalIds,
    OutFolder,
    Reads,
    Report,
    Reporter,
    RowColumns,
    Settings,
    SkipLines,
    Split,
    TextToRead,
    TrustRemoteCode,
)
from opencse.errors import InterruptedRunError, UserError
from opencse.processes import started
from opencse.progress import SILENT, Progress

if TYPE_CHECKING:
    from opencse.documents.dev_choice import Dev, DevChoice
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.making.backbone import Shape
    from opencse.recipes.recipe import Recipe
    from opencse.runs.finish import TrainResult
    from opencse.runs.run import Run
    from opencse.runs.setup import GivenSet
    from opencse.runs.start import NewStart
    from opencse.text.documents import GivenDocument
    from opencse.text.given import Text
    from opencse.training.callbacks import Callback


Resume = Annotated[
    "bool",
    Typed(
        "Continue from the checkpoint in --out.",
        said="continue from the checkpoint in ``out``; refused if the content of the start, the text or the dev data, "
        "or any setting, differs.",
    ),
]
Overwrite = Annotated[
    "bool", Typed("Replace the run or encoder in --out, from the first step on; other files there stay.")
]
DryRun = Annotated[
    "bool", Typed("Check everything, print the plan with an estimate of the time, and stop before training.")
]
Track = Annotated["str | None", Typed("Log to tensorboard or wandb too; metrics.jsonl is always written.")]
Callbacks = Annotated[
    "Sequence[Callback]",
    Typed(
        "called at steps, evaluations, checkpoints and the end; see `opencse.training.callbacks.Callback`.", hidden=True
    ),
]
RetrievalMetric = Annotated[
    "str | None", Typed("Measure of retrieval that --dev selects by: mrr@10, recall@100, ...; by default ndcg@10.")
]
VOCABULARY = 16_384


@command
def train(
    text: TextToRead,
    out: OutFolder,
    *,
    recipe: Annotated[
        str | Recipe,
        Typed("Recipe by name (opencse recipes) or TOML file; presets follow after colons.", ("--recipe", "-r")),
    ] = "simcse",
    model: Annotated[
        str | Path | SentenceEncoder,
        Typed("Model to start from: a folder, a Hub id, or a preset's name.", ("--model", "-m")),
    ] = "opencse-mini",
    preset: str | None = None,
    dev: Annotated[
        DevChoice,
        Typed(
            "Data that the best step is selected by: 'text' (questions from a held-out share of TEXT), 'auto' "
            "('text', or 'sample' where TEXT is small), 'sample' (150 built-in graded pairs), a file of graded "
            "pairs, a folder of queries with relevant documents (BEIR's layout), 'transfer:FOLDER' (mean dev "
            "accuracy of the transfer tasks in FOLDER), or 'none' (keep the last step)."
        ),
    ] = "auto",
    keep_identical_ids: KeepIdenticalIds = False,
    metric: RetrievalMetric = None,
    columns: RowColumns = None,
    fields: Fields = None,
    settings: Settings = (),
    skip_lines: SkipLines = (),
    also: Annotated[
        Sequence[Text | tuple[Text, str]],
        Typed(
            "A further text to train on, FILE or FILE=RECIPE; may be repeated. A batch is from one text at a time. "
            "It has the objective of RECIPE, else of the recipe's next [[datasets]] table, else of TEXT.",
            repeated=True,
        ),
    ] = (),
    report: Report = False,
    split: Split = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    track: Track = None,
    callbacks: Callbacks = (),
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
) -> TrainResult:
    """Trains a sentence encoder from text and keeps the best one on the dev pairs.

    The start is kept instead where it is better beyond chance; see `opencse.training.selection` and
    `opencse.training.questions`. A model with a pooling of its own keeps it; see
    `opencse.recipes.recipe.EncoderSettings`.

    Example:
        >>> import opencse
        >>> pairs = [("Is it late?", "What time is it?"), ("Tea?", "Some tea?")]
        >>> result = opencse.train(pairs, "my-model", recipe="simcse-supervised", dry_run=True)  # trains without it
        >>> result.plan[0].startswith("text       2 given pairs")
        True

    Args:
        text: a file, a Hub data set id, a `Source`, or a list of texts, pairs or triples.
        out: folder for the kept encoder, ``last/``, ``metrics.jsonl`` and ``run.json``; a new or empty one.
        recipe: a recipe's name or a TOML file, either with presets (``simcse:dropout-0.2``), or a `Recipe`.
        model: the built-in encoder, a folder, a Hub id, one of the recipe's presets, or a `SentenceEncoder`, which is
            written to ``out/start`` and not changed.
        preset: More presets of the recipe, joined by colons; the preset of --model is applied anyway.
        dev: data that the best step is selected by: ``text`` (questions from a held-out share of the text), ``auto``
            (``text``, or ``sample`` where the text is small), ``sample`` (built-in graded pairs), a file or a list of
            graded pairs (score, sentence, sentence), a folder of queries with relevant documents in BEIR's layout,
            ``transfer:FOLDER`` (mean dev accuracy of the transfer tasks there), or None (keep the last step).
        also: further texts to train on, each a text or (text, recipe): a batch is from one text at a time. A text has
            the objective of its recipe, or of the next ``[[datasets]]`` table of ``recipe``, or that of ``text``.

    Raises:
        TypeError: for an argument of another kind, naming it.
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    from opencse.documents.dev_choice import Dev
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.runs.folder import RunFolder
    from opencse.runs.run import Run
    from opencse.runs.setup import resolve_for_run
    from opencse.runs.start import GivenEncoder
    from opencse.text.given import open_texts

    chosen = Dev.of(dev, metric, keep_identical_ids=keep_identical_ids)
    _require_writable(out, resume, overwrite, chosen, recipe, text)
    encoder = GivenEncoder(model) if isinstance(model, SentenceEncoder) else None
    start = RunFolder.at(out).start if isinstance(model, SentenceEncoder) else model
    changes = tuple(settings)
    is_new = encoder is not None
    resolved = resolve_for_run(recipe, preset=preset, settings=changes, model=str(start), is_new=is_new)
    run = Run(
        text=open_texts(
            text,
            columns=columns,
            split=split,
            skip_lines=skip_lines,
            fields=fields,
            **how,
            labels=True,
            say=progress.say,
        ),
        recipe=resolved,
        model=str(start),
        dev=chosen,
        device=device,
        trust_remote_code=trust_remote_code,
        begin=encoder,
        also=tuple(_open_further(one) for one in also),
        callbacks=tuple(callbacks),
        track=track,
    )
    return _run_or_plan(run, out, resume, overwrite, dry_run, report, progress)


@command
def pretrain(
    text: Text,
    out: OutFolder,
    *,
    model: Annotated[str | Path | None, Typed(flags=("--model", "-m"))] = None,
    new_layers: Annotated[int, Typed(least=0)] = 0,
    vocabulary: int = VOCABULARY,
    shape: Annotated[Shape | None, Typed(hidden=True)] = None,
    recipe: Annotated[str | Recipe, Typed("Recipe by name or TOML file.", ("--recipe", "-r"))] = "pretrain",
    dev: Annotated[
        DevChoice,
        Typed("Graded pairs that the best step is selected by: a file, 'sample' (built in) or 'none'.", default="none"),
    ] = None,
    columns: RowColumns = None,
    fields: Fields = None,
    settings: Settings = (),
    skip_lines: SkipLines = (),
    report: Report = False,
    split: Split = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    track: Track = None,
    callbacks: Callbacks = (),
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
) -> TrainResult:
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
        text: raw text, in the forms that `opencse train` reads; the more the better.
        out: folder for the backbone, ``start/`` (a new one), ``last/``, ``metrics.jsonl`` and ``run.json``; a new or
            empty one.
        model: Encoder to continue from (domain adaptation), with a new masked-LM head where it has none; by default a
            new BERT.
        new_layers: Layers of --model, from the last on, that get random weights first.
        vocabulary: Size of the new vocabulary, at most.
        shape: size of the new backbone.
        recipe: how to train: a recipe without contrast.
        dev: graded pairs that the best step is selected by; by default none, and the last step is kept.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    from opencse.documents.dev_choice import Dev
    from opencse.making.backbone import Shape
    from opencse.model_folder.locate import locate
    from opencse.model_folder.reading import open_masked_lm
    from opencse.runs.folder import RunFolder
    from opencse.runs.run import Run
    from opencse.runs.setup import resolve_for_run
    from opencse.runs.start import NewBackbone, RenewedBackbone
    from opencse.text.given import open_texts

    chosen = Dev.of(dev)
    _require_writable(out, resume, overwrite, chosen, recipe, text)
    if model is not None and (shape is not None or vocabulary != VOCABULARY):
        raise UserError(f"shape and vocabulary are for a new backbone; leave them out with --model {model}")
    shape = shape or Shape()
    begin: NewStart | None = None
    if model is None:
        if new_layers:
            raise UserError("new_layers is for a model that exists: name it with --model, or leave --new-layers out")
        begin = NewBackbone(vocabulary, shape)
    elif new_layers or open_masked_lm(locate(str(model)), trust_remote_code=trust_remote_code)[1]:
        begin = RenewedBackbone(str(model), new_layers, trust_remote_code)
    start, changes = str(model if begin is None else RunFolder.at(out).start), tuple(settings)
    resolved = resolve_for_run(recipe, settings=changes, model=start, is_new=begin is not None)
    run = Run(
        text=open_texts(
            text,
            columns=columns,
            split=split,
            skip_lines=skip_lines,
            fields=fields,
            **how,
            labels=True,
            say=progress.say,
        ),
        recipe=resolved,
        model=start,
        dev=chosen,
        device=device,
        trust_remote_code=trust_remote_code,
        begin=begin,
        callbacks=tuple(callbacks),
        track=track,
    )
    recipe = resolved.recipe
    if recipe.objective.negatives:
        raise UserError(f"{recipe.name}: pretraining has no contrast (objective.negatives = []); see opencse train")
    longest = recipe.data.max_length
    if model is None and longest != "auto" and longest > shape.positions:
        raise UserError(
            f"data.max_length {longest} is above the {shape.positions} positions of the new "
            f"backbone; set --positions {longest} or --set data.max_length={shape.positions}"
        )
    return _run_or_plan(run, out, resume, overwrite, dry_run, report, progress)


@command
def adapt(
    corpus: Annotated[
        str | Path | Sequence[GivenDocument],
        Typed(
            "Documents: a file (one sentence per line with blank lines between documents; JSON or a table with title "
            "and text; Markdown, HTML, PDF, e-mail, ...), a folder of such files, or one in BEIR's layout."
        ),
    ],
    out: OutFolder,
    *,
    pairs: Annotated[
        Text | None,
        Typed(
            "Questions with texts that answer them, if you have any: a table of two columns, or a folder in BEIR's "
            "layout (its train judgements). They are trained on too, and some are held out to select by."
        ),
    ] = None,
    columns: Sequence[str] | None = None,
    questions: Annotated[
        Text | None,
        Typed(
            "Questions about CORPUS that a language model wrote: the file of opencse questions. They are trained on"
            " too; those about held-out documents select."
        ),
    ] = None,
    model: Annotated[str | Path, Typed(flags=("--model", "-m"))] = "opencse-small",
    continue_from: Annotated[
        str | Path | None,
        Typed(
            "Adapt this adapted model further, because the collection has grown: CORPUS is all of it as it is now. "
            "It learns from the new documents, and from as many rows of the others, and is compared on both.",
            ("--continue",),
        ),
    ] = None,
    teacher: Annotated[
        str | Path | None,
        Typed(
            "A stronger encoder, a folder or Hub id: what it says of your texts is imitated, which also teaches other "
            "words for the same. It reads each text once, before training."
        ),
    ] = None,
    recipe: Annotated[str, Typed(flags=("--recipe", "-r"))] = "adapt",
    dev: str | Path | None = "auto",
    keep_identical_ids: KeepIdenticalIds = False,
    metric: RetrievalMetric = None,
    fields: Fields = None,
    settings: Settings = (),
    report: Report = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    track: Track = None,
    callbacks: Callbacks = (),
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
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
        pairs: questions with texts that answer them, if there are any: a file, a `Source` or a list of pairs; or a
            folder in BEIR's layout, whose judgements called ``train`` are read.
        columns: The two columns of --pairs: question,answer. [default: anchor,positive]
        questions: questions that a language model wrote: the file of `opencse.questions`, or a list of question, answer
            and name of the document.
        model: Encoder to adapt: opencse-mini, a folder, a Hub id, or a preset's name.
        continue_from: a model that `adapt` wrote, to adapt further because the collection has grown: ``corpus`` is all
            of it as it is now.
        recipe: Recipe by name (opencse recipes) or TOML file.
        dev: Data that the best step is selected by: 'text' (questions about held-out documents), 'auto' ('text', or
            'sample' where the documents are few), a folder of your queries with their relevant documents (BEIR's
            layout), a file of graded pairs, 'sample' (150 built-in graded pairs), 'transfer:FOLDER' (mean dev accuracy
            of the transfer tasks there), or 'none' (keep the last step).

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    from opencse.documents.adaptation import AdaptationSources, plan_adaptation
    from opencse.documents.advice import CHOSEN, RECIPE
    from opencse.documents.dev_choice import Dev
    from opencse.documents.hybrid import fit_with_model
    from opencse.model_folder.locate import SMALL, locate
    from opencse.recipes.overrides import as_toml
    from opencse.recipes.recipe import resolve_recipe
    from opencse.runs.finish import after_kill
    from opencse.runs.folder import RunFolder
    from opencse.runs.run import Run
    from opencse.text.values import rows_of

    if not isinstance(corpus, str | Path):
        corpus = rows_of(corpus, "corpus is a path, or a list of texts or of (title, text)")
    chosen = Dev.of(dev, metric, keep_identical_ids=keep_identical_ids)
    _require_writable(out, resume, overwrite, chosen, recipe, corpus, pairs, questions)
    start = str(model)
    if continue_from is not None:
        if model != SMALL:
            raise UserError(f"--continue starts from {continue_from}; leave --model out")
        start = str(continue_from)
    of_preset = resolve_recipe(recipe, model=start).model
    locate(of_preset or start)  # a typing mistake is reported before the corpus is read, which may take long
    changes, presets = tuple(settings), CHOSEN if recipe == RECIPE else (None,)
    if teacher is not None:
        locate(str(teacher))
        term = as_toml({"kind": "imitate", "teacher": str(teacher)}, "teacher")
        changes = (f"objective.terms.imitate={term}", *changes)
    _require_settings(recipe, presets, changes, start)
    sources = AdaptationSources(
        corpus=corpus,
        fields=fields,
        **how,
        pairs=pairs,
        columns=columns,
        questions=questions,
    )
    adaptation = plan_adaptation(
        sources,
        model=start,
        continues=continue_from is not None,
        recipe=recipe,
        dev=chosen,
        folder=Path(out),
        taught=teacher is not None,
        progress=progress,
    )
    run = Run(
        text=adaptation.text,
        recipe=recipe,
        model=start,
        preset=adaptation.preset,
        settings=changes,
        dev=adaptation.dev,
        device=device,
        trust_remote_code=trust_remote_code,
        callbacks=(adaptation, *callbacks),
        track=track,
    )
    result = _run_or_plan(run, out, resume, overwrite, dry_run, report, progress)
    if result.kept != "none" and started().first:
        try:
            fit_with_model(
                result.folder,
                adaptation.queries,
                device=device,
                trust_remote_code=trust_remote_code,
                progress=progress,
            )
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(RunFolder(result.folder))) from None
    return result


def _open_further(argument: Text | tuple[Text, str]) -> GivenSet:
    """Opens a further text, with the recipe that it is given with: ``FILE=RECIPE`` or (text, recipe)."""
    from opencse.text.given import open_texts

    text, recipe = argument if isinstance(argument, tuple) and len(argument) == 2 else (argument, None)
    if isinstance(text, str) and recipe is None and not os.path.lexists(text):
        location, equals, name = text.rpartition("=")
        text, recipe = (location, name) if equals else (text, None)
        if equals and not (location and name):
            raise UserError(f"--also {argument}: FILE=RECIPE is expected, for instance wiki.txt=simcse; or FILE alone")
    return open_texts(text, labels=True), None if recipe is None else str(recipe)


def _run_or_plan(
    run: Run,
    out: str | Path,
    resume: bool,
    overwrite: bool,
    dry_run: bool,
    report: bool,
    progress: Progress,
) -> TrainResult:
    """Trains and writes the report; with ``dry_run`` only plans it."""
    from opencse.commands.finishing import can_draw_report
    from opencse.runs.finish import TrainResult, after_kill
    from opencse.runs.folder import REPORT, RunFolder
    from opencse.training.callbacks import require_tracker

    if run.track is not None:
        require_tracker(run.track)
    report = report and can_draw_report(progress)
    if dry_run:
        plan = run.dry_run(out, resume=resume, overwrite=overwrite, progress=progress)
        return TrainResult(Path(out), "none", "a dry run: nothing was trained", {}, plan)
    result = run.train(out, resume=resume, overwrite=overwrite, progress=progress)
    if report and started().first and not (result.folder / REPORT).is_file():
        from opencse.runs.report import write_run_report

        try:
            progress.say(f"report     {write_run_report(run, result, progress)}")
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(RunFolder(result.folder))) from None
    return result


def _require_writable(
    out: str | Path, resume: bool, overwrite: bool, dev: Dev, recipe: str | Recipe, *inputs: object
) -> None:
    """Refuses a folder that the run may not be written to, and missing dev data, before anything is read."""
    from opencse.outputs import paths_of
    from opencse.runs.folder import RunFolder

    if not started().first:
        return
    dev.require()
    recipe_file = recipe if isinstance(recipe, str) and recipe.endswith(".toml") else None
    read = paths_of(dev.source, recipe_file, *inputs)
    RunFolder.at(out).require(resume=resume, overwrite=overwrite, start=None, read=read)


def _require_settings(recipe: str, presets: Iterable[str | None], settings: tuple[str, ...], model: str) -> None:
    """Refuses settings that suit the recipe with none of the presets, before a text is read, which may take long."""
    from opencse.runs.setup import resolve_for_run

    faults: list[UserError] = []
    for preset in presets:
        try:
            resolve_for_run(recipe, preset=preset, settings=settings, model=model)
            return
        except UserError as error:
            faults.append(error)
    raise faults[0]
