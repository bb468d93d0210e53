"""Opens the indexes among what is evaluated, and refuses the options that apply to models alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from opencse.api.models import encoder_of
from opencse.api.options.evaluation import SuiteOptions
from opencse.errors import UserError
from opencse.evaluation.retrieval.index_rows import SearchedIndex
from opencse.evaluation.retrieval.score import Retrieval
from opencse.folder_kinds import is_index
from opencse.home import in_home
from opencse.search.index import Index
from opencse.text.stems import AUTO

_OF_MODELS = ("pooling", "layer", "layers", "dimensions", "transform", "rerank")
"""Options that change vectors or rankings, which an index has already made."""


def searched_indexes(
    models: Sequence[object], suites: Sequence[str], options: SuiteOptions
) -> dict[int, SearchedIndex]:
    """The indexes among ``models``, by position, each with the encoder of its queries.

    Args:
        models: names, folders and objects, as `opencse.evaluate` takes them.
        suites: on which they are evaluated.
        options: of the evaluation.

    Raises:
        UserError: for an index that cannot be searched, suites other than retrieval, or an option of models alone.
    """
    indexes: dict[int, SearchedIndex] = {}
    for number, model in enumerate(models):
        if isinstance(model, Index):
            name, index = str(model.folder), model
        elif isinstance(model, str | Path) and is_index(Path(in_home(model))):
            name, index = str(model), Index.open(model)
        else:
            continue
        _require_options(name, suites, options)
        if index is not model:
            index.encoder = encoder_of(
                index.info(),
                {
                    "model": None,
                    "device": options["device"],
                    "progress": options["progress"],
                    "trust_remote_code": options["trust_remote_code"],
                },
            )
        indexes[number] = SearchedIndex(name, index)
    return indexes


def _require_options(name: str, suites: Sequence[str], options: SuiteOptions) -> None:
    if set(suites) != {Retrieval.name}:
        raise UserError(f"{name}: is an index, whose searches are scored by retrieval alone; use --suite retrieval")
    values: Mapping[str, object] = dict(options)
    for option in _OF_MODELS:
        if values.get(option) is not None:
            raise UserError(
                f"{name}: is an index, which is searched as it is; leave out --{option}, or evaluate its model"
            )
    if values.get("language", AUTO) != AUTO:
        raise UserError(f"{name}: is an index with a language of its own; leave out --language")
