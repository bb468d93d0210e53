"""A part that lacks a method, or has it with other arguments, is refused in one line when its recipe is read."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from opencse import UserError
from opencse.objective.interface import interface_fault
from opencse.objective.registry import _BASES, PartRole, _base, built_in, find

HEAD = """
from typing import Literal
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.sides.base import Sides
from opencse.objective.terms.base import Term
from opencse.objective.views.base import View
from opencse.settings import PartSettings

class Own({base}):
    class Settings(PartSettings):
        kind: Literal["own"] = "own"
"""
NEGATIVES = "def count(self, batch_size, hard): return 1\ndef columns(self, reps, scoring): return None\n"
FAULTS = [
    ("negatives", "def count(self, batch_size, hard): return 1",
     "has no method columns; a NegativeSource needs columns(self, reps, scoring)"),
    ("negatives", "def columns(self, reps, scoring): return None",
     "has no method count; a NegativeSource needs count(self, batch_size, hard)"),
    ("negatives", "def count(self, batch_size, hard): return 1\ndef columns(self, reps): return None",
     "columns(self, reps, scoring) is expected, columns(self, reps) was found"),
    ("negatives", NEGATIVES + "def reads(self): return set()", "has reads as a method; put @property above it"),
    ("negatives", NEGATIVES + "check = 3", "it is of type int"),
    ("negatives", NEGATIVES + "def begin(self, encoder): pass",
     "begin(self, encoder, *, batch_size, seed) is expected, begin(self, encoder) was found"),
    ("negatives", NEGATIVES + "def noise(self): pass", "has another method noise than a NegativeSource"),
    ("term", "", "has no method loss; a Term needs loss(self, reps)"),
    ("term", "def loss(self): return 0", "loss(self, reps) is expected, loss(self) was found"),
    ("view", "", "has no method examples; a View needs examples(self, corpus, random)"),
    ("sides", "def of(self, reps): return None", "of(self, reps, draw) is expected, of(self, reps) was found"),
]  # fmt: skip


def written(folder: Path, name: str, role: str, body: str) -> str:
    base = _BASES[role].rpartition(":")[2]  # type: ignore[index]
    (folder / f"{name}.py").write_text(HEAD.format(base=base) + textwrap.indent(body, "    "))
    return f"{name}:Own"


@pytest.mark.parametrize(("number", "fault"), list(enumerate(FAULTS)))
def test_a_fault_is_one_clear_line(
    number: int, fault: tuple[PartRole, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role, body, message = fault
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = written(tmp_path, f"faulty_part_{number}", role, body)
    with pytest.raises(UserError) as refused:
        find(role, kind)
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"{kind} (faulty_part_{number}.Own) ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        NEGATIVES,
        "def count(self, n, m): return 1\ndef columns(self, vectors, how, extra=None): return None",
        "def count(self, *rest): return 1\ndef columns(self, *rest, **more): return None\nreads = frozenset()",
    ],
)
def test_names_and_further_arguments_are_free(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"sound_part_{abs(hash(body))}"
    assert find("negatives", written(tmp_path, name, "negatives", body)).__name__ == "Own"


@pytest.mark.parametrize("role", _BASES)
def test_no_part_of_the_package_has_a_fault(role: PartRole) -> None:
    parts = built_in(role)
    assert parts
    assert {kind: interface_fault(part, _base(role)) for kind, part in parts.items()} == dict.fromkeys(parts)
