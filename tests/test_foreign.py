"""A folder's code runs where the user trusts it and nowhere else; what would be fetched from elsewhere is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers import Run, accepted, json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError

CODE = """
from pathlib import Path
from transformers import BertConfig, BertModel

Path({marker!r}).write_text("ran")

class OwnConfig(BertConfig):
    model_type = "own-{name}"

class OwnModel(BertModel):
    config_class = OwnConfig
"""


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json_in(path) | values))


@pytest.fixture
def copy(tiny_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_folder, tmp_path / "model")


@pytest.fixture
def own(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A folder whose model is opened with its own code alone, and the file which that code writes."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    marker, name = tmp_path / "marker", tmp_path.name.replace("_", "-")
    (copy / "own.py").write_text(CODE.format(marker=str(marker), name=name))
    mapped = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    change(copy / "config.json", model_type=f"own-{name}", auto_map=mapped)
    return copy, marker


@pytest.mark.slow
def test_code_does_not_run_unasked(own: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, opencse: Run) -> None:
    folder, marker = own
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    text = folder.parent / "text.txt"
    text.write_text("a\nb\n")
    for command in (["similarity", folder, "a", "b"], ["check", text, "--model", folder]):
        code, out, err = opencse(*command)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "own.OwnConfig, own.OwnModel" in err
        assert "--trust-remote-code" in err
        assert not marker.exists()


def test_a_tokenizers_code_does_not_run_unasked(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    marker = tmp_path / "marker"
    (copy / "own.py").write_text(f"open({str(marker)!r}, 'w')")
    change(copy / "tokenizer_config.json", tokenizer_class="Own", auto_map={"AutoTokenizer": [None, "own.Own"]})
    with pytest.raises(UserError, match=r"own\.Own.*trust_remote_code=True"):
        SentenceEncoder.load(copy)
    assert not marker.exists()


@pytest.mark.slow
def test_code_runs_where_it_is_trusted_and_is_told_of(own: tuple[Path, Path], opencse: Run) -> None:
    folder, marker = own
    out, err = accepted(opencse("similarity", folder, "a dog", "a cat", "--trust-remote-code"))
    assert marker.read_text() == "ran"
    assert "run (--trust-remote-code): own.OwnConfig, own.OwnModel" in err
    assert out.endswith("a cat\n")


@pytest.mark.slow
def test_a_run_keeps_the_trust_in_its_plan_record_and_evaluation(
    own: tuple[Path, Path], tmp_path: Path, small_sts: Path, opencse: Run
) -> None:
    folder, marker = own
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("one dog\ntwo cats\nthree birds\nfour fish\n")
    asked = ["train", text, "-o", out, "-m", folder, "--dev", "none", "--no-report", "-s", "training.batch_size=2"]
    code, _, err = opencse(*asked)
    assert (code, marker.exists(), out.exists()) == (2, False, False), err
    _, err = accepted(opencse(*asked, "--trust-remote-code"))
    assert "code       of the model's folder is run (--trust-remote-code): own.OwnConfig, own.OwnModel\n" in err
    named = ["own.OwnConfig", "own.OwnModel"]
    assert json_in(out / "run.json")["identity"]["code"] == named
    record = tmp_path / "sts.json"
    judge = ["evaluate", out, "--data", small_sts, "--tasks", "sts12", "--json", record]
    code, _, err = opencse(*judge)
    assert (code, err.count("\n")) == (2, 1), "the trained folder is opened by the same code, with the same trust"
    accepted(opencse(*judge, "--trust-remote-code"))
    assert json_in(record)["code"] == named


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"attn_implementation": "someone/kernels"}, "attn_implementation 'someone/kernels'"),
        ({"_attn_implementation_internal": "kernels-community/flash-attn2"}, "_attn_implementation_internal"),
        ({"text_config": {"auto_map": {"AutoModel": "someone/code--own.Own"}}}, "auto_map of a model inside the model"),
        ({"quantization_config": {"quant_method": "torchao"}}, "quantization_config is not supported"),
    ],
)
def test_what_is_not_the_folders_own_is_refused(copy: Path, changes: dict[str, Any], named: str) -> None:
    change(copy / "config.json", **changes)
    with pytest.raises(UserError) as caught:
        SentenceEncoder.load(copy, trust_remote_code=True)
    assert named in str(caught.value)
    assert str(copy / "config.json") in str(caught.value)
    assert "\n" not in str(caught.value)
