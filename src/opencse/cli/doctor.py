"""``opencse doctor``."""

from __future__ import annotations


def doctor() -> None:
    """Tell versions, hardware and choices, and try the built-in encoder: what to paste into a bug report."""
    import shutil
    import time

    import torch

    from opencse import SentenceEncoder, __version__
    from opencse.cli.console import echo
    from opencse.encoder.encoder import default_device
    from opencse.evaluation.result import Environment
    from opencse.text.corpus import cache_root
    from opencse.training.precision import choose_precision

    device = default_device()
    precision = choose_precision("auto", device)
    echo(f"opencse        {__version__}")
    for key, value in Environment.here(str(device)).model_dump().items():
        echo(f"{key:<14} {value}")
    echo(f"threads        {torch.get_num_threads()}")
    echo(f"training in    {precision.name} ({precision.reason})")
    cache = cache_root()
    size = sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) if cache.is_dir() else 0
    parent = next(p for p in (cache, *cache.parents) if p.is_dir())
    echo(f"token cache    {cache} ({size / 1e6:,.1f} MB; {shutil.disk_usage(parent).free / 1e9:,.1f} GB free)")
    started = time.perf_counter()
    encoder = SentenceEncoder.load()
    loaded = time.perf_counter() - started
    texts = ["A quick check of the built-in encoder."] * 2_000
    started = time.perf_counter()
    vectors = encoder.encode(texts)
    rate = len(texts) / (time.perf_counter() - started)
    echo(
        f"opencse-mini   loads in {loaded:.2f} s, encodes {rate:,.0f} short texts/s in float32, "
        f"{vectors.shape[1]} dimensions"
    )
