"""The main jobs as functions: `train` a model from text, `evaluate` any model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.locate import BUILTIN
from opencse.errors import UserError
from opencse.evaluation import StsResult, evaluate_sts, load_sts, load_sts_hub
from opencse.job import TrainJob, TrainResult
from opencse.recipe import Recipe
from opencse.text.readers import Source
from opencse.training.reporter import Reporter, Silent


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
        InterruptedRunError: on Ctrl-C, after a checkpoint was written.
    """
    source = text if isinstance(text, Source) else Source(str(text))
    job = TrainJob(source, recipe, model, preset, tuple(settings), dev, device)
    return job.run(out, resume=resume, reporter=reporter)


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
