"""``opencse questions``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chat_servers import ChatRule, chat_server
from helpers import Run

TEXTS = ["Vinegar removes the limescale of years from a kettle.", "Snow fell on the hills where the children played."]


@pytest.fixture
def rule() -> Iterator[ChatRule]:
    with chat_server() as running:
        yield running


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "docs.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def test_questions_are_written_and_what_follows_is_said(
    opencse: Run, rule: ChatRule, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "my pairs.jsonl"
    command = ["questions", corpus, "--endpoint", rule.url, "--model", "rule", "--out", out, "--per-document", "2"]
    code, stdout, stderr = opencse(*command, "--body", '{"top_p": 0.5, "temperature": null}')
    assert code == 0, stderr
    assert "requests   2, for 2 questions each" in stderr
    assert f"opencse adapt {corpus} --questions '{out}' --out my-model" in stdout
    assert {json.loads(line)["answer"] for line in out.read_text().splitlines()} == set(TEXTS)
    assert rule.bodies[0]["top_p"] == 0.5
    assert "temperature" not in rule.bodies[0]


def test_a_dry_run_prints_one_prompt(opencse: Run, corpus: Path, tmp_path: Path) -> None:
    command = ["questions", corpus, "--endpoint", "http://127.0.0.1:9", "--model", "rule", "--dry-run"]
    code, stdout, stderr = opencse(*command, "--price-in", "0.5", "--price-out", "1.5", "--out", tmp_path / "p.jsonl")
    assert code == 0, stderr
    assert f"Text: {TEXTS[0]}" in stdout
    assert "per million" in stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--endpoint", "http://127.0.0.1:9/v1"], "cannot be reached"),
        (["--endpoint", "http://127.0.0.1:9", "--body", "top_p=1"], "--body top_p=1: is no JSON object"),
        (["--endpoint", "http://127.0.0.1:9", "--key-variable", "NO_SUCH"], "NO_SUCH: the environment variable"),
        ([], "--endpoint"),
    ],
)
def test_bad_input_is_one_line(opencse: Run, corpus: Path, tmp_path: Path, options: list[str], message: str) -> None:
    code, _, stderr = opencse("questions", corpus, "--model", "rule", "--out", tmp_path / "p.jsonl", *options)
    assert code == 2
    assert message in stderr.splitlines()[-1]
    assert "Traceback" not in stderr
    assert not (tmp_path / "p.jsonl").exists()
