"""The word list and the counts find what they are there to find."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import counts  # noqa: E402
import words  # noqa: E402


def repository(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        path = folder / "src" / "opencse" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_a_phrase_in_a_docstring_is_named_with_its_line_and_what_to_write(tmp_path: Path) -> None:
    text = '"""First.\n\nBoth are alike.\n"""\nalike = 1  # the name of a variable is no language\n'
    (line,) = words.phrases(repository(tmp_path, a=text))
    assert line.startswith("src/opencse/a.py:3: 'alike': write the same")


@pytest.mark.parametrize("name", ["docs/notebook.ipynb", "docs/adapt.md.jinja", "examples/spark.py"])
def test_notebooks_templates_and_examples_are_read_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("# Texts that are alike\n", encoding="utf-8")
    (line,) = words.phrases(tmp_path)
    assert line.startswith(f"{name}:1: 'alike'")


def test_every_pattern_of_the_list_matches_something() -> None:
    assert len(words.table()) > 20
    assert all(instead for instead in words.table().values())


def test_tokens_are_counted_without_docstrings_comments_and_imports() -> None:
    text = 'import os\n\n\ndef f(a):\n    """Doc."""\n    # why\n    return a\n'
    assert counts.tokens(ast.parse(text), text) == len(["def", "f", "(", "a", ")", ":", "return", "a"])


def test_what_is_above_the_budget_is_named(tmp_path: Path) -> None:
    code = "class A(Exception): ...\n\n\ndef check_x(x):  # inline\n    # why\n    if x:\n        raise A\n"
    (tmp_path / "tests").mkdir()
    read = counts.counted(repository(tmp_path, a=code))
    assert (read["raise"], read["guards"], read["comment-lines"], read["src-files"]) == (1, 1, 1, 1)
    (line,) = counts.over_budget(read, {"src-files": 1, "raise": 0})
    assert line.startswith("raise: 1, and tools/budget.toml allows 0")


def test_public_names_have_an_example() -> None:
    names = dict(counts.public_names(ROOT))
    assert len(names) > 100
    assert [name for name, example in names.items() if not example] == []
