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
    assert len(words.table()["phrases"]) > 20
    assert all(instead for instead in words.table()["phrases"].values())


@pytest.mark.parametrize(
    ("text", "lines"),
    [("import os\n\n\ndef f(\n    a,\n):\n    '''Doc.'''\n    # why\n    return a\n", 1), ("x = 1\ny = 2\n", 2)],
)
def test_code_is_counted_without_signatures_docstrings_comments_and_imports(text: str, lines: int) -> None:
    assert counts.code_lines(ast.parse(text), text) == lines


def test_a_circle_of_type_only_imports_is_found(tmp_path: Path) -> None:
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from opencse.a import A\n"
    root = repository(tmp_path, a="from opencse.b import B\n", b=guarded, c="from opencse.a import A\n")
    assert counts.circles(root, counts.modules(root)) == [["opencse.a", "opencse.b"]]


def test_names_with_two_meanings_and_vague_names_are_found(tmp_path: Path) -> None:
    code = "class Row:\n    pass\n\n\ndef f(found):\n    return [place for place in found]\n"
    trees = counts.modules(repository(tmp_path, a=code, b="Row = int\n"))
    assert list(counts.several_meanings(trees)) == ["Row"]
    assert len(counts.vague_names(trees)) == 2


def test_a_module_without_its_test_file_is_found(tmp_path: Path) -> None:
    root = repository(tmp_path, a="", b="")
    (root / "tests").mkdir()
    (root / "tests" / "test_a_broken.py").touch()
    assert counts.untested(root, counts.modules(root)) == ["b.py"]


def test_the_package_itself_has_none_of_it() -> None:
    trees = counts.modules(ROOT)
    assert len(trees) > 300
    assert counts.circles(ROOT, trees) == []
    assert counts.several_meanings(trees) == {}
    assert counts.vague_names(trees) == []
    assert [name for name, example in counts.public_names(ROOT, trees) if not example] == []
    assert counts.untested(ROOT, trees) == []
