"""The main jobs as functions: `train` a model from text, `evaluate` any model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from opencse.baselines.judged import open_model
from opencse.baselines.postprocess import TARGET, Kind, evaluate_sts_on_target, postprocessed
from opencse.encoder.create import Shape, create_backbone
from opencse.encoder.locate import BUILTIN
from opencse.errors import UserError
from opencse.evaluation import EvaluationRecord, StsResult, load_sts, load_sts_hub
from opencse.evaluation.suites import HUB, Options, suite_folder, suite_named
from opencse.job import TrainJob, TrainResult
from opencse.recipe import Recipe
from opencse.text.readers import Source
from opencse.text.wordpiece import train_wordpiece
from opencse.training.reporter import Counted, Reporter, Silent, Stages


def train(
    text: str | Path | Source,
    out: str | Path,
    *,
    recipe: str | Recipe = "simcse",
    model: str = BUILTIN,
    preset: str | None = None,
    settings: Iterable[str] = (),
    dev: str | Path | None = "auto",
    metric: str | None = None,
    resume: bool = False,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> TrainResult:
    """Trains a sentence encoder from text and keeps the best one on the dev pairs.

    The start is kept instead where it is better beyond the chance of the pairs; see `opencse.training.selection`. A
    model with a pooling of its own keeps it; see `opencse.recipe.EncoderSettings`.

    Args:
        text: a file, a Hub data set id, or a `Source` (with column names).
        out: folder for the kept encoder, ``last/``, ``metrics.jsonl`` and ``run.json``.
        recipe: a recipe's name or a TOML file, either with presets (``simcse:dropout-0.2``), or a `Recipe`.
        model: the built-in encoder, a folder, a Hub id, or one of the recipe's presets.
        preset: more presets, joined by colons; the one for ``model`` is applied without being named.
        settings: ``key.path=value`` each; they come last.
        dev: what the best is chosen by: ``text`` (questions from a share of the text that is held out), ``auto`` (that
            where the text is large enough, else ``sample``), ``sample`` (built-in graded pairs), a file of graded
            pairs, a folder of queries with relevant documents in BEIR's layout, or None.
        metric: by which answers to questions are judged: ``ndcg@10`` (by default), ``mrr@10``, ``recall@100``, ...
        resume: go on from the checkpoint in ``out``.
        device: where to run; a GPU if there is one.
        reporter: hears of progress and decisions; silent by default.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    source = text if isinstance(text, Source) else Source(str(text))
    job = TrainJob(source, recipe, model, preset, tuple(settings), dev, device, metric)
    return job.run(out, resume=resume, reporter=reporter)


def pretrain(
    text: str | Path | Source,
    out: str | Path,
    *,
    model: str | None = None,
    vocabulary: int = 16_384,
    shape: Shape | None = None,
    recipe: str | Recipe = "pretrain",
    settings: Iterable[str] = (),
    dev: str | Path | None = None,
    resume: bool = False,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> TrainResult:
    """Masked-language-model pretraining of a new BERT, or of ``model`` on your domain; the head is kept with it.

    Without ``model``, a WordPiece vocabulary is learned from the text and a BERT with random weights is written to
    ``out/start``; from there on it is a training run like any other, with the masked-LM term alone.

    Args:
        text: see `train`.
        out: folder for the backbone, ``start/`` (a new one), ``last/``, ``metrics.jsonl`` and ``run.json``.
        model: the backbone to go on from (with its masked-LM head); None makes a new one.
        vocabulary: pieces of the new vocabulary.
        shape: size of the new backbone.
        recipe: how to train; an objective without contrast.
        settings: ``key.path=value`` each, for instance ``training.minutes=90`` or ``training.tokens=70_000_000``.
        dev: graded pairs to follow and select on; by default none, and the last weights are kept.
        resume: go on from the checkpoint in ``out``.
        device: where to run.
        reporter: hears of progress and decisions.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    source = text if isinstance(text, Source) else Source(str(text))
    job = pretraining_job(
        source, Path(out), model, vocabulary, shape or Shape(), recipe, settings, dev, device, reporter
    )
    return job.run(out, resume=resume, reporter=reporter)


def pretraining_job(
    source: Source,
    out: Path,
    model: str | None,
    vocabulary: int,
    shape: Shape,
    recipe: str | Recipe,
    settings: Iterable[str],
    dev: str | Path | None,
    device: str | None,
    reporter: Reporter | None,
) -> TrainJob:
    """The job of `pretrain`; a new backbone is written to ``out/start`` unless a run there began with it."""
    tell = reporter or Silent()
    job = TrainJob(source, recipe, model or str(out / "start"), None, tuple(settings), dev, device)
    resolved = job.resolve()[0]
    if resolved.objective.negatives:
        raise UserError(f"{resolved.name}: pretraining has no contrast (objective.negatives = []); see opencse train")
    # A start without a run is left from a dry run or a crash: it may be of another size, or half written.
    begun = (out / "run.json").is_file() and (out / "start" / "config.json").is_file()
    if model is None and not begun:
        if resolved.data.max_length > shape.positions:
            raise UserError(
                f"data.max_length {resolved.data.max_length} is beyond the {shape.positions} positions of the new "
                f"backbone; set --positions {resolved.data.max_length} or --set data.max_length={shape.positions}"
            )
        texts = [text for row in source.read().rows for text in row]
        tell.say(f"vocabulary learning {vocabulary:,} pieces from {len(texts):,} texts")
        tokenizer = train_wordpiece(texts, vocabulary, max_length=shape.positions)
        create_backbone(tokenizer, shape, out / "start", resolved.training.seed)
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
        reporter: hears of progress.

    Raises:
        UserError: for bad input, in one line.
    """
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
    )
    if transform is not None and suite == "sts" and str(fit) == TARGET:
        sts = load_sts_hub(chosen.tasks) if str(folder) == HUB else load_sts(folder, chosen.tasks)
        return evaluate_sts_on_target(opener(), transform, sts, progress=tell.say, stage=Stages(tell))
    opened = suite_named(suite).open(folder, chosen)
    judged = opener()
    if transform is not None:
        judged = postprocessed(judged, transform, fit, progress=Stages(tell), say=tell.say)
    return opened(judged, tell.say).record
