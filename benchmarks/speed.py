r"""Measures how fast opencse is compared with other libraries on this machine: one command, one table.

    python benchmarks/speed.py step encode static sts start --shape mini base --model MINILM --sts STS \
        --json speed.json

``step``: a training step (pairs of a text with itself, batch 64, at most 32 ids or ``--length``, [CLS], dropout .1,
AdamW, gradients clipped) compared with sentence-transformers' with bf16 and at its default, float32. ``encode``: from
texts to vectors, tokenising included, compared with its `encode` at its defaults. ``static``: the same for a model of
word vectors alone (opencse-mini), compared with model2vec and sentence-transformers' StaticEmbedding of the same
vectors. ``sts``: the seven STS tasks. ``start``: until a command answers. Weights, texts, batches and lengths are the
same on both sides. Shapes are of random weights (BERT; ``small`` 2 x 128, ``mini`` 4 x 256, ``minilm`` 6 x 384,
``base`` 12 x 768), for steps alone where there is a ``--model``, a folder. No row has a further turn after
``--seconds``, and none is of bf16 where the processor has no unit for it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rows import HEADER, Row, machine, timed, write_json
from scipy.stats import spearmanr

from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import Sts
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.pairs import ScoredPairs
from opencse.kernels.precision import choose_precision
from opencse.model_folder.locate import BUILTIN
from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.optimizer import build_optimizer
from opencse.training.schedule import keep_freed_memory
from opencse.training.step import Step, step_inputs

BATCH, LENGTH = 64, 32
SHAPES = {"small": (2, 128), "mini": (4, 256), "minilm": (6, 384), "base": (12, 768)}
"""Layers and width."""
Precision = Literal["float32", "bf16"]
PRECISIONS: tuple[Precision, ...] = (
    ("float32", "bf16") if choose_precision("auto", torch.device("cpu")).bf16 else ("float32",)
)
"""Elsewhere bf16 is emulated, and slower than float32."""
SIDES = ("first", "second")
Clock = Callable[[], float]


def shaped(shape: str, folder: Path, tokenizer_of: str = BUILTIN) -> str:
    """A folder with a BERT of ``shape`` and random weights, and the tokenizer of another model."""
    from transformers import BertConfig, BertModel

    layers, width = SHAPES[shape]
    tokenizer = SentenceEncoder(tokenizer_of, device="cpu").tokenizer.hf
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64 if width > 256 else 4,
        intermediate_size=4 * width,
        pad_token_id=0,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(folder)
    return str(folder)


def step(
    model: str,
    text: str,
    *,
    turns: int,
    seconds: float,
    name: str = "",
    clock: Clock = time.perf_counter,
    length: int = LENGTH,
) -> list[Row]:
    """A training step compared with sentence-transformers' with bf16, and compared with its default (float32)."""
    rows = []
    of_length = "" if length == LENGTH else f", texts of up to {length} ids"
    for theirs, ours in (("bf16", ("bf16",)), ("float32", tuple(reversed(PRECISIONS)))):
        if theirs not in PRECISIONS:
            continue
        rows += timed(
            f"training step, {name or model}{of_length}, {{}} compared with sentence-transformers {theirs}",
            {precision: our_step(model, text, precision, "packed", length) for precision in ours},
            their_step(model, text, theirs, length),
            size=BATCH,
            unit="sentences/s",
            turns=turns,
            clock=clock,
            seconds=seconds,
        )
    return rows


def sts(model: str, folder: str, *, pairs: int, turns: int, seconds: float, name: str = "") -> list[Row]:
    """The first pairs of each file of the seven STS tasks, compared with sentence-transformers' `encode` and scipy."""
    data = Sts().load(Path(folder))
    for key, task in data.tasks.items():
        cut = [
            ScoredPairs(part.name, part.scores[:pairs], part.first[:pairs], part.second[:pairs]) for part in task.parts
        ]
        data.tasks[key] = replace(task, parts=tuple(cut))
    encoder = SentenceEncoder.load(model, device="cpu")
    peer = peer_encoder(model, max_length=encoder.max_length, pooling=encoder.pooling.value)
    opened = {precision: open_model(model, device="cpu", precision=precision) for precision in PRECISIONS}

    def theirs(turn: int) -> float:
        found = []
        for task in data.tasks.values():
            sides = [peer.encode([text for part in task.parts for text in getattr(part, side)]) for side in SIDES]
            a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
            found.append(100 * float(spearmanr((a * b).sum(axis=1), task.gold).statistic))
        return sum(found) / len(found)

    def ours(precision: Precision, turn: int = 0) -> float:
        return Sts().evaluate(opened[precision], data).values()["sts.average"]

    expected = theirs(0)
    return timed(
        f"seven STS tasks, {pairs} pairs of each file, {name or model}, "
        "{} compared with sentence-transformers + scipy",
        {precision: partial(ours, precision) for precision in PRECISIONS},
        theirs,
        size=sum(task.n for task in data.tasks.values()),
        unit="pairs/s",
        turns=turns,
        notes={p: f"average {ours(p):.2f}, theirs {expected:.2f}" for p in PRECISIONS},
        seconds=seconds,
    )


