"""Suggests what to do after a run, each step with its command; reports and commands take the steps from here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from opencse.model_folder.locate import BUILTIN
from opencse.runs.finish import TrainResult
from opencse.runs.run import Run
from opencse.text.files.kinds import typed
from opencse.text.files.lines import suffix_of
from opencse.text.files.pipes import name_in_command
from opencse.text.given import DocumentTexts
from opencse.text.readers import Source

CORPUS, PAIRS, QUERIES, MODEL, INDEX = "corpus.txt", "pairs.csv", "queries", "my-model", "my-index"
FIRST_INDEX = "first-index"
"""Names for the user's files and folders where they are not known."""

NextStep = tuple[str, str]
"""What to do, and the command for it (empty where there is none)."""


def adapt(text: str = CORPUS, model: str = BUILTIN, *options: str, out: str = MODEL) -> str:
    """Returns the command that adapts a model to documents, which are named as in a shell.

    Example:
        >>> adapt("'my notes'", "some/model", "--dev queries")
        "opencse adapt 'my notes' --model some/model --dev queries --out my-model"
    """
    start = [] if model == BUILTIN else ["--model", shlex.quote(model)]
    return " ".join(["opencse adapt", text, *start, *options, "--out", shlex.quote(out)])


def check(model: str = BUILTIN, adapted: str = MODEL, text: str = CORPUS) -> NextStep:
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


def with_pairs(text: str = CORPUS, model: str = BUILTIN) -> NextStep:
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
