"""A folder's code runs where the user trusts it and nowhere else; what would be fetched from elsewhere is refused."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import opencse
from helpers import Run
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_model
from opencse.errors import UserError
from opencse.foreign import CLASSIFIER, MASKED_LM, not_trusted, own_code
from opencse.model_folder.backbone import load_backbone
from opencse.runs.record import changed_files

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
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


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


def test_code_that_is_run_is_a_part_of_the_model(own: tuple[Path, Path]) -> None:
    folder, _ = own
    before = hash_model(folder)
    assert "own.py" in before
    (folder / "own.py").write_text("# another\n")
    assert changed_files(before, hash_model(folder)) == "own.py"
    change(folder / "config.json", auto_map=None)
    assert "own.py" not in hash_model(folder), "nobody runs it"


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
    code, out, err = opencse("similarity", folder, "a dog", "a cat", "--trust-remote-code")
    assert code == 0, err
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
    code, _, err = opencse(*asked, "--trust-remote-code")
    assert code == 0, err
    assert "code       of the model's folder is run (--trust-remote-code): own.OwnConfig, own.OwnModel\n" in err
    named = ["own.OwnConfig", "own.OwnModel"]
    assert json.loads((out / "run.json").read_text())["identity"]["code"] == named
    record = tmp_path / "sts.json"
    judge = ["evaluate", out, "--data", small_sts, "--tasks", "sts12", "--json", record]
    code, _, err = opencse(*judge)
    assert (code, err.count("\n")) == (2, 1), "the trained folder is opened by the same code, with the same trust"
    code, _, err = opencse(*judge, "--trust-remote-code")
    assert code == 0, err
    assert json.loads(record.read_text())["code"] == named


def test_no_code_is_recorded_of_a_model_without_any(copy: Path) -> None:
    assert SentenceEncoder.load(copy, trust_remote_code=True).own_code == ()
    change(copy / "config.json", auto_map={"AutoModel": "own.Own", "AutoModelForImageClassification": "own.Other"})
    assert own_code(copy) == ("own.Own",)
    assert SentenceEncoder.load(copy).own_code == (), "transformers' own class is taken"


def test_the_class_of_a_cross_encoder_is_named_where_one_is_opened(copy: Path) -> None:
    change(copy / "config.json", auto_map={CLASSIFIER: "own.Ranks", MASKED_LM: "own.Fills"})
    assert own_code(copy, CLASSIFIER) == ("own.Ranks",)
    assert own_code(copy, MASKED_LM) == ("own.Fills",)
    assert own_code(copy) == ("own.Fills", "own.Ranks")
    assert "own.Ranks" in str(not_trusted(copy))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"attn_implementation": "someone/kernels"}, "attn_implementation 'someone/kernels'"),
        ({"_attn_implementation_internal": "kernels-community/flash-attn2"}, "_attn_implementation_internal"),
        ({"text_config": {"attn_implementation": "someone/kernels"}}, "attn_implementation 'someone/kernels'"),
        ({"attn_implementation": "flash_attention_2"}, "needs the package flash_attn"),
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


@pytest.mark.parametrize("name", ["eager"])
def test_known_attention_is_taken(copy: Path, name: str) -> None:
    change(copy / "config.json", attn_implementation=name)
    assert SentenceEncoder.load(copy).backbone.config._attn_implementation == name


def test_an_adapter_of_a_model_that_is_not_here_or_of_another_kind_is_refused(copy: Path) -> None:
    pytest.importorskip("peft")
    told = {"base_model_name_or_path": "someone/model", "target_modules": ["query"]}
    (copy / "adapter_config.json").write_text(json.dumps(told | {"peft_type": "IA3"}))
    with pytest.raises(UserError, match=r"adapter_config\.json: adapters of kind IA3 are not supported here"):
        SentenceEncoder.load(copy)
    (copy / "adapter_config.json").write_text(json.dumps(told | {"peft_type": "LORA"}))
    with pytest.raises(UserError, match=r"someone/model: .* could be fetched from the Hub"):
        SentenceEncoder.load(copy)
    with pytest.raises(UserError, match=r"adapter_config\.json: adapters are not supported.*merge"):
        load_backbone(copy)  # transformers itself would fetch that model


def test_pickled_weights_run_nothing(copy: Path, tmp_path: Path) -> None:
    import torch

    marker = tmp_path / "marker"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return open, (str(marker), "w")

    (copy / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Evil()}, copy / "pytorch_model.bin")
    with pytest.raises(UserError, match="could run code"):
        SentenceEncoder.load(copy)
    assert not marker.exists()


def takers() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, class and method that takes ``trust_remote_code``."""
    from opencse.analysis.calibration import Calibration
    from opencse.evaluation.models.mteb import MtebEncoder
    from opencse.evaluation.models.opening import open_model
    from opencse.text.tokenizer import Tokenizer

    public = {name: getattr(opencse, name) for name in opencse.__all__}
    public |= {"open_model": open_model, "Calibration": Calibration, "MtebEncoder": MtebEncoder, "Tokenizer": Tokenizer}
    for name, value in public.items():
        members = {f"{name}.{key}": getattr(value, key) for key in dir(value)} if isinstance(value, type) else {}
        for path, function in {name: value, **members}.items():
            try:
                taken = inspect.signature(function).parameters
            except (TypeError, ValueError):
                continue
            if "LoadOptions" in str(getattr(taken.get("options"), "annotation", "")):
                yield path, function
            if "trust_remote_code" in taken:
                assert taken["trust_remote_code"].kind is inspect.Parameter.KEYWORD_ONLY, path
                yield path, function


def test_every_function_that_runs_code_is_known() -> None:
    names = {name for name, _ in takers()}
    assert {"encode", "train", "adapt", "serve", "build_index", "evaluate", "SentenceEncoder.load"} <= names
    assert len(names) >= 26


@pytest.mark.parametrize("value", [None, "false", 1])
def test_trust_is_true_or_false_alone(value: Any) -> None:
    for name, function in takers():
        required = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
        given: dict[str, Any] = {
            one.name: "no-such-thing" for one in required if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }
        given.pop("self", None)
        with pytest.raises(TypeError, match=rf"trust_remote_code is True or False, not {re.escape(repr(value))}"):
            function(**given, trust_remote_code=value)
        assert name


def test_a_study_file_trusts_by_true_alone(tmp_path: Path) -> None:
    from opencse.api.study_file import study_of

    asked = {"text": "a.txt", "out": "b", "recipes": ["simcse-unsup"], "data": "c"}
    assert not study_of({**asked, "trust_remote_code": False}).options()["trust_remote_code"]
    for value in ("true", "1", 1):
        with pytest.raises(UserError, match="trust_remote_code"):
            study_of({**asked, "trust_remote_code": value})
