"""Which questions from a text itself agree with what its readers ask? Many runs, every criterion, and the truth.

    python benchmarks/selection.py --data DATA --minilm FOLDER --out study      # goes on where it was broken off
    python benchmarks/selection.py --out study --table                          # the tables of what is there

Every run trains on a text of which a share is held out (`opencse.documents.questions`); its last encoder, and
the average of its weights and the start's, are judged by every criterion on the held-out share and by labels that no
criterion sees: queries with relevant documents (SciFact, Cranfield), captions of one image (Flickr30k), entailed
sentences (NLI), questions of one class (TREC), graded pairs (Wikipedia). Some runs are made to fail, with rates far too
large.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from selection_questions import dropped_words, sentence_halves, without_giveaways
from selection_tables import tables
from selection_texts import Task, encode, grades, tasks

from opencse.analysis.alignment import uniformity
from opencse.documents import questions as kinds
from opencse.documents.questions import hold_out
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.progress import Silent
from opencse.records import save_json
from opencse.runs.run import TrainJob
from opencse.runs.start import load_start
from opencse.text import sample
from opencse.training.questions import QuestionSet
from opencse.training.schedule import keep_freed_memory

READ = 96  # ids of a text that are read in this study


@dataclass(frozen=True)
class Case:
    """A run."""

    task: str
    start: str
    recipe: str
    label: str
    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its record is called."""
        return f"{self.task} {self.start} {self.recipe} {self.label}"


PLAIN = ("encoder.pooling=mean", "encoder.head.kind=none", "training.log_every=1000")
SHORT = {
    "mini": ("training.batch_size=256", "training.max_steps=40", "encoder.dropout=0.1"),
    "minilm": ("training.batch_size=32", "training.max_steps=40"),
    "minilm-3": ("training.batch_size=32", "training.max_steps=40", "encoder.layers=3"),
}
RATES = {
    "mini": {"low": 3e-4, "middle": 2e-3, "ruinous": 1e-1},
    "minilm": {"low": 1e-5, "middle": 5e-5, "ruinous": 1e-3},
    "minilm-3": {"low": 2e-5, "middle": 1e-4, "ruinous": 2e-3},
}
RUNNING = [
    ("next-sentence", "middle"), ("simcse", "middle"), ("simcse", "ruinous"), ("next-sentence", "low"),
    ("esimcse", "middle"), ("next-sentence", "ruinous"), ("simcse++", "middle"), ("simcse", "low"),
]  # fmt: skip
LOOSE = [
    ("simcse", "middle"), ("simcse", "ruinous"), ("delete", "middle"), ("esimcse", "middle"),
    ("simcse", "low"), ("simcse++", "middle"), ("delete", "low"),
]  # fmt: skip
TITLED = [("pairs", "middle"), ("pairs", "ruinous"), ("pairs", "low"), ("pairs", "high")]
KIND = {
    "captions": LOOSE, "nli": LOOSE, "trec": LOOSE, "cranfield titles": TITLED, "scifact titles": TITLED,
    "scifact sentences": RUNNING, "cranfield sentences": RUNNING, "wiki": RUNNING,
}  # fmt: skip
RECIPES = {"pairs": "simcse-supervised", "delete": "simcse"}
EXTRA = {
    "pairs": ('objective.negatives=[{kind="in_batch"}]', "data.max_length=96"),
    "delete": ('objective.view={kind="delete_words", rate=0.3}',),
}


DEPTHS = (
    ("mini", (0, 2)), ("minilm-3", (0, 1)), ("mini", (2, 4)), ("minilm-3", (1, 2)), ("minilm", (0, 1)),
    ("mini", (4, 8)), ("minilm-3", (2, 4)), ("minilm", (1, 3)),
)  # fmt: skip


def cases() -> list[Case]:
    """All runs: those at the head of each text's list first, on quick starts first."""
    found = []
    for start, depths in DEPTHS:
        for depth in range(*depths):
            for task, listed in KIND.items():
                if depth < len(listed):
                    found.append(case(task, start, *listed[depth]))
    return found


def case(task: str, start: str, recipe: str, label: str) -> Case:
    """One run with its settings."""
    rates = RATES[start]
    rate = rates["middle"] * 3 if label == "high" else rates[label]
    settings = [*PLAIN, *SHORT[start], *EXTRA.get(recipe, ()), f"training.learning_rate={rate}"]
    if task.endswith("titles") and start == "mini":
        settings[settings.index("training.batch_size=256")] = "training.batch_size=64"
    return Case(task, start, recipe, label, tuple(settings))


DEAR = ("neighbours", "halves", "pairs", "crops")
"""Criteria that slow starts are judged by; on the quick one the others were found to agree with nothing."""


def criteria(task: Task) -> dict[str, QuestionSet]:
    """Every kind of question that the text allows."""
    texts = task.source.read()
    held = hold_out(texts)
    made: dict[str, QuestionSet] = {}
    makers: list[Callable[..., QuestionSet]] = [sentence_halves, kinds.overlapping_crops, dropped_words]
    if texts.width > 1:
        makers = [kinds.pairs]
    elif texts.documents is not None:
        makers = [kinds.neighbours, kinds.halves, *makers]
    for maker in makers:
        found = maker(texts, held)
        for probes in (found, without_giveaways(found)):
            if len(probes) >= 40:
                made[probes.kind] = probes
    return made


