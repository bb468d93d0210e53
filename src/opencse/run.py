"""The main jobs as functions: `train` a model from text, `evaluate` any model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.locate import BUILTIN
from opencse.errors import UserError
from opencse.evaluation import EvaluationRecord, Sts, StsResult
from opencse.evaluation.models import open_model
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_folder, suite_named
from opencse.evaluation.transforms import TARGET, Kind, evaluate_sts_on_target, postprocessed
from opencse.making.backbone import Shape
from opencse.recipes.recipe import Recipe
from opencse.runs.begin import GivenEncoder, NewBackbone
from opencse.runs.folder import RunFolder
from opencse.runs.job import TrainJob, TrainResult
from opencse.selection.chosen import DevChoice
from opencse.text.given import TextSource, open_texts
from opencse.text.readers import Source
from opencse.training.reporter import Counted, Reporter, Silent, Stages

GivenRows = Sequence[str] | Sequence[tuple[str, ...]]


def train(
    text: str | Path | Source | GivenRows,
    out: str | Path,
    *,
    recipe: str | Recipe = "simcse",
    model: str | Path | SentenceEncoder = BUILTIN,
    preset: str | None = None,
    settings: Iterable[str] = (),
    dev: DevChoice = "auto",
    metric: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
    reporter: Reporter | None = None,
) -> TrainResult:
    """Trains a sentence encoder from text and keeps the best one on the dev pairs.

    The start is kept instead where it is better beyond the chance of the pairs; see `opencse.training.selection`. A
    model with a pooling of its own keeps it; see `opencse.recipes.recipe.EncoderSettings`.

    Args:
        text: a file, a Hub data set id, a `Source` (with column names), or a list of texts, pairs or triples.
        out: folder for the kept encoder, ``last/``, ``metrics.jsonl`` and ``run.json``; a new or empty one.
        recipe: a recipe's name or a TOML file, either with presets (``simcse:dropout-0.2``), or a `Recipe`.
        model: the built-in encoder, a folder, a Hub id, one of the recipe's presets, or a `SentenceEncoder`, which is
            written to ``out/start`` and stays as it is.
        preset: more presets, joined by colons; the one for ``model`` is applied without being named.
        settings: ``key.path=value`` each; they come last.
        dev: what the best is chosen by: ``text`` (questions from a share of the text that is held out), ``auto`` (that
            where the text is large enough, else ``sample``), ``sample`` (built-in graded pairs), a file or a list of
            graded pairs (score, sentence, sentence), a folder of queries with relevant documents in BEIR's layout, or
            None.
        metric: by which answers to questions are judged: ``ndcg@10`` (by default), ``mrr@10``, ``recall@100``, ...
        resume: go on from the checkpoint in ``out``; refused if the content of the start, the text or the dev pairs,
            or any setting, is another than it was.
        overwrite: put the new run in place of a run or encoder of this library in ``out``; other files there stay.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        reporter: hears of progress and decisions; silent by default.

    Raises:
        TypeError: for an argument of another kind, naming it.
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    _require_path(out, "out")
    own = GivenEncoder(model) if isinstance(model, SentenceEncoder) else None
    start = RunFolder.at(out).start if own is not None else model
    _require_path(start, "model")
    source = open_texts(text)
    chosen = _settings(settings)
    job = TrainJob(source, recipe, str(start), preset, chosen, dev, device, trust_remote_code, own, metric)
    return job.run(out, resume=resume, overwrite=overwrite, reporter=reporter)


def _require_path(place: object, name: str) -> None:
    if not isinstance(place, str | Path):
        raise TypeError(f"{name} is a path, not {type(place).__name__}")


def _settings(settings: Iterable[str]) -> tuple[str, ...]:
    chosen = tuple(settings)
    if isinstance(settings, str) or not all(isinstance(setting, str) for setting in chosen):
        raise TypeError('settings is a list of "key.path=value"')
    return chosen


