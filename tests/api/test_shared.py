"""Options that several commands have: what they are called on the command line and by default."""

from __future__ import annotations

from opencse.api.declaring import declared_in, defaults_of
from opencse.api.options.shared import FinishOptions, ModelOptions, SettingOptions


def test_progress_is_an_option_of_python_alone() -> None:
    declared = declared_in(ModelOptions)
    assert declared["progress"].option.hidden
    assert list(declared) == ["pooling", "device", "trust_remote_code", "progress"]


def test_a_report_is_written_by_commands_and_not_by_functions() -> None:
    assert declared_in(FinishOptions)["report"].option.typed_default is True
    assert defaults_of(FinishOptions)["report"] is False
    assert declared_in(SettingOptions)["settings"].option.flags == ("--set", "-s")
