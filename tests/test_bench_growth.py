"""The picture of rates as the work grows is drawn of the records, by benchmarks/growth.py."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "results" / "records"
PICTURE = RECORDS.parent / "figures" / "growth.svg"


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("growth")


def test_the_picture_shows_every_curve_that_has_a_record(growth: Any) -> None:
    shown = growth.panels(RECORDS)
    assert len(shown) >= 4
    text = PICTURE.read_text(encoding="utf-8")
    for panel in shown:
        assert panel.title in text, "run benchmarks/growth.py (the command is on docs/results/scale.md)"
        for name in panel.curves:
            assert f">{name}<" in text, "run benchmarks/growth.py (the command is on docs/results/scale.md)"
    assert ("Search, by rows" in text) == (RECORDS / "search-peers.json").exists()
    assert ("Server, by clients" in text) == (RECORDS / "serving-clients.json").exists()


def test_curves_are_the_numbers_of_the_records(growth: Any, tmp_path: Path) -> None:
    shutil.copy(RECORDS / "scale.json", tmp_path)
    rates = [{"server": "a", "settings": "", "clients": c, "rate": r} for c, r in ((4, 9), (1, 3), (4, 11), (1, 5))]
    (tmp_path / "serving-clients.json").write_text(json.dumps({"rows": rates}))
    sizes = [{"kind": "flat", "rows": n, "one": {"ours": n + 1, "peer": n + 2}} for n in (10, 20)]
    (tmp_path / "search-peers.json").write_text(json.dumps({"rows": sizes}))
    curves = {panel.title: panel.curves for panel in growth.panels(tmp_path)}
    assert "Training, by length" not in curves  # of a record that is not there
    assert curves["Training, by batch"]["in chunks of 256"][-1] == (65_536, 65_536 / 131.1)
    assert curves["Tokenising, by corpus"]["tokenise"][-1] == (10_000, 49_248)
    assert curves["Server, by clients"] == {"a": [(1, 4), (4, 10)]}
    assert curves["Search, by rows"] == {"flat, opencse": [(10, 11), (20, 21)], "flat, FAISS": [(10, 12), (20, 22)]}
    assert "flat, FAISS" in growth.drawn(growth.panels(tmp_path))


def test_without_records_there_is_nothing_to_draw(growth: Any, tmp_path: Path) -> None:
    assert growth.panels(tmp_path) == []


def test_a_cell_without_a_number_is_refused(growth: Any) -> None:
    assert growth.number("2 GB") == 2_000
    with pytest.raises(ValueError, match="begins with no number"):
        growth.number("-")
