"""One process evaluates an encoder and trains it, then two do it together: python gang_evaluation.py MODEL FOLDER.

MASTER_ADDR and MASTER_PORT are set. Each writes what it found to a file of FOLDER (alone0, two0 and two1); the runs are
in alone-run and two-run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
import transformers.models.bert.modeling_bert  # noqa: F401  # once, before the processes are forked

from joined import in_processes
from opencse.documents.dev_choice import Dev
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.network import evaluate_together
from opencse.processes import joined
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.given import open_texts
from opencse.text.readers import Source
from opencse.text.tokenizer import Ids
from opencse.training.questions import Guard
from opencse.training.selection import DevScore, Selector


def evaluate(model: str, out: Path) -> None:
    """Scores by graded pairs and by questions from a text, and how many texts this process tokenised for them."""
    source = Source(str(sample.TRAIN))
    encoder = SentenceEncoder.load(model, pooling="mean", device="cpu")
    counts: list[int] = []
    tokenize = SentenceEncoder.tokenize

    def counting(self: SentenceEncoder, texts: Sequence[str], prompt: str = "") -> list[Ids]:
        counts.append(len(texts))
        return tokenize(self, texts, prompt)

    SentenceEncoder.tokenize = counting  # type: ignore[assignment, method-assign]
    found = {}
    with joined("cpu") as world:
        for dev in ("sample", "text"):
            chooser = Dev.of(dev).open(source)
            assert chooser is not None
            counts.clear()
            score = evaluate_together(encoder, world, partial(both, chooser))
            found[dev] = {**asdict(score), "cosines": None, "counted": sum(counts)}
            encoder.encode(["Alone again."])
            assert sum(counts) == found[dev]["counted"] + 1
        Path(f"{out}{world.rank}").write_text(json.dumps(found), encoding="utf-8")


def both(chooser: Selector, encoder: SentenceEncoder) -> DevScore:
    """The score of an encoder beside itself."""
    chooser.begin(encoder)
    return chooser.score(encoder)


def run(model: str, out: Path) -> None:
    """A run that chooses by graded pairs, averages among them."""
    settings = [f"training.{one}" for one in ("batch_size=8", "max_steps=4", "evaluate_every=2", "chunk=4")]
    settings += ["training.learning_rate=1e-3", "training.average_with_start=[0.5]", "training.precision=float32"]
    texts = open_texts(Source(str(sample.TRAIN)).read().rows[:60])
    Run(
        text=texts, model=model, settings=(*settings, "encoder.pooling=mean", "data.max_length=24"), dev="sample",
        device="cpu",
    ).train(out)  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, folder = sys.argv[1], Path(sys.argv[2])
    few = Guard.of_pairs(Source(str(sample.PAIRS)).read().rows[:150])
    Guard.built_in = classmethod(lambda cls: few)  # type: ignore[assignment, method-assign]  # as in the other tests
    for processes, name in ((1, "alone"), (2, "two")):
        in_processes(processes, partial(evaluate, model, folder / name))
        in_processes(processes, partial(run, model, folder / f"{name}-run"))
