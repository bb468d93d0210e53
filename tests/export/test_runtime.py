from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.export.runtime import OnnxEncoder, _prompts, require_onnx
from opencse.modules.prompts import Role

pytest.importorskip("onnxruntime")


def test_a_foreign_folder_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened as an ONNX export"):
        OnnxEncoder(tmp_path)
    (tmp_path / "export.json").write_text("[]")
    with pytest.raises(UserError, match="cannot be opened as an ONNX export"):
        OnnxEncoder(tmp_path)


def test_the_prompts_of_an_export_and_of_an_older_one() -> None:
    prompts = _prompts({"prompts": {"query": "q: ", "document": "d: "}, "default_prompt_name": None})
    assert (prompts.of(Role.QUERY), prompts.of(Role.DOCUMENT), prompts.of(Role.PLAIN)) == ("q: ", "d: ", "")
    assert _prompts({"prompt": "text: "}).of(Role.PLAIN) == "text: "


def test_a_missing_package_names_the_extra() -> None:
    require_onnx("onnxruntime")
    with pytest.raises(UserError, match=r'no_such_package; pip install "opencse\[export\]"'):
        require_onnx("no_such_package")
