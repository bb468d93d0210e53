"""Memory and time of a training step as the batch grows, whole and in chunks; and what chunks cost.

    python benchmarks/scale.py memory --out docs/results/scale
    python benchmarks/scale.py cost --model FOLDER --batch 256 --chunk 64
    torchrun --nproc-per-node 2 benchmarks/scale.py processes --model FOLDER
    python benchmarks/scale.py corpus --model FOLDER --megabytes 50 200 800
    python benchmarks/scale.py kills --model FOLDER --rows 20000 --kills 20
    python benchmarks/scale.py numbers --model FOLDER --data FOLDER

`memory` makes steps of the recipe simcse on a small BERT with random weights and generated texts, each batch in a
process of its own, and prints the peak of its memory above what it held before the step. `cost` makes the same step
whole and in chunks in turn, and prints the ratios of their times. `processes` prints texts a second.

`corpus` generates texts of so many megabytes, tokenises each into a cache and encodes a share of it into a folder, in a
process of its own, and prints rates and the peak of its memory. `kills` ends `opencse encode` with SIGKILL at random
moments, goes on each time, and compares the folder with that of an unbroken call. `numbers` prints what smaller vectors
lose: Spearman on STS-B test, nDCG@10 on SciFact.

Times are of the processor (one thread), so that other work on the machine counts little; `processes` prints wall time.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.analysis.figures import canvas, standalone, to_svg
from opencse.bulk.encoding_settings import EncodingSettings, Form
from opencse.bulk.folders import encode_folder
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.retrieval.score import Retrieval
from opencse.evaluation.sts import Sts
from opencse.making.backbone import Shape, create_backbone
from opencse.making.vocabulary import train_wordpiece
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.processes import joined
from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer
from opencse.training.optimizer import build_optimizer
from opencse.training.step import Step, step_inputs

SHAPE = Shape(layers=2, hidden=64, heads=2, inner=256, positions=40)
BATCHES = (64, 256, 1_024, 4_096, 16_384, 65_536)


def generated(count: int, path: Path) -> Path:
    """``count`` texts of 6 to 20 words of the sample, drawn by a seed."""
    words = np.array(sorted(set(sample.TRAIN.read_text(encoding="utf-8").lower().split())))
    random = np.random.default_rng(0)
    path.write_text("\n".join(" ".join(random.choice(words, random.integers(6, 21))) for _ in range(count)))
    return path


def prepared(model: str, text: Path, batch: int, *more: str) -> Run:
    """The recipe simcse at ``batch`` examples."""
    settings = (f"training.batch_size={batch}", "training.precision=float32", "encoder.pooling=cls", *more)
    return Run(text=Source(str(text)), recipe="simcse", model=model, settings=settings, dev=None, device="cpu").open(
        Silent()
    )


def step_of(run: Run, chunks: Chunks) -> Callable[[int], None]:
    """Makes a whole optimizer step by its number."""
    encoder, training = run.encoder.train(), run.start.recipe.training
    optimizer = build_optimizer([*encoder.parameters()], training)
    step = Step(encoder, run.objective, run.precision)

    def make(number: int) -> None:
        step.gradients(step_inputs(run.inputs, run.batches, number, 1, encoder, chunks))
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return make


def peak() -> float:
    """MiB that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(folder: Path, batch: int, chunk: int | None) -> None:
    """Prints peak and time of one step."""
    torch.set_num_threads(1)
    text = generated(batch, folder / f"{batch}.txt")
    make = step_of(prepared(str(folder / "model"), text, batch), Chunks(chunk))
    before, started = peak(), time.process_time()
    make(0)
    print(json.dumps({"mib": peak() - before, "held": before, "seconds": time.process_time() - started}))


