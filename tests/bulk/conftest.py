from __future__ import annotations

from pathlib import Path

import pytest

from numbered import numbered
from opencse.text.readers import Source


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return numbered(tmp_path)