def pretrain(
    text: str | Path | Source | GivenRows,
    out: str | Path,
    *,
    model: str | Path | None = None,
    vocabulary: int = 16_384,
    shape: Shape | None = None,
    recipe: str | Recipe = "pretrain",
    settings: Iterable[str] = (),
    dev: DevChoice = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    trust_remote_code: bool = False,
    reporter: Reporter | None = None,
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
        settings: ``key.path=value`` each, for instance ``training.minutes=90`` or ``training.tokens=70_000_000``.
        dev: graded pairs to follow and select on; by default none, and the last weights are kept.
        resume: see `train`.
        overwrite: see `train`.
        device: where to run.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        reporter: hears of progress and decisions.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    _require_path(out, "out")
    if model is not None:
        _require_path(model, "model")
    job = pretraining_job(
        open_texts(text),
        out,
        None if model is None else str(model),
        vocabulary,
        shape or Shape(),
        recipe,
        _settings(settings),
        dev,
        device,
        trust_remote_code=trust_remote_code,
    )
    return job.run(out, resume=resume, overwrite=overwrite, reporter=reporter)


def pretraining_job(
    source: TextSource,
    out: str | Path,
    model: str | None,
    vocabulary: int,
    shape: Shape,
    recipe: str | Recipe,
    settings: Iterable[str],
    dev: DevChoice,
    device: str | None,
    *,
    trust_remote_code: bool = False,
) -> TrainJob:
    """The job of `pretrain`; a new backbone will be in ``out/start``."""
    begin = NewBackbone(vocabulary, shape) if model is None else None
    start = model or str(RunFolder.at(out).start)
    job = TrainJob(source, recipe, start, None, tuple(settings), dev, device, trust_remote_code, begin)
    resolved = job.resolve()[0]
    if resolved.objective.negatives:
        raise UserError(f"{resolved.name}: pretraining has no contrast (objective.negatives = []); see opencse train")
    if begin is not None and resolved.data.max_length > shape.positions:
        raise UserError(
            f"data.max_length {resolved.data.max_length} is beyond the {shape.positions} positions of the new "
            f"backbone; set --positions {resolved.data.max_length} or --set data.max_length={shape.positions}"
        )
    return job


def evaluate(
    model: object,
    data: str | Path,
    *,
    pooling: str | None = None,
    tasks: Sequence[str] | None = None,
    transform: Kind | None = None,
    fit: str | Path = TARGET,
    device: str | None = None,
    trust_remote_code: bool = False,
    reporter: Reporter | None = None,
) -> StsResult:
    """The seven STS tasks for any model (SimCSE, section 6.1 and appendix B); see `judge`.

    Text as it stands in ``data``, float32, cosine, Spearman x 100 over the concatenation of a year's subsets
    (``all``) beside ``mean`` and ``wmean``; texts are cut only at the model's own maximum length.
    """
    result = judge(
        model,
        data,
        pooling=pooling,
        options=Options(tasks=tasks),
        transform=transform,
        fit=fit,
        device=device,
        trust_remote_code=trust_remote_code,
        reporter=reporter,
    )
    if not isinstance(result, StsResult):
        raise TypeError(f"the STS suite gave a {type(result).__name__}")
    return result


def judge(
    model: object,
    data: str | Path,
    suite: str = "sts",
    *,
    pooling: str | None = None,
    layer: int | None = None,
    options: Options | None = None,
    transform: Kind | None = None,
    fit: str | Path = TARGET,
    device: str | None = None,
    trust_remote_code: bool = False,
    reporter: Reporter | None = None,
) -> EvaluationRecord:
    """Any model on any suite of tasks.

    Args:
        model: a `SentenceEncoder`, a folder, a Hub id, ``opencse-mini``, ``words:FILE``, ``bag-of-words``, an object
            with ``encode(texts)`` (a sentence-transformers model), or a function of a list of texts.
        data: a folder that holds one of the suite's name, the suite's own folder, or ``hub`` (STS).
        suite: ``sts``, ``sts-regressor``, ``transfer``, ``probing`` or ``retrieval``.
        pooling: replaces the model's own.
        layer: judges this layer's vectors, from 0 (the embedding layer's output) on, instead of the whole encoder's.
        options: of the suite.
        transform: ``whitening`` or ``flow`` after the model.
        fit: what a transform is fitted on: ``target``, the texts judged (STS: each task's by itself), or a text file.
        device: where to run.
        trust_remote_code: run the Python code that the folder of ``model`` brings; see `SentenceEncoder.load`.
        reporter: hears of progress.

    Raises:
        TypeError: for data that is no path; pairs of your own stand in a file of each task.
        UserError: for bad input, in one line.
    """
    _require_path(data, "data")
    if not isinstance(suite, str):
        raise TypeError(f"suite is the name of one, not {type(suite).__name__}")
    tell = reporter or Silent()
    chosen = replace(options or Options(), device=device)
    folder = suite_folder(data, suite_named(suite).name, alone=True)
    opener = partial(
        open_model,
        model,
        pooling=pooling,
        layer=layer,
        device=device,
        progress=Counted(tell, "encoding"),
        say=tell.say,
        trust_remote_code=trust_remote_code,
    )
    if transform is not None and suite == "sts" and str(fit) == TARGET:
        sts = Sts().load(folder, chosen.tasks)
        return evaluate_sts_on_target(opener(), transform, sts, progress=tell.say, stage=Stages(tell))
    opened = suite_named(suite).open(folder, chosen)
    judged = opener()
    if transform is not None:
        judged = postprocessed(judged, transform, fit, progress=Stages(tell), say=tell.say)
    found: EvaluationRecord = opened(judged, tell.say).record
    return found
