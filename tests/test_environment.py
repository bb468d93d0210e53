"""Versions, machine, and packages that are not installed."""

from __future__ import annotations

import platform

import pytest

from opencse.environment import Environment, installed, missing_packages, require_packages
from opencse.errors import UserError


def test_this_process() -> None:
    environment = Environment.here("cpu")
    assert (environment.python, environment.device) == (platform.python_version(), "cpu")
    assert environment.numpy == installed("numpy")
    assert installed("no-such-package") is None


def test_missing_packages_are_named_as_they_are_installed() -> None:
    assert missing_packages("json", "no_such_module") == ["no_such_module"]
    require_packages("this", "train", "json")
    with pytest.raises(UserError, match=r'this needs no_such_module; pip install "opencse\[train\]"'):
        require_packages("this", "train", "no_such_module")
