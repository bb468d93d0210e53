"""Checks whether something got slower: ratios to plain references in the same run, compared with stored ones.

    make bench-quick
    python benchmarks/quick.py --write    # stores new ratios, where they should move

Each row is the median ratio over turns in which both sides are timed one right after the other, so other work on the
machine slows both. It fails (exit code 1) where a ratio is below the stored one by more than ``--tolerance``, and says
which. References need nothing but the library's own dependencies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from rows import HEADER, Row, machine, paired
from speed import lines, our_step, quiet, shaped
from tokenizers import Tokenizer

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import vectors_by_layer
from opencse.encoder.opening import load
from opencse.model_folder.locate import builtin_folder
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations
from opencse.text import sample

STORED = Path(__file__).parent / "quick.json"
HELP = "import sys; sys.argv = ['opencse', '--help']; from opencse.cli import main; main()"
ANSWER = (
    "import sys; sys.argv = ['opencse', 'similarity', {model!r}, 'A dog barks.', 'It rains.']; "
    "from opencse.cli import main; main()"
)
LOADING = "import opencse; opencse.load('opencse-mini').encode('A dog barks.')"
LIBRARIES = "import numpy, pydantic, tokenizers"
ANSWERING = "import numpy, pydantic, tokenizers, typer.main"
FIRST_ANSWERS = {
    "opencse similarity compared with Python": (ANSWER.replace("{model!r}", "'opencse-mini'"), ANSWERING),
    "opencse similarity with a BERT compared with Python": (ANSWER, ANSWERING),
    "opencse.load and encode compared with Python": (LOADING, LIBRARIES),
}
"""The code of a new process and of its reference, by the name of the row."""
TOOLS = "import argparse, dataclasses, inspect, typing, subprocess"


def step(model: str, turns: int) -> Row:
    """A packed training step compared with the plain one."""
    packed, plain = (our_step(model, str(sample.TRAIN), "float32", way) for way in ("packed", "plain"))
    return paired("step: packed compared with plain", packed, plain, size=64, unit="sentences/s", turns=turns)


def encode(model: str, turns: int) -> Row:
    """`SentenceEncoder.encode` compared with transformers' model on padded batches of 32."""
    encoder = SentenceEncoder.load(model, pooling="mean", device="cpu")
    texts = lines(str(sample.TRAIN))[:256]
    tokenizer, backbone = encoder.tokenizer.hf, encoder.backbone

    @torch.inference_mode()
    def reference(turn: int) -> None:
        for start in range(0, len(texts), 32):
            rows = tokenizer(texts[start : start + 32], padding=True, truncation=True, return_tensors="pt")
            states = backbone(**rows).last_hidden_state
            mask = rows["attention_mask"].unsqueeze(-1)
            (states * mask).sum(1) / mask.sum(1)

    return paired(
        "encode compared with transformers",
        lambda turn: encoder.encode(texts),
        reference,
        size=len(texts),
        unit="sentences/s",
        turns=turns,
    )


def layers(model: str, turns: int) -> Row:
    """All layers of one pass compared with a pass each."""
    encoder = SentenceEncoder.load(model, pooling="mean", device="cpu")
    texts, every = lines(str(sample.TRAIN))[:64], range(encoder.depth + 1)
    return paired(
        "layers: at once compared with one by one",
        lambda turn: vectors_by_layer(encoder, texts, every),
        lambda turn: [vectors_by_layer(encoder, texts, [layer]) for layer in every],
        size=len(texts),
        unit="sentences/s",
        turns=turns,
    )


def loss(turns: int) -> Row:
    """The loss in tiles compared with the dense one, with gradients, at 1,024 examples."""
    anchor, positive = (torch.randn(1024, 256).requires_grad_() for _ in range(2))
    reps = Representations(anchor, positive, anchor.detach()[:, None][:, :0], torch.arange(2048).reshape(1024, 2))

    def way(tile_bytes: int) -> Callable[[int], None]:
        objective = Objective.from_settings(ObjectiveSettings(tile_bytes=tile_bytes))
        return lambda turn: objective(reps).total.backward()

    return paired("loss: tiles compared with dense", way(2**20), way(10**12), size=1024, unit="examples/s", turns=turns)


def start_up(turns: int) -> Row:
    """`opencse --help` compared with Python with what any command line needs."""

    def run(code: str) -> Callable[[int], object]:
        return lambda turn: subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    return paired("opencse --help compared with Python", run(HELP), run(TOOLS), size=1, unit="starts/s", turns=turns)


def first_answer(name: str, code: str, reference: str, turns: int) -> Row:
    """A first answer of a new process compared with Python with the packages that it needs."""

    def run(code: str) -> Callable[[int], object]:
        return lambda turn: subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    return paired(name, run(code), run(reference), size=1, unit="answers/s", turns=turns)


def loading(turns: int) -> Row:
    """Opening the built-in encoder for its vectors compared with reading its files."""
    folder = builtin_folder()

    def reference(turn: int) -> None:
        Tokenizer.from_file(str(folder / "tokenizer.json"))
        (folder / "model.safetensors").read_bytes()

    name = "opening opencse-mini compared with its files"
    return paired(name, lambda turn: load("opencse-mini"), reference, size=1, unit="/s", turns=turns)


def main() -> None:
    """Measures, prints, and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--tolerance", type=float, default=0.25, help="share of a stored ratio that may be lost")
    parser.add_argument("--write", action="store_true", help="store the ratios found")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    quiet()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = shaped("mini", Path(folder) / "mini")
        rows = [step(model, options.turns), encode(model, options.turns), layers(model, options.turns)]
        rows += [
            first_answer(name, code.format(model=model), reference, options.turns)
            for name, (code, reference) in FIRST_ANSWERS.items()
        ]
    rows += [loss(options.turns), start_up(options.turns), loading(options.turns)]
    print(machine(), "", HEADER, *(row.line() for row in rows), sep="\n")
    if options.write:
        STORED.write_text(json.dumps({row.name: round(row.ratio, 3) for row in rows}, indent=1) + "\n", "utf-8")
        return
    stored: dict[str, float] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else {}
    new = [row.name for row in rows if row.name not in stored]
    if new:
        sys.exit(f"{STORED.name} has no ratio of: {'; '.join(new)}; store them with --write")
    slower = [row for row in rows if row.ratio < stored[row.name] * (1 - options.tolerance)]
    for row in slower:
        print(f"slower: {row.name}: {row.ratio:.2f}x, stored {stored[row.name]:.2f}x", file=sys.stderr)
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
