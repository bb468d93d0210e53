"""All that a server serves: models, their indexes, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import nearest, shortened
from opencse.serving.errors import ApiError
from opencse.serving.limits import Limits
from opencse.serving.metrics import Metrics
from opencse.serving.request_body import Held
from opencse.serving.served_index import Searchable, ServedIndex
from opencse.serving.served_model import ServedModel


class Service:
    """The models by name, the first of which answers where none is named, and what belongs to them.

    Args:
        models: encoders by the name that requests call them.
        indexes: by the name of the model that they are searched with.
        limits: what requests may ask for.
        cut: whether texts that are too long are cut where a request does not say; else they are refused.
    """

    def __init__(
        self,
        models: Mapping[str, SentenceEncoder],
        indexes: Mapping[str, Searchable] | None = None,
        *,
        limits: Limits | None = None,
        cut: bool = True,
    ) -> None:
        self.limits = limits or Limits()
        self.cut = cut
        self.metrics = Metrics()
        self.held = Held(self.limits)
        self.metrics.holds(lambda: self.held.bytes)
        self.models = {name: ServedModel(name, encoder, self.limits, self.metrics) for name, encoder in models.items()}
        self.indexes = {name: ServedIndex(index, self.limits.map_points) for name, index in (indexes or {}).items()}

    def model(self, name: str | None) -> ServedModel:
        """The model that a request names; the first where it names none.

        Raises:
            ApiError: if there is none of that name.
        """
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            known = ", ".join(self.models)
            raise ApiError(
                404,
                f"no model {shortened(name)!r} is served here{nearest(name[:80], self.models)}; known: {known}",
                param="model",
                code="model_not_found",
            )
        return self.models[name]

    def index(self, name: str | None) -> tuple[ServedModel, ServedIndex]:
        """The model that a request names, and its index; where it names none, the first that has one.

        Raises:
            ApiError: if there is none.
        """
        if name is None and self.indexes:
            name = next(iter(self.indexes))
        model = self.model(name)
        if model.name not in self.indexes:
            raise ApiError(
                404,
                f"no index is served for {model.name}; build one with `opencse index build`, and start `opencse serve` "
                "with --index",
                code="no_index",
            )
        return model, self.indexes[model.name]

    async def told(self) -> dict[str, Any]:
        """What the page says of it."""
        indexes = {name: await index.info() for name, index in self.indexes.items()}
        first = next(iter(self.indexes.values()), None)
        return {
            "examples": [] if first is None else await first.examples(3),
            "models": [
                {
                    "id": one.name,
                    "dimensions": one.encoder.dimension,
                    "max_length": one.encoder.max_length,
                    "similarity": one.encoder.similarity_fn_name.value,
                    "index": None
                    if one.name not in indexes
                    else {
                        "rows": indexes[one.name].rows,
                        "kind": indexes[one.name].kind,
                        "columns": list(indexes[one.name].columns),
                    },
                }
                for one in self.models.values()
            ],
            "limits": {"texts": self.limits.texts, "hits": self.limits.hits, "pairs": self.limits.pairs},
        }

    @property
    def alive(self) -> bool:
        """Whether every thread runs."""
        return all(one.alive for one in self._parts())

    def _parts(self) -> list[ServedModel | ServedIndex]:
        return [*self.models.values(), *self.indexes.values()]

    def close(self) -> None:
        """Answers what waits, and ends the threads."""
        for one in self._parts():
            one.close()
