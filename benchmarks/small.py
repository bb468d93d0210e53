"""opencse-small made from text and a teacher's vectors: three layers imitate all-MiniLM-L6-v2.

    python benchmarks/small_texts.py OUT --wiki ordered.txt.xz --packages DEBS
    python benchmarks/small.py OUT --start WIKIBERT --teacher MODEL [--dev stsb-dev.tsv]

WIKIBERT is a BERT of `opencse pretrain` (its first layers are taken). With t a text's vector by the teacher, projected
to the width w of the student by the principal directions of the teacher's vectors, v the student's, and S(x) the
distribution softmax(cos(x_i, x_j) / .05) over the others of the batch::

    loss = 1 - cos(v, t) + .3 KL(S(t) || S(v))

A batch is groups of 32 texts that the teacher finds near each other, so that the second term is about differences
between related texts. Every step of the making is kept in OUT and not made again; training continues after a kill.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForMaskedLM

from opencse import SentenceEncoder
from opencse.kernels.packed import pack
from opencse.training.schedule import keep_freed_memory

BLOCK, GROUP, BATCH, TEMPERATURE = 20_000, 32, 256, 0.05
POSITIONS = 256


def teacher_vectors(texts: list[str], teacher: str, folder: Path, part: int, parts: int) -> None:
    """Writes the teacher's vectors of every ``parts``-th block of texts in fp16; what is there is kept."""
    folder.mkdir(exist_ok=True)
    encoder = SentenceEncoder.load(teacher, device="cpu")
    for block in range(part, math.ceil(len(texts) / BLOCK), parts):
        path = folder / f"{block:04}.npy"
        if not path.exists():
            some = texts[block * BLOCK : (block + 1) * BLOCK]
            vectors = encoder.encode(some, precision="bf16", normalize_embeddings=True).astype(np.float16)
            np.save(folder / f"{block:04}.writing.npy", vectors)
            (folder / f"{block:04}.writing.npy").rename(path)
            print(path.name, flush=True)


def make_start(source: str, folder: Path, layers: int) -> None:
    """The first layers of a BERT, with positions up to 256: the later ones begin as copies of its second half."""
    if (folder / "config.json").exists():
        return
    model = AutoModelForMaskedLM.from_pretrained(source).base_model
    model.encoder.layer = model.encoder.layer[:layers]
    known = model.embeddings.position_embeddings.weight.data
    half = known[len(known) // 2 :]
    config = AutoConfig.from_pretrained(source)
    config.num_hidden_layers, config.max_position_embeddings = layers, POSITIONS
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    start = type(model)(config, add_pooling_layer=False)
    state = model.state_dict()
    state["embeddings.position_embeddings.weight"] = torch.cat([known, half, half])[:POSITIONS]
    start.load_state_dict(state, strict=False)
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(Path(source) / name, folder / name)
    written = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**written, "model_max_length": POSITIONS}, indent=1))
    start.save_pretrained(folder)


def principal(vectors: np.ndarray, width: int) -> np.ndarray:
    """(t, width): the directions in which a sample of (N, t) vectors has the most of its length."""
    sample = vectors[::7].astype(np.float32)
    shares, directions = np.linalg.eigh(sample.T @ sample / len(sample))
    print(f"{width} directions keep {shares[::-1][:width].sum() / shares.sum():.4f} of the teacher's vectors")
    return np.ascontiguousarray(directions[:, ::-1][:, :width])


def groups_of(vectors: Tensor, seed: int, count: int = 1024) -> np.ndarray:
    """(N,): the cluster of each text, by eight rounds of k-means on a sample."""
    generator = torch.Generator().manual_seed(seed)
    sample = vectors[torch.randperm(len(vectors), generator=generator)[:60_000]].float()
    centres = sample[:count].clone()
    for _ in range(8):
        nearest = (sample @ centres.T).argmax(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, sample)
        centres = nn.functional.normalize(torch.where(sums.any(1, keepdim=True), sums, centres), dim=-1)
    return torch.cat([(some.float() @ centres.T).argmax(dim=1) for some in torch.split(vectors, 20_000)]).numpy()


