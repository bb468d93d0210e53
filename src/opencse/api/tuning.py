"""Fits the weight of hybrid search for an index: `tune_index`."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from opencse.adapting.hybrid_curves import fit_index_to_queries
from opencse.adapting.hybrid_fit import FittedWeight
from opencse.adapting.user_queries import UserQueries
from opencse.api.declaring import public
from opencse.api.models import encoder_of
from opencse.api.options.index import TuneOptions
from opencse.errors import UserError
from opencse.outputs import require_writable
from opencse.progress import Silent
from opencse.ranking import Measure
from opencse.search.folder import NAMES
from opencse.search.index import Index


@public
def tune_index(folder: str | Path, **options: Unpack[TuneOptions]) -> FittedWeight:
    """Fits the weight of the vectors in a hybrid search to people's queries, and saves it with an index.

    Of n queries the best weight counts n / (n + 50), and the weight without queries the rest.

    Example:
        >>> import opencse
        >>> opencse.tune_index("my-index", dev="my-queries").weight  # doctest: +SKIP
        HybridWeight(value=0.71, source='120 queries of my-queries')

    Args:
        folder: of the index.
        **options: see `TuneOptions`.

    Raises:
        UserError: for bad input, too few queries, or a model that is not the index's.
    """
    dev, progress = options["dev"], options["progress"] or Silent()
    measure = None if options["metric"] is None else Measure.parse(options["metric"])
    if dev is None:
        raise UserError(
            "an index is tuned to people's queries: give --dev FOLDER (opencse label makes one); without them the "
            "weight is chosen when an index is built"
        )
    queries = UserQueries.read(Path(dev), measure, options["keep_identical_ids"])
    with Index.open(folder) as index:
        require_writable(index.folder / NAMES, remedy="the weight is saved with the index; tune a copy of your own")
        index.encoder = encoder_of(index.info(), options)
        with index.snapshot() as snapshot:
            progress.say("hybrid     answering queries with every weight of the vectors")
            fitted = fit_index_to_queries(snapshot, index.encoder, queries)
        index.set_hybrid_weight(fitted.weight)
        return fitted
