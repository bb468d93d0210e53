"""Counts what makes the package easy or hard to read: ``python tools/counts.py [ROOT]``.

ROOT is a checkout of the repository, by default this one, so that two commits can be compared.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import words

HERE = Path(__file__).resolve().parent.parent
CHAIN = """
import sys, tempfile, traceback
from pathlib import Path
import torch
calls = []
def first(*_):
    if not calls:
        calls.extend(frame.filename for frame in traceback.extract_stack() if "/opencse/" in frame.filename)
from torch.optim import Optimizer
import importlib
importlib.import_module("torch.optim.optimizer").register_optimizer_step_pre_hook(first)
import opencse.cli
folder = Path(tempfile.mkdtemp())
(folder / "text.txt").write_text("".join(f"Sentence number {n} is here.\\n" for n in range(8)))
sys.argv = ["opencse", "train", str(folder / "text.txt"), "--out", str(folder / "out"), "--recipe", "simcse",
            "--set", "training.max_steps=1", "--set", "training.batch_size=4", "--dev", "none"]
sys.stdout = sys.stderr = open(folder / "log", "w")
try:
    opencse.cli.main()
except SystemExit:
    pass
files = [name.rpartition("src/opencse/")[2] for name in calls]
command = max((n for n, name in enumerate(files) if name == "cli/train.py"), default=0)
trainer = next((n for n, name in enumerate(files) if n > command and name.startswith("training/")), len(files))
sys.__stdout__.write(f"{trainer - command - 1} + {len(files) - trainer}: {' '.join(files[command:])}")
"""


def modules(root: Path) -> dict[Path, ast.Module]:
    """Every module of the package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((root / "src").rglob("*.py"))}


def code_lines(tree: ast.Module, source: str) -> int:
    """Lines of code without docstrings, comments, blank lines, signatures and imports."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            skipped |= set(range(node.lineno, node.body[0].lineno))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(1 for n, line in lines if n not in skipped and line.strip() and not line.strip().startswith("#"))


def circles(root: Path, trees: dict[Path, ast.Module]) -> list[list[str]]:
    """Sets of modules that import one another, type-only imports included."""
    names = {".".join(path.relative_to(root / "src").with_suffix("").parts).removesuffix(".__init__") for path in trees}
    uses: dict[str, set[str]] = {}
    for path, tree in trees.items():
        name = ".".join(path.relative_to(root / "src").with_suffix("").parts).removesuffix(".__init__")
        imported: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported |= {full for item in node.names if (full := f"{node.module}.{item.name}") in names}
                imported |= {node.module} & names
            elif isinstance(node, ast.Import):
                imported |= {item.name for item in node.names} & names
        uses[name] = imported - {name}
    packages = {name for name in names if any(other.startswith(f"{name}.") for other in names)}
    return _components({n: u - packages for n, u in uses.items() if n not in packages})


def _components(uses: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in uses[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in uses:
        if name not in index:
            visit(name)
    return groups


def several_meanings(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Names of classes and of type aliases that several modules define."""
    defined: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            name = None
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id if not isinstance(node.value, ast.Constant) else None
            if name is not None and name.lstrip("_")[:1].isupper() and not name.isupper():
                defined[name].append(path.name)
    return {name: files for name, files in defined.items() if len(files) > 1}


def vague_names(trees: dict[Path, ast.Module]) -> list[str]:
    """Local names and arguments that say nothing about their values, each once per function."""
    vague = set(words.table()["names"])
    return [
        f"{path.name}:{node.lineno} {name}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for name in sorted(_names_of(node) & vague)
    ]


def _names_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    arguments = function.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    body = function.body if isinstance(function.body, list) else [function.body]
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        waiting.extend(ast.iter_child_nodes(node))
    return names


