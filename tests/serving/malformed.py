"""Requests as nobody should send them: bodies near the right ones, bodies of anything, bytes, headers, addresses."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

PATHS = ("/v1/embeddings", "/search", "/similarity")
_KEYS = ("input", "model", "encoding_format", "dimensions", "user", "truncate", "query", "k", "threshold", "where",
         "hybrid", "texts", "others", "nope")  # fmt: skip


@dataclass(frozen=True)
class Wrong:
    """A request."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


texts = st.text(max_size=40) | st.sampled_from(["", " ", "\x00", "\ud800", "a" * 3_000, "<b>", "\u202e", "é" * 500])
numbers = st.integers() | st.integers(-2, 900) | st.floats() | st.sampled_from([2**31, 2**63, -(2**70), 1e308])
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
near = {
    "input": st.lists(texts, max_size=6) | st.lists(st.lists(numbers, max_size=5), max_size=4) | values,
    "query": st.lists(texts, max_size=4) | texts | values,
    "texts": st.lists(texts, max_size=6) | values,
    "others": st.lists(texts, max_size=6) | values,
    "model": st.sampled_from(["tiny", "tiny ", "", None]) | values,
    "where": st.dictionaries(st.sampled_from(["half", "id", "nope"]), values, max_size=3),
    "k": st.integers(-1, 2_000) | values,
}
objects = st.fixed_dictionaries({}, optional={key: near.get(key, values) for key in _KEYS})


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


bodies = (
    objects.map(_dumped)
    | values.map(_dumped)
    | st.binary(max_size=60)
    | st.builds(lambda whole, cut: _dumped(whole)[:cut], objects, st.integers(0, 80))
    | st.sampled_from(
        [b"[" * 5_000, b'{"input":' * 2_000, b"\xff" * 20, b"null", b"NaN", b'{"input": "a"' + b" " * 9_000]
    )
)
kinds = st.sampled_from(["application/json"] * 6 + ["application/json; charset=utf-16", "text/plain", "", "\x01"])
tokens = st.text("abcdefghijklmnopqrstuvwxyz-/%.?=&#~0123456789", max_size=30)
requests = st.one_of(
    st.builds(lambda path, body, kind: Wrong("POST", path, body, {"Content-Type": kind}), st.sampled_from(PATHS),
              bodies, kinds),
    st.builds(lambda path, body: Wrong("POST", path, body, {"Content-Type": "application/json"}),
              st.sampled_from(PATHS), objects.map(_dumped)),
    st.builds(lambda method, path, body: Wrong(method, "/" + path, body),
              st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "NOPE"]),
              tokens | st.sampled_from(["", "map", "map?method=x", "map?model=%00", "v1/models/%ff", "page/", "page/x",
                                        "page/%2e%2e/app.py", "v1/embeddings/", "search?x=1", "info", "metrics"]),
              st.binary(max_size=20)),
    st.builds(lambda name, value: Wrong("POST", "/v1/embeddings", b'{"input": "a"}',
                                        {"Content-Type": "application/json", name: value}),
              st.sampled_from(["Authorization", "Host", "Content-Encoding", "Accept", "X-Nope", "Range", "Expect"]),
              st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30)),
)  # fmt: skip
