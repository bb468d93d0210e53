"""One process evaluates an encoder, then two do it together: python gang_evaluation.py MODEL FOLDER.

MASTER_ADDR and MASTER_PORT are set. Each writes what it found to a file of FOLDER: alone0, two0 and two1.
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
from opencse.adapting.dev_choice import load_selector
from opencse.adapting.selection import DevScore, Selector
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.together import evaluate_together
from opencse.processes import joined
from opencse.text import sample
from opencse.text.readers import Source
from opencse.text.tokenizer import Ids


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
            chooser = load_selector(dev, source)
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    for processes, name in ((1, "alone"), (2, "two")):
        in_processes(processes, partial(evaluate, sys.argv[1], Path(sys.argv[2], name)))
