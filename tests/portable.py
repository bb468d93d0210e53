"""The numeric tests as other processors compute: `make test-portable`, or this file with the tests to run.

Sums are taken in another order by another instruction set, by another number of threads, and for another number of
rows. What the product promises bit for bit (a resumed run, the same command twice) must hold under each of them;
whatever else is compared must hold within a tolerance.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

NUMERIC = [
    f"tests/{room}" for room in ("baselines", "objective", "training", "encoder", "evaluation", "analysis", "recorded")
]

# torch's own kernels, its products (MKL) and those in bf16 (oneDNN), numpy's products (OpenBLAS) and its own kernels
PROCESSORS = {
    "default": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    },
    "native": {},
}
THREADS = (1, 2)


def main(tests: list[str]) -> int:
    """Runs ``tests`` once for each processor and number of threads; 1 if any of them failed."""
    failed: list[str] = []
    for name, settings in PROCESSORS.items():
        for threads in THREADS:
            what = f"{name}, {threads} thread{'s' * (threads > 1)}"
            print(f"== {what}", flush=True)  # noqa: T201
            environment = os.environ | settings | {"OMP_NUM_THREADS": str(threads)}
            started = time.perf_counter()
            code = subprocess.run(
                [sys.executable, "-m", "pytest", *(tests or NUMERIC)], env=environment, check=False
            ).returncode
            print(f"== {what}: {'failed' if code else 'passed'}, {time.perf_counter() - started:.0f} s", flush=True)  # noqa: T201
            failed += [what] * bool(code)
    print(f"failed under: {'; '.join(failed)}" if failed else "passed under all of them")  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
