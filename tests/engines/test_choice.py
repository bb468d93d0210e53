from __future__ import annotations

import pytest

from opencse import environment
from opencse.engines import require_engine
from opencse.errors import UserError


def test_engines_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    require_engine("local")
    monkeypatch.setattr(environment, "missing_packages", lambda *modules: list(modules))
    require_engine("local")
    with pytest.raises(UserError, match=r'^the engine ray needs ray, pyarrow; pip install "opencse\[ray\]"$'):
        require_engine("ray")
