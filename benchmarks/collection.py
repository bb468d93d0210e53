"""Writes questions and their documents as a collection in BEIR's layout, for the scripts that make one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Asked(NamedTuple):
    """A question, the one document that answers it, and that document's title ("" for none)."""

    question: str
    document: str
    title: str = ""


def command(description: str | None, *sources: str) -> argparse.ArgumentParser:
    """What every such script is told: what it reads from, the folder to write, and how many queries and pairs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in (*sources, "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--queries", type=int, default=500, help="every so-many-th document asks, up to this number")
    parser.add_argument("--pairs", type=int, default=1000, help="train judgements, of documents that ask no query")
    return parser


def write(out: Path, found: Sequence[Asked], *, queries: int, pairs: int) -> str:
    """Every document; every so-many-th question as a test query, as many of the others as train judgements.

    Returns the counts in words.
    """
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    asked = list(range(0, len(found), max(1, len(found) // queries)))[:queries]
    others = sorted({*range(len(found))} - {*asked})
    trained = others[:: max(1, len(others) // max(1, pairs))][:pairs]
    with (out / "corpus.jsonl").open("w", encoding="utf-8") as corpus:
        for number, one in enumerate(found):
            corpus.write(json.dumps({"_id": str(number), "title": one.title, "text": one.document}) + "\n")
    with (out / "queries.jsonl").open("w", encoding="utf-8") as stream:
        for number in sorted([*asked, *trained]):
            stream.write(json.dumps({"_id": f"q{number}", "text": found[number].question}) + "\n")
    for split, numbers in (("test", asked), ("train", trained)):
        with (out / "qrels" / f"{split}.tsv").open("w", encoding="utf-8") as qrels:
            qrels.write("query-id\tcorpus-id\tscore\n")
            qrels.writelines(f"q{number}\t{number}\t1\n" for number in numbers)
    return f"{len(found):,} documents, {len(asked)} queries, {len(trained)} pairs"
