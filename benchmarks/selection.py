"""Which questions from a text itself agree with what its readers ask? Many runs, every criterion, and the truth.

    python benchmarks/selection.py --data DATA --minilm FOLDER --out study      # goes on where it was broken off
    python benchmarks/selection.py --out study --table                          # the tables of what is there

Every run trains on a text of which a share is held out (`opencse.selection.holdout`); its last encoder, and
the average of its weights and the start's, are judged by every criterion on the held-out share and by labels that no
criterion sees: queries with relevant documents (SciFact, Cranfield), captions of one image (Flickr30k), entailed
sentences (NLI), questions of one class (TREC), graded pairs (Wikipedia). Some runs are made to fail, with rates far too
large.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from opencse.analysis.alignment import uniformity
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.evaluation import distinct, embed, read_scored_pairs, spearman
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.measures import ndcg
from opencse.evaluation.ranking import nearest_rows
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.progress import Silent
from opencse.records import write_json
from opencse.runs.job import TrainJob
from opencse.runs.start import load_start
from opencse.selection import probes as kinds
from opencse.selection.finding import Floats, Measure
from opencse.selection.holdout import fraction, hold_out
from opencse.selection.probes import Probes
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.memory import keep_freed_memory

DOCUMENTS = 1_500  # of SciFact: all that are relevant, and others
READ = 96  # ids of a text that are read in this study
GUARD = "guard (150 graded pairs)"


@dataclass(frozen=True)
class Task:
    """A text and what is true about encoders of it: n values of queries, or one number."""

    name: str
    source: Source
    truth: Callable[[SentenceEncoder], Floats]


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


# ---------------------------------------------------------------- texts and truths


def sentences(text: str) -> list[str]:
    """A rough cut into sentences."""
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+", text) if len(part.split()) > 2]


def documents(folder: Path, most: int) -> tuple[list[dict[str, str]], set[str]]:
    """Documents (the relevant ones first to be taken) and their ids."""
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    lines = (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]
    relevant = {line.split("\t")[1] for line in lines}
    rows.sort(key=lambda row: (row["_id"] not in relevant, fraction(row["_id"])))
    chosen = sorted(rows[:most], key=lambda row: fraction(row["_id"]))
    return chosen, {row["_id"] for row in chosen}


def body(row: dict[str, str]) -> str:
    """The text without its title."""
    return row["text"].removeprefix(row["title"]).strip()


def by_relevance(encoder: SentenceEncoder, folder: Path, ids: set[str]) -> Floats:
    """nDCG@10 of each query, among the documents taken."""
    task = next(iter(load_retrieval(folder).tasks.values()))
    places = [place for place, key in enumerate(task.document_ids) if key in ids]
    texts = [task.documents[place] for place in places]
    embedded = encode(encoder, [*task.queries, *texts])
    positions, _ = nearest_rows(embedded.of(task.queries), embedded.of(texts), 10)
    values = []
    for ranked, levels in zip(positions.tolist(), task.judged, strict=True):
        values.append(100 * ndcg([levels.get(places[p], 0) for p in ranked], list(levels.values()), 10))
    return np.array(values)


def by_label(encoder: SentenceEncoder, queries: list[tuple[str, str]], pool: list[tuple[str, str]]) -> Floats:
    """nDCG@10 of finding texts of the query's label, the query itself apart."""
    embedded = encode(encoder, [text for _, text in (*queries, *pool)])
    positions, _ = nearest_rows(embedded.of([t for _, t in queries]), embedded.of([t for _, t in pool]), 11)
    values = []
    for (label, text), ranked in zip(queries, positions.tolist(), strict=True):
        others = [pool[place] for place in ranked if pool[place][1] != text][:10]
        relevant = sum(other == label and t != text for other, t in pool)
        values.append(100 * ndcg([int(other == label) for other, _ in others], [1] * max(1, relevant), 10))
    return np.array(values)


def by_grades(encoder: SentenceEncoder, files: list[Path]) -> Floats:
    """Spearman x 100 of each file."""
    return np.array([grades(encoder, file) for file in files])


