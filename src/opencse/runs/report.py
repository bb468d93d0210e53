"""Writes report.html of a run: what training changed, on the user's text and on graded pairs, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from opencse.analysis.figures import curves, plane, training_curves
from opencse.analysis.inspection import AnalysisTexts, Findings, Subject, inspect
from opencse.analysis.report import (
    ReportSection,
    aside,
    code,
    figure,
    figures,
    folded,
    how_to_load,
    lead,
    made_with,
    paragraph,
    sections,
    steps,
    table,
    write_report,
)
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import require_once
from opencse.evaluation import read_scored_pairs
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.table import short_names
from opencse.foreign import code_notice
from opencse.model_folder.locate import BAG_OF_WORDS, SMALL, WORDS
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.recipes.overrides import flatten
from opencse.recipes.recipe import Recipe
from opencse.records import save_json
from opencse.runs.finish import TrainResult, open_checkpoint
from opencse.runs.folder import NUMBERS, REPORT, RunFolder
from opencse.runs.record import Outcome, RunRecord
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.files.kinds import typed
from opencse.text.files.lines import name_in_command, suffix_of
from opencse.text.given import DocumentTexts, some_texts
from opencse.text.readers import Source
from opencse.training.batches import BatchPlan
from opencse.training.callbacks import AVERAGE_OF, MetricsLog
from opencse.training.questions import Questions
from opencse.training.selection import GradedPairSelector, TrainedTexts
from opencse.training.settings import TrainingSettings

CORPUS, PAIRS, QUERIES, MODEL, INDEX = "corpus.txt", "pairs.csv", "queries", "my-model", "my-index"
FIRST_INDEX = "first-index"
"""Names for the user's files and folders where they are not known."""

NextStep = tuple[str, str]
"""What to do, and the command for it (empty where there is none)."""


def adapt(text: str = CORPUS, model: str = SMALL, *options: str, out: str = MODEL) -> str:
    """Returns the command that adapts a model to documents, which are named as in a shell.

    Example:
        >>> adapt("'my notes'", "some/model", "--dev queries")
        "opencse adapt 'my notes' --model some/model --dev queries --out my-model"
    """
    start = [] if model == SMALL else ["--model", shlex.quote(model)]
    return " ".join(["opencse adapt", text, *start, *options, "--out", shlex.quote(out)])


def check(model: str = SMALL, adapted: str = MODEL, text: str = CORPUS) -> NextStep:
    """Returns the step that compares a model with its adapted version, on the user's own queries.

    Example:
        >>> print(check("some/model", "my-model")[1])
        opencse index build first-index some/model corpus.txt
        opencse label first-index my-index --out queries
        opencse evaluate some/model my-model --suite retrieval --data queries
    """
    models = shlex.quote(model), shlex.quote(adapted)
    return (
        "Evaluate it on queries of your own: label the texts that answer them among the hits of both models. Only that "
        "shows what users will see:",
        f"opencse index build {FIRST_INDEX} {models[0]} {text}\n"
        f"opencse label {FIRST_INDEX} {INDEX} --out {QUERIES}\n"
        f"opencse evaluate {' '.join(models)} --suite retrieval --data {QUERIES}",
    )


def use(model: str = MODEL, text: str = CORPUS) -> NextStep:
    """Returns the step that searches with a model and serves it."""
    folder = shlex.quote(model)
    return (
        "Then search with it, and serve it:",
        f"opencse index build {INDEX} {folder} {text}\n"
        f'opencse index query {INDEX} "how do I descale the kettle" --hybrid\n'
        f"opencse serve {folder} --index {INDEX}",
    )


def with_pairs(text: str = CORPUS, model: str = SMALL) -> NextStep:
    """Returns the step that also trains on pairs of question and answer."""
    return (
        "Pairs of question and answer can help search more still:",
        adapt(text, model, "--pairs", PAIRS, "--columns", "question,answer", out=f"{MODEL}-2"),
    )


def first_steps() -> list[NextStep]:
    """Returns the first steps of a user who has a text and no model yet."""
    return [("Adapt a model to your documents; no labels are needed:", adapt()), use(), check(), with_pairs()]


def _documents(text: object) -> str:
    """The text with the options by which ``opencse adapt`` reads the same, if there are such."""
    if isinstance(text, DocumentTexts):
        return _words(text.collection.location, vars(text.collection))
    if isinstance(text, Source) and suffix_of(Path(text.location)) == ".txt":
        return _words(text.location, vars(text))
    return CORPUS


def _words(location: str, given: Mapping[str, object]) -> str:
    return shlex.join([name_in_command(location, CORPUS), *typed(given)])


