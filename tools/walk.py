"""Traces the way to the first step: ``python tools/walk.py [ROOT] [--by-file]``.

It runs ``opencse train`` on the built-in sample with a profile hook, from the command to the first backward pass, and
counts the functions of the package that run, the lines of their bodies (without docstrings, comments and blank lines),
and how often those run that build or read something once. ROOT is a checkout, by default this one.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

HERE = Path(__file__).resolve().parent.parent
ONCE = ("Objective.from_settings", "Objective.check", "check_data_sets", "resolve_recipe", "recipe_tables", "read_json")
"""Functions of which one call should do, by the ends of their names."""


def walked(package: Path) -> Counter[CodeType]:
    """How often each code object of the package runs until the first backward pass."""
    import torch

    from opencse.cli import main
    from opencse.text import sample

    calls: Counter[CodeType] = Counter()
    inside = str(package)

    def count(frame: FrameType, event: str, argument: object) -> None:
        del argument
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            calls[frame.f_code] += 1

    def stop(*args: object, **named: object) -> None:
        sys.setprofile(None)
        raise SystemExit

    torch.autograd.backward = stop
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["opencse", "train", str(sample.TRAIN), "--out", f"{folder}/run", "--device", "cpu"]
        sys.setprofile(count)
        try:
            main()
        except SystemExit:
            sys.setprofile(None)
    return calls


def bodies(file: Path) -> dict[int, tuple[str, int]]:
    """The functions of a module by their first line: the name, and the lines of the body."""
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    found: dict[int, tuple[str, int]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                body = child.body[1:] if ast.get_docstring(child, clean=False) is not None else child.body
                inner = range(body[0].lineno - 1, child.end_lineno or 0) if body else range(0)
                count = sum(bool(lines[n].strip()) and not lines[n].lstrip().startswith("#") for n in inner)
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                found[first] = (f"{prefix}{child.name}", count)
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    visit(ast.parse(source), "")
    return found


def main() -> None:
    """Prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=HERE)
    parser.add_argument("--by-file", action="store_true", help="functions and lines of each file, the longest first")
    asked = parser.parse_args()
    package = asked.root.resolve() / "src" / "opencse"
    sys.path.insert(0, str(package.parent))
    calls = walked(package)
    functions: dict[tuple[str, str], tuple[int, int]] = {}
    of_file: dict[str, dict[int, tuple[str, int]]] = {}
    for code, times in calls.items():
        known = of_file.setdefault(code.co_filename, bodies(Path(code.co_filename)))
        if code.co_firstlineno in known and not code.co_name.startswith("<"):
            name, lines = known[code.co_firstlineno]
            file = Path(code.co_filename).relative_to(package).as_posix()
            functions[file, name] = (lines, times)
    by_file: dict[str, list[int]] = {}
    for (file, _), (lines, _) in functions.items():
        by_file.setdefault(file, []).append(lines)
    print(f"functions  {len(functions):,} in {len(by_file)} files")
    print(f"lines      {sum(map(sum, by_file.values())):,}")
    for end in ONCE:
        times = sum(times for (_, name), (_, times) in functions.items() if name.endswith(end))
        print(f"calls      {times} of {end}")
    if asked.by_file:
        for file, counts in sorted(by_file.items(), key=lambda one: -sum(one[1])):
            print(f"{sum(counts):6} lines {len(counts):4} functions  {file}")


if __name__ == "__main__":
    main()
