"""How long the geometry of many vectors takes, and how much memory beside them.

    python benchmarks/geometry.py --rows 100000 --dimension 768

Alignment (of as many positive pairs as rows), uniformity, spectrum and the rest over all pairs of random vectors.
"""

from __future__ import annotations

import argparse
import resource
import time
from datetime import UTC, datetime

import numpy as np
import torch

from opencse.analysis.geometry import geometry
from opencse.environment import Environment


def peak() -> float:
    """MiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Prints seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw = np.random.default_rng(arguments.seed)
    shape = (arguments.rows, arguments.dimension)
    vectors = draw.standard_normal(shape, dtype=np.float32)
    positives = draw.standard_normal(shape, dtype=np.float32)
    positives *= 0.3
    positives += vectors  # in place: what is made on the way would hide what is measured
    geometry(vectors[:1000], (vectors[:1000], positives[:1000]))
    before, started = peak(), time.perf_counter()
    found = geometry(vectors, (vectors, positives))
    seconds = time.perf_counter() - started
    print(f"{arguments.rows:,} x {arguments.dimension}: {seconds:.1f} s")
    print(f"memory {vectors.nbytes / 2**20:,.0f} MiB of vectors, at most {peak() - before:,.0f} MiB more than before")
    print(
        f"uniformity {found.uniformity:.4f} over all pairs of {found.uniformity_n:,} of them, effective rank "
        f"{found.effective_rank:.1f}, mean cosine {found.mean_cosine:.2e} over all pairs"
    )
    environment = Environment.here("cpu").model_dump(mode="json")
    print(", ".join(f"{key} {value}" for key, value in environment.items()), end="; ")
    print(f"seed {arguments.seed}, {torch.get_num_threads()} threads, {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