def next_steps(run: Run, result: TrainResult) -> list[NextStep]:
    """Returns what to do after a run, by how it ended; the most important step is first."""
    folder = str(result.folder)
    text = _documents(run.text)
    read = (
        "Read the nearest neighbours below: of the same queries, are the sentences on the right nearer in meaning than "
        "those on the left?",
        "",
    )
    if not run.resolved.recipe.objective.negatives and result.kept == "last":
        return [
            ("This is a backbone, not yet a sentence encoder. Train one from it:", adapt(text, folder)),
            ("Then evaluate that one. A backbone's own vectors are poor, and the numbers below are theirs.", ""),
        ]
    use_steps = [read, use(folder, text), check(run.model, folder, text)]
    if result.kept == "best":
        return [("The encoder in this folder is the trained one.", ""), *use_steps]
    if result.kept == "last":
        unknown = (
            "The encoder of the last step is in this folder, but nothing was held out to show whether it is better."
        )
        return [(unknown, ""), *use_steps]
    return [
        (
            "Training did not help, so the encoder in this folder is the one that you started from. There is nothing "
            "new to use; the encoder of the last step is in the folder last/.",
            "",
        ),
        (
            "Read the nearest neighbours below. If those of the start are good, it knows your texts already, and you "
            "are done. If they are poor, pairs of question and answer help more than text alone:",
            with_pairs(text, run.model)[1],
        ),
        (
            "If you have queries of your own, select by them instead of by questions made from the text:",
            adapt(text, run.model, "--dev", QUERIES, out="other-model"),
        ),
    ]


def write_run_report(run: Run, result: TrainResult, progress: Progress) -> Path:
    """Compares the start with the trained encoder, and writes ``report.html`` and ``report.json``.

    "trained" in the report is the kept encoder; where the start was kept, it is the encoder of the last step, so that
    the user sees what did not help.

    Returns:
        The page.

    Raises:
        UserError: if it cannot be written.
    """
    recipe = run.start.recipe
    folder = RunFolder(result.folder)
    record = folder.record()
    trained = folder.path if result.kept in ("best", "last") else folder.last
    subjects = [
        subject("start", run.start.untrained()),
        subject("trained", SentenceEncoder.load(trained, device=run.device, trust_remote_code=run.trust_remote_code)),
    ]
    material = _material(run)
    findings = inspect(subjects, material, progress=progress.say)
    progress.say("drawing    the figures of the report")
    log = MetricsLog(folder.metrics_file).read()
    save_json(
        result.folder / NUMBERS,
        {"run": record.model_dump(mode="json"), "log": log, "findings": findings.model_dump(mode="json")},
    )
    page, dev = result.folder / REPORT, run.selector
    write_report(
        page,
        f"{recipe.name} on {run.text.name}",
        opening(run, result, findings) + made_with(findings),
        [
            ReportSection("What to do next", steps(next_steps(run, result))),
            training_of(log, record, "dev score" if dev is None else dev.measure),
            *sections(findings),
            settings_of(recipe, record),
            how_to_load(str(result.folder)),
        ],
    )
    return page


FEWEST_TEXTS = 200
"""Fewest held-out texts that a report is made from; with fewer it uses the training text."""


def _material(run: Run) -> AnalysisTexts:
    """The graded pairs and texts of the report: not trained on, or else named as trained on."""
    dev = run.selector
    pairs = dev.pairs if isinstance(dev, GradedPairSelector) else None
    if dev is not None and pairs is None:
        pairs = read_scored_pairs(sample.DEV)
        rows = (row for _, row in run.training_text.rows_with_documents())
        trained = TrainedTexts.among(rows, [*pairs.first, *pairs.second])
        if any(trained.pair(*pair) for pair in zip(pairs.first, pairs.second, strict=True)):
            pairs = None
    held_out = dev.held_out() if isinstance(dev, Questions) else []
    if len(held_out) >= FEWEST_TEXTS:
        return AnalysisTexts(pairs=pairs, texts=held_out, source=f"{run.text.name}, the held-out part")
    return AnalysisTexts(
        pairs=pairs, texts=some_texts(run.training_text), source=f"{run.text.name}, which was trained on"
    )


def write_curves_report(run: RunFolder, outcome: Outcome) -> Path:
    """Writes ``report.html`` of a run that was finished early, from its files alone: the outcome, curves and settings.

    Raises:
        UserError: if it cannot be written.
    """
    record = run.record()
    recipe = run.recipe(record)
    log = MetricsLog(run.metrics_file).read()
    page = run.path / REPORT
    folder, start = shlex.quote(str(run.path)), shlex.quote(record.identity.model)
    todo = [
        ("Continue the run:", "the command that began it, with --resume"),
        ("See what training changed, on your text:", f"opencse analyze {start} {folder} TEXT"),
    ]
    write_report(
        page,
        f"{recipe.name} on {record.source}",
        paragraph(f"{outcome.verdict[0].upper()}{outcome.verdict[1:]}.", "verdict"),
        [
            ReportSection("What to do next", steps(todo)),
            training_of(log, record, record.measure or "dev score"),
            settings_of(recipe, record),
            how_to_load(str(run.path)),
        ],
    )
    return page


