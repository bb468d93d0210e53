"""Counts the size of the package and of its tests: ``python tools/counts.py [ROOT] [--budget]``.

ROOT is a checkout of the repository, by default this one, so that two commits can be compared. ``--budget`` fails where
a count is above ``tools/budget.toml``; a change that makes one smaller lowers its line there.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
NO_CODE = ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENCODING", "ENDMARKER")
GUARDS = re.compile(r"_?(require|refuse|check)(_|$)")


def modules(folder: Path) -> dict[Path, ast.Module]:
    """Every module of a folder, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def tokens(tree: ast.Module, source: str) -> int:
    """Python's tokens without docstrings, comments and imports: the one measure that formatting cannot bend."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                skipped |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    read = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(tokenize.tok_name[token.type] not in NO_CODE and token.start[0] not in skipped for token in read)


def comments(source: str) -> int:
    """Lines that are a comment alone."""
    return sum(line.lstrip().startswith("#") for line in source.splitlines())


def counted(root: Path) -> dict[str, int]:
    """The counts of a checkout, by name."""
    counts: dict[str, int] = {}
    for room in ("src", "tests"):
        trees = modules(root / room)
        counts[f"{room}-tokens"] = sum(tokens(tree, path.read_text(encoding="utf-8")) for path, tree in trees.items())
        counts[f"{room}-files"] = len(trees)
    source = modules(root / "src")
    nodes = [node for tree in source.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    counts["raise"] = sum(isinstance(node, ast.Raise) for node in nodes)
    counts["guards"] = sum(GUARDS.match(function.name) is not None for function in functions)
    counts["dataclasses"] = sum(any("dataclass" in ast.unparse(d) for d in node.decorator_list) for node in classes)
    counts["comment-lines"] = sum(comments(path.read_text(encoding="utf-8")) for path in source)
    return counts


def suite(root: Path) -> str:
    """Tests and time of the last run of the whole suite, as tests/conftest.py notes them."""
    note = root / ".pytest_cache" / "v" / "opencse" / "suite"
    if not note.is_file():
        return "not run here"
    last = json.loads(note.read_text(encoding="utf-8"))
    return f"{last['tests']:,} tests in {last['seconds'] // 60} min {last['seconds'] % 60} s, {last['date']}"


def over_budget(counts: dict[str, int], budget: dict[str, int]) -> list[str]:
    """The counts above their budget, in words."""
    return [
        f"{name}: {counts[name]:,}, and tools/budget.toml allows {most:,}; remove what nobody would miss"
        for name, most in budget.items()
        if counts[name] > most
    ]


def public_names(root: Path) -> Iterator[tuple[str, bool]]:
    """Public names, each with whether its docstring has an example that runs.

    Public are: what `opencse` exports, the classes and functions that docs/api.md imports, the parts of an objective,
    its losses, and the modules of an encoder.
    """
    trees, package = modules(root / "src"), root / "src/opencse"
    exported = {
        (node.module.removeprefix("opencse.").replace(".", "/") + ".py", item.name)
        for tree in (
            *(trees[root / "src/opencse" / path] for path in ("__init__.py", "objective/losses.py")),
            *_blocks(root),
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("opencse.")
        for item in node.names
    }
    rooms = ("modules", "encoder/pooling", "encoder/head")
    for path, tree in trees.items():
        where = path.relative_to(package).as_posix()
        for node in tree.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            settings = any(isinstance(inner, ast.ClassDef) and inner.name == "Settings" for inner in node.body)
            part = isinstance(node, ast.ClassDef) and (where.startswith(rooms) or settings) and "base" not in path.name
            overloads = [d for d in node.decorator_list if isinstance(d, ast.Name) and d.id == "overload"]
            if (part or (where, node.name) in exported) and not overloads:
                yield f"{where}:{node.name}", ">>> " in (ast.get_docstring(node) or "") or _method_example(node)


def _blocks(root: Path) -> Iterator[ast.Module]:
    """The Python of docs/api.md."""
    page = (root / "docs/api.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
        yield ast.parse(block)


def _method_example(node: ast.ClassDef | ast.FunctionDef) -> bool:
    inner = [n for n in node.body if isinstance(n, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
    return any(">>> " in (ast.get_docstring(method) or "") for method in inner)


def main() -> int:
    """Prints the counts; with ``--budget``, 1 if one is above its budget."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--budget"]
    root = Path(arguments[0]).resolve() if arguments else HERE
    counts = counted(root)
    budget = tomllib.loads((HERE / "tools" / "budget.toml").read_text(encoding="utf-8"))
    if "--budget" in sys.argv:
        over = over_budget(counts, budget)
        print(*over, sep="\n", end="\n" if over else "")
        return int(bool(over))
    for name, count in counts.items():
        print(f"{name:14}{count:9,}" + (f"  of {budget[name]:,}" if name in budget else ""))
    print(f"{'last suite':14}  {suite(root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
