"""Counters for Prometheus."""

from __future__ import annotations

from opencse.serving.guard import Metrics


def test_answers_and_batches_are_counted() -> None:
    metrics = Metrics()
    for status in (200, 200, 503):
        metrics.answered("/search", status, 0.25)
    metrics.encoded("mini", texts=3, tokens=40, seconds=0.5)
    metrics.waiting.labels("mini").set_function(lambda: 7)
    metrics.held.set_function(lambda: 100)
    lines = metrics.text().decode().splitlines()
    for line in (
        'opencse_requests_total{path="/search",status="200"} 2.0',
        'opencse_requests_total{path="/search",status="503"} 1.0',
        'opencse_request_seconds_sum{path="/search"} 0.75',
        'opencse_texts_total{model="mini"} 3.0',
        'opencse_tokens_total{model="mini"} 40.0',
        'opencse_encode_seconds_total{model="mini"} 0.5',
        'opencse_waiting_texts{model="mini"} 7.0',
        "opencse_held_bytes 100.0",
    ):
        assert line in lines
