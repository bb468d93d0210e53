from __future__ import annotations

import pytest

from opencse.errors import masked

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"postgresql://anna:{SECRET}@db:5432/texts", "postgresql://anna:***@db:5432/texts"),
        (f"postgresql://anna:{SECRET}@x@db/texts", "postgresql://anna:***@db/texts"),
        (f"postgresql://:{SECRET}@db/texts", "postgresql://:***@db/texts"),
        (f"host=db user=anna password={SECRET} dbname=x", "host=db user=anna password=*** dbname=x"),
        (f"host=db password='a {SECRET}' dbname=x", "host=db password=*** dbname=x"),
        (f"host=db password = {SECRET}", "host=db password = ***"),
        (f"https://anna:{SECRET}@qdrant:6333", "https://anna:***@qdrant:6333"),
        (f"https://{SECRET}@qdrant:6333", "https://***@qdrant:6333"),
        (f"https://qdrant:6333/?api_key={SECRET}&a=1", "https://qdrant:6333/?api_key=***&a=1"),
        (f"db://texts?token={SECRET}", "db://texts?token=***"),
        (f"postgresql://db/texts?sslpassword={SECRET}&user=a", "postgresql://db/texts?sslpassword=***&user=a"),
    ],
)
def test_secrets_are_masked(given: str, shown: str) -> None:
    assert masked(given) == shown
    assert masked(f"{given} : refused") == f"{shown} : refused"
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://anna@db/texts",
        "https://qdrant:6333/a@b",
        "a.txt, line 3: a token is missing; see mail@example.org",
        "host=127.0.0.1 port=1",
        "http://127.0.0.1:8000 and user@host",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


def test_parts_of_a_secret_in_what_a_driver_says_are_masked() -> None:
    source = f"postgresql://anna:pa%20ss@{SECRET}@db/texts"
    said = masked(f"no host {SECRET}@db; password 'pa ss' is wrong", source)
    assert SECRET not in said
    assert "pa ss" not in said