def public_names(root: Path, trees: dict[Path, ast.Module]) -> Iterator[tuple[str, bool]]:
    """Public names, each with whether its docstring has an example that runs.

    Public are: what `opencse` exports, the classes and functions that docs/api.md imports, the parts of an objective,
    its losses, and the modules of an encoder.
    """
    exported = {
        (node.module.removeprefix("opencse.").replace(".", "/") + ".py", item.name)
        for tree in (ast.parse((root / "src/opencse/__init__.py").read_text(encoding="utf-8")), *_blocks(root))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("opencse.")
        for item in node.names
    }
    rooms = ("objective/views", "objective/negatives", "objective/terms", "modules", "encoder/pooling", "encoder/head")
    for path, tree in trees.items():
        where = path.relative_to(root / "src/opencse").as_posix()
        for node in tree.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            part = isinstance(node, ast.ClassDef) and where.startswith(rooms) and "base" not in path.name
            loss = isinstance(node, ast.FunctionDef) and where.startswith("objective/losses/")
            overloads = [d for d in node.decorator_list if isinstance(d, ast.Name) and d.id == "overload"]
            if (part or loss or (where, node.name) in exported) and not overloads:
                yield f"{where}:{node.name}", ">>> " in (ast.get_docstring(node) or "") or _method_example(node)


def _blocks(root: Path) -> Iterator[ast.Module]:
    """The Python of docs/api.md."""
    page = (root / "docs/api.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
        yield ast.parse(block)


def _method_example(node: ast.ClassDef | ast.FunctionDef) -> bool:
    inner = [n for n in node.body if isinstance(n, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
    return any(">>> " in (ast.get_docstring(method) or "") for method in inner)


def untested(root: Path, trees: dict[Path, ast.Module]) -> list[str]:
    """Modules without a test file of their name in the tests of their package."""
    lacking = []
    for path in trees:
        module = path.relative_to(root / "src/opencse")
        if path.name in ("__init__.py", "__main__.py"):
            continue
        tests = root / "tests" / module.parts[0] if len(module.parts) > 1 else root / "tests"
        names = [path.stem, f"{path.parent.name}_{path.stem}"]
        patterns = [pattern for name in names for pattern in (f"test_{name}.py", f"test_{name}_*.py")]
        if not any(True for pattern in patterns for _ in tests.rglob(pattern)):
            lacking.append(module.as_posix())
    return lacking


def chain(root: Path) -> str:
    """Calls between the function of `opencse train` and the trainer, and those of the trainer until the first step."""
    environment = {"PYTHONPATH": str(root / "src"), "PATH": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", CHAIN], capture_output=True, text=True, env=environment, check=False)
    return ran.stdout or ran.stderr.strip().splitlines()[-1]


def main() -> None:
    """Prints the counts, and with ``--list`` what was counted."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--list"]
    root = Path(arguments[0]).resolve() if arguments else HERE
    trees = modules(root)
    lines = sum(code_lines(tree, path.read_text(encoding="utf-8")) for path, tree in trees.items())
    loops, names, vague = circles(root, trees), several_meanings(trees), vague_names(trees)
    phrases = words.phrases(root)
    public = list(public_names(root, trees))
    bare = [name for name, example in public if not example]
    lacking = untested(root, trees)
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    rows = {
        "files of src": len(trees),
        "lines of code (no docstrings, blanks, signatures, imports)": lines,
        "files over 400 lines": sum(len(p.read_text(encoding="utf-8").splitlines()) > 400 for p in trees),
        "modules in circles of imports": sum(map(len, loops)),
        "class and alias names with several meanings": len(names),
        "vague local names": len(vague),
        "phrases of the word list": len(phrases),
        f"public names without an example, of {len(public)}": len(bare),
        "modules without a test file": len(lacking),
        "words of README and docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
    }
    for name, count in rows.items():
        print(f"{name:62}{count:8,}")
    print(f"{'calls from opencse train to the trainer + to the first step':62}{chain(root)}")
    if "--list" in sys.argv:
        for title, entries in (
            ("circles", [" ".join(group) for group in loops]),
            ("several meanings", [f"{name}: {' '.join(files)}" for name, files in sorted(names.items())]),
            ("vague names", vague),
            ("phrases", phrases),
            ("no example", bare),
            ("no test file", lacking),
        ):
            print(f"\n{title}", *entries, sep="\n  ")


if __name__ == "__main__":
    main()
