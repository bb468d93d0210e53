"""Indexes among what is evaluated: which options they refuse, and that models are found elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse as opencse_package
from helpers import Run, refused
from opencse.search.index import Index


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--suite", "sts"), "is an index, whose searches are scored by retrieval alone; use --suite retrieval"),
        (("--suite", "retrieval", "--pooling", "cls"), "leave out --pooling"),
        (("--suite", "retrieval", "--layers", "all"), "leave out --layers"),
        (("--suite", "retrieval", "--dimensions", 8), "leave out --dimensions"),
        (("--suite", "retrieval", "--transform", "whitening"), "leave out --transform"),
        (("--suite", "retrieval", "--rerank", "cross-encoder"), "leave out --rerank"),
        (("--suite", "retrieval", "--bm25", "--language", "de"), "leave out --language"),
    ],
)
def test_options_of_models_are_refused(opencse: Run, tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    folder = tmp_path / "index"
    Index.build(folder, ["Rain falls."], opencse_package.load("opencse-mini"), model="opencse-mini").close()
    refused(opencse("evaluate", folder, "--data", tmp_path, *options), str(folder), message)