def grades(encoder: SentenceEncoder, file: Path) -> float:
    """Spearman x 100 on graded pairs."""
    pairs = read_scored_pairs(file)
    embedded = encode(encoder, [*pairs.first, *pairs.second])
    return 100 * spearman(embedded.cosines(pairs.first, pairs.second), pairs.scores)


def encode(encoder: SentenceEncoder, texts: list[str]) -> Embedded:
    """The vectors of all texts, in bf16."""
    return embed(partial(encoder.encode, precision="bf16"), distinct([texts]))


def tasks(data: Path, out: Path) -> dict[str, Task]:
    """All texts, written to a folder, each with its truth."""
    out.mkdir(parents=True, exist_ok=True)
    made: dict[str, Task] = {}

    def text(name: str, lines: list[str], truth: Callable[[SentenceEncoder], Floats]) -> None:
        path = out / f"{name}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        made[name] = Task(name, Source(str(path)), truth)

    for name in ("scifact", "cranfield"):
        folder = data / "retrieval" / name
        rows, ids = documents(folder, DOCUMENTS)
        truth = partial(by_relevance, folder=folder, ids=ids)
        text(f"{name} sentences", [line for row in rows for line in (*sentences(body(row)), "")], truth)
        path = out / f"{name}-titles.jsonl"
        titled = [{"anchor": row["title"], "positive": body(row)} for row in rows if row["title"] and body(row)]
        path.write_text("".join(json.dumps(row) + "\n" for row in titled))
        made[f"{name} titles"] = Task(f"{name} titles", Source(str(path)), truth)
    captions = [tuple(line.split("\t")) for line in (data / "flickr30k" / "val.tsv").read_text().splitlines()]
    pool = [(image, caption) for image, caption in captions]
    first = list({image: (image, caption) for image, caption in reversed(pool)}.values())
    shuffled = random.Random(0).sample([caption for _, caption in pool], len(pool))
    text("captions", shuffled, partial(by_label, queries=first, pool=pool))
    entailed = [line.split("\t") for line in (data / "nli" / "entailment_pairs.tsv").read_text().splitlines()]
    entailed = random.Random(0).sample([row for row in entailed if len(row) == 2], 6_000)
    tested = dict(reversed(entailed[:1_500]))
    hypotheses = list(dict.fromkeys(tested.values()))
    asked = [(h, p) for p, h in tested.items()]
    loose = list(dict.fromkeys(text for row in entailed for text in row))
    text(
        "nli", random.Random(0).sample(loose, 6_000),
        partial(by_label, queries=asked, pool=[(h, h) for h in hypotheses]),
    )  # fmt: skip
    trec = data / "transfer" / "trec"
    questions = [
        [(line.split("\t")[0], line.split("\t")[1]) for line in file.read_text().splitlines()]
        for file in (sorted(trec.glob("test*"))[0], sorted(trec.glob("train*"))[0])
    ]
    text("trec", [t for _, t in questions[1]], partial(by_label, queries=questions[0], pool=questions[1]))
    with lzma.open(data / "wiki" / "ordered.txt.xz", "rt", encoding="utf-8") as stream:
        lines = [next(stream).rstrip("\n") for _ in range(15_000)]
    files = [data / "sts" / "stsb" / "dev.tsv", data / "sts" / "sickr" / "dev.tsv"]
    text("wiki", lines, partial(by_grades, files=files))
    return made


# ---------------------------------------------------------------- runs


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


def criteria(task: Task) -> dict[str, Probes]:
    """Every kind of question that the text allows."""
    texts = task.source.read()
    held = hold_out(texts)
    made: dict[str, Probes] = {}
    makers: list[Callable[..., Probes]] = [kinds.sentence_halves, kinds.overlapping_crops, kinds.dropped_words]
    if texts.width > 1:
        makers = [kinds.pairs]
    elif texts.documents is not None:
        makers = [kinds.neighbours, kinds.halves, *makers]
    for maker in makers:
        found = maker(texts, held)
        for probes in (found, kinds.without_giveaways(found)):
            if len(probes) >= 40:
                made[probes.kind] = probes
    return made