def opening(run: Run, result: TrainResult, findings: Findings) -> Markup:
    """The verdict; where graded pairs selected, their comparison comes first."""
    note = ""
    if result.kept not in ("best", "last"):
        note = "The start was kept; the encoder shown as trained is that of the last step."
    verdict = f"{result.verdict[0].upper()}{result.verdict[1:]}. {note}"
    if isinstance(run.selector, Questions):
        return paragraph(verdict, "verdict") + aside(findings)
    caution = " The step was selected by these same pairs, so its score on them is optimistic."
    return lead(findings) + paragraph(verdict + ("" if result.kept == "last" else caution))


def subject(name: str, encoder: SentenceEncoder) -> Subject:
    """An encoder of this library under ``name``."""
    return Subject(replace(open_model(encoder), name=name), encoder)


def open_subjects(
    models: Sequence[str],
    *,
    pooling: str | None,
    device: str | None,
    progress: Progress,
    trust_remote_code: bool = False,
) -> list[Subject]:
    """Opens the models to compare; of a run that is still running, the encoder of its last checkpoint.

    They get the names of `short_names`.

    Raises:
        UserError: if a model is named twice, or cannot be opened.
    """
    require_once(models, "model")
    opened = []
    for model, name in zip(models, short_names(models), strict=True):
        if RunFolder(Path(model)).is_unfinished():
            opened.append(subject(name, open_checkpoint(Path(model), device, trust_remote_code)))
        elif model.startswith(WORDS) or model == BAG_OF_WORDS:
            opened.append(Subject(replace(open_model(model, pooling=pooling, say=progress.say), name=name)))
        else:
            encoder = SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
            opened.append(subject(name, encoder))
        code = opened[-1].model.code
        if code:
            progress.say(code_notice(code))
    return opened


def series(log: list[dict[str, float]], key: str) -> dict[int, float]:
    """The values of ``key`` in a log, by step; without the averages that were evaluated after the last one."""
    return {int(line["step"]): line[key] for line in log if key in line and AVERAGE_OF not in line}


def path_of(log: list[dict[str, float]]) -> list[tuple[float, float]]:
    """(uniformity, alignment) of the dev pairs, at each evaluation that has both."""
    alignment, uniformity = series(log, "dev_alignment"), series(log, "dev_uniformity")
    return [(uniformity[step], alignment[step]) for step in alignment if step in uniformity]


def losses_of(log: list[dict[str, float]], record: RunRecord) -> dict[int, float]:
    """The loss by step, without the smaller last batch of each epoch, whose loss is lower because of fewer negatives.

    Where most lines of the log are from such batches (an epoch is as long as ``training.log_every``), only these.
    """
    if any("data_set" in line for line in log):  # several data sets have losses of their own: the first one's
        return series([line for line in log if line.get("data_set") == 1], "loss")
    losses, training = series(log, "loss"), TrainingSettings.model_validate(record.identity.recipe["training"])
    if record.examples is None or training.batch_tokens is not None or training.accumulate > 1:
        return losses
    plan = BatchPlan(record.examples, training.batch_size, training.seed_of_order)
    if not plan.examples % plan.batch_size:
        return losses
    full = {step: loss for step, loss in losses.items() if step % plan.steps_per_epoch}
    last = {step: loss for step, loss in losses.items() if step not in full}
    return full if len(full) >= len(last) else last


def training_of(log: list[dict[str, float]], record: RunRecord, measure: str) -> ReportSection:
    """The curves of a run: loss, dev score, cosines, and its path in the plane of uniformity and alignment."""
    pictures = [figure(picture) for picture in training_curves(losses_of(log, record), series(log, "dev"), measure)]
    sides = {name: series(log, key) for name, key in _SIMILARITIES.items()}
    if any(sides.values()):
        lines = {name: values for name, values in sides.items() if values}
        pictures.append(figure(curves(lines, "mean cosine"), "Of positive pairs and of negatives, in the batches."))
    path = path_of(log)
    if len(path) > 1:
        ends = {"start": path[0], "last step": path[-1]}
        pictures.append(
            figure(
                plane(ends, paths={"run": path}),
                "From the start to the last step, on the dev pairs (uniformity: first 1,000 sentences); low is better.",
            )
        )
    return ReportSection("Training curves", figures(*pictures))


def settings_of(recipe: Recipe, record: RunRecord) -> ReportSection:
    """The settings of the run, and the text it read."""
    corpus = record.corpus
    rows = [
        ["recipe", f"{recipe.name}: {recipe.title}"],
        ["paper", recipe.paper or "-"],
        ["started from", record.identity.model],
        [
            "text",
            f"{number_of(corpus.rows, 'row')}, {corpus.tokens:,} tokens, "
            f"{number_of(corpus.duplicates, 'duplicate row')}",
        ],
        ["steps", f"{record.steps:,} of {recipe.training.batch_size}, {recipe.training.seeds_in_words}"],
        ["time", f"{record.seconds or 0:,.0f} s"],
    ]
    everything = "\n".join(f"{key} = {value!r}" for key, value in flatten(record.identity.recipe).items())
    return ReportSection("Settings", table(["", ""], rows) + folded("Every setting", code(everything)))


_SIMILARITIES = {"positives": "positive_similarity", "negatives": "negative_similarity"}
