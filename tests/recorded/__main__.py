"""Records what is computed, or compares it bit for bit with a record made on this machine.

PYTHONPATH=src:tests python -m recorded --write before.json     # at the commit before
PYTHONPATH=src:tests python -m recorded --exact before.json     # at the commit after
PYTHONPATH=src:tests python -m recorded --write                 # the stored record anew, where numbers should move
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from recorded.record import STORED, differences, make, names, read, write


def main() -> int:
    """0 if nothing differs, 1 if something does."""
    parser = argparse.ArgumentParser(
        prog="python -m recorded", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--write", nargs="?", type=Path, const=STORED, metavar="FILE", help="by default the stored one")
    task.add_argument("--exact", type=Path, metavar="FILE", help="compare with FILE, every bit")
    task.add_argument("--list", action="store_true", help="the names of what is recorded")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names, or beginnings of names")
    asked = parser.parse_args()
    chosen = [name for name in names() if asked.only is None or name.startswith(tuple(asked.only))]
    if not chosen:
        parser.error("nothing is called so; see --list")
    if asked.list:
        print("\n".join(chosen))  # noqa: T201
        return 0
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["OPENCSE_CACHE"] = cache
        now = make(chosen)
    if asked.write is not None:
        if asked.write == STORED and asked.only is not None:
            now = read(STORED) | now
        write(asked.write, now)
        return 0
    before = read(asked.exact)
    if asked.only is not None:
        before = {name: part for name, part in before.items() if name in now}
    told = differences(before, now)
    print("\n".join([*told, f"{len(told)} differences in {len(chosen)} records"]))  # noqa: T201
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