def judged(encoder: SentenceEncoder, task: Task, asked: dict[str, Probes], data: Path) -> dict[str, Any]:
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
    case_: Case, task: Task, asked: dict[str, Probes], models: dict[str, str], data: Path, work: Path
) -> dict[str, Any]:
    """Trains, and judges the last encoder and its average with the start."""
    recipe = RECIPES.get(case_.recipe, case_.recipe)
    job = TrainJob(task.source, recipe, models[case_.start], None, case_.settings, dev="text", device="cpu")
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
    for name, found in asked.items():
        print(name, {kind: (len(p), len(p.candidates)) for kind, p in found.items()}, flush=True)
    records = out / "records"
    records.mkdir(exist_ok=True)
    write_json(
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
            recipe = TrainJob(task.source, name, models[case_.start], None, case_.settings).resolve().recipe
            encoder = load_start(recipe, models[case_.start], "cpu")
            write_json(first, {"start": judged(encoder, task, kept, data)})
        path = records / f"{case_.name}.json"
        if path.is_file():
            continue
        begun = time.perf_counter()
        found = run(case_, task, kept, models, data, out / "work" / str(os.getpid()))
        write_json(path, {"case": [case_.task, case_.start, case_.recipe, case_.label], **found})
        truth = "diverged" if found["end"] is None else f"{np.mean(found['end']['truth']):.2f}"
        print(f"{number}/{len(listed)} {case_.name}: {truth} ({time.perf_counter() - begun:.0f} s)", flush=True)


# ---------------------------------------------------------------- tables

MEASURES = ("ndcg@10", "mrr@10", "recall@1", "recall@10")
MIXED = {"neighbours and halves": ("neighbours", "halves"), "neighbours and crops": ("neighbours", "crops")}
HARM = 0.3
"""Points of truth below the start that count as a worse model."""
Judged = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """All that one start became on one text."""

    task: str
    start: Judged
    runs: list[tuple[Judged, Judged]]


def load_groups(out: Path) -> list[Group]:
    """The records, by text and start; runs that diverged are left out, since nobody would be offered them."""
    starts: dict[str, Judged] = {}
    runs: dict[str, list[tuple[Judged, Judged]]] = {}
    for path in sorted((out / "records").glob("*.json")):
        record = json.loads(path.read_text())
        if "start" in record:
            starts[path.stem.removesuffix(" start")] = record["start"]
        elif record["end"] is not None and record["half"] is not None:
            runs.setdefault(" ".join(record["case"][:2]), []).append((record["end"], record["half"]))
    return [Group(name.rsplit(" ", 1)[0], starts[name], found) for name, found in sorted(runs.items())]


def worth(judged_: Judged, criterion: str, measure: str) -> float | None:
    """What a criterion says of an encoder; None where the text does not allow it."""
    if criterion == GUARD:
        return float(judged_["guard"])
    if criterion.startswith("alignment of ") or criterion.startswith("uniformity of "):
        what, _, kind = criterion.partition(" of ")
        return -float(judged_[what][kind]) if kind in judged_[what] else None
    kinds_ = MIXED.get(criterion, (criterion,))
    if not all(kind in judged_["ranks"] for kind in kinds_):
        return None
    by = Measure.parse(measure)
    return float(np.mean([by.of_ranks(np.array(judged_["ranks"][kind])).mean() for kind in kinds_]))


def truth(judged_: Judged) -> float:
    """The mean truth of an encoder."""
    return float(np.mean(judged_["truth"]))


def row(groups: list[Group], criterion: str, measure: str) -> list[str] | None:
    """How a criterion agrees with the truth, as a line of the table; None where no text allows it."""
    agreed, gains, harms, regrets, decisions, safe = [], [], [], [], 0, 0
    for group in groups:
        before = worth(group.start, criterion, measure)
        if before is None:
            continue
        made = [judged_ for both in group.runs for judged_ in both]
        told = [worth(judged_, criterion, measure) or 0.0 for judged_ in made]
        if len(made) > 3 and len(set(told)) > 1:
            agreed.append(float(spearmanr(told, [truth(judged_) for judged_ in made])[0]))
        for both in group.runs:
            offered = [group.start, *both]
            chosen = max(offered, key=lambda judged_: worth(judged_, criterion, measure) or 0.0)
            gain = truth(chosen) - truth(group.start)
            gains.append(gain)
            regrets.append(max(truth(judged_) for judged_ in offered) - truth(chosen))
            decisions += 1
            if gain < -HARM:
                harms.append(-gain)
            safe += gain > HARM
    if not decisions:
        return None
    harm = f"{np.mean(harms):.1f}" if harms else "-"
    return [
        criterion, measure if criterion != GUARD and " of " not in criterion else "-", f"{len(agreed)}",
        f"{np.mean(agreed):.2f}" if agreed else "-", f"{decisions}", f"{len(harms)}", harm, f"{safe}",
        f"{np.mean(gains):+.2f}", f"{np.mean(regrets):.2f}",
    ]  # fmt: skip


HEAD = [
    "criterion", "measure", "text x start", "Spearman", "choices", "worse than the start", "by", "better", "mean gain",
    "regret",
]  # fmt: skip


def tables(out: Path) -> str:
    """Markdown: a table for each kind of text."""
    groups = load_groups(out)
    sorts = {
        "Running text": [g for g in groups if g.task in ("scifact sentences", "cranfield sentences", "wiki")],
        "Titles with their texts": [g for g in groups if g.task.endswith("titles")],
        "Loose sentences": [g for g in groups if g.task in ("captions", "nli", "trec")],
        "Loose sentences without TREC": [g for g in groups if g.task in ("captions", "nli")],
    }
    lines = []
    for title, chosen in sorts.items():
        if not chosen:
            continue
        there = list(dict.fromkeys(kind for group in chosen for kind in group.start["ranks"]))
        runs = sum(len(group.runs) for group in chosen)
        best = np.mean([max(truth(j) for j in (g.start, *both)) - truth(g.start) for g in chosen for both in g.runs])
        last = [truth(both[0]) - truth(g.start) for g in chosen for both in g.runs]
        lines += [
            f"### {title}",
            "",
            f"{runs} runs, {len(chosen)} texts x starts. Always the trained encoder: mean gain {np.mean(last):+.2f}, "
            f"worse than the start in {sum(x < -HARM for x in last)}. Always the best: {best:+.2f}.",
            "",
            "| " + " | ".join(HEAD) + " |",
            "|" + "---|" * len(HEAD),
        ]
        listed = [(kind, measure) for kind in (*there, *MIXED) for measure in MEASURES]
        listed += [(f"{what} of {kind}", "") for what in ("alignment", "uniformity") for kind in there[:1]]
        rows = [found for kind, measure in [*listed, (GUARD, "")] if (found := row(chosen, kind, measure))]
        rows.sort(key=lambda cells: float(cells[-1]))
        lines += ["| " + " | ".join(cells) + " |" for cells in rows] + [""]
    everything = [group for group in groups if group.runs]
    lines += ["### Forgetting", ""]
    drops = [
        (g.start["guard"] - j["guard"], g.start["sts"] - j["sts"]) for g in everything for both in g.runs for j in both
    ]
    guard, sts = np.array(drops).T
    lines.append(
        f"Over {len(drops)} encoders, the loss on the 150 general pairs and that on STS-B's dev set agree with "
        f"Spearman {spearmanr(guard, sts)[0]:.2f}; of the {int((sts > 1).sum())} that lost more than 1.0 on STS-B, "
        f"{int(((sts > 1) & (guard > 1)).sum())} lost more than 1.0 on the 150 pairs."
    )
    return "\n".join(lines)


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
