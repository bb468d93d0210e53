"""Own text: do pairs by shared words (BM25) add to titles and neighbouring sentences? Writes the pairs to train on.

    python benchmarks/keywords.py --data DATA --model opencse-mini --collections cranfield --out study

    opencse train PAIRS --recipe adapt --model MODEL --dev none --out RUN --set training.average_with_start='[1.0]'
    python benchmarks/weights.py --data DATA --model MODEL --collections cranfield --floors --run RUN --shares 0.5 1.0

``documents`` is what `opencse adapt` makes of a collection. ``keywords`` adds up to --most titles and sentences, each
with the document that BM25 finds first for it, its own left out. ``agreed`` takes those of them alone whose document is
among the model's own ten nearest. Documents that `adapt` holds out are in none of the three.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np

from opencse.encoder.encoder import SentenceEncoder
from opencse.runs.material import material_of
from opencse.search.keywords import Keywords
from opencse.text.documents import Document, find_corpus, read_documents

NEAR, FEWEST_TITLE, FEWEST_SENTENCE = 10, 3, 5
Pair = tuple[str, str]


def questions_of(documents: list[Document], usable: set[int], most: int) -> list[tuple[int, str]]:
    """Titles and sentences of some words with the number of their document, in random order."""
    found = [(n, documents[n].title) for n in usable if len(documents[n].title.split()) >= FEWEST_TITLE]
    found += [(n, one) for n in usable for one in documents[n].sentences if len(one.split()) >= FEWEST_SENTENCE]
    random.Random(0).shuffle(found)
    return found[:most]


def by_words(
    documents: list[Document], usable: set[int], encoder: SentenceEncoder, most: int
) -> tuple[list[Pair], list[Pair]]:
    """Pairs by BM25, and those of them that the encoder agrees with."""
    bodies = [f"{document.title} {document.body}".strip() for document in documents]
    asked = questions_of(documents, usable, most)
    words, vectors = Keywords.of(bodies), encoder.encode(bodies, normalize_embeddings=True)
    left_out = np.array(sorted(set(range(len(documents))) - usable), dtype=np.int64)
    pairs: list[Pair] = []
    agreed: list[Pair] = []
    for (own, question), vector in zip(
        asked, encoder.encode([text for _, text in asked], normalize_embeddings=True), strict=True
    ):
        scores = words.scores(question)
        scores[own] = scores[left_out] = 0
        best = int(scores.argmax())
        if scores[best] <= 0:
            continue
        pairs.append((question, bodies[best]))
        cosines = vectors @ vector
        cosines[own] = -1
        if best in np.argpartition(-cosines, NEAR)[:NEAR]:
            agreed.append(pairs[-1])
    return pairs, agreed


def write(path: Path, pairs: list[Pair]) -> None:
    """As a table of two columns, white space collapsed."""
    rows = [tuple(" ".join(text.split()) for text in pair) for pair in pairs]
    lines = ["anchor\tpositive", *("\t".join(row) for row in rows if all(row))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{path}: {len(lines) - 1:,} pairs")


def main() -> None:
    """Three files a collection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with retrieval/ in it")
    parser.add_argument("--model", required=True)
    parser.add_argument("--collections", nargs="+", required=True)
    parser.add_argument("--most", type=int, default=8_000, help="titles and sentences that BM25 is asked")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    encoder = SentenceEncoder.load(args.model)
    for name in args.collections:
        documents = list(read_documents(find_corpus(args.data / "retrieval" / name)))
        material = material_of(documents)
        own = [(row[0], row[1]) for row in material.rows]
        held = set[int]()
        if material.asked is not None:
            owner = np.array([n for n, document in enumerate(documents) for _ in document.sentences])
            held = set(owner[material.asked.held.held].tolist())
        pairs, agreed = by_words(documents, set(range(len(documents))) - held, encoder, args.most)
        write(args.out / f"{name}.documents.tsv", own)
        write(args.out / f"{name}.keywords.tsv", own + pairs)
        write(args.out / f"{name}.agreed.tsv", own + agreed)


if __name__ == "__main__":
    main()
