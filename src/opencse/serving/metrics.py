"""Counters of the server for Prometheus: requests, texts, tokens, seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one server.

    Example:
        >>> metrics = Metrics()
        >>> metrics.answered("/search", 200, 0.01)
        >>> b'opencse_requests_total{path="/search",status="200"} 1.0' in metrics.text()
        True
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        registry = self.registry
        self._requests = Counter("opencse_requests", "Requests answered.", ["path", "status"], registry=registry)
        self._seconds = Histogram("opencse_request_seconds", "Time to answer.", ["path"], registry=registry)
        self._texts = Counter("opencse_texts", "Texts encoded.", ["model"], registry=registry)
        self._tokens = Counter("opencse_tokens", "Tokens encoded, padding not counted.", ["model"], registry=registry)
        self._batches = Histogram(
            "opencse_batch_texts", "Texts in a batch.", ["model"], buckets=_SIZES, registry=registry
        )
        self._encoding = Counter("opencse_encode_seconds", "Time spent encoding.", ["model"], registry=registry)
        self._waiting = Gauge("opencse_waiting_texts", "Texts that wait for the encoder.", ["model"], registry=registry)
        self._pairs = Counter("opencse_reranked_texts", "Texts re-ranked.", ["model"], registry=registry)
        self._reranking = Counter("opencse_rerank_seconds", "Time spent re-ranking.", ["model"], registry=registry)
        self._waiting_pairs = Gauge(
            "opencse_waiting_reranked_texts", "Texts that wait for the cross-encoder.", ["model"], registry=registry
        )
        self._held = Gauge("opencse_held_bytes", "Bytes of request bodies in memory.", registry=registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def watch_waiting(self, model: str, count: Callable[[], int]) -> None:
        """Sets the function that counts the texts waiting for a model."""
        self._waiting.labels(model).set_function(count)

    def watch_waiting_pairs(self, model: str, count: Callable[[], int]) -> None:
        """Sets the function that counts the texts waiting for a cross-encoder."""
        self._waiting_pairs.labels(model).set_function(count)

    def reranked(self, model: str, texts: int, seconds: float) -> None:
        """Counts the texts that a cross-encoder ranked for a query."""
        self._pairs.labels(model).inc(texts)
        self._reranking.labels(model).inc(seconds)

    def watch_held(self, count: Callable[[], int]) -> None:
        """Sets the function that counts the bytes of bodies in memory."""
        self._held.set_function(count)

    def of_model(self, model: str) -> ModelMetrics:
        """The listener for the batches of a model."""
        return ModelMetrics(self, model)

    def text(self) -> bytes:
        """All counters in Prometheus' text format."""
        return generate_latest(self.registry)

    def encoded(self, model: str, texts: int, tokens: int, seconds: float) -> None:
        """Counts an encoded batch."""
        self._texts.labels(model).inc(texts)
        self._tokens.labels(model).inc(tokens)
        self._batches.labels(model).observe(texts)
        self._encoding.labels(model).inc(seconds)


@dataclass(frozen=True)
class ModelMetrics:
    """The counters of one model; a `opencse.serving.batching.BatchListener`."""

    metrics: Metrics
    model: str

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        """Counts an encoded batch."""
        self.metrics.encoded(self.model, texts, tokens, seconds)
