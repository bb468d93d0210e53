"""The cross-encoder that a command opens: from a folder, loaded already, or none."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from cross_encoders import write_cross_encoder
from helpers import Heard
from opencse.api.declaring import defaults_of
from opencse.api.options.index import NegativeOptions
from opencse.api.options.shared import RerankOptions
from opencse.api.reranking import margin_teacher, open_cross_encoder, second_stage
from opencse.errors import UserError
from opencse.foreign import code_notice
from opencse.reranking.cross_encoder import CrossEncoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross") / "encoder")


def test_a_second_stage_is_opened_as_the_options_say(folder: Path) -> None:
    defaults = cast(RerankOptions, defaults_of(RerankOptions))
    assert second_stage(defaults) is None
    stage = second_stage({**defaults, "rerank": folder, "rerank_depth": 7, "device": "cpu"})
    assert stage is not None
    assert (stage.depth, stage.model.name) == (7, str(folder))


def test_a_teacher_is_opened_with_its_least_margin(folder: Path) -> None:
    defaults = cast(NegativeOptions, defaults_of(NegativeOptions))
    assert margin_teacher(defaults) is None
    teacher = margin_teacher({**defaults, "teacher": folder, "least_margin": 0.5, "device": "cpu"})
    assert teacher is not None
    assert (teacher.least, teacher.model.name) == (0.5, str(folder))
    with pytest.raises(UserError, match="--least-margin needs --teacher"):
        margin_teacher({**defaults, "least_margin": 0.5})


def test_a_loaded_model_is_used_and_code_of_a_folder_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, loaded = Heard(), CrossEncoder.load(folder, device="cpu")
    assert open_cross_encoder(loaded, heard, device=None, precision="float32", trust_remote_code=False) is loaded
    assert heard.said == []
    loaded.own_code = ("modeling.Mine",)
    monkeypatch.setattr(CrossEncoder, "load", lambda *_, **__: loaded)
    open_cross_encoder(folder, heard, device="cpu", precision="float32", trust_remote_code=True)
    assert heard.said == [code_notice(("modeling.Mine",))]
