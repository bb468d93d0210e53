"""A training step with and without padding, beside sentence-transformers' own.

Run it by python benchmarks/packed.py --model FOLDER.

The steps of each are made in turn on the same texts (pairs of a sentence with itself, batch 64, at most 32 ids), so
that other work on the machine slows all of them. Printed are sentences a second (medians), and the median of the
ratios of steps made one after another, with the middle half of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from opencse.environment import Environment
from opencse.progress import Silent
from opencse.runs.job import Prepared, TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.optimizer import build_optimizer
from opencse.training.step import Step, step_inputs

BATCH, LENGTH = 64, 32


def ours(model: str, text: str, layers: int | None, precision: str, packed: bool) -> Callable[[int], None]:
    """A step of `opencse train` (recipe simcse, CLS)."""
    settings = [
        f"training.batch_size={BATCH}",
        f"data.max_length={LENGTH}",
        f"training.precision={precision}",
        f"training.packed={str(packed).lower()}",
        "encoder.pooling=cls",
        "encoder.head.kind=none",
        *([f"encoder.layers={layers}"] if layers else []),
    ]
    prepared: Prepared = TrainJob(Source(text), "simcse", model, settings=tuple(settings), dev=None).prepare(Silent())
    encoder, training = prepared.encoder, prepared.plan.recipe.training
    optimizer = build_optimizer([*encoder.parameters()], training)
    step = Step(encoder, prepared.objective, prepared.plan.precision)
    encoder.train()

    def make(number: int) -> None:
        step.gradients(step_inputs(prepared.inputs, prepared.batches, number, 1, encoder.device))
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return make


def theirs(model: str, text: str, layers: int | None, precision: str) -> Callable[[int], None]:
    """A step as sentence-transformers' trainer makes it: its model, its loss, torch's AdamW."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(model, max_seq_length=LENGTH)
    if layers:
        kept = transformer.auto_model.encoder
        kept.layer = kept.layer[:layers]
    encoder = SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_word_embedding_dimension(), "cls")], device="cpu"
    )
    loss = MultipleNegativesRankingLoss(encoder)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=0.0)
    texts = [line for line in Path(text).read_text(encoding="utf-8").splitlines() if line]
    encoder.train()

    def make(number: int) -> None:
        start = number * BATCH % (len(texts) - BATCH)
        features = [encoder.preprocess(texts[start : start + BATCH]) for _ in range(2)]
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            value = loss(features, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return make


def main() -> None:
    """Times the steps and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder of a BERT-shaped model")
    parser.add_argument("--text", default=str(sample.TRAIN))
    parser.add_argument("--layers", type=int)
    parser.add_argument("--precision", default="bf16", choices=("bf16", "float32"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(asked.threads)
    made = {
        "sentence-transformers": theirs(asked.model, asked.text, asked.layers, asked.precision),
        "opencse": ours(asked.model, asked.text, asked.layers, asked.precision, packed=False),
        "opencse packed": ours(asked.model, asked.text, asked.layers, asked.precision, packed=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for number in range(asked.steps + 2):
        for name, step in made.items():
            started = time.perf_counter()
            step(number)
            if number >= 2:
                seconds[name].append(time.perf_counter() - started)
    base = seconds["sentence-transformers"]
    found = {}
    print(
        f"{asked.model}, {asked.precision}, {asked.threads} threads, batch {BATCH}, {LENGTH} ids, {asked.steps} steps"
    )
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(base, taken, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        found[name] = {"per_second": BATCH / statistics.median(taken), "ratio": middle, "quartiles": [low, high]}
        print(
            f"{name:22} {BATCH / statistics.median(taken):7.1f} sentences/s   {middle:.2f}x ({low:.2f} to {high:.2f})"
        )
    environment = Environment.here("cpu").model_dump()
    units = [name for name in ("avx2", "avx512_f", "avx512_bf16", "amx_bf16") if torch.cpu.get_capabilities().get(name)]
    told = [f"{key} {value}" for key, value in environment.items()]
    print(*told, *units, time.strftime("%Y-%m-%d"), sep=", ")
    if asked.json:
        how_asked = {key: str(value) for key, value in vars(asked).items()}
        asked.json.write_text(json.dumps({"asked": how_asked, "found": found}, indent=1))


if __name__ == "__main__":
    main()
