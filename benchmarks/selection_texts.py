"""The texts of `selection.py`, each with what is true about encoders of it."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from opencse.arrays import Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import distinct, embed, read_scored_pairs, spearman
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.ranking import ndcg, nearest_rows
from opencse.text.readers import Source
from opencse.training.questions import fraction

DOCUMENTS = 1_500  # of SciFact: all that are relevant, and others


@dataclass(frozen=True)
class Task:
    """A text and what is true about encoders of it: n values of queries, or one number."""

    name: str
    source: Source
    truth: Callable[[SentenceEncoder], Floats]


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
