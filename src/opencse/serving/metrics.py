"""What a server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of one server; two servers of a process have two sets."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own = self.registry
        self._requests = Counter("opencse_requests", "Requests answered.", ["path", "status"], registry=own)
        self._seconds = Histogram("opencse_request_seconds", "Time to answer.", ["path"], registry=own)
        self._texts = Counter("opencse_texts", "Texts encoded.", ["model"], registry=own)
        self._tokens = Counter("opencse_tokens", "Tokens encoded, padding not counted.", ["model"], registry=own)
        self._batches = Histogram("opencse_batch_texts", "Texts in a batch.", ["model"], buckets=_SIZES, registry=own)
        self._encoding = Counter("opencse_encode_seconds", "Time spent encoding.", ["model"], registry=own)
        self._waiting = Gauge("opencse_waiting_texts", "Texts that wait for the encoder.", ["model"], registry=own)
        self._held = Gauge("opencse_held_bytes", "Bytes of the bodies in work.", registry=own)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def waits(self, model: str, count: Callable[[], int]) -> None:
        """How to count what waits for a model."""
        self._waiting.labels(model).set_function(count)

    def holds(self, count: Callable[[], int]) -> None:
        """How to count the bytes of bodies in work."""
        self._held.set_function(count)

    def of_model(self, model: str) -> ModelMetrics:
        """What a model's batches are told to."""
        return ModelMetrics(self, model)

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self.registry)

    def encoded(self, model: str, texts: int, tokens: int, seconds: float) -> None:
        """A batch was encoded."""
        self._texts.labels(model).inc(texts)
        self._tokens.labels(model).inc(tokens)
        self._batches.labels(model).observe(texts)
        self._encoding.labels(model).inc(seconds)


@dataclass(frozen=True)
class ModelMetrics:
    """The counters of one model."""

    metrics: Metrics
    model: str

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        """A batch was encoded."""
        self.metrics.encoded(self.model, texts, tokens, seconds)
