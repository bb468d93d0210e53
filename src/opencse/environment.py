"""Describes the versions and the machine that a result comes from; finds missing packages."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from opencse.errors import UserError
from opencse.settings import Settings

_DISTRIBUTIONS = {"faiss": "faiss-cpu", "prometheus_client": "prometheus-client", "sklearn": "scikit-learn"}


class Environment(Settings):
    """Versions and machine; None where a package is not installed or a fact is not known.

    Attributes:
        commit: the commit of this library, where it runs from a checkout; ``+`` follows if files differ from it.
    """

    python: str
    torch: str | None
    transformers: str | None
    numpy: str | None
    scipy: str | None
    platform: str
    cpu_count: int | None
    device: str | None
    commit: str | None = None

    @classmethod
    def here(cls, device: str | None = None) -> Environment:
        """This process's environment; ``device`` is what the model ran on, for instance ``cpu``."""
        return cls(
            python=platform.python_version(),
            torch=installed("torch"),
            transformers=installed("transformers"),
            numpy=installed("numpy"),
            scipy=installed("scipy"),
            platform=platform.platform(),
            cpu_count=os.cpu_count(),
            device=device,
            commit=commit(),
        )


@cache
def commit() -> str | None:
    """The commit of the checkout that this library runs from, with ``+`` if files differ from it; None outside one."""
    package = Path(__file__).resolve().parent
    if package.parent.name != "src" or not (package.parents[1] / ".git").exists():
        return None
    try:
        outputs = [
            subprocess.run(["git", "-C", str(package), *arguments], capture_output=True, text=True, check=True).stdout
            for arguments in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "."])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None  # no git, or a checkout that belongs to another user
    return outputs[0].strip() + ("+" if outputs[1].strip() else "")


def missing_packages(*modules: str) -> list[str]:
    """The ``modules`` that are not installed, by the names of their packages; nothing is imported."""
    return [_DISTRIBUTIONS.get(name, name) for name in modules if importlib.util.find_spec(name) is None]


def require_packages(purpose: str, extra: str, *modules: str) -> None:
    """Refuses ``purpose`` where one of ``modules`` is not installed, naming the extra that brings them.

    Raises:
        UserError: in one line.
    """
    if missing := missing_packages(*modules):
        raise UserError(f'{purpose} needs {", ".join(missing)}; pip install "opencse[{extra}]"')


def installed(package: str) -> str | None:
    """The installed version of a package, read without importing it; None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
