"""Measures what the tests catch: changes one place of the source at a time, and runs the tests that reach it.

    python tools/mutants.py --tests tests/statistics --source statistics --count 30 --seed 1

The tests run once with coverage by test. Then each of ``--count`` random places under ``src/opencse/SOURCE`` is
changed in a copy (a comparison turned, a number or boolean changed, a call dropped, a branch negated), and the tests
that ran its line are run until one fails. What survives is printed: a fault that no test would notice, or a change that
makes no difference. ``--seed`` chooses the places; the same seed on the same source chooses the same.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TURNED: dict[type[ast.AST], Any] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def changed(node: ast.AST) -> Any:  # noqa: ANN401
    """The node with a fault, or None where it has no place for one."""
    new: Any = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in TURNED:
        new.ops[0] = TURNED[type(new.ops[0])]()
    elif isinstance(new, ast.BinOp | ast.BoolOp) and type(new.op) in TURNED:
        new.op = TURNED[type(new.op)]()
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool | int | float):
        new.value = not new.value if isinstance(new.value, bool) else new.value + 1
    elif isinstance(new, ast.If):
        new.test = ast.UnaryOp(ast.Not(), new.test)
    elif isinstance(new, ast.Expr) and isinstance(new.value, ast.Call):
        return ast.Pass()
    else:
        return None
    return new


def places(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes of function bodies that can be changed."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                yield from (
                    node for node in ast.walk(statement) if hasattr(node, "lineno") and changed(node) is not None
                )


def mutated(source: str, number: int) -> str:
    """The source with a fault in the place of a number."""

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return changed(node) or node if node is old else self.generic_visit(node)

    tree = ast.parse(source)
    old = list(places(tree))[number]
    return ast.unparse(ast.fix_missing_locations(Put().visit(tree)))


def run(tests: list[str], source: Path, *options: str) -> int:
    """The exit code of pytest with another copy of the source; 0 where nothing was noticed."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *options, *tests]
    try:
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=1800).returncode
    except subprocess.TimeoutExpired:
        return 1


def main() -> None:
    """Runs the tests with each mutant, and prints which survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", nargs="+", default=["tests"])
    parser.add_argument("--source", nargs="+", default=["."], help="folders or files under src/opencse")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    from coverage import CoverageData  # of pytest-cov

    work = Path(tempfile.mkdtemp())
    shutil.copytree(ROOT / "src", work / "src")
    data = work / "coverage"
    os.environ["COVERAGE_FILE"] = str(data)
    if run(arguments.tests, work / "src", "--cov=opencse", "--cov-context=test", "--cov-report=") not in (0, 5):
        sys.exit("the tests fail without a change")
    covered = CoverageData(str(data))
    covered.read()
    roots = [work / "src" / "opencse" / name for name in arguments.source]
    files = sorted({file for root in roots for file in ([root] if root.is_file() else root.rglob("*.py"))})
    everywhere = [
        (file, *one) for file in files for one in enumerate(places(ast.parse(file.read_text(encoding="utf-8"))))
    ]
    chosen = random.Random(arguments.seed).sample(everywhere, min(arguments.count, len(everywhere)))
    noticed = unreached = 0
    for file, number, node in chosen:
        line = getattr(node, "lineno", 0)
        reached = covered.contexts_by_lineno(str(file)).get(line, [])
        tests = sorted({context.rsplit("|", 1)[0] for context in reached if context})
        was, is_now = (ast.unparse(one).splitlines()[0] for one in (node, changed(node)))
        where = f"{file.relative_to(work / 'src')}:{line}: {was} -> {is_now}"
        if not tests:
            unreached += 1
            print(f"not reached  {where}", flush=True)
            continue
        before = file.read_text(encoding="utf-8")
        file.write_text(mutated(before, number), encoding="utf-8")
        caught = run(tests, work / "src") != 0
        file.write_text(before, encoding="utf-8")
        noticed += caught
        if not caught:
            print(f"survives     {where}", flush=True)
    total = len(chosen)
    print(f"{noticed} of {total} found ({100 * noticed / total:.0f}%), {unreached} not reached, seed {arguments.seed}")


if __name__ == "__main__":
    main()
