"""Prints, as constraints, the oldest version that pyproject.toml allows of each dependency (torch apart)."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in ("dev", "docs")}
for line in [*project["dependencies"], *(line for lines in extras.values() for line in lines)]:
    found = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line)
    if found is not None and found[1] != "torch":
        version = found[2] if "." in found[2] else f"{found[2]}.0"
        sys.stdout.write(f"{found[1]}=={version}.*\n")
