"""`push` and `SentenceEncoder.push_to_hub` against a small server that speaks the Hub's few endpoints."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard, constants

import opencse
from helpers import json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.adapters import LoraSettings, add_adapters

TEXTS = ["A cat sat.", "Rain fell."]


@dataclass
class Hub:
    """What the server was sent, and what it is to refuse.

    Attributes:
        repos: of each repository the files by branch.
        refuse: status and message for the creation of a repository.
    """

    repos: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    messages: list[str] = field(default_factory=list)
    refuse: tuple[int, str] | None = None
    url: str = ""

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        place, _, query = path.partition("?")
        if place == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if place == "/api/repos/create":
            return self._create(json.loads(body))
        *_, owner, name, action, revision = place.split("/")
        repo = f"{owner}/{name}"
        if action == "branch":
            self.repos[repo].setdefault(revision, {})
            return 200, {}
        if action == "preupload":
            files = json.loads(body)["files"]
            return 200, {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]}
        assert action == "commit"
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        self.messages.append(lines[0]["value"]["summary"])
        for line in lines[1:]:
            assert line["key"] == "file"
            self.repos[repo].setdefault(revision, {})[line["value"]["path"]] = base64.b64decode(
                line["value"]["content"]
            )
        told = {"commitUrl": f"{self.url}/{repo}/commit/abc", "commitOid": "abc"}
        return 200, told | ({"pullRequestUrl": f"{self.url}/{repo}/discussions/1"} if "create_pr=1" in query else {})

    def _create(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refuse is not None:
            return self.refuse[0], {"error": self.refuse[1]}
        self.created.append(asked)
        repo = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if repo in self.repos:
            return 409, {"error": "You already created this model repo", "url": f"{self.url}/{repo}"}
        self.repos[repo] = {}
        return 200, {"url": f"{self.url}/{repo}", "name": repo}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.tokens.add(self.headers.get("Authorization"))
            status, told = made.answer(self.path, body)
            sent = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", made.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def written(files: dict[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_what_arrives_is_the_encoder_with_its_card(hub: Hub, encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.normalize = True
    url = encoder.push_to_hub("someone/tiny", token="hf_secret", private=True)
    assert url == f"{hub.url}/someone/tiny/commit/abc"
    assert "private" in str(hub.created[0])
    assert hub.tokens == {"Bearer hf_secret"}
    folder = written(hub.repos["someone/tiny"]["main"], tmp_path)
    assert (SentenceEncoder.load(folder, device="cpu").encode(TEXTS) == encoder.encode(TEXTS)).all()
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == "sentence-transformers"
    assert "someone/tiny" in card.text
    assert "path/to/this/folder" not in card.text


def test_a_run_s_records_and_other_files_stay_here(
    hub: Hub, encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    encoder.save(folder)
    encoder.save(folder / "last")
    own = ("corpus.txt", "service-account.json", "words.model", "other.onnx", "mine.safetensors", "1_Pooling/key.json")
    for name in ("run.json", "metrics.jsonl", "report.html", "report.json", "notes.md", "calibration.json", *own):
        (folder / name).write_text("{}")
    (folder / "12_secrets").mkdir()
    (folder / "12_secrets" / "token.json").write_text("{}")
    home = str(tmp_path / "home")
    monkeypatch.setenv("HOME", home)
    foreign = [
        "/mnt/bob/models/e5",
        "C:\\Users\\bob\\e5",
        "~bob/x/e5",
        "file:///srv/bob/e5",
        {"name_or_path": "../bob/e5"},
    ]
    more = {"_name_or_path": f"{home}/start", "x": f"{home}/y", "deep": {"er": foreign}, "kept": ["/", "</s>", "a/b"]}
    config = json_in(folder / "config.json") | more
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "README.md").write_text((folder / "README.md").read_text() + f"\nMade in {home}/models.\n")
    opencse.push(folder, "tiny", commit_message="First")
    sent = set(hub.repos["me/tiny"]["main"])
    assert {"README.md", "model.safetensors", "tokenizer.json", "1_Pooling/config.json", "modules.json"} <= sent
    assert not {name for name in sent if "run" in name or "report" in name or "last" in name or "metrics" in name}
    assert not sent & {"notes.md", "calibration.json", "12_secrets/token.json", *own}
    assert not [name for name, content in hub.repos["me/tiny"]["main"].items() if home.encode() in content]
    config = json.loads(hub.repos["me/tiny"]["main"]["config.json"])
    assert (config["_name_or_path"], config["x"], config["kept"]) == ("start", "y", more["kept"])
    assert config["deep"]["er"] == ["e5"] * 4 + [{"name_or_path": "e5"}]
    assert b"Made in ~/models." in hub.repos["me/tiny"]["main"]["README.md"]
    assert hub.messages == ["First"]


def test_adapters_go_where_their_model_can_be_found(
    hub: Hub, encoder: SentenceEncoder, tiny_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    add_adapters(encoder.backbone, LoraSettings(rank=2), str(tiny_folder), seed=0)
    encoder.adapted = True
    encoder.save(tmp_path / "out")
    opencse.push(tmp_path / "out", "me/merged")
    assert not {name for name in hub.repos["me/merged"]["main"] if "adapter" in name}
    with pytest.raises(UserError, match="base_model_name_or_path is a folder of this machine"):
        opencse.push(tmp_path / "out" / "adapter", "me/alone")
    config = tmp_path / "out" / "adapter" / "adapter_config.json"
    config.write_text(json.dumps(json_in(config) | {"base_model_name_or_path": "someone/model"}))
    opencse.push(tmp_path / "out", "me/both")
    opencse.push(tmp_path / "out" / "adapter", "me/alone")
    assert {"adapter/adapter_config.json", "adapter/1_Pooling/config.json"} <= set(hub.repos["me/both"]["main"])
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(hub.repos["me/alone"]["main"])
    assert "config.json" not in hub.repos["me/alone"]["main"]


def test_versions_branches_and_pull_requests(hub: Hub, encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "out")
    opencse.push(tmp_path / "out", "me/tiny")
    with pytest.raises(UserError, match="me/tiny: is on the Hub already; give --exist-ok"):
        opencse.push(tmp_path / "out", "me/tiny")
    opencse.push(tmp_path / "out", "me/tiny", exist_ok=True)
    opencse.push(tmp_path / "out", "me/tiny", revision="v2")
    assert set(hub.repos["me/tiny"]) == {"main", "v2"}
    assert opencse.push(tmp_path / "out", "me/tiny", create_pr=True).endswith("/discussions/1")


@pytest.mark.parametrize(
    ("refuse", "token", "told"),
    [
        (
            (401, "Invalid username or password."),
            None,
            r"someone/tiny: the Hub asks who you are; log in \(hf auth login\)",
        ),
        ((403, "You don't have the rights"), "hf_reads", "the token may not write there"),
    ],
)
def test_what_the_hub_refuses_is_one_line(
    hub: Hub, encoder: SentenceEncoder, refuse: tuple[int, str], token: str | None, told: str
) -> None:
    hub.refuse = refuse
    with pytest.raises(UserError, match=told) as error:
        encoder.push_to_hub("someone/tiny", token=token)
    assert "\n" not in str(error.value)
    assert hub.repos == {}


def test_no_network_offline_wrong_names_and_no_model(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.save(tmp_path / "out")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        opencse.push(tmp_path / "out", "me/tiny")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(UserError, match="the Hub cannot be reached"):
            opencse.push(tmp_path / "out", "me/tiny")
    for wrong in ("a/b/c", "", "bad name", "-x"):
        with pytest.raises(UserError, match="is no name on the Hub"):
            opencse.push(tmp_path / "out", wrong)
    (tmp_path / "empty").mkdir()
    for nothing in (tmp_path / "gone", tmp_path / "empty"):
        with pytest.raises(UserError, match=r"no such folder|holds no model"):
            opencse.push(nothing, "me/tiny")
