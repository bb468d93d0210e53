"""A corpus, and a server that answers by a rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chat_servers import ChatRule, chat_server


@pytest.fixture
def rule() -> Iterator[ChatRule]:
    with chat_server() as running:
        yield running
