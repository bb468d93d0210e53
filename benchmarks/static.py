"""Word vectors distilled from an encoder, held against it and against model2vec's own distillation.

    python benchmarks/static.py --model MODEL --data DATA --corpus TEXT

DATA holds sts/stsb and retrieval/scifact. Every table is made, saved, loaded and scored in this one run. Prints
a table of STS-B test (Spearman x 100) and SciFact (nDCG@10 x 100), with versions.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import opencse
from opencse.environment import Environment
from opencse.export.distil import DistilSettings

SETTINGS: dict[str, tuple[bool, DistilSettings]] = {
    "ours, no text, sif 1e-4": (False, DistilSettings(sif=1e-4)),
    "ours, no text, sif 1e-3": (False, DistilSettings(sif=1e-3)),
    "ours, counted, not fitted": (True, DistilSettings(fit=False)),
    "ours, fitted, ridge 0.01": (True, DistilSettings(ridge=0.01)),
    "ours, fitted, ridge 0.1": (True, DistilSettings(ridge=0.1)),
    "ours, fitted, ridge 1": (True, DistilSettings(ridge=1)),
    "ours, fitted, ridge 0.1, 5,000 words": (True, DistilSettings(ridge=0.1, words=5_000)),
    "ours, fitted, ridge 0.1, 384 dimensions": (True, DistilSettings(ridge=0.1, dimension=384)),
}


def main() -> None:
    """Makes and scores them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--sentences", type=int, default=20_000)
    arguments = parser.parse_args()
    print(Environment.here("cpu").model_dump_json())
    print(f"corpus {arguments.corpus}, {arguments.sentences:,} texts of it, no seed but the draw's 42")
    print("| | STS-B test | SciFact nDCG@10 | seconds to make |\n|---|---|---|---|", flush=True)
    with TemporaryDirectory() as work:
        row("the encoder itself", arguments.model, arguments.data, 0.0)
        started = time.perf_counter()
        by_model2vec(arguments.model, Path(work) / "m2v")
        row("model2vec.distill, 256", str(Path(work) / "m2v"), arguments.data, time.perf_counter() - started)
        for number, (name, (read, settings)) in enumerate(SETTINGS.items()):
            folder, started = Path(work) / str(number), time.perf_counter()
            chosen = settings.model_copy(update={"sentences": arguments.sentences})
            corpus = arguments.corpus if read else None
            opencse.export_static(arguments.model, folder, corpus=corpus, settings=chosen)
            row(name, str(folder), arguments.data, time.perf_counter() - started)


def by_model2vec(model: str, folder: Path) -> None:
    """Its own distillation with its own defaults."""
    from model2vec.distill import distill

    distill(model, pca_dims=256, quantize_to="float32").save_pretrained(folder)


def row(name: str, model: str, data: Path, seconds: float) -> None:
    """Scores a model and prints a line."""
    sts = opencse.evaluate(model, data / "sts", tasks=["stsb"])
    found = opencse.evaluate(model, data / "retrieval", suite="retrieval", tasks=["scifact"])
    print(f"| {name} | {sts.sts.tasks['stsb'].spearman.all:.2f} | {found.average:.2f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
