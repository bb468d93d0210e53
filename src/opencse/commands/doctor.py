"""Finds common problems of an installation; versions and hardware for a bug report."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.commands.declared import command
from opencse.errors import UserError, reason
from opencse.version import __version__

if TYPE_CHECKING:
    from opencse.environment import Environment

_ROOM = 2e9
"""Bytes that should be free: a run of a BERT-base writes some 1.5 GB (two encoders, and a checkpoint while it runs)."""


@dataclass(frozen=True)
class Diagnosis:
    """Versions, hardware and automatic choices, the speed of the built-in encoder, and problems.

    Attributes:
        environment: versions and machine.
        threads: number of torch's threads.
        precision: the precision that training chooses on this machine, with the reason.
        cache: folder of tokenised texts.
        extras: the missing packages of each extra.
        troubles: what will not work or will be slow, each with its fix; empty if nothing was found.
        load_seconds: time to load the built-in encoder when the libraries are loaded already.
        texts_per_second: short texts per second that it encodes, in float32.
        dimension: dimension of its vectors.
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
        """Lines to paste into a bug report, and problems to fix."""
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


@command
def doctor() -> Diagnosis:
    r"""Reports versions, hardware and automatic choices, tries the built-in encoder, and finds common problems.

    Example:
        >>> import opencse
        >>> print("\n".join(opencse.doctor().lines()))  # doctest: +SKIP
        opencse        ...
    """
    import torch

    from opencse.encoder.encoder import SentenceEncoder
    from opencse.encoder.network import default_device
    from opencse.environment import Environment
    from opencse.kernels.precision import choose_precision
    from opencse.text.corpus import describe_cache

    device = default_device()
    precision = choose_precision("auto", device)
    needed, extras = requirements()
    SentenceEncoder.load()  # its imports are loaded first, so that they are not measured
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
    """The packages that the installed package requires: always, and for each extra that users install."""
    from packaging.requirements import Requirement

    try:
        needed = [Requirement(line) for line in requires("opencse") or []]
    except PackageNotFoundError:
        return [], {}
    always = [f"{one.name}{one.specifier}" for one in needed if one.marker is None]
    extras: dict[str, list[str]] = {}
    for one in needed:
        if one.marker is not None and (extra := _extra(str(one.marker))) not in (None, "dev"):
            extras.setdefault(str(extra), []).append(f"{one.name}{one.specifier}")
    return always, extras


def lacking(packages: Sequence[str]) -> list[str]:
    """One line for each of ``packages`` (name and versions) that is missing or has another version."""
    from packaging.requirements import Requirement

    from opencse.environment import installed

    faults = []
    for package in packages:
        needed = Requirement(package)
        version = installed(needed.name)
        if version is None:
            faults.append(f"{needed.name} is not installed; pip install '{package}'")
        elif not needed.specifier.contains(version, prereleases=True):
            faults.append(f"{needed.name} is {version}, and {needed.specifier} is needed; pip install '{package}'")
    return faults


def _extra(marker: str) -> str | None:
    """The extra that a marker such as ``extra == "serve"`` names."""
    name, _, value = marker.partition("==")
    return value.strip().strip("\"'") if name.strip() == "extra" else None


def _room() -> list[str]:
    """Problems of the folders that runs write to: nearly full, or not writable."""
    from opencse.files import nearest_existing
    from opencse.text.corpus import cache_root

    faults = []
    for name, folder_of, fix in (
        ("the current folder", Path.cwd, "go to another one"),
        ("the token cache", cache_root, "set OPENCSE_CACHE to another folder"),
    ):
        try:
            folder = nearest_existing(folder_of())
            if not os.access(folder, os.W_OK | os.X_OK):
                faults.append(f"{name} cannot be written ({folder}); {fix}")
            elif (free := shutil.disk_usage(folder).free) < _ROOM:
                faults.append(
                    f"{name} has {free / 1e9:,.1f} GB left ({folder}); a run of a BERT-base writes about 1.5 GB"
                )
        except (OSError, UserError) as error:
            faults.append(f"{name} cannot be used ({reason(error)}); {fix}")
    return faults


def _threads(threads: int) -> list[str]:
    """The problem of more threads than processors, which makes everything slow."""
    mine = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if threads <= mine:
        return []
    return [f"torch uses {threads} threads on {mine} processors, which is slow; export OMP_NUM_THREADS={mine}"]