def batches(groups: np.ndarray, epochs: int, seed: int) -> Iterator[np.ndarray]:
    """Rows of each batch: eight blocks of 32 texts, each of one group, both drawn again in every epoch."""
    draw = np.random.default_rng(seed)
    for _ in range(epochs):
        order = draw.permutation(len(groups))
        order = order[np.argsort(groups[order], kind="stable")]
        blocks = order[: len(order) // GROUP * GROUP].reshape(-1, GROUP)
        blocks = blocks[draw.permutation(len(blocks))]
        per_batch = BATCH // GROUP
        yield from blocks[: len(blocks) // per_batch * per_batch].reshape(-1, BATCH)


def cycle(text: str) -> tuple[int, float]:
    """``2@8e-4`` as (2, 8e-4)."""
    epochs, rate = text.split("@")
    return int(epochs), float(rate)


def rates_of(cycles: Sequence[tuple[int, float]], steps: int) -> list[float]:
    """The rate of each step: in every cycle 300 steps of warm-up, then linearly to 0."""
    per_epoch = steps // sum(epochs for epochs, _ in cycles)
    rates: list[float] = []
    for epochs, rate in cycles:
        count = epochs * per_epoch
        rates += [rate * min(1.0, (step + 1) / 300) * (1 - step / count) for step in range(count)]
    return rates


def step_loss(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """The two parts of the loss of (N, w) unit vectors."""
    itself = torch.eye(len(student), dtype=torch.bool)
    ours = (student @ student.T / TEMPERATURE).masked_fill(itself, -1e4).log_softmax(-1)
    theirs = (teacher @ teacher.T / TEMPERATURE).masked_fill(itself, -1e4).softmax(-1)
    return 1 - (student * teacher).sum(-1).mean(), nn.functional.kl_div(ours, theirs, reduction="batchmean")


def train(out: Path, texts: list[str], options: argparse.Namespace) -> None:
    """Trains from OUT/start to OUT/model; OUT/state.pt is the state of every 500th step."""
    torch.manual_seed(options.seed)
    keep_freed_memory()
    encoder = SentenceEncoder(str(out / "start"), pooling="mean", device="cpu")
    taught = np.concatenate([np.load(file) for file in sorted((out / "teacher").glob("????.npy"))])
    assert len(taught) == len(texts)
    directions = torch.from_numpy(principal(taught, encoder.dimension))
    some = torch.split(torch.from_numpy(taught), BLOCK)
    targets = torch.cat([nn.functional.normalize(block.float() @ directions, dim=-1).half() for block in some])
    del taught, some
    groups = groups_of(targets, options.seed)
    hf = Tokenizer.from_file(str(out / "start" / "tokenizer.json"))
    hf.no_padding()
    hf.enable_truncation(options.max_length)
    rows: list[np.ndarray] = []
    for first in range(0, len(texts), BLOCK):
        rows += [np.array(one.ids, np.int32) for one in hf.encode_batch_fast(texts[first : first + BLOCK])]
    print(f"{len(rows)} texts of {sum(map(len, rows)) / len(rows):.1f} tokens", flush=True)
    pack(encoder.backbone)
    encoder.computation = "packed"
    encoder.train()
    trained = [weight for weight in encoder.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    planned = list(batches(groups, sum(epochs for epochs, _ in options.cycles), options.seed))
    rates = rates_of(options.cycles, len(planned))
    done = 0
    if (out / "state.pt").exists():
        state = torch.load(out / "state.pt", weights_only=True)
        encoder.load_state_dict(state["encoder"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    began, first = time.time(), done
    for step in range(done, len(planned)):
        chosen = planned[step]
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
        tokens = encoder.tokenizer.pad([rows[row].tolist() for row in chosen])
        with torch.autocast("cpu", torch.bfloat16):
            vectors = encoder(tokens).vectors
        cosine, order = step_loss(
            nn.functional.normalize(vectors.float(), dim=-1), targets[torch.from_numpy(chosen)].float()
        )
        optimizer.zero_grad()
        torch.autograd.backward(cosine + 0.3 * order)
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        if (step + 1) % 50 == 0:
            pace = (step + 1 - first) * BATCH / (time.time() - began)
            left = (len(planned) - step - 1) * BATCH / pace / 60
            print(f"{step + 1}/{len(planned)} 1 - cos {cosine.item():.4f} KL {order.item():.4f} "
                  f"{pace:.0f} texts/s, {left:.0f} min left", flush=True)  # fmt: skip
        if (step + 1) % 500 == 0 or step + 1 == len(planned):
            state = {"encoder": encoder.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, out / "state.writing")
            (out / "state.writing").rename(out / "state.pt")
            if options.dev:
                print(f"STS-B dev {judged(encoder, options.dev):.2f}", flush=True)
    encoder.eval()
    encoder.normalize = True
    encoder.save(out / "model", dtype=torch.float16)


def judged(encoder: SentenceEncoder, path: Path) -> float:
    """Spearman x 100 on rows ``score<TAB>first<TAB>second``."""
    encoder.eval()
    scores, first, second = zip(*(line.split("\t") for line in path.read_text().splitlines()), strict=True)
    a, b = (encoder.encode(list(side), normalize_embeddings=True) for side in (first, second))
    encoder.train()
    return 100 * float(spearmanr((a * b).sum(1), [float(score) for score in scores]).statistic)


def main() -> None:
    """Makes what is missing in OUT."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder with texts.txt")
    parser.add_argument("--start", required=True)
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--cycles", nargs="+", type=cycle, default=[(2, 8e-4)], metavar="EPOCHS@RATE",
                        help="the rate falls to 0 in each; a longer list continues a shorter one")  # fmt: skip
    parser.add_argument("--max-length", type=int, default=160)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--only-teacher", metavar="I/N", help="make the I-th of N parts of the teacher's vectors alone")
    options = parser.parse_args()
    texts = (options.out / "texts.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    part, parts = map(int, (options.only_teacher or "0/1").split("/"))
    teacher_vectors(texts, options.teacher, options.out / "teacher", part, parts)
    if not options.only_teacher:
        make_start(options.start, options.out / "start", options.layers)
        train(options.out, texts, options)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
