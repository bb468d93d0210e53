"""What weighing tokens by rarity does to search and to STS, nothing trained: `encoder.token_weights`.

    python benchmarks/weights.py --data DATA --model FOLDER --collections cranfield scifact [FOLDER] --floors 0.2

For each collection in BEIR's layout (under ``DATA/retrieval``, or a folder elsewhere) the tokens' weights are those of
its documents; printed are nDCG@10 and recall@100 of its test queries, and Spearman on STS-B's dev pairs, as given and
by floor: what the commonest token counts, where the rarest counts 1. With --run and --shares averages of the start's
weights with those of a run of `opencse adapt`, its token weights taken over. Nothing is drawn by chance.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path

from adapt import searched
from opencse.adapting.own_text import quick

from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.evaluation import EmbeddingModel, distinct, embed, read_scored_pairs, spearman
from opencse.evaluation.retrieval.data import RetrievalData, load_retrieval
from opencse.modules.token_weights import FLOOR, TokenWeights
from opencse.text.documents import read_documents
from opencse.text.folders import find_corpus
from opencse.training.trainer import average


def row(name: str, encoder: SentenceEncoder, data: RetrievalData, sts: Path) -> str:
    """One line of the table."""
    found = searched(EmbeddingModel(name, quick(encoder)), data)
    pairs = read_scored_pairs(sts)
    cosines = embed(quick(encoder), distinct([pairs.first, pairs.second])).cosines(pairs.first, pairs.second)
    return (
        f"| {name} | {found.ndcg_at_10:.2f} | {found.recall_at_100:.2f} | {100 * spearman(cosines, pairs.scores):.2f} |"
    )


def main() -> None:
    """Prints a table for each collection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--collections", nargs="+", default=["cranfield", "scifact"])
    parser.add_argument("--floors", nargs="*", type=float, default=[FLOOR])
    parser.add_argument("--run", help="a folder of opencse adapt from this model, on the one collection")
    parser.add_argument("--shares", nargs="*", type=float, default=[0.5, 1.0], help="of the run's weights")
    given = parser.parse_args()
    print(json.dumps(Environment.here().model_dump(mode="json")))
    sts = given.data / "sts" / "stsb" / "dev.tsv"
    for name in given.collections:
        folder = given.data / "retrieval" / name
        data = load_retrieval(folder)
        encoder = SentenceEncoder.load(given.model)
        print(f"\n{folder.name}\n\n| | nDCG@10 | recall@100 | STS-B dev |\n|---|---|---|---|")
        print(row("as given", encoder, data, sts), flush=True)
        ids = encoder.tokenize([f"{one.title} {one.body}".strip() for one in read_documents(find_corpus(folder))])
        for floor in given.floors:
            vocabulary = encoder.tokenizer.vocabulary_size
            encoder.token_weights = TokenWeights.inverse_document_frequency(ids, vocabulary, floor)
            print(row(f"weighed, floor {floor:g}", encoder, data, sts), flush=True)
        if given.run is not None:
            run = SentenceEncoder.load(given.run)
            encoder.token_weights = copy.deepcopy(run.token_weights)
            start = {key: tensor.clone() for key, tensor in encoder.state_dict().items()}
            for share in given.shares:
                encoder.load_state_dict(average(start, run.state_dict(), share))
                print(row(f"{share:.0%} trained", encoder, data, sts), flush=True)


if __name__ == "__main__":
    main()
