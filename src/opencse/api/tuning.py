"""Fits the weight of hybrid search for an index: `tune_index`."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from opencse.adapting.hybrid_curves import fit_index_to_queries, fit_to_index
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
    """Fits the weight of the vectors in a hybrid search for an index, and saves it there.

    With ``dev``, people's queries decide: of n queries the best weight counts n / (n + 50), and the default the rest.
    Without, sentences of the texts ask for the rest of their text, which counts at most half.

    Example:
        >>> import opencse
        >>> texts = [f"The kettle number {n} is made of steel. It boils {n} cups of water at once." for n in range(30)]
        >>> _ = opencse.build_index("tuned", "opencse-mini", texts, device="cpu")
        >>> fitted = opencse.tune_index("tuned", device="cpu")
        >>> fitted.questions, opencse.index_info("tuned").hybrid == fitted.weight
        (60, True)

    Args:
        folder: of the index.
        **options: see `TuneOptions`.

    Raises:
        UserError: for bad input, too few texts or queries, or a model that is not the index's.
    """
    dev, progress = options["dev"], options["progress"] or Silent()
    measure = None if options["metric"] is None else Measure.parse(options["metric"])
    if dev is None and options["keep_identical_ids"]:
        raise UserError("--keep-identical-ids is for queries (--dev FOLDER); leave it out")
    queries = None if dev is None else UserQueries.read(Path(dev), measure, options["keep_identical_ids"])
    with Index.open(folder) as index:
        require_writable(index.folder / NAMES, remedy="the weight is saved with the index; tune a copy of your own")
        index.encoder = encoder_of(index.info(), options)
        with index.snapshot() as snapshot:
            progress.say("hybrid     answering questions with every weight of the vectors")
            if queries is None:
                fitted = fit_to_index(snapshot, index.encoder, measure)
            else:
                fitted = fit_index_to_queries(snapshot, index.encoder, queries)
        index.set_hybrid_weight(fitted.weight)
        return fitted
