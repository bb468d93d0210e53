"""``opencse adapt``."""

from __future__ import annotations

from pathlib import Path

from helpers import Run


def test_the_plan_of_a_dry_run(opencse: Run, tmp_path: Path) -> None:
    documents = tmp_path / "docs.jsonl"
    lines = [
        '{"title": "Kettles", "text": "A kettle boils water. It has a lid. Steam comes out."}',
        '{"title": "Snow", "text": "Snow fell on the hills. It was cold. Children played."}',
    ]
    documents.write_text("\n".join(lines) + "\n")
    code, stdout, err = opencse("adapt", documents, "--out", tmp_path / "out", "--dev", "none", "--dry-run")
    assert code == 0, err
    assert "text       " in stdout
    assert not (tmp_path / "out").exists()
