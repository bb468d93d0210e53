"""Pairs teach documents by heart: nDCG@10 of the queries whose answers stood in a train pair, and of the others.

    python benchmarks/seen.py COLLECTION MODEL ...

COLLECTION is in BEIR's layout with judgements called ``train`` (the pairs of `opencse adapt --pairs COLLECTION`) and
``test``. Where both have documents in common, a gain on ``test`` may be that of documents seen with other questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from adapt import searched
from rows import machine

from opencse.adapting.own_text import quick
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import EmbeddingModel
from opencse.evaluation.retrieval.data import RetrievalTask, load_retrieval


def only_task(folder: Path, split: str) -> RetrievalTask:
    """The one collection in ``folder``."""
    (task,) = load_retrieval(folder, split=split).tasks.values()
    return task


def parts(test: RetrievalTask, train: RetrievalTask) -> dict[str, RetrievalTask]:
    """The test queries of which a relevant document is one of a train query, and those of which none is."""
    learned = {train.document_ids[place] for judged in train.judged for place, level in judged.items() if level > 0}
    seen = [
        any(level > 0 and test.document_ids[place] in learned for place, level in judged.items())
        for judged in test.judged
    ]

    def part(wanted: bool) -> RetrievalTask:
        rows = [row for row, is_seen in enumerate(seen) if is_seen is wanted]
        return replace(
            test,
            query_ids=[test.query_ids[row] for row in rows],
            queries=[test.queries[row] for row in rows],
            judged=[test.judged[row] for row in rows],
        )

    return {"all": test, "seen": part(True), "unseen": part(False)}


def remembered(folder: str, texts: Sequence[str]) -> EmbeddingModel:
    """A model that has encoded ``texts`` already, each once."""
    model = EmbeddingModel(folder, quick(SentenceEncoder.load(folder)))
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    vectors = np.asarray(model.encode([*rows]))
    return replace(model, encode=lambda asked: vectors[[rows[text] for text in asked]])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("models", nargs="+", help="folders, the start among them")
    asked = parser.parse_args()
    data = load_retrieval(asked.collection)
    test = only_task(asked.collection, "test")
    made = parts(test, only_task(asked.collection, "train"))
    made = {name: part for name, part in made.items() if part.queries}
    print(machine(), "", sep="\n")
    print("| nDCG@10 | " + " | ".join(f"{name} ({len(part.queries)})" for name, part in made.items()) + " |")
    print("|---|" + "---:|" * len(made), flush=True)
    for folder in asked.models:
        model = remembered(folder, [*test.documents, *test.queries])
        found = [searched(model, replace(data, tasks={name: part})).ndcg_at_10 for name, part in made.items()]
        print(f"| {Path(folder).name} | " + " | ".join(f"{value:.2f}" for value in found) + " |", flush=True)


if __name__ == "__main__":
    main()
