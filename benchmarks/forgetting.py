"""Does the guard see what is forgotten? Its loss beside that on the seven STS tasks, for encoders of all kinds.

    python benchmarks/forgetting.py --data DATA --model opencse-mini --shares 1 2 --runs "study/runs/"* --out FILE

Each run is a folder of `opencse train` or `opencse adapt` that began with the model; its kept weights and its last
ones are taken. A share of 2 goes twice as far from the start as training did, so that there are ruined encoders too.
Beside the guard's questions stand the built-in 150 graded pairs (Spearman). All are losses, x 100: the start's score
minus this one's; behind ``beyond`` the lower end of the 95 % interval, by which the guard refuses.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from opencse.adapting.guard import TOLERANCE, Guard
from opencse.adapting.own_text import quick
from opencse.arrays import Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import EmbeddingModel, ScoredPairs, Sts, distinct, embed, load_sts, read_scored_pairs, spearman
from opencse.evaluation.sts.data import StsData
from opencse.records import write_json
from opencse.statistics import paired_bootstrap
from opencse.text import sample


@dataclass(frozen=True)
class Lost:
    """What an encoder lost against its start, x 100; ``refused``: by the guard."""

    encoder: str
    sts: float
    questions: float
    questions_beyond: float
    refused: bool
    graded: float
    graded_beyond: float


@dataclass(frozen=True)
class Measured:
    """What one encoder has."""

    sts: float
    questions: Floats
    graded: Floats

    @classmethod
    def of(cls, encoder: SentenceEncoder, sts: StsData, guard: Guard, pairs: ScoredPairs) -> Measured:
        """All three, computed as a run computes them."""
        encode = quick(encoder)
        average = Sts().evaluate(EmbeddingModel("encoder", encode), sts).record.sts.average
        embedded = embed(encode, distinct([pairs.first, pairs.second]))
        return cls(float(average or 0.0), guard.values(encoder), embedded.cosines(pairs.first, pairs.second))


def encoders(start: SentenceEncoder, runs: list[Path], shares: list[float]) -> Iterator[tuple[str, SentenceEncoder]]:
    """Kept weights as they are, last ones so many times as far from the start; the same weights once."""
    before = start.state_dict()
    for run in runs:
        for folder in (run, run / "last"):
            if not (folder / "model.safetensors").is_file():
                continue
            encoder = SentenceEncoder.load(folder)
            trained = {name: weights.clone() for name, weights in encoder.state_dict().items()}
            for share in shares if folder != run else [1.0]:
                moved = {
                    name: before[name] + share * (weights - before[name])
                    if name in before and weights.is_floating_point() and weights.shape == before[name].shape
                    else weights
                    for name, weights in trained.items()
                }
                encoder.load_state_dict(moved)
                yield f"{run.name}{'' if folder == run else ', last'}{'' if share == 1 else f', {share:g} x'}", encoder


def agreement(rows: list[Lost], by: str) -> float:
    """Spearman between a measure's loss and that on the STS tasks."""
    return round(spearman(np.array([asdict(row)[by] for row in rows]), np.array([row.sts for row in rows])), 3)


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="opencse-mini")
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 2.0])
    parser.add_argument("--runs", nargs="+", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    sts, pairs = load_sts(given.data / "sts"), read_scored_pairs(sample.DEV)
    guard = Guard.built_in()
    start = SentenceEncoder.load(given.model)
    before = Measured.of(start, sts, guard, pairs)
    rows: list[Lost] = []
    print("| encoder | seven STS tasks | general questions | beyond | refused | 150 graded pairs | beyond |")
    print("|---|---|---|---|---|---|---|")
    for name, encoder in encoders(start, given.runs, given.shares):
        with torch.inference_mode():
            found = Measured.of(encoder, sts, guard, pairs)
        compared = guard.compare(before.questions, found.questions)
        interval = paired_bootstrap(pairs.scores, before.graded, found.graded).interval
        graded = 100 * (spearman(before.graded, pairs.scores) - spearman(found.graded, pairs.scores))
        row = Lost(
            encoder=name,
            sts=before.sts - found.sts,
            questions=float(before.questions.mean()) - compared.value,
            questions_beyond=compared.lost,
            refused=compared.forgets,
            graded=graded,
            graded_beyond=graded if interval is None else interval[0],
        )
        if any(abs(row.sts - other.sts) < 1e-9 for other in rows):
            continue
        rows.append(row)
        print(
            f"| {row.encoder} | {row.sts:.2f} | {row.questions:.2f} | {row.questions_beyond:.2f} "
            f"| {'yes' if row.refused else ''} | {row.graded:.2f} | {row.graded_beyond:.2f} |",
            flush=True,
        )
    write_json(given.out, {"model": given.model, "tolerance": TOLERANCE, "rows": [asdict(row) for row in rows]})
    lost = [row for row in rows if row.sts > 1.0]
    print(
        json.dumps(
            {
                "encoders": len(rows),
                "agree, questions": agreement(rows, "questions"),
                "agree, graded pairs": agreement(rows, "graded"),
                "lost more than 1.0 of STS": len(lost),
                "of these refused": sum(row.refused for row in lost),
                "of these refused by the graded pairs (beyond 1.0)": sum(row.graded_beyond > 1.0 for row in lost),
                "refused of the others": sum(row.refused for row in rows if row not in lost),
                "of the others by the graded pairs": sum(row.graded_beyond > 1.0 for row in rows if row not in lost),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
