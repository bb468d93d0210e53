"""``opencse doctor``."""

from __future__ import annotations


def doctor() -> None:
    """Tell versions, hardware and choices, and try the built-in encoder: what to paste into a bug report."""
    import time

    import torch

    from opencse import SentenceEncoder, __version__
    from opencse.cli.console import echo
    from opencse.encoder.encoder import default_device
    from opencse.environment import Environment
    from opencse.text.corpus import describe_cache
    from opencse.training.precision import choose_precision

    device = default_device()
    precision = choose_precision("auto", device)
    echo(f"opencse        {__version__}")
    for key, value in Environment.here(str(device)).model_dump().items():
        echo(f"{key:<14} {value}")
    echo(f"threads        {torch.get_num_threads()}")
    echo(f"training in    {precision.name} ({precision.reason})")
    echo(f"token cache    {describe_cache()}")
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
