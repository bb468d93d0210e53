"""The vectors of a corpus, kept in an index beside it so that it is encoded once."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.progress import Progress
from opencse.search.building import How
from opencse.search.index import Index
from opencse.search.reading import GivenRows
from opencse.text.files.pipes import is_pipe
from opencse.text.given import TextSource
from opencse.text.readers import Source

SUFFIX = ".index"
_FINGERPRINT = re.compile(r"[0-9a-f]{8,64}")


def place_beside(source: TextSource) -> Path | None:
    """The folder for a corpus's vectors, one inside for each model; None where there is no room beside it.

    That is ``NAME.index`` next to a file whose folder can be written, unless something else has that name.
    """
    if not isinstance(source, Source) or is_pipe(source.location):
        return None
    path = Path(source.location)
    if not path.is_file() or not os.access(path.absolute().parent, os.W_OK):
        return None
    place = path.with_name(path.name + SUFFIX)
    return place if _is_own(place) else None


def _is_own(place: Path) -> bool:
    """Whether a folder is new, empty, or holds indexes by fingerprints of their models alone."""
    if not place.is_dir() or place.is_symlink():
        return not os.path.lexists(place)
    return all(one.is_dir() and _FINGERPRINT.fullmatch(one.name) for one in place.iterdir())


def kept_index(place: Path, texts: Sequence[str], model: str, encoder: SentenceEncoder, progress: Progress) -> Index:
    """The index of distinct ``texts`` in ``place``; built where it is not there, or not of these texts.

    Raises:
        UserError: if it cannot be built.
    """
    folder = place / fingerprint(encoder)
    rows = GivenRows(texts)
    try:
        index = Index.open(folder, encoder=encoder)
        if index.source == rows.fingerprint():
            progress.say(f"{folder}: {rows.count:,} vectors, made before")
            return index
        index.close()
    except UserError:
        pass  # none yet, or damaged
    return Index.build(folder, rows, encoder, how=How(cut=False), model=model, overwrite=True, progress=progress)


def vectors_of(index: Index, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
    """(n, d) vectors of texts as the index has them, those that the index has taken from it."""
    prompts = index.encoder.prompts
    if prompts.of(role) != prompts.of(Role.DOCUMENT):
        return index.encode(texts, role)
    known = {hit.text: row for row, hit in enumerate(index.rows())}
    kept = index.vectors()
    vectors = np.empty((len(texts), index.info().dimension), dtype=np.float32)
    new = [place for place, text in enumerate(texts) if text not in known]
    old = [place for place, text in enumerate(texts) if text in known]
    vectors[old] = kept[[known[texts[place]] for place in old]]
    if new:
        vectors[new] = index.encode([texts[place] for place in new], role)
    return vectors
