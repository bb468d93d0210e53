"""Imports the package that counts words (bm25s), without what it would start on a GPU or print to a log."""

from __future__ import annotations

import logging
import sys
from typing import Any


def keyword_package() -> Any:  # noqa: ANN401 - bm25s is untyped
    """The package bm25s.

    Where jax is installed, bm25s computes something with it while it is imported, and jax then takes three quarters of
    a GPU's memory. It is hidden meanwhile; bm25s then chooses its results by numpy, as on machines without jax.

    bm25s also sets its logger to DEBUG, so that any handler of the program would print a line for each index. The
    logger follows the program's own level again, unless the program imported bm25s before.
    """
    first = "bm25s" not in sys.modules
    hidden = "jax" not in sys.modules and first
    if hidden:
        sys.modules["jax"] = None  # type: ignore[assignment]  # an import of it then fails
    try:
        import bm25s
    finally:
        if hidden:
            del sys.modules["jax"]
    if first:
        logging.getLogger("bm25s").setLevel(logging.NOTSET)
    return bm25s
