r"""Measures training, encoding and the loss on a GPU, next to sentence-transformers: one command, one record.

    python benchmarks/gpu.py train kernels encode loss --text wiki100k.txt --tokenizer FOLDER --json gpu.json

``train``: steps of SimCSE on a BERT of base shape with random weights (pairs of a text with itself, batch 64, at most
32 ids, [CLS] with the head of training, AdamW, gradients clipped, bf16), by `opencse.runs.run.Run` as `opencse
train` does, in four ways: by transformers' layers, by ours, with recorded steps whose layers are torch's kernels, and
with recorded steps as they are (fused layers); and by sentence-transformers' loss with torch's AdamW under bf16
autocast, texts tokenised before. ``--epoch`` makes all steps of an epoch of a million sentences the last way.
``kernels``: what the GPU does in ten recorded steps, by kind of kernel. ``encode``: texts to vectors, tokenising
included, in bf16, compared with sentence-transformers' `encode` as it is by default (float32, 32 texts at a time) and
at its best (bf16, 512).
``loss``: memory and time of the contrastive loss and its gradient at 65,536 pairs of 768 dimensions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from speed import BATCH, LENGTH, shaped

from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment, installed
from opencse.model_folder.locate import BUILTIN
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.vectors.step import Representations
from opencse.objective.views.plain import Dropout
from opencse.progress import Silent
from opencse.runs import start
from opencse.runs.run import Run
from opencse.text.readers import Source

EPOCH = 1_000_000 // BATCH
WAYS = {
    "transformers' layers": ("training.packed=false", "training.graphs=false"),
    "our layers": ("training.graphs=false",),
    "recorded steps, layers not fused": (),
    "recorded steps": (),
}
NOT_FUSED = "not fused"
"""Part of the names of the ways that leave Triton's kernels out."""
WARM_UP = 40
PROFILED = 100
"""The step after which kernels are recorded: the steps of all lengths are recorded by then."""
KERNELS = {
    "matrix products": ("nvjet", "gemm", "cutlass"),
    "casts and copies": ("copy", "Copy", "Memcpy"),
    "AdamW and clipping": ("multi_tensor_apply", "NormTwo"),
    "embeddings": ("embedding", "layer_norm", "GammaBeta", "dropout", "masked_scale"),
    "attention": ("_attend",),
    "dropout, residual and LayerNorm": ("_norm",),
    "GELU": ("_gelu",),
    "sums (of biases' gradients)": ("reduce_kernel",),
}
"""Parts of the names of kernels, torch's and those of `opencse.kernels.gpu`; the first that fits counts."""


class Clock(Silent):
    """Notes when each logged step is done; logging reads the loss, so the device has made it."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}

    def advance(self, done: int, note: str = "") -> None:
        """Notes the time."""
        if note:
            self.times[done] = time.perf_counter()

    def say(self, line: str) -> None:
        """Prints what the run decides."""
        print(f"    {line}", flush=True)

    def milliseconds(self) -> float:
        """Of a step, between the first logged one after the warm-up and the last."""
        steps = sorted(step for step in self.times if step > WARM_UP)
        return 1_000 * (self.times[steps[-1]] - self.times[steps[0]]) / (steps[-1] - steps[0])


def our_steps(
    model: str, text: str, steps: int, settings: tuple[str, ...], out: Path, *, unfused: bool
) -> tuple[float, float]:
    """Milliseconds of a step, and seconds of the whole run with its start, its steps and its saving."""
    clock = Clock()
    with mock.patch.object(start, "why_not_fused", return_value="left out") if unfused else nullcontext():
        seconds = recorded_run(model, text, steps, settings, out, clock)
    return clock.milliseconds(), seconds


def recorded_run(model: str, text: str, steps: int, settings: tuple[str, ...], out: Path, clock: Clock) -> float:
    """Makes a run that ``clock`` watches; its seconds."""
    asked = (
        f"training.max_steps={steps}",
        f"training.batch_size={BATCH}",
        f"data.max_length={LENGTH}",
        "training.epochs=99",
    )
    kept = ("training.checkpoint_every=1000000", "training.log_every=10", "training.precision=bf16")
    job = Run(text=Source(text), recipe="simcse", model=model, settings=(*asked, *kept, *settings), dev=None)
    began = time.perf_counter()
    job.train(out, progress=clock)
    return time.perf_counter() - began


class Profile(Clock):
    """Records the kernels of ten steps."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])

    def advance(self, done: int, note: str = "") -> None:
        """Starts before the ten steps, and stops after them."""
        if note and done == PROFILED:
            self.profile.start()
        if note and done == PROFILED + 10:
            torch.cuda.synchronize()
            self.profile.stop()

    def by_kind(self) -> dict[str, float]:
        """Milliseconds of a step by kind of kernel, the most first."""
        found: Counter[str] = Counter()
        for event in self.profile.events() or ():  # type: ignore[no-untyped-call]
            if str(event.device_type).endswith("CUDA"):
                kind = next(
                    (kind for kind, parts in KERNELS.items() if any(p in event.name for p in parts)), "the rest"
                )
                found[kind] += event.device_time / 1e3 / 10
        return {kind: round(milliseconds, 3) for kind, milliseconds in found.most_common()}


def kernels(model: str, text: str, folder: Path) -> dict[str, float]:
    """Milliseconds of a recorded step by kind of kernel."""
    clock = Profile()
    recorded_run(model, text, PROFILED + 20, (), folder / "profiled", clock)
    return clock.by_kind()


