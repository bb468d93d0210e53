"""The models and indexes of a server, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import nearest, shortened
from opencse.kernels.precision import PrecisionName
from opencse.reranking.second_stage import SecondStage
from opencse.search.index import Index
from opencse.serving.guard import Metrics
from opencse.serving.requests import ApiError, HeldBytes, Limits
from opencse.serving.served_index import ServedIndex, ServedReranker
from opencse.serving.served_model import ServedModel


class Service:
    """Models by name, each with its index; requests that name no model get the first one.

    Example:
        >>> import opencse
        >>> service = Service({"mini": opencse.load(device="cpu")})
        >>> service.model(None).name
        'mini'
        >>> service.close()

    Args:
        models: encoders by name.
        indexes: by the name of the model that searches them.
        limits: the limits of requests.
        stage: the cross-encoder that re-ranks the hits of searches; None: they are not re-ranked.
        cut: truncate texts that are too long unless a request says otherwise; False: refuse them.
        precisions: arithmetic of models by name; ``float32`` for those that are not named.
    """

    def __init__(
        self,
        models: Mapping[str, TextEncoder],
        indexes: Mapping[str, Index] | None = None,
        *,
        stage: SecondStage | None = None,
        limits: Limits | None = None,
        cut: bool = True,
        precisions: Mapping[str, PrecisionName] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.cut = cut
        self.metrics = Metrics()
        self.held = HeldBytes(self.limits)
        self.metrics.held.set_function(lambda: self.held.bytes)
        of_model: Mapping[str, PrecisionName] = precisions or {}
        self.models = {
            name: ServedModel(name, encoder, self.limits, self.metrics, precision=of_model.get(name, "float32"))
            for name, encoder in models.items()
        }
        self.indexes = {name: ServedIndex(index, self.limits.map_points) for name, index in (indexes or {}).items()}
        self.reranker = None if stage is None else ServedReranker(stage, self.limits, self.metrics)

    def model(self, name: str | None) -> ServedModel:
        """The model that a request names; by default the first one.

        Raises:
            ApiError: if there is no model of that name.
        """
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            known = ", ".join(self.models)
            raise ApiError(
                404,
                f"no model {shortened(name)!r} is served{nearest(name[:80], self.models)}; known: {known}",
                param="model",
                code="model_not_found",
            )
        return self.models[name]

    def index(self, name: str | None) -> tuple[ServedModel, ServedIndex]:
        """The model that a request names, with its index; by default the first model that has one.

        Raises:
            ApiError: if there is no such model or index.
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

    def reranker_for(self, rerank: bool | None, depth: int | None) -> ServedReranker | None:
        """The cross-encoder for a search; None where none re-ranks it.

        Args:
            rerank: whether the request wants it; None: where there is one.
            depth: the depth of the request.

        Raises:
            ApiError: for a request that wants one that is not served, or a depth without one.
        """
        re_ranks = rerank or (rerank is None and depth is not None)
        if re_ranks and self.reranker is None:
            message = "no cross-encoder is served; start `opencse serve` with --rerank, or leave rerank out"
            raise ApiError(400, message, param="rerank", code="no_reranker")
        if rerank is False and depth is not None:
            raise ApiError(400, "rerank_depth: with rerank: false nothing is re-ranked", param="rerank_depth")
        return None if rerank is False else self.reranker

    async def info(self) -> dict[str, Any]:
        """Describes models, indexes and limits for the page."""
        indexes = {name: await index.info() for name, index in self.indexes.items()}
        first = next(iter(self.indexes.values()), None)
        return {
            "examples": [] if first is None else await first.examples(3),
            "models": [
                {
                    "id": model.name,
                    "dimensions": model.encoder.dimension,
                    "max_length": model.encoder.max_length,
                    "similarity": model.encoder.similarity_fn_name.value,
                    "index": None
                    if model.name not in indexes
                    else {
                        "documents": indexes[model.name].documents,
                        "rows": indexes[model.name].rows,
                        "kind": indexes[model.name].kind,
                        "columns": list(indexes[model.name].columns),
                    },
                }
                for model in self.models.values()
            ],
            "reranker": None if self.reranker is None else {"id": self.reranker.name, "depth": self.reranker.depth},
            "limits": {"texts": self.limits.texts, "hits": self.limits.hits, "pairs": self.limits.pairs},
        }

    @property
    def alive(self) -> bool:
        """Whether all threads run."""
        return all(part.alive for part in self._parts())

    def _parts(self) -> list[ServedModel | ServedIndex | ServedReranker]:
        reranker = [] if self.reranker is None else [self.reranker]
        return [*self.models.values(), *self.indexes.values(), *reranker]

    def close(self) -> None:
        """Answers waiting requests and ends the threads."""
        for part in self._parts():
            part.close()
