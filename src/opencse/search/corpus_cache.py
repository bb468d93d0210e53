"""Keeps the vectors of a corpus in an index next to its file, so that it is encoded only once (`opencse nearest`)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.ranking import PreparedVectors
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.rows import MemoryRows
from opencse.text.files.lines import is_pipe
from opencse.text.given import TextSource
from opencse.text.readers import Source

SUFFIX = ".index"
_FINGERPRINT = re.compile(r"[0-9a-f]{8,64}")


def cache_folder(source: TextSource) -> Path | None:
    """The folder ``NAME.index`` next to a corpus file, with one index per model in it.

    None if the corpus is not a file, its folder cannot be written, or something else has that name.
    """
    if not isinstance(source, Source) or is_pipe(source.location):
        return None
    path = Path(source.location)
    if not path.is_file() or not os.access(path.absolute().parent, os.W_OK):
        return None
    folder = path.with_name(path.name + SUFFIX)
    return folder if _is_cache(folder) else None


def _is_cache(folder: Path) -> bool:
    """Whether a folder is new, empty, or only holds indexes named by fingerprints of their models."""
    if not folder.is_dir() or folder.is_symlink():
        return not os.path.lexists(folder)
    return all(path.is_dir() and _FINGERPRINT.fullmatch(path.name) for path in folder.iterdir())


def cached_index(folder: Path, texts: Sequence[str], encoder: TextEncoder, progress: Progress) -> Index:
    """Opens the index of distinct ``texts`` in a cache folder; builds it if it is missing or of other texts.

    It names no model: its folder is called by the encoder's fingerprint, and it is opened with an encoder.

    Raises:
        UserError: if it cannot be built.
    """
    path = folder / fingerprint(encoder)
    rows = MemoryRows(texts)
    try:
        index = Index.open(path, encoder=encoder)
        if index.source == rows.fingerprint():
            progress.say(f"{path}: {number_of(rows.count, 'vector')}, encoded before")
            return index
        index.close()
    except UserError:
        pass  # no index yet, or a damaged one
    settings = BuildSettings(cut=False)
    return Index.build(path, rows, encoder, how=settings, overwrite=True, progress=progress)


def vectors_of(index: Index, texts: Sequence[str], role: Role) -> PreparedVectors:
    """(n, d) prepared vectors of texts: from the index where it has the text, otherwise encoded."""
    prompts = index.encoder.prompts
    if prompts.of(role) != prompts.of(Role.DOCUMENT):
        return index.encode(texts, role)
    with index.snapshot():
        rows = {hit.text: row for row, hit in enumerate(index.rows())}
        stored = index.vectors()
    vectors = np.empty((len(texts), stored.shape[1]), dtype=np.float32)
    new = [number for number, text in enumerate(texts) if text not in rows]
    old = [number for number, text in enumerate(texts) if text in rows]
    vectors[old] = stored[[rows[texts[number]] for number in old]]
    if new:
        vectors[new] = index.encode([texts[number] for number in new], role)
    return vectors