def memory(asked: argparse.Namespace) -> None:
    """The table and the picture of batches."""
    found: dict[str, dict[int, dict[str, float]]] = {"whole": {}, "chunks": {}}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        texts = sample.TRAIN.read_text(encoding="utf-8").splitlines()
        create_backbone(train_wordpiece(texts, 2_000), SHAPE, folder / "model", seed=0)
        print(f"{'batch':>7} {'whole':>22} {'in chunks of ' + str(asked.chunk):>24}")
        for batch in asked.batches:
            for kind in ("whole", "chunks"):
                if kind == "whole" and batch > asked.whole_to:
                    continue
                chunk = [] if kind == "whole" else ["--chunk", str(asked.chunk)]
                command = [sys.executable, __file__, "one", "--folder", place, "--batch", str(batch), *chunk]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[kind][batch] = json.loads(told.splitlines()[-1])
            row = [found[kind].get(batch) for kind in ("whole", "chunks")]
            cells = ["-" if r is None else f"{r['mib']:,.0f} MiB {r['seconds']:,.1f} s" for r in row]
            print(f"{batch:>7,} {cells[0]:>22} {cells[1]:>24}", flush=True)
    told = told_environment()
    print(told)
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        values = {"shape": SHAPE.model_dump(), "chunk": asked.chunk, "steps": found, "environment": told}
        (asked.out / "scale.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        (asked.out / "scale.svg").write_text(standalone(drawn(found)), encoding="utf-8")


def drawn(found: dict[str, dict[int, dict[str, float]]]) -> str:
    """Peak memory by batch."""
    figure, axes = canvas("Peak memory of a step", "batch", "MiB")
    for kind, name in (("whole", "all rows at once"), ("chunks", "in chunks")):
        batches = sorted(found[kind])
        axes.plot(batches, [found[kind][batch]["mib"] for batch in batches], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    return to_svg(figure)


def cost(asked: argparse.Namespace) -> None:
    """The same step whole, in chunks, and in chunks of which half keep their graph, in turn."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        text = asked.text or generated(20 * asked.batch, Path(place) / "text.txt")
        run = prepared(asked.model, text, asked.batch, f"training.precision={asked.precision}", *asked.set)
        half = max(1, -(-2 * asked.batch // asked.chunk) // 2)
        ways = {
            "all rows at once": WHOLE,
            f"in chunks of {asked.chunk}": Chunks(asked.chunk),
            f"in chunks of {asked.chunk}, {half} kept": Chunks(asked.chunk, keep=half),
        }
        steps = {name: step_of(run, chunks) for name, chunks in ways.items()}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(asked.steps + 1):
            for name, step in steps.items():
                started = time.process_time()
                step(number)
                if number:
                    taken[name].append(time.process_time() - started)
    plain = taken["all rows at once"]
    print(f"{asked.model}, batch {asked.batch}, {run.precision.name}, attention {run.attention}")
    for name, seconds in taken.items():
        ratios = [b / a for a, b in zip(plain, seconds, strict=True)]
        spread = f"({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:28} {statistics.median(seconds):7.2f} s   {statistics.median(ratios):.2f}x {spread}")
    print(told_environment())


def processes(asked: argparse.Namespace) -> None:
    """Texts a second of the processes that this one is among."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place, joined("cpu") as world:
        text = asked.text or generated(20 * asked.batch, Path(place) / "text.txt")
        make = step_of(prepared(asked.model, text, asked.batch, *asked.set), Chunks(asked.chunk, world=world))
        taken = []
        for number in range(asked.steps + 1):
            world.wait()
            started = time.perf_counter()
            make(number)
            taken.append(time.perf_counter() - started)
        if world.first:
            rate = 2 * asked.batch / statistics.median(taken[1:])
            print(f"{world.count} processes, batch {asked.batch}: {rate:,.0f} texts/s, {told_environment()}")


def text_of(megabytes: int, path: Path) -> int:
    """Writes sentences of words of the sample, drawn by a seed, up to so many megabytes; how many they are."""
    words = np.array(sorted(set(sample.TRAIN.read_text(encoding="utf-8").lower().split())))
    random = np.random.default_rng(0)
    rows = 0
    with path.open("w", encoding="utf-8") as stream:
        while stream.tell() < megabytes * 1_000_000:
            lengths = random.integers(6, 21, 50_000)
            drawn = iter(words[random.integers(0, len(words), lengths.sum())].tolist())
            stream.write("\n".join(" ".join(islice(drawn, int(length))) for length in lengths) + "\n")
            rows += len(lengths)
    return rows


def corpus(asked: argparse.Namespace) -> None:
    """Rates and memory of tokenising and encoding, by the size of the text."""
    print(f"{'megabytes':>9} {'rows':>11} {'step':>9} {'s':>7} {'rows/s':>9} {'MB/s':>6} {'peak MiB':>9}")
    for megabytes in asked.megabytes:
        with tempfile.TemporaryDirectory(dir=asked.folder) as place:
            text = Path(place) / "text.txt"
            rows = text_of(megabytes, text)
            for step in ("tokenise", "encode"):
                if step == "encode" and megabytes > asked.encode_to:
                    continue
                command = [sys.executable, __file__, "once", "--step", step, "--folder", place, "--model", asked.model]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found = json.loads(told.splitlines()[-1])
                rate, size = rows / found["seconds"], megabytes / found["seconds"]
                print(
                    f"{megabytes:>9,} {rows:>11,} {step:>9} {found['seconds']:>7,.1f} {rate:>9,.0f} {size:>6.2f} "
                    f"{found['mib']:>9,.0f}",
                    flush=True,
                )
    print(told_environment())


def once(asked: argparse.Namespace) -> None:
    """Prints time (of the processor, where one process works) and peak of one step of `corpus`."""
    torch.set_num_threads(1)
    source = Source(str(asked.folder / "text.txt"))
    started = time.process_time()
    if asked.step == "tokenise":
        tokenise(source, Tokenizer.load(asked.model), 32, cache=asked.folder / "cache")
    else:
        encode_folder(source, asked.folder / "vectors", EncodingSettings(model=asked.model, device="cpu"))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = time.process_time() - started + children.ru_utime + children.ru_stime
    print(json.dumps({"mib": max(peak(), children.ru_maxrss / 1024), "seconds": spent}))


def kills(asked: argparse.Namespace) -> None:
    """Is the folder of a command that is killed again and again that of an unbroken one?"""
    random = np.random.default_rng(asked.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        text = generated(asked.rows, folder / "text.txt")
        command = [sys.executable, "-m", "opencse", "encode", asked.model, str(text), "--device", "cpu"]
        command += ["--shard-rows", str(asked.shard_rows), "--processes", str(asked.processes), "--out"]
        begun = time.perf_counter()
        subprocess.run([*command, str(folder / "whole")], check=True, capture_output=True)
        span = time.perf_counter() - begun
        whole = content(folder / "whole")
        print(f"{asked.rows:,} texts in {len(whole) - 1} files, {asked.processes} processes, {span:.1f} s unbroken")
        killed, folders, there = 0, 0, list[int]()
        out = folder / "killed"
        while killed < asked.kills or out.exists():
            running = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with suppress(subprocess.TimeoutExpired):
                running.wait(float(random.uniform(0, span)) if killed < asked.kills else None)
            if running.poll() is None:
                running.send_signal(signal.SIGKILL)
            if running.wait() == -signal.SIGKILL:
                killed += 1
                there.append(len(list(out.glob("part-*"))))
            elif running.returncode != 0:
                raise SystemExit(f"it went on with {there[-1]} files, and failed")
            elif content(out) != whole:
                raise SystemExit(f"after kills with {there} files there, the folder is ANOTHER")
            else:
                folders += 1
                shutil.rmtree(out)
        print(f"killed {killed} times, at a moment drawn from the whole of it; files there after each: {there}")
        print(f"{folders} folders were begun, killed and gone on with until whole; each is the same to the bit")
        print(told_environment())


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder of vectors."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def numbers(asked: argparse.Namespace) -> None:
    """What smaller vectors lose."""
    torch.set_num_threads(1)
    encoder = SentenceEncoder.load(asked.model, device="cpu")
    forms = [
        Form(kind, dimensions)
        for dimensions in [None, *asked.dimensions]
        if (dimensions or 0) < encoder.dimension
        for kind in ("float32", "float16", "int8", "binary")
    ]
    sts, retrieval = Sts(), Retrieval()
    pairs, documents = sts.load(asked.data / "sts", ["stsb"]), retrieval.load(asked.data / "retrieval", ["scifact"])
    kept: dict[str, NDArray[np.float32]] = {}

    def known(texts: Sequence[str]) -> NDArray[np.float32]:
        fresh = [text for text in dict.fromkeys(texts) if text not in kept]
        kept.update(zip(fresh, encoder.encode(fresh), strict=True))
        return np.stack([kept[text] for text in texts])

    print(f"{'numbers':>9} {'dimensions':>10} {'bytes':>6}  {'STS-B':>6}  {'SciFact':>7}")
    for form in forms:

        def written(texts: Sequence[str], form: Form = form) -> NDArray[np.float32]:
            written = form.of(known(texts))
            if form.numbers == "binary":  # bits are -1 and 1
                return (
                    2 * np.unpackbits(written, axis=1, count=form.kept_dimensions(encoder.dimension)).astype(np.float32)
                    - 1
                )
            return np.asarray(written, dtype=np.float32)

        model = EmbeddingModel(asked.model, written)
        size = form.width(encoder.dimension) * form.stored.itemsize
        found = sts.evaluate(model, pairs).values() | retrieval.evaluate(model, documents).values()
        scores = found["sts.stsb"], found["retrieval.average"]
        dimensions = form.kept_dimensions(encoder.dimension)
        told = f"{form.numbers:>9} {dimensions:>10} {size:>6}  {scores[0]:>6.2f}  {scores[1]:>7.2f}"
        print(told, flush=True)
    print(told_environment())


def told_environment() -> str:
    """Versions, hardware and day, in a line."""
    values = {key: value for key, value in Environment.here("cpu").model_dump().items() if value is not None}
    return ", ".join([*(f"{key} {value}" for key, value in values.items()), time.strftime("%Y-%m-%d")])


def main(arguments: Sequence[str] | None = None) -> None:
    """Does what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    table = commands.add_parser("memory")
    table.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    table.add_argument("--whole-to", type=int, default=4_096, help="largest batch that is tried whole")
    table.add_argument("--chunk", type=int, default=256)
    table.add_argument("--out", type=Path)
    single = commands.add_parser("one")
    single.add_argument("--folder", type=Path, required=True)
    single.add_argument("--batch", type=int, required=True)
    single.add_argument("--chunk", type=int)
    for name in ("cost", "processes"):
        timed = commands.add_parser(name)
        timed.add_argument("--model", required=True)
        timed.add_argument("--text", type=Path)
        timed.add_argument("--batch", type=int, default=256)
        timed.add_argument("--chunk", type=int, default=64 if name == "cost" else None)
        timed.add_argument("--steps", type=int, default=5)
        timed.add_argument("--precision", default="float32", choices=("float32", "bf16"))
        timed.add_argument("--set", nargs="*", default=[], help="settings, as opencse train has them")
    large = commands.add_parser("corpus")
    large.add_argument("--model", required=True)
    large.add_argument("--megabytes", type=int, nargs="+", default=[50, 200, 800])
    large.add_argument("--encode-to", type=int, default=0, help="largest text that is encoded, too, in megabytes")
    large.add_argument("--folder", type=Path, help="where texts and caches go")
    step = commands.add_parser("once")
    step.add_argument("--step", required=True, choices=("tokenise", "encode"))
    step.add_argument("--folder", type=Path, required=True)
    step.add_argument("--model", required=True)
    killed = commands.add_parser("kills")
    killed.add_argument("--model", required=True)
    killed.add_argument("--rows", type=int, default=20_000)
    killed.add_argument("--shard-rows", type=int, default=500)
    killed.add_argument("--kills", type=int, default=20)
    killed.add_argument("--processes", type=int, default=1)
    killed.add_argument("--seed", type=int, default=0)
    smaller = commands.add_parser("numbers")
    smaller.add_argument("--model", required=True)
    smaller.add_argument("--data", type=Path, required=True, help="folder with sts and retrieval")
    smaller.add_argument("--dimensions", type=int, nargs="*", default=[256, 128, 64])
    asked = parser.parse_args(arguments)
    if asked.what == "one":
        one(asked.folder, asked.batch, asked.chunk)
        return
    every = (memory, cost, processes, corpus, once, kills, numbers)
    {command.__name__: command for command in every}[asked.what](asked)


if __name__ == "__main__":
    main()
