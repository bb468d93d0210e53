"""Training: `train` an encoder from text, `pretrain` a backbone, `adapt` an encoder to documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from opencse.adapting.adaptation import RECIPE, plan_adaptation
from opencse.adapting.dev_choice import AUTO, NONE, SAMPLE, TEXT, DevChoice
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import missing_packages
from opencse.errors import InterruptedRunError, UserError, plain_failures
from opencse.foreign import checks_trust
from opencse.making.backbone import Shape
from opencse.model_folder.locate import BUILTIN
from opencse.outputs import paths_of
from opencse.processes import started
from opencse.progress import Progress, Silent
from opencse.recipes.recipe import Recipe
from opencse.runs.best_so_far import after_kill
from opencse.runs.finish import TrainResult
from opencse.runs.folder import REPORT, RunFolder
from opencse.runs.job import TrainJob
from opencse.runs.start import GivenEncoder, NewBackbone
from opencse.runs.trackers import require_tracker
from opencse.text.documents import GivenDocument
from opencse.text.given import Text, open_texts
from opencse.training.callbacks import Callback

VOCABULARY = 16_384
"""Pieces of a new vocabulary."""


@plain_failures
@checks_trust
def train(
    text: Text,
    out: str | Path,
    *,
    recipe: str | Recipe = "simcse",
    model: str | Path | SentenceEncoder = BUILTIN,
    preset: str | None = None,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    skip_lines: Collection[int] = (),
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    settings: Iterable[str] = (),
    dev: DevChoice = "auto",
    metric: str | None = None,
    keep_identical_ids: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    report: bool = False,
    callbacks: Sequence[Callback] = (),
    track: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> TrainResult:
    """Trains a sentence encoder from text and keeps the best one on the dev pairs.

    The start is kept instead where it is better beyond chance; see `opencse.adapting.selection_by_graded_pairs` and
    `opencse.adapting.selection_by_questions`. A model with a pooling of its own keeps it; see
    `opencse.recipes.recipe.EncoderSettings`.

    Args:
        text: a file, a Hub data set id, a `Source`, or a list of texts, pairs or triples.
        out: folder for the kept encoder, ``last/``, ``metrics.jsonl`` and ``run.json``; a new or empty one.
        recipe: a recipe's name or a TOML file, either with presets (``simcse:dropout-0.2``), or a `Recipe`.
        model: the built-in encoder, a folder, a Hub id, one of the recipe's presets, or a `SentenceEncoder`, which is
            written to ``out/start`` and stays as it is.
        preset: more presets, joined by colons; the one for ``model`` is applied without being named.
        columns: of a file or data set, one to three: anchor, positive, negative; by name, or (without header) by
            position from 1.
        split: of a Hub data set; ``train`` by default.
        skip_lines: line numbers of a file to leave out, from 1.
        fields: what a file calls its documents' title and text, or the text alone: their sentences are read as running
            text. Nested keys have dots: ``["meta.title", "body.text"]``. Not with ``columns``, whose texts are taken as
            they are.
        keep_code: keep code blocks of HTML and Markdown.
        settings: ``key.path=value`` each; they come last.
        dev: what the best is chosen by: ``text`` (questions from a share of the text that is held out), ``auto`` (that
            where the text is large enough, else ``sample``), ``sample`` (built-in graded pairs), a file or a list of
            graded pairs (score, sentence, sentence), a folder of queries with relevant documents in BEIR's layout, or
            None.
        metric: by which answers to questions are scored: ``ndcg@10`` (by default), ``mrr@10``, ``recall@100``, ...
        keep_identical_ids: of a folder of queries: rank a document with the query's own id also where it is not judged
            relevant; by default it is left out, as the query itself.
        resume: go on from the checkpoint in ``out``; refused if the content of the start, the text or the dev pairs,
            or any setting, is another than it was.
        overwrite: put the new run in place of a run or encoder of this library in ``out``; other files there stay.
        dry_run: check everything and return the plan; nothing is written, and nothing trained.
        report: write ``report.html`` at the end: what training changed; needs ``opencse[train]``, and is left out with
            a word where that is not installed.
        callbacks: hear of steps, evaluations, checkpoints and the end; see `opencse.training.callbacks.Callback`.
        track: ``tensorboard`` or ``wandb``: every line of ``metrics.jsonl`` goes there too.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        progress: hears of progress and decisions, for instance `opencse.progress.Terminal`; silent by default.

    Raises:
        TypeError: for an argument of another kind, naming it.
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    _require_path(out, "out")
    _require_own(out, resume, overwrite, dev, recipe, text)
    own = GivenEncoder(model) if isinstance(model, SentenceEncoder) else None
    start = RunFolder.at(out).start if own is not None else model
    _require_path(start, "model")
    job = TrainJob(
        text=open_texts(
            text,
            columns=columns,
            split=split,
            skip_lines=skip_lines,
            fields=fields,
            keep_code=keep_code,
            say=None if progress is None else progress.say,
        ),
        recipe=recipe,
        model=str(start),
        preset=preset,
        settings=_settings(settings),
        dev=dev,
        device=device,
        trust_remote_code=trust_remote_code,
        begin=own,
        metric=metric,
        keep_identical_ids=keep_identical_ids,
    )
    return _carry_out(_heard(job, callbacks, track), out, resume, overwrite, dry_run, report, progress)