def judged(encoder: SentenceEncoder, task: Task, asked: dict[str, QuestionSet], data: Path) -> dict[str, Any]:
    """Ranks by every criterion, and the truth."""
    encoder.eval()
    before, encoder.max_length = encoder.max_length, READ
    embedded = encode(encoder, [text for probes in asked.values() for text in probes.texts()])
    found: dict[str, Any] = {"ranks": {}, "alignment": {}, "uniformity": {}}
    for name, probes in asked.items():
        found["ranks"][name] = probes.ranks(embedded).tolist()
        one, two = embedded.of(probes.queries), embedded.of([probes.candidates[a] for a in probes.answers])
        unit = [v / np.maximum(1e-12, np.linalg.norm(v, axis=1, keepdims=True)) for v in (one, two)]
        found["alignment"][name] = float(np.square(unit[0] - unit[1]).sum(axis=1).mean())
        vectors = embedded.of(probes.candidates[:1_000])
        found["uniformity"][name] = uniformity(vectors) if vectors.any(axis=1).all() else 0.0
    found["guard"] = grades(encoder, sample.DEV)
    found["sts"] = grades(encoder, data / "sts" / "stsb" / "dev.tsv")
    found["truth"] = [round(float(v), 3) for v in task.truth(encoder)]
    encoder.max_length = before
    return found


def finite(encoder: SentenceEncoder) -> bool:
    """Whether it did not diverge."""
    return all(bool(torch.isfinite(p).all()) for p in encoder.parameters())


def run(
    case_: Case, task: Task, asked: dict[str, QuestionSet], models: dict[str, str], data: Path, work: Path
) -> dict[str, Any]:
    """Trains, and judges the last encoder and its average with the start."""
    recipe = RECIPES.get(case_.recipe, case_.recipe)
    job = TrainJob(
        text=task.source,
        recipe=recipe,
        model=models[case_.start],
        preset=None,
        settings=case_.settings,
        dev="text",
        device="cpu",
    )
    prepared = job.prepare(Silent())  # holds out the very rows that the criteria ask about
    start = {key: value.detach().clone() for key, value in prepared.encoder.state_dict().items()}
    work.mkdir(parents=True, exist_ok=True)
    trainer = prepared.trainer(work, Silent(), dev=None, start=None)
    begun = time.perf_counter()
    trainer.run(resume=False)
    seconds = time.perf_counter() - begun
    encoder = trainer.encoder
    encoder.projection = None
    found: dict[str, Any] = {"steps": prepared.plan.steps, "seconds": round(seconds, 1)}
    if not finite(encoder):
        return found | {"end": None, "half": None}
    found["end"] = judged(encoder, task, asked, data)
    end = encoder.state_dict()
    encoder.load_state_dict(
        {k: (v + start[k]) / 2 if v.is_floating_point() else v for k, v in end.items()}, strict=True
    )
    found["half"] = judged(encoder, task, asked, data)
    return found


def study(data: Path, minilm: Path, out: Path) -> None:
    """Makes every run that has no record yet."""
    keep_freed_memory()
    models = {"mini": "opencse-mini", "minilm": str(minilm), "minilm-3": str(minilm)}
    made = tasks(data, out / "texts")
    asked = {name: criteria(task) for name, task in made.items()}
    for name, sets in asked.items():
        print(name, {kind: (len(p), len(p.candidates)) for kind, p in sets.items()}, flush=True)
    records = out / "records"
    records.mkdir(exist_ok=True)
    save_json(
        out / "made-with.json",
        {"seed": 42, "date": datetime.now(UTC).isoformat(), "environment": Environment.here("cpu").model_dump()},
    )
    listed = cases()
    for number, case_ in enumerate(listed, 1):
        task, every = made[case_.task], asked[case_.task]
        kept = {kind: probes for kind, probes in every.items() if case_.start == "mini" or kind in DEAR}
        first = records / f"{case_.task} {case_.start} start.json"
        if not first.is_file():
            name = RECIPES.get(case_.recipe, case_.recipe)
            recipe = TrainJob(
                text=task.source, recipe=name, model=models[case_.start], preset=None, settings=case_.settings
            ).resolved.recipe
            encoder = load_start(recipe, models[case_.start], "cpu")
            save_json(first, {"start": judged(encoder, task, kept, data)})
        path = records / f"{case_.name}.json"
        if path.is_file():
            continue
        begun = time.perf_counter()
        found = run(case_, task, kept, models, data, out / "work" / str(os.getpid()))
        save_json(path, {"case": [case_.task, case_.start, case_.recipe, case_.label], **found})
        truth = "diverged" if found["end"] is None else f"{np.mean(found['end']['truth']):.2f}"
        print(f"{number}/{len(listed)} {case_.name}: {truth} ({time.perf_counter() - begun:.0f} s)", flush=True)


def main() -> None:
    """Runs what is not there yet, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="only the tables of what is there")
    arguments = parser.parse_args()
    if not arguments.table:
        study(arguments.data, arguments.minilm, arguments.out)
    found = tables(arguments.out)
    (arguments.out / "tables.md").write_text(found + "\n", encoding="utf-8")
    print(found)


if __name__ == "__main__":
    main()