def start(model: str, text: str, *, turns: int, seconds: float) -> list[Row]:
    """Times `opencse --help` and the first output of `opencse train`, compared with an import of the peer."""
    program = [sys.executable, "-m", "opencse"]

    def told(turn: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            first_output([*program, "train", text, "--model", model, "--out", f"{folder}/run"])

    return timed(
        "{} compared with `import sentence_transformers`",
        {
            "`opencse --help`": lambda turn: subprocess.run(
                [*program, "--help"], check=True, stdout=subprocess.DEVNULL
            ),
            "first output of `opencse train`": told,
        },
        lambda turn: subprocess.run([sys.executable, "-c", "import sentence_transformers"], check=True),
        size=1,
        unit="starts/s",
        turns=turns,
        seconds=seconds,
    )


def first_output(command: list[str]) -> None:
    """Runs ``command`` on a terminal of its own until it writes there, and ends it."""
    ours, its = os.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its)
    os.close(its)
    try:
        os.read(ours, 1)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def our_step(model: str, text: str, precision: str, way: str, length: int = LENGTH) -> Callable[[int], None]:
    """A step of `opencse train` (recipe simcse, [CLS])."""
    settings = (
        f"training.batch_size={BATCH}",
        f"data.max_length={length}",
        f"training.precision={precision}",
        f"training.packed={str(way == 'packed').lower()}",
        "encoder.pooling=cls",
        "encoder.head.kind=none",
    )
    prepared: Run = Run(text=Source(text), recipe="simcse", model=model, settings=settings, dev=None).open(Silent())
    encoder, training = prepared.encoder, prepared.start.recipe.training
    optimizer = build_optimizer([*encoder.parameters()], training)
    made = Step(encoder, prepared.objective, prepared.precision)
    encoder.train()

    def make(number: int) -> None:
        made.gradients(step_inputs(prepared.inputs, prepared.batches, number, 1, encoder))
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return make


def peer_encoder(model: str, *, max_length: int | None = None, pooling: str = "cls") -> Any:  # noqa: ANN401
    """sentence-transformers' encoder of the same folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(model, max_seq_length=max_length)
    width = transformer.get_word_embedding_dimension()
    return SentenceTransformer(modules=[transformer, Pooling(width, pooling)], device="cpu")


def their_step(model: str, text: str, precision: str, length: int = LENGTH) -> Callable[[int], None]:
    """A step as sentence-transformers' trainer makes it: its model, its loss, torch's fused AdamW."""
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    encoder = peer_encoder(model, max_length=length)
    loss = MultipleNegativesRankingLoss(encoder)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=0.0, fused=True)
    texts = lines(text)
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


def encode(model: str, text: str, *, pooling: str, turns: int, count: int, seconds: float, name: str = "") -> list[Row]:
    """Texts to vectors, compared with sentence-transformers' `encode` at its defaults (float32, batch 32)."""
    texts = lines(text)[:count]
    ours = SentenceEncoder.load(model, pooling=pooling, device="cpu")
    peer = peer_encoder(model, max_length=ours.max_length, pooling=pooling)
    expected = peer.encode(texts)

    def encoded(precision: Precision, turn: int = 0) -> np.ndarray[Any, Any]:
        return ours.encode(texts, precision=precision)

    notes: dict[str, str] = {precision: near(encoded(precision), expected) for precision in PRECISIONS}
    what = f"encode, {name or model}, {pooling}, {{}} compared with sentence-transformers float32"
    return timed(
        what,
        {precision: partial(encoded, precision) for precision in PRECISIONS},
        lambda _: peer.encode(texts),
        size=len(texts),
        unit="sentences/s",
        turns=turns,
        notes=notes,
        seconds=seconds,
    )


