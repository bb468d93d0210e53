"""Own text: `opencse adapt` compared with sentence-transformers' unsupervised recipes; same text, start and budget.

    python benchmarks/peers.py --data DATA --model FOLDER --seeds 42 43 44 --out study      # goes on where it broke off
    python benchmarks/peers.py --out study --table                                          # the table of what is there

The budget is a number of training texts (--texts): steps of 64 here; of the peers' SimCSE and CT (in-batch negatives)
too; of TSDAE's usual 8. The peers' rates and losses are those of their documentation, under bf16 autocast where ours
computes so, their texts sentences of the same documents in random order, cut to 64 pieces; TSDAE deletes words between
spaces, which needs no tokenizer's data.
`adapt` reads the documents and chooses titles, neighbouring sentences and what is kept by itself, with a share of them
held out; the peers keep their last step. nDCG@10 of the test queries, which nobody saw, and the seven STS tasks.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import torch
from adapt import judged, once
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses

from opencse import adapt
from opencse.environment import Environment
from opencse.kernels.precision import choose_precision
from opencse.progress import Terminal
from opencse.text.documents import read_documents
from opencse.text.folders import find_corpus

BATCH, LENGTH, FEWEST_WORDS = 64, 64, 3
DELETED = 0.6
"""TSDAE's share of deleted words."""