def their_steps(model: str, texts: list[str], steps: int) -> float:
    """Milliseconds of a step by sentence-transformers' model and loss."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(model, max_seq_length=LENGTH)
    pooling = Pooling(transformer.get_word_embedding_dimension(), "cls")
    encoder = SentenceTransformer(modules=[transformer, pooling], device="cuda")
    loss = MultipleNegativesRankingLoss(encoder)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=3e-5, fused=True)
    encoder.train()
    batches = [encoder.preprocess(texts[BATCH * i : BATCH * (i + 1)]) for i in range(steps + 10)]
    for number, batch in enumerate(batches):
        if number == 10:
            torch.cuda.synchronize()
            began = time.perf_counter()
        features = [{k: v.to("cuda") for k, v in batch.items() if isinstance(v, torch.Tensor)} for _ in range(2)]
        with torch.autocast("cuda", torch.bfloat16):
            value = loss(features, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return 1_000 * (time.perf_counter() - began) / steps


def train(model: str, text: str, folder: Path, ways: list[str], *, epoch: bool) -> dict[str, Any]:
    """Milliseconds of a step each way, and the whole epoch."""
    lines = [line for line in Path(text).read_text(encoding="utf-8").splitlines() if line]
    found: dict[str, Any] = {"sentence-transformers, bf16": their_steps(model, lines, 60)}
    print(found, flush=True)
    for number, (way, settings) in enumerate(WAYS.items()):
        if way not in ways:
            continue
        steps = 120 if number < 2 else 400
        if epoch and number == len(WAYS) - 1:
            steps = EPOCH
        found[way], seconds = our_steps(model, text, steps, settings, folder / f"run{number}", unfused=NOT_FUSED in way)
        print(
            f"{way}: {found[way]:.2f} ms a step, {found[way] * EPOCH / 1e3:.0f} s an epoch, run {seconds:.1f} s",
            flush=True,
        )
        if steps == EPOCH:
            found["the epoch, with start and saving (s)"] = seconds
    return found


def rate(encode: Callable[[list[str]], object], texts: list[str]) -> float:
    """Texts a second."""
    encode(texts[:2_000])
    began = time.perf_counter()
    encode(texts)
    return len(texts) / (time.perf_counter() - began)


def encode(model: str, text: str, count: int) -> dict[str, float]:
    """Texts a second."""
    from sentence_transformers import SentenceTransformer

    lines = [line for line in Path(text).read_text(encoding="utf-8").splitlines() if line]
    many = (lines * (count // len(lines) + 1))[:count]
    ours = SentenceEncoder(model, device="cuda", pooling="mean")
    theirs = SentenceTransformer(model, device="cuda")
    theirs.max_seq_length = ours.max_length
    found = {
        "sentence-transformers, default": rate(lambda some: theirs.encode(some, show_progress_bar=False), many[:20_000])
    }
    found[f"opencse, bf16, {count:,} texts"] = rate(lambda some: ours.encode(some, precision="bf16"), many)
    found["opencse, float32"] = rate(ours.encode, many[:50_000])
    vectors = [ours.encode(many[:2_000], precision=p, normalize_embeddings=True) for p in ("float32", "bf16")]
    found["smallest cosine of bf16"] = float((vectors[0] * vectors[1]).sum(axis=1).min())
    theirs.bfloat16()
    found["sentence-transformers, bf16, 512 at a time"] = rate(
        lambda some: theirs.encode(some, batch_size=512, show_progress_bar=False), many[:20_000]
    )
    return found


def loss(pairs: int = 65_536, dimensions: int = 768) -> dict[str, float]:
    """GiB above the vectors themselves, and seconds, of a loss and its gradient."""
    objective = Objective(Dropout(), negatives=[InBatch()])
    a, b = (torch.randn(pairs, dimensions, device="cuda").requires_grad_() for _ in range(2))
    seconds = []
    for _ in range(3):
        a.grad = b.grad = None
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, began = torch.cuda.memory_allocated(), time.perf_counter()
        objective(Representations.of(a, b)).total.backward()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        peak = torch.cuda.max_memory_allocated() - before
    return {"pairs": pairs, "GiB above the vectors": peak / 2**30, "seconds": min(seconds)}


def main() -> None:
    """Measures, prints, and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="+", choices=("train", "kernels", "encode", "loss"))
    parser.add_argument("--text", required=True, help="a sentence a line")
    parser.add_argument("--tokenizer", default=BUILTIN, help="folder of a model with a WordPiece tokenizer")
    parser.add_argument("--sentences", type=int, default=1_000_000, help="to encode")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS), help="of training")
    parser.add_argument("--epoch", action="store_true", help="make all steps of an epoch of a million sentences")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    here = Environment.here("cuda")
    found: dict[str, Any] = {
        "machine": f"{torch.cuda.get_device_name()}, torch {torch.__version__}, opencse {here.commit}, transformers "
        f"{here.transformers}, sentence-transformers {installed('sentence-transformers')}, {time.strftime('%Y-%m-%d')}"
    }
    with tempfile.TemporaryDirectory() as folder:
        model = shaped("base", Path(folder) / "base", options.tokenizer)
        if "loss" in options.work:
            found["loss"] = loss()
        if "kernels" in options.work:
            found["kernels, ms a step"] = kernels(model, options.text, Path(folder))
        if "encode" in options.work:
            found["encode"] = encode(model, options.text, options.sentences)
        print(json.dumps(found, indent=1), flush=True)
        if "train" in options.work:
            found["train"] = train(model, options.text, Path(folder), options.ways, epoch=options.epoch)
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