def static(text: str, *, turns: int, count: int, clock: Clock = time.perf_counter) -> list[Row]:
    """Word vectors alone, tokenising included: opencse-mini, and the same vectors in both peers."""
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer

    texts = lines(text)

    def part(first: int, turn: int) -> list[str]:
        """Texts that no turn before had (as long as there are any): words are looked up that were seen before."""
        start = (first + turn) * count % max(1, len(texts) - count)
        return texts[start : start + count]

    def encoded(call: Callable[[list[str]], object], texts_of: Callable[[int], list[str]], turn: int) -> object:
        return call(texts_of(turn))

    ours = SentenceEncoder.load(device="cpu")
    words = ours.backbone.get_input_embeddings().get_parameter("weight").detach().numpy()
    rust = ours.tokenizer.hf.backend_tokenizer.to_str()
    theirs = SentenceTransformer(
        modules=[StaticEmbedding(Tokenizer.from_str(rust), embedding_weights=np.array(words))], device="cpu"
    )
    model = StaticModel(vectors=np.array(words), tokenizer=Tokenizer.from_str(rust), normalize=False)
    rows = []
    for peer, (name, call) in enumerate((("model2vec", model.encode), ("StaticEmbedding", theirs.encode))):
        part_of = partial(part, peer * (turns + 2))
        rows += timed(
            f"encode, opencse-mini compared with {name}",
            {"ours": partial(encoded, ours.encode, part_of)},
            partial(encoded, call, part_of),
            size=min(count, len(texts)),
            unit="sentences/s",
            turns=turns,
            clock=clock,
        )
    return rows


def near(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    """How near two arrays of vectors are, each vector at length 1."""
    found, expected = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (found, expected))
    cosines = (found * expected).sum(axis=1)
    return f"max abs {np.abs(found - expected).max():.1g}, min cosine {cosines.min():.6f}"


def quiet() -> None:
    """No bars and no reports of transformers."""
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def lines(text: str) -> list[str]:
    """The lines of a file that are not empty."""
    return [line for line in Path(text).read_text(encoding="utf-8").splitlines() if line]


@contextmanager
def models_of(options: argparse.Namespace) -> Iterator[list[tuple[str, str]]]:
    """Yields name and folder of each model to measure."""
    with tempfile.TemporaryDirectory() as folder:
        shapes = [(f"random BERT {shape}", shaped(shape, Path(folder) / shape)) for shape in options.shape]
        yield [*shapes, *((Path(model).name, model) for model in options.model)]


def main() -> None:
    """Times the work, prints the table, and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="+", choices=("step", "encode", "static", "sts", "start"))
    parser.add_argument("--model", nargs="*", default=[], help="folders of BERT-shaped models")
    parser.add_argument("--shape", nargs="*", default=[], choices=tuple(SHAPES), help="models of random weights")
    parser.add_argument("--text", default=str(sample.TRAIN))
    parser.add_argument("--length", type=int, default=LENGTH, help="ids of a text, at most, in a step")
    parser.add_argument("--sts", help="folder of the seven STS tasks")
    parser.add_argument("--pairs", type=int, default=40, help="of each file of an STS task")
    parser.add_argument("--pooling", default="mean", help="of encode")
    parser.add_argument("--count", type=int, default=512, help="texts to encode")
    parser.add_argument("--threads", type=int, help="of both sides; unset leaves torch's choice")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30, help="after which a row has no further turn")
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"), help="cpu: on a shared machine, one thread")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    quiet()
    keep_freed_memory()  # as `opencse train` does
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    if options.threads:
        torch.set_num_threads(options.threads)
    rows: list[Row] = []
    bounds = {"turns": options.turns, "seconds": options.seconds}

    def add(found: list[Row]) -> None:
        rows.extend(found)
        print(*(row.line() for row in found), sep="\n", flush=True)

    here = machine()
    print(here, "", HEADER, sep="\n", flush=True)
    with models_of(options) as models:
        for name, model in models:
            if "step" in options.work:
                add(step(model, options.text, name=name, clock=clock, length=options.length, **bounds))
        for name, model in models[len(options.shape) :] or models:
            if "encode" in options.work:
                add(encode(model, options.text, pooling=options.pooling, count=options.count, name=name, **bounds))
            if "sts" in options.work and options.sts:
                add(sts(model, options.sts, pairs=options.pairs, name=name, **bounds))
    if "static" in options.work:
        add(static(options.text, turns=options.turns, count=4 * options.count, clock=clock))
    if "start" in options.work:
        add(start("opencse-mini", options.text, **bounds))
    if options.json:
        write_json(options.json, rows, {key: str(value) for key, value in vars(options).items()})


if __name__ == "__main__":
    main()
