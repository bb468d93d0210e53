"""What to do after a run, by how it ended: each step with the command that does it."""

from __future__ import annotations

import shlex

from opencse.runs.finish import TrainResult
from opencse.runs.job import TrainJob
from opencse.text.readers import Source

_PAIRS = "opencse train pairs.csv --recipe simcse-supervised --columns question,answer --model {model} --out pair-model"


def next_steps(job: TrainJob, result: TrainResult) -> list[tuple[str, str]]:
    """Texts and commands, the first thing to do first; a text without a command has an empty one."""
    folder, model = shlex.quote(str(result.folder)), shlex.quote(job.model)
    text = shlex.quote(job.text.location) if isinstance(job.text, Source) else "TEXT"
    check = (
        "Evaluate it on queries of your own, with the documents that answer them (a folder in BEIR's layout). Only "
        "that tells what users will see:",
        f"opencse evaluate {model} {folder} --suite retrieval --data FOLDER",
    )
    use = (
        "Then search with it, and serve it:",
        f"opencse index build my-index {folder} {text}\nopencse serve {folder} --index my-index",
    )
    read = (
        "Read the nearest neighbours below: of the same queries, are the sentences on the right nearer in meaning than "
        "those on the left?",
        "",
    )
    if not result.plan.recipe.objective.negatives and result.kept == "last":
        return [
            (
                "This is a backbone, not yet a sentence encoder. Train one from it:",
                f"opencse adapt {text} --model {folder} --out my-model",
            ),
            ("Then evaluate that one. A backbone's own vectors are poor, and the numbers below are theirs.", ""),
        ]
    if result.kept == "best":
        return [("The encoder in this folder is the trained one.", ""), read, check, use]
    if result.kept == "last":
        unknown = (
            "The encoder of the last step is in this folder, but nothing was held out to tell whether it is better."
        )
        return [(unknown, ""), read, check, use]
    return [
        (
            "Training did not help, so the encoder in this folder is the one that you started from. There is nothing "
            "to put to use; that of the last step is in the folder last/.",
            "",
        ),
        (
            "Read the nearest neighbours below. If those of the start are good, it knows your texts already, and you "
            "are done. If they are poor, pairs of question and answer help more than text alone:",
            _PAIRS.format(model=model),
        ),
        (
            "If you have queries of your own, let them choose, not questions made from the text:",
            f"opencse train {text} --model {model} --dev FOLDER --out other-model",
        ),
    ]
