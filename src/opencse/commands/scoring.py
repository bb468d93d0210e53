"""Opens what `opencse.evaluate` and `opencse.evaluate_all` score, and refuses options that change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from opencse.commands.opening import encoder_of
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel, first_dimensions, layer_models
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.retrieval.rows import KeywordRows, SearchedIndex
from opencse.evaluation.retrieval.score import Retrieval
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_folder, suite_named
from opencse.evaluation.transforms import NEEDS_CORPUS, TARGET, TransformKind, postprocessed, refitted_each_call
from opencse.folder_kinds import is_index
from opencse.home import in_home
from opencse.progress import Counted, Progress, Stages
from opencse.search.index import Index
from opencse.search.stems import AUTO, language_named


def keyword_rows(
    suites: Sequence[str], bm25: bool, hybrid: bool, hybrid_weight: float | None, language: str
) -> KeywordRows | None:
    """The rows of BM25 that are requested; None for none.

    Raises:
        UserError: for options that would change nothing.
    """
    requested = bm25 or hybrid
    if requested and Retrieval.name not in suites:
        raise UserError("--bm25 and --hybrid are for retrieval; evaluate with --suite retrieval, or leave them out")
    if language != AUTO:
        language_named(language)
    if not requested:
        return None
    return KeywordRows(hybrid, hybrid_weight, language)


def folder_of(data: str | Path, suite: str, among: Iterable[str] = ()) -> Path:
    """The folder of a suite's data."""
    return suite_folder(data, suite_named(suite).name, among)


def opened_rows(
    models: Sequence[object],
    indexes: Mapping[int, SearchedIndex],
    how: Scoring,
    layers: Sequence[int] | Literal["all"] | None,
    dimensions: Sequence[int] | None,
) -> Iterator[EmbeddingModel | SearchedIndex]:
    """Opens each model, or each layer and dimension of it, one after the other, with a name that is used once."""
    seen: Counter[str] = Counter()
    for number, model in enumerate(models):
        if number in indexes:
            yield indexes[number]
            continue
        opened = how.opened(model)
        seen[opened.name] += 1
        if seen[opened.name] > 1:  # loaded models are called by their class
            opened = replace(opened, name=f"{opened.name} ({seen[opened.name]})")
        for one in [opened] if layers is None else layer_models(opened, layers):
            yield from [one] if dimensions is None else first_dimensions(one, dimensions)


@dataclass(frozen=True)
class Scoring:
    """How models are opened, and what is applied after them."""

    pooling: str | None
    device: str | None
    trust_remote_code: bool
    progress: Progress
    transform: TransformKind | None
    remove: int | None
    cosine_share: float | None
    fit: str | Path

    def opened(self, model: object, layer: int | None = None) -> EmbeddingModel:
        """Opens a model."""
        return open_model(
            model,
            layer=layer,
            pooling=self.pooling,
            device=self.device,
            progress=Counted(self.progress, "encoding"),
            say=self.progress.say,
            trust_remote_code=self.trust_remote_code,
        )

    def indexes(
        self, models: Sequence[object], suites: Sequence[str], of_models: Mapping[str, object], language: str = AUTO
    ) -> dict[int, SearchedIndex]:
        """The indexes among ``models``, by position, each with the encoder of its queries.

        Raises:
            UserError: for an index that cannot be searched, suites other than retrieval, or an option ``of_models``
                alone, which change vectors or rankings that an index has already made.
        """
        indexes: dict[int, SearchedIndex] = {}
        for number, model in enumerate(models):
            if isinstance(model, Index):
                name, index = str(model.folder), model
            elif isinstance(model, str | Path) and is_index(Path(in_home(model))):
                name, index = str(model), Index.open(model)
            else:
                continue
            if set(suites) != {Retrieval.name}:
                raise UserError(
                    f"{name}: is an index, whose searches are scored by retrieval alone; use --suite retrieval"
                )
            if given := [option for option, value in of_models.items() if value is not None]:
                raise UserError(
                    f"{name}: is an index, which is searched as it is; leave out --{given[0]}, or evaluate its model"
                )
            if language != AUTO:
                raise UserError(f"{name}: is an index with a language of its own; leave out --language")
            if index is not model:
                info = index.info()
                index.encoder = encoder_of(info, None, self.progress, self.device, self.trust_remote_code)
            indexes[number] = SearchedIndex(name, index)
        return indexes

    def suite_options(
        self,
        suites: Sequence[str],
        tasks: Sequence[str] | None,
        fast: bool,
        logistic: bool,
        keep_identical_ids: bool,
    ) -> Options:
        """The options of the suites; refuses those that change nothing, such as a ``fit`` without a transform."""
        if keep_identical_ids and Retrieval.name not in suites:
            raise UserError("--keep-identical-ids is for retrieval; evaluate with --suite retrieval, or leave it out")
        if self.remove is not None and self.transform != "all-but-the-top":
            raise UserError(f"--remove {self.remove} needs --transform all-but-the-top")
        if self.cosine_share is not None and self.transform != "ranks":
            raise UserError(f"--cosine-share {self.cosine_share:g} needs --transform ranks")
        if self.transform == "ranks" and str(self.fit) == TARGET:
            raise UserError(NEEDS_CORPUS)
        return Options(
            tasks=tasks,
            fast=fast,
            logistic=logistic,
            apart=self.transform is not None and str(self.fit) == TARGET,
            device=self.device,
            keep_identical_ids=keep_identical_ids,
        )

    def transformed(self, model: EmbeddingModel) -> EmbeddingModel:
        """The model with the baseline after it, if one was named."""
        if self.transform is None:
            return model
        stages, say = Stages(self.progress), self.progress.say
        if str(self.fit) == TARGET:
            return refitted_each_call(model, self.transform, remove=self.remove, progress=stages, say=say)
        return postprocessed(
            model,
            self.transform,
            self.fit,
            remove=self.remove,
            cosine_share=self.cosine_share,
            progress=stages,
            say=say,
        )
