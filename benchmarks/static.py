"""Word vectors distilled from an encoder, held against it and against model2vec's own distillation.

    python benchmarks/static.py --models FOLDER [FOLDER ...] --data DATA --corpus TEXT

DATA holds sts (seven tasks) and retrieval (data sets in BEIR's layout). Every table is made, saved, loaded and scored
in this one run. Prints, for each model, the mean Spearman x 100 over the STS tasks (all pairs of a task together) and
nDCG@10 x 100 of each data set, seconds to make, the folder's size, and sentences a second over DATA's STS sentences.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import opencse
from opencse.environment import Environment
from opencse.evaluation.sts.data import load_sts
from opencse.export.distil import DistilSettings

NO_TEXT = {
    f"{'all' if dimension is None else dimension} dimensions, sif {sif:g}": DistilSettings(dimension=dimension, sif=sif)
    for dimension in (256, None)
    for sif in (1e-4, 1e-3)
}
FITTED = {f"fitted, ridge {ridge:g}": DistilSettings(ridge=ridge) for ridge in (0.01, 0.1, 1.0, 10.0)}
WITH_TEXT = {
    "counted, sif 1e-4": DistilSettings(fit=False, sif=1e-4),
    "counted, sif 1e-3": DistilSettings(fit=False, sif=1e-3),
    **FITTED,
    "fitted, ridge 1, all dimensions": DistilSettings(ridge=1.0, dimension=None),
    "fitted, ridge 1, sif 1e-4": DistilSettings(ridge=1.0, sif=1e-4),
    "fitted, ridge 1, 5,000 words": DistilSettings(ridge=1.0, words=5_000),
}


def main() -> None:
    """Makes and scores them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--pooling", help="replaces the models' own")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose names hold any of these")
    parser.add_argument("--train", type=int, default=0, help="steps of SimCSE on the text for one more row")
    parser.add_argument("--teacher", action="store_true", help="score the encoders themselves too")
    given = parser.parse_args()
    print(Environment.here("cpu").model_dump_json())
    print(f"corpus {given.corpus}, {given.sentences:,} texts of it, no seed but the draw's 42")
    for model in given.models:
        with TemporaryDirectory() as work:
            table(model, given, Path(work))


def table(model: str, given: argparse.Namespace, work: Path) -> None:
    """The rows of one encoder."""
    sets = sorted(path.name for path in (given.data / "retrieval").iterdir() if path.is_dir())
    print(
        f"\n{model}\n| | STS, mean of 7 | {' | '.join(sets)} | s to make | MB | sentences/s |\n"
        f"|{'---|' * (len(sets) + 5)}"
    )

    def row(name: str, make: Callable[[Path], object] | None) -> None:
        if not any(part in name for part in given.only):
            return
        folder, began = work / name.replace(" ", "-").replace(",", ""), time.perf_counter()
        if make is not None:
            make(folder)
        made = time.perf_counter() - began
        print(line(name, model if make is None else str(folder), given, sets, made), flush=True)

    if given.teacher:
        row("the encoder itself", None)
    row("model2vec.distill, 256", lambda folder: by_model2vec(model, folder, 256))
    row("model2vec.distill, all", lambda folder: by_model2vec(model, folder, None))
    encoder = opencse.SentenceEncoder.load(model, pooling=given.pooling)
    remember(encoder)
    for name, settings in NO_TEXT.items():
        row(name, lambda folder, own=settings: opencse.export_static(encoder, folder, settings=own))  # type: ignore[misc]
    for name, settings in WITH_TEXT.items():
        own = settings.model_copy(update={"sentences": given.sentences})
        row(
            f"{name}, text",
            lambda folder, own=own: opencse.export_static(encoder, folder, corpus=given.corpus, settings=own),  # type: ignore[misc]
        )
    if given.train:

        def trained(folder: Path) -> None:
            settings = DistilSettings(ridge=1.0, sentences=given.sentences)
            opencse.export_static(encoder, work / "start", corpus=given.corpus, settings=settings)
            steps = [f"training.max_steps={given.train}"]
            opencse.train(given.corpus, folder, model=work / "start", recipe="simcse", settings=steps)

        row(f"fitted, ridge 1, then {given.train:,} steps of SimCSE, text", trained)


def remember(encoder: opencse.SentenceEncoder) -> None:
    """Lets what the encoder has encoded once be taken from memory, since every row of a table asks for the same."""
    encode, embed = encoder.encode, encoder.embed
    known: dict[object, Any] = {}

    def encode_once(texts: Sequence[str], **how: Any) -> Any:  # noqa: ANN401 - as encode
        key = tuple(texts)
        if key not in known:
            known[key] = encode(texts, **how)
        return known[key]

    def embed_once(tokens: Any, **how: Any) -> Any:  # noqa: ANN401 - as embed
        key = tokens.input_ids.numpy().tobytes()
        if key not in known:
            known[key] = embed(tokens, **how)
        return known[key]

    encoder.encode = encode_once  # type: ignore[method-assign, assignment]
    encoder.embed = embed_once  # type: ignore[method-assign]


def by_model2vec(model: str, folder: Path, dimensions: int | None) -> None:
    """Its own distillation with its own defaults."""
    from model2vec.distill import distill

    distill(model, pca_dims=dimensions, quantize_to="float32").save_pretrained(folder)


def line(name: str, model: str, given: argparse.Namespace, sets: Sequence[str], seconds: float) -> str:
    """The scores of a model, as a line of the table."""
    pooling = given.pooling if model in given.models else None
    sts = opencse.evaluate(model, given.data / "sts", pooling=pooling)
    found = []
    for one in sets:
        if model in given.models and not given.teacher:
            continue
        scores = opencse.evaluate(model, given.data / "retrieval", suite="retrieval", tasks=[one], pooling=pooling)
        found.append(f"{scores.average:.2f}")
    texts = [
        text for task in load_sts(given.data / "sts", ["stsb"]).tasks.values() for row in task.texts() for text in row
    ]
    encoder = opencse.SentenceEncoder.load(model, device="cpu")
    began = time.perf_counter()
    encoder.encode(texts)
    speed = len(texts) / (time.perf_counter() - began)
    size = sum(path.stat().st_size for path in Path(model).rglob("*") if path.is_file()) / 1e6
    return f"| {name} | {sts.sts.average:.2f} | {' | '.join(found)} | {seconds:.0f} | {size:.0f} | {speed:,.0f} |"


if __name__ == "__main__":
    main()
