"""``opencse serve`` before it serves: what is refused, in one line."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path

import pytest

from helpers import Run, refused
from opencse.api import serving
from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(serving.KEY_VARIABLE, raising=False)


def not_served(run: Run, *arguments: object) -> str:
    return refused(run("serve", *arguments, "--device", "cpu"))


def test_a_port_in_use(opencse: Run, tiny_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 cannot be listened on" in not_served(opencse, tiny_folder, "--port", port)


def test_hosts_that_are_none(opencse: Run, tiny_folder: Path) -> None:
    for host in ("nowhere.invalid", "", "1.2.3.4.5", "a" * 300, "192.0.2.1"):
        assert "opencse: " in not_served(opencse, tiny_folder, "--port", 0, "--host", host)


def test_keys_that_are_none(opencse: Run, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    assert "cannot be read" in not_served(opencse, tiny_folder, "--port", 0, "--api-key-file", file)
    for content in ("", "# only a comment\n", "two words\n", "ключ\n"):
        file.write_text(content, encoding="utf-8")
        assert "API key" in not_served(opencse, tiny_folder, "--port", 0, "--api-key-file", file)
    monkeypatch.setenv(serving.KEY_VARIABLE, " ")
    assert serving.KEY_VARIABLE in not_served(opencse, tiny_folder, "--port", 0)


def test_models_and_indexes_that_do_not_go_together(
    opencse: Run, tiny_folder: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    Index.build(tmp_path / "index", ["One.", "Two."], encoder).close()
    assert "would be called" in not_served(opencse, tiny_folder, tiny_folder, "--port", 0)
    assert "1 name for 2 models" in not_served(opencse, tiny_folder, "opencse-mini", "--name", "a", "--port", 0)
    assert "built with" in not_served(opencse, "opencse-mini", "--index", tmp_path / "index", "--port", 0)
    assert "missing" in not_served(opencse, tiny_folder, "--index", tmp_path / "missing", "--port", 0)
    twice = ["--index", tmp_path / "index"] * 2
    assert "has an index already" in not_served(opencse, tiny_folder, *twice, "--port", 0)
    assert "./missing" in not_served(opencse, "./missing", "--port", 0)
    for option, value in (("--port", 70_000), ("--port", "x"), ("--max-texts", 0), ("--too-long", "keep")):
        assert option in not_served(opencse, tiny_folder, option, value)


def test_a_missing_extra_is_named(opencse: Run, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    missing = "uvicorn"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest))
    assert 'needs uvicorn; pip install "opencse[serve]"' in not_served(opencse, tiny_folder)
