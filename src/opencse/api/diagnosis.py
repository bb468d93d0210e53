"""What this machine has, and what is in the way: `doctor`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from opencse.api.declaring import public
from opencse.encoder.devices import default_device
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment, installed
from opencse.errors import UserError, reason
from opencse.io import standing
from opencse.kernels.precision import choose_precision
from opencse.text.corpus import cache_root, describe_cache
from opencse.version import __version__

_ROOM = 2e9
"""Bytes: a run of a BERT-base writes some 1.5 GB (two encoders, and a checkpoint while it goes on)."""


@dataclass(frozen=True)
class Diagnosis:
    """Versions, hardware and choices, how the built-in encoder does here, and what is in the way.

    Attributes:
        environment: versions and machine.
        threads: of torch.
        precision: what training computes in here by itself, with the reason.
        cache: where tokenised texts are kept.
        extras: of each extra, the packages that are missing.
        troubles: what will not work or will be slow, each with its mend; empty if nothing was found.
        load_seconds: to load the built-in encoder once libraries are loaded.
        texts_per_second: short texts that it encodes, in float32.
        dimension: of its vectors.
    """

    environment: Environment
    threads: int
    precision: str
    cache: str
    load_seconds: float
    texts_per_second: float
    dimension: int
    extras: dict[str, list[str]] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """What to paste into a bug report, and what to mend."""
        extras = ", ".join(f"{name}{' (not installed)' if missing else ''}" for name, missing in self.extras.items())
        return [
            f"opencse        {__version__}",
            *(f"{key:<14} {value}" for key, value in self.environment.model_dump().items()),
            f"threads        {self.threads}",
            f"training in    {self.precision}",
            f"token cache    {self.cache}",
            f"extras         {extras or 'not known (not installed as a package)'}",
            f"opencse-mini   loads in {self.load_seconds:.2f} s, encodes {self.texts_per_second:,.0f} short texts/s in "
            f"float32, {self.dimension} dimensions",
            "",
            *(f"trouble: {trouble}" for trouble in self.troubles),
            *(() if self.troubles else ("no trouble found",)),
        ]


@public
def doctor() -> Diagnosis:
    """Tells versions, hardware and choices, tries the built-in encoder, and finds common troubles."""
    import torch

    device = default_device()
    precision = choose_precision("auto", device)
    needed, extras = requirements()
    SentenceEncoder.load()  # what it imports is loaded once, and is not its own time
    started = time.perf_counter()
    encoder = SentenceEncoder.load()
    loaded = time.perf_counter() - started
    texts = ["A quick check of the built-in encoder."] * 2_000
    started = time.perf_counter()
    vectors = encoder.encode(texts)
    return Diagnosis(
        environment=Environment.here(str(device)),
        threads=torch.get_num_threads(),
        precision=f"{precision.name} ({precision.reason})",
        cache=describe_cache(),
        extras={name: lacking(packages) for name, packages in extras.items()},
        troubles=[*lacking(needed), *_room(), *_threads(torch.get_num_threads())],
        load_seconds=loaded,
        texts_per_second=len(texts) / (time.perf_counter() - started),
        dimension=vectors.shape[1],
    )


def requirements() -> tuple[list[str], dict[str, list[str]]]:
    """What the installed package says it needs: always, and for each extra that users install."""
    from packaging.requirements import Requirement

    try:
        told = [Requirement(line) for line in requires("opencse") or []]
    except PackageNotFoundError:
        return [], {}
    always = [f"{one.name}{one.specifier}" for one in told if one.marker is None]
    extras: dict[str, list[str]] = {}
    for one in told:
        if one.marker is not None and (extra := _extra(str(one.marker))) not in (None, "dev"):
            extras.setdefault(str(extra), []).append(f"{one.name}{one.specifier}")
    return always, extras


def lacking(packages: Sequence[str]) -> list[str]:
    """One line for each of ``packages`` (name and versions) that is missing or of another version."""
    from packaging.requirements import Requirement

    found = []
    for package in packages:
        needed = Requirement(package)
        version = installed(needed.name)
        if version is None:
            found.append(f"{needed.name} is not installed; pip install '{package}'")
        elif not needed.specifier.contains(version, prereleases=True):
            found.append(f"{needed.name} is {version}, and {needed.specifier} is needed; pip install '{package}'")
    return found


def _extra(marker: str) -> str | None:
    """The extra that a marker such as ``extra == "serve"`` names."""
    name, _, value = marker.partition("==")
    return value.strip().strip("\"'") if name.strip() == "extra" else None


def _room() -> list[str]:
    """Folders that runs write to, and that are nearly full or cannot be written."""
    found = []
    for what, where, mend in (
        ("the current folder", Path.cwd, "go to another one"),
        ("the token cache", cache_root, "set OPENCSE_CACHE to another folder"),
    ):
        try:
            folder = standing(where())
            if not os.access(folder, os.W_OK | os.X_OK):
                found.append(f"{what} cannot be written ({folder}); {mend}")
            elif (free := shutil.disk_usage(folder).free) < _ROOM:
                found.append(
                    f"{what} has {free / 1e9:,.1f} GB left ({folder}); a run of a BERT-base writes about 1.5 GB"
                )
        except (OSError, UserError) as error:
            found.append(f"{what} cannot be used ({reason(error)}); {mend}")
    return found


def _threads(threads: int) -> list[str]:
    """More threads than processors that this process may use make everything slow."""
    mine = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if threads <= mine:
        return []
    return [f"torch uses {threads} threads on {mine} processors, which is slow; export OMP_NUM_THREADS={mine}"]