@plain_failures
@checks_trust
def pretrain(
    text: Text,
    out: str | Path,
    *,
    model: str | Path | None = None,
    vocabulary: int = VOCABULARY,
    shape: Shape | None = None,
    recipe: str | Recipe = "pretrain",
    columns: Sequence[str] | None = None,
    split: str | None = None,
    skip_lines: Collection[int] = (),
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    settings: Iterable[str] = (),
    dev: DevChoice = None,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    report: bool = False,
    callbacks: Sequence[Callback] = (),
    track: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> TrainResult:
    """Masked-language-model pretraining of a new BERT, or of ``model`` on your domain; the head is kept with it.

    Without ``model``, a WordPiece vocabulary is learned from the text and a BERT with random weights is written to
    ``out/start``; from there on it is a training run like any other, with the masked-LM term alone.

    Args:
        text: see `train`.
        out: folder for the backbone, ``start/`` (a new one), ``last/``, ``metrics.jsonl`` and ``run.json``; a new or
            empty one.
        model: the backbone to go on from (with its masked-LM head); None makes a new one.
        vocabulary: pieces of the new vocabulary.
        shape: size of the new backbone.
        recipe: how to train; an objective without contrast.
        columns: see `train`; so are ``split``, ``skip_lines``, ``fields`` and ``keep_code``.
        split: of a Hub data set.
        skip_lines: of a file.
        fields: of a file's documents.
        keep_code: keep code blocks of HTML and Markdown.
        settings: ``key.path=value`` each, for instance ``training.minutes=90`` or ``training.tokens=70_000_000``.
        dev: graded pairs to follow and select on; by default none, and the last weights are kept.
        resume: see `train`.
        overwrite: see `train`.
        dry_run: see `train`.
        report: see `train`.
        callbacks: see `train`.
        track: see `train`.
        device: where to run.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        progress: hears of progress and decisions.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    _require_path(out, "out")
    _require_own(out, resume, overwrite, dev, recipe, text)
    if model is not None:
        _require_path(model, "model")
        if shape is not None or vocabulary != VOCABULARY:
            raise UserError(f"shape and vocabulary are of a new backbone; leave them out with the model {model}")
    size = shape or Shape()
    begin = NewBackbone(vocabulary, size) if model is None else None
    job = TrainJob(
        text=open_texts(
            text,
            columns=columns,
            split=split,
            skip_lines=skip_lines,
            fields=fields,
            keep_code=keep_code,
            say=None if progress is None else progress.say,
        ),
        recipe=recipe,
        model=str(model or RunFolder.at(out).start),
        preset=None,
        settings=_settings(settings),
        dev=dev,
        device=device,
        trust_remote_code=trust_remote_code,
        begin=begin,
    )
    asked = job.resolved.recipe
    if asked.objective.negatives:
        raise UserError(f"{asked.name}: pretraining has no contrast (objective.negatives = []); see opencse train")
    longest = asked.data.max_length
    if begin is not None and longest != "auto" and longest > size.positions:
        raise UserError(
            f"data.max_length {longest} is beyond the {size.positions} positions of the new "
            f"backbone; set --positions {longest} or --set data.max_length={size.positions}"
        )
    return _carry_out(_heard(job, callbacks, track), out, resume, overwrite, dry_run, report, progress)


@plain_failures
@checks_trust
def adapt(
    corpus: str | Path | Sequence[GivenDocument],
    out: str | Path,
    *,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
    pairs: Text | None = None,
    columns: Sequence[str] | None = None,
    model: str | Path = BUILTIN,
    recipe: str = RECIPE,
    settings: Iterable[str] = (),
    dev: str | Path | None = "auto",
    metric: str | None = None,
    keep_identical_ids: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    report: bool = False,
    callbacks: Sequence[Callback] = (),
    track: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> TrainResult:
    """Adapts an encoder to documents, without labels: trains on what their order gives, keeps what answers best.

    Titles with their texts are pairs, a sentence and the next are pairs, and sentences without any order are trained on
    by themselves. A share of the documents is held out; questions about them, whose answers the text itself knows,
    choose among the steps, averages of their weights and the start's (Wortsman et al. 2022), and the start. What is
    kept is told with its gain on those questions; whether real queries gain as much, only real queries can tell.

    With ``pairs``, questions with their answers, both are trained on: each pair up to ten times as often as a pair of
    the documents. A tenth to a fifth of them (by the hash of their texts) is held out and asked about instead, where
    that makes 100 questions.

    Args:
        corpus: a file of any kind (see the guide "Files that are read"): one sentence per line with blank lines between
            documents (``.txt``), ``title`` and ``text`` (JSON, or a table), Markdown, HTML, PDF, a mailbox, ...; a
            folder of such files (each section under a heading is a document); or a folder in BEIR's layout, of which
            ``corpus.jsonl`` alone is read; or a list of texts, or of (title, text).
        fields: what JSON or a table calls title and text, or the text alone: ``["headline", "body"]``; nested keys have
            dots.
        keep_code: keep code blocks of HTML and Markdown.
        pairs: questions with texts that answer them, if there are any: a file, a `Source` or a list of pairs; or a
            folder in BEIR's layout, whose judgements called ``train`` are taken.
        columns: names of the pairs' two columns in a file; by default ``anchor`` and ``positive``.
        out: folder for the kept encoder; a new or empty one.
        model: the built-in encoder, a folder, a Hub id, or one of the recipe's presets.
        recipe: how to train; a recipe for pairs.
        settings: ``key.path=value`` each; they come last.
        dev: what the best is chosen by; ``auto`` asks about the held-out documents where there are enough; see `train`.
        metric: by which answers are scored; ``ndcg@10`` by default.
        keep_identical_ids: see `train`.
        resume: go on from the checkpoint in ``out``; see `train`.
        overwrite: put the new run in place of a run or encoder of this library in ``out``; other files there stay.
        dry_run: see `train`.
        report: see `train`.
        callbacks: see `train`.
        track: see `train`.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        progress: hears of progress and decisions; silent by default.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    if not isinstance(corpus, Sequence):
        _require_path(corpus, "corpus")
    _require_path(out, "out")
    _require_path(model, "model")
    _require_own(out, resume, overwrite, dev, recipe, corpus, pairs)
    tell = progress or Silent()
    adaptation = plan_adaptation(
        corpus,
        fields=fields,
        keep_code=keep_code,
        pairs=pairs,
        columns=columns,
        model=str(model),
        recipe=recipe,
        dev=dev,
        metric=metric,
        progress=tell,
    )
    job = TrainJob(
        text=adaptation.text,
        recipe=recipe,
        model=str(model),
        preset=adaptation.preset,
        settings=_settings(settings),
        dev=adaptation.dev,
        metric=adaptation.metric,
        keep_identical_ids=keep_identical_ids,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    return _carry_out(_heard(job, callbacks, track), out, resume, overwrite, dry_run, report, tell)


def _heard(job: TrainJob, callbacks: Sequence[Callback], track: str | None) -> TrainJob:
    """``job``, with those who hear of it."""
    if not isinstance(callbacks, Sequence) or not all(isinstance(one, Callback) for one in callbacks):
        raise TypeError("callbacks is a list of objects derived from opencse.training.callbacks.Callback")
    if track is not None:
        require_tracker(track)
    return replace(job, callbacks=tuple(callbacks), track=track)


def _carry_out(
    job: TrainJob,
    out: str | Path,
    resume: bool,
    overwrite: bool,
    dry_run: bool,
    report: bool,
    progress: Progress | None,
) -> TrainResult:
    """Runs ``job``, or with ``dry_run`` plans it."""
    tell = progress or Silent()
    lacking = missing_packages("matplotlib") if report else []
    if lacking:
        report = False
        tell.say(f'report     none: its pictures need {", ".join(lacking)}; pip install "opencse[train]"')
    if dry_run:
        plan = job.dry_run(out, resume=resume, overwrite=overwrite, progress=tell)
        return TrainResult(Path(out), "none", "a dry run: nothing was trained", {}, plan)
    result = job.run(out, resume=resume, overwrite=overwrite, progress=tell)
    if report and started().first and not (result.folder / REPORT).is_file():
        from opencse.runs.report import write_run_report

        try:
            tell.say(f"report     {write_run_report(job, result, tell)}")
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(RunFolder(result.folder))) from None
    return result


def _require_own(out: str | Path, resume: bool, overwrite: bool, dev: object, recipe: object, *inputs: object) -> None:
    """Refuses a folder that the run may not be written to, before anything is read."""
    if started().first:
        chosen = None if isinstance(dev, str) and dev in (AUTO, TEXT, SAMPLE, NONE) else dev
        file = recipe if isinstance(recipe, str) and recipe.endswith(".toml") else None
        RunFolder.at(out).require(resume=resume, overwrite=overwrite, start=None, read=paths_of(chosen, file, *inputs))


def _require_path(place: object, name: str) -> None:
    if not isinstance(place, str | Path):
        raise TypeError(f"{name} is a path, not {type(place).__name__}")


def _settings(settings: Iterable[str]) -> tuple[str, ...]:
    chosen = tuple(settings)
    if isinstance(settings, str) or not all(isinstance(setting, str) for setting in chosen):
        raise TypeError('settings is a list of "key.path=value"')
    return chosen
