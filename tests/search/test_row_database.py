"""The database of an index: its manifest, and the errors of SQLite."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from opencse.errors import OutdatedError, UserError
from opencse.search.row_database import (
    Manifest,
    connect,
    create_database,
    has_checksums,
    map_vectors,
    read_errors,
    read_manifest,
    write_errors,
    write_manifest,
)

MANIFEST = Manifest(model="m", fingerprint="f", dimension=3, vectors="vectors-a.f32", columns={"year": "number"})


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    create_database(tmp_path, "rows-a.sqlite", MANIFEST)
    with contextlib.closing(connect(tmp_path / "rows-a.sqlite", write=True)) as db:
        assert read_manifest(db) == MANIFEST
        write_manifest(db, MANIFEST.model_copy(update={"rows": 4}))
        assert read_manifest(db).rows == 4
        assert has_checksums(db)


def test_a_manifest_of_an_older_version_has_defaults_for_newer_fields(tmp_path: Path) -> None:
    create_database(tmp_path, "rows-a.sqlite", MANIFEST)
    with contextlib.closing(connect(tmp_path / "rows-a.sqlite", write=True)) as db:
        old = {"model": "m", "fingerprint": "f", "dimension": 3, "vectors": "vectors-a.f32", "slots": 2, "rows": 2}
        db.execute("UPDATE facts SET facts = ?", [json.dumps(old)])
        manifest = read_manifest(db)
    assert (manifest.similarity, manifest.language, manifest.kind, manifest.rows) == ("cosine", None, "flat", 2)


def test_a_vector_file_that_is_too_short_is_refused(tmp_path: Path) -> None:
    manifest = MANIFEST.model_copy(update={"slots": 2})
    (tmp_path / "vectors-a.f32").write_bytes(bytes(23))
    with pytest.raises(OutdatedError, match=r"damaged \(vectors-a.f32 has 23 bytes, 24 are needed\)"):
        map_vectors(tmp_path, manifest)
    (tmp_path / "vectors-a.f32").write_bytes(bytes(24))
    assert map_vectors(tmp_path, manifest).shape == (2, 3)
    assert map_vectors(tmp_path, MANIFEST).shape == (0, 3)


@pytest.mark.parametrize("place", ["../v.f32", "a/v.f32", "/v.f32", "v"])
def test_a_manifest_names_files_of_its_own_folder_only(place: str) -> None:
    with pytest.raises(ValueError, match="vectors"):
        Manifest(model="m", fingerprint="f", dimension=3, vectors=place)


def test_errors_of_writing_are_reported_in_one_line(tmp_path: Path) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    for error, message in (
        (OSError(28, "No space left on device"), r"cannot be written .*No space left"),
        (full, r"cannot be written .*disk is full"),
    ):
        with pytest.raises(UserError, match=message), write_errors(tmp_path):
            raise error
    with pytest.raises(sqlite3.IntegrityError), write_errors(tmp_path):
        raise sqlite3.IntegrityError("a key exists twice")
    with pytest.raises(OutdatedError, match="damaged"), read_errors(tmp_path):
        raise sqlite3.DatabaseError("file is not a database")
