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
    parser.add_argument("--only", default="", help="settings whose names hold this")
    parser.add_argument("--no-retrieval", action="store_true", help="STS-B alone, which takes a minute a row less")
    arguments = parser.parse_args()
    print(Environment.here("cpu").model_dump_json())
    print(f"corpus {arguments.corpus}, {arguments.sentences:,} texts of it, no seed but the draw's 42")
    print("| | STS-B test | SciFact nDCG@10 | seconds to make |\n|---|---|---|---|", flush=True)
    with TemporaryDirectory() as work:

        def row(name: str, model: str, seconds: float) -> None:
            print(line(name, model, arguments.data, seconds, retrieval=not arguments.no_retrieval), flush=True)

        row("the encoder itself", arguments.model, 0.0)
        started = time.perf_counter()
        by_model2vec(arguments.model, Path(work) / "m2v")
        row("model2vec.distill, 256", str(Path(work) / "m2v"), time.perf_counter() - started)
        for number, (name, (read, settings)) in enumerate(SETTINGS.items()):
            if arguments.only not in name:
                continue
            folder, started = Path(work) / str(number), time.perf_counter()
            chosen = settings.model_copy(update={"sentences": arguments.sentences})
            corpus = arguments.corpus if read else None
            opencse.export_static(arguments.model, folder, corpus=corpus, settings=chosen)
            row(name, str(folder), time.perf_counter() - started)


def by_model2vec(model: str, folder: Path) -> None:
    """Its own distillation with its own defaults."""
    from model2vec.distill import distill

    distill(model, pca_dims=256, quantize_to="float32").save_pretrained(folder)


def line(name: str, model: str, data: Path, seconds: float, *, retrieval: bool) -> str:
    """The scores of a model, as a line of the table."""
    sts = opencse.evaluate(model, data / "sts", tasks=["stsb"])
    found = "-"
    if retrieval:
        found = f"{opencse.evaluate(model, data / 'retrieval', suite='retrieval', tasks=['scifact']).average:.2f}"
    return f"| {name} | {sts.sts.tasks['stsb'].spearman.all:.2f} | {found} | {seconds:.0f} |"


if __name__ == "__main__":
    main()