def sentences_of(collection: Path, texts: int, seed: int) -> list[str]:
    """So many sentences of a collection's documents, in random order; some twice where there are fewer."""
    found = [
        sentence
        for document in read_documents(find_corpus(collection))
        for sentence in document.sentences
        if len(sentence.split()) >= FEWEST_WORDS
    ]
    random.Random(seed).shuffle(found)
    return (found * (texts // len(found) + 1))[:texts]


def without_words(text: str, draw: random.Random) -> str:
    """TSDAE's noise: most words deleted, at least one left."""
    words = text.split()
    kept = [word for word in words if draw.random() > DELETED]
    return " ".join(kept or [draw.choice(words)])


def simcse(model: SentenceTransformer, texts: list[str], seed: int) -> tuple[Dataset, Any, dict[str, Any]]:
    """A sentence twice, contrasted in the batch."""
    del seed
    data = Dataset.from_dict({"anchor": texts, "positive": texts})
    how = {"learning_rate": 5e-5, "warmup_ratio": 0.1, "per_device_train_batch_size": BATCH}
    return data, losses.MultipleNegativesRankingLoss(model), how


def ct(model: SentenceTransformer, texts: list[str], seed: int) -> tuple[Dataset, Any, dict[str, Any]]:
    """Contrastive tension between two copies of the encoder, negatives in the batch."""
    del seed
    how = {"learning_rate": 5e-5, "warmup_ratio": 0.1, "per_device_train_batch_size": BATCH}
    return Dataset.from_dict({"sentence": texts}), losses.ContrastiveTensionLossInBatchNegatives(model), how


def tsdae(model: SentenceTransformer, texts: list[str], seed: int) -> tuple[Dataset, Any, dict[str, Any]]:
    """The sentence written again from the vector of what is left of it."""
    draw = random.Random(seed)
    data = Dataset.from_dict({"noisy": [without_words(text, draw) for text in texts], "text": texts})
    how = {"learning_rate": 3e-5, "lr_scheduler_type": "constant", "per_device_train_batch_size": 8}
    return data, losses.DenoisingAutoEncoderLoss(model, tie_encoder_decoder=True), how


Peer = Callable[[SentenceTransformer, list[str], int], tuple[Dataset, Any, dict[str, Any]]]
PEERS: dict[str, Peer] = {"simcse": simcse, "ct": ct, "tsdae": tsdae}
OURS = "opencse adapt"


def train_peer(name: str, model: str, texts: list[str], seed: int, folder: Path) -> None:
    """Trains as sentence-transformers' documentation has it; the last step's model is saved."""
    encoder = SentenceTransformer(model, device="cpu")
    encoder.max_seq_length = LENGTH
    data, loss, how = PEERS[name](encoder, texts, seed)
    with TemporaryDirectory() as elsewhere:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=elsewhere, num_train_epochs=1, seed=seed, save_strategy="no", report_to="none", use_cpu=True,
            disable_tqdm=True, dataloader_drop_last=True, logging_strategy="no",
            bf16=choose_precision("auto", torch.device("cpu")).bf16, **how,
        )  # fmt: skip
        SentenceTransformerTrainer(model=encoder, args=arguments, train_dataset=data, loss=loss).train()
    encoder.max_seq_length = SentenceTransformer(model, device="cpu").max_seq_length
    encoder.save(str(folder))


def run(system: str | None, collection: Path, seed: int | None, options: argparse.Namespace) -> dict[str, Any]:
    """One run with its scores; without a system, the start's."""
    made = {
        "collection": collection.name,
        "system": system,
        "seed": seed,
        "texts": options.texts,
        "date": datetime.now(UTC).date().isoformat(),
        "environment": Environment.here("cpu").model_dump(),
    }
    sts = options.data / "sts"
    if system is None or seed is None:
        return made | {"after": judged(options.model, collection, sts)}
    folder = folder_of(system, collection, seed, options)
    started = datetime.now(UTC)
    if system == OURS:
        steps = max(1, options.texts // BATCH)
        settings = [f"training.seed={seed}", f"training.max_steps={steps}", f"training.batch_size={BATCH}"]
        resume = (folder / "run.json").is_file()
        made["kept"] = adapt(
            collection, folder, model=options.model, settings=settings, resume=resume, progress=Terminal()
        ).kept
    elif not (folder / "modules.json").is_file():
        train_peer(system, options.model, sentences_of(collection, options.texts, seed), seed, folder)
    made["seconds"] = (datetime.now(UTC) - started).total_seconds()
    return made | {"after": judged(folder, collection, sts)}


def folder_of(system: str, collection: Path, seed: int, options: argparse.Namespace) -> Path:
    """Where the model of a run is saved."""
    return Path(options.out / "runs" / f"{collection.name} {system} {seed}")


def once_judged(
    path: Path, system: str | None, collection: Path, seed: int | None, options: argparse.Namespace
) -> None:
    """Makes a run's record unless it is there; see `adapt.once`."""
    model = options.model if system is None or seed is None else folder_of(system, collection, seed, options)
    once(
        path,
        partial(run, system, collection, seed, options),
        partial(judged, model, collection, options.data / "sts"),
    )


def table(out: Path) -> str:
    """Means over seeds compared with the start, as Markdown."""
    records = [json.loads(path.read_text()) for path in sorted((out / "records").glob("*.json"))]
    lines = [
        "| collection | system | texts | seeds | nDCG@10 | gain | STS | gain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for start in (record for record in records if record["system"] is None):
        name, before = start["collection"], start["after"]
        lines.append(f"| {name} | the start | | | {before['ndcg@10']:.2f} | | {before['sts']:.2f} | |")
        for system in (OURS, *PEERS):
            own = [record for record in records if (record["collection"], record["system"]) == (name, system)]
            if not own:
                continue
            found, sts = [r["after"]["ndcg@10"] for r in own], [r["after"]["sts"] for r in own]
            spread = f" ± {stdev(found):.2f}" if len(found) > 1 else ""
            lines.append(
                f"| {name} | {system} | {own[0]['texts']:,} | {len(own)} | {mean(found):.2f}{spread} "
                f"| {mean(found) - before['ndcg@10']:+.2f} | {mean(sts):.2f} | {mean(sts) - before['sts']:+.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Runs what is not there yet, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", help="a sentence-transformers folder")
    parser.add_argument("--systems", nargs="+", choices=[OURS, *PEERS], default=[OURS, *PEERS])
    parser.add_argument("--collections", nargs="+", default=["cranfield", "scifact"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--texts", type=int, default=25_600, help="training texts of a run")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="only the table of what is there")
    options = parser.parse_args()
    if not options.table:
        (options.out / "records").mkdir(parents=True, exist_ok=True)
        for name in options.collections:
            once_judged(
                options.out / "records" / f"{name} start.json", None, options.data / "retrieval" / name, None, options
            )
        for seed in options.seeds:
            for name in options.collections:
                for system in options.systems:
                    path = options.out / "records" / f"{name} {system} {seed}.json"
                    once_judged(path, system, options.data / "retrieval" / name, seed, options)
    print(table(options.out))


if __name__ == "__main__":
    main()
